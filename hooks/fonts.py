"""Fonts: subsets of two open fonts, cut from installed packages when the site is built.

Source Serif for the text, STIX Two Math for the formulas (both SIL Open Font License).
Of the second only the glyphs which the pages use. A subset is kept in ``.cache`` until its
letters or its font change. Under their licence, changed fonts carry names of their own.
"""

import hashlib
import io
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import store
from mkdocs.exceptions import PluginError

LATIN = "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x100)]))
TEXT = LATIN + "ŁłŒœŠšŽž–—‘’“”…‹›•′″→←↑↓−×≤≥≠≈∞√·"
SERIF = {"text-regular": "Regular", "text-bold": "Semibold", "text-italic": "It"}

# What MathML draws without its being written: roots, fences, bars, braces.
ALWAYS = "()[]{}|‖√+−=,.0123456789⏞⏟¯^→"
MATH = re.compile(r"<math.*?</math>", re.DOTALL)
used: set[str] = set()
# Not ssty, other shapes for small letters: they would double the formulas' font.
FEATURES = ["ccmp", "kern", "liga", "locl", "mark", "lnum", "tnum"]


def packaged(package: str, name: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise PluginError(f"the font package {package} is not installed")
    return Path(spec.origin).parent / name


def italic(letter: str) -> str:
    """The mathematical italic which MathML shows for a variable of one letter."""
    if letter == "h":
        return "\u210e"
    if "A" <= letter <= "Z":
        return chr(0x1D434 + ord(letter) - ord("A"))
    if "a" <= letter <= "z":
        return chr(0x1D44E + ord(letter) - ord("a"))
    if "Α" <= letter <= "Ω":
        return chr(0x1D6E2 + ord(letter) - ord("Α"))
    if "α" <= letter <= "ω":
        return chr(0x1D6FC + ord(letter) - ord("α"))
    return letter


def cut(source: Path, letters: str, cache: Path) -> bytes:
    """The font reduced to ``letters``, as woff2."""
    made_of = f"{version('fonttools')} {source.name} {source.stat().st_size} {FEATURES} {letters}"
    kept = cache / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.font"
    font = store.recall(kept)
    return made(source, letters, kept) if font is None else font


def made(source: Path, letters: str, kept: Path) -> bytes:
    from fontTools import subset

    options = subset.Options(
        flavor="woff2",
        hinting=False,
        layout_features=FEATURES,
    )
    font = subset.load_font(str(source), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=letters)
    subsetter.subset(font)
    written = io.BytesIO()
    subset.save_font(font, written, options)
    store.keep(kept, written.getvalue())
    return written.getvalue()


def on_post_page(output: str, page: Any, config: Any) -> str:
    for formula in MATH.findall(output):
        letters = set(re.sub(r"<[^>]*>", "", formula))
        used.update(letters, map(italic, letters))
    return output


def on_post_build(config: Any) -> None:
    cache = Path(config.config_file_path).parent / ".cache" / "fonts"
    target = Path(config.site_dir) / "assets" / "fonts"
    target.mkdir(parents=True, exist_ok=True)
    for name, style in SERIF.items():
        source = packaged("font_source_serif_pro", f"files/SourceSerifPro-{style}.ttf")
        (target / f"{name}.woff2").write_bytes(cut(source, TEXT, cache))
    letters = "".join(sorted(used | set(ALWAYS)))
    source = packaged("ziamath", "fonts/STIXTwoMath-Regular.ttf")
    (target / "math.woff2").write_bytes(cut(source, letters, cache))
