"""One style sheet: the theme's, the plugins' and ours, without rules for what no page has.

A browser asks once instead of five times, and tries fewer rules on each element. Its address
follows from what is in it: a browser that kept an older one does not give it to a newer page.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from remembered import remembered

SHEET = "assets/sheet.css"  # in the templates
NOTE = re.compile(r"/\*.*?\*/", re.DOTALL)
STRING = r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'"
WHOLE = re.compile(rf"(?:{STRING}|[^{{}};\"'])*")
INSIDE = re.compile(rf"{STRING}|[{{}}]")
IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^\]]*\]")
NAME = r"-?[A-Za-z_][\w-]*"

sheets: list[str] = []


def on_config(config: Any) -> Any:
    """The addresses of all sheets but the theme's, the plugins' included."""
    sheets[:] = config.extra_css
    config.extra_css = []
    return config


def on_post_build(config: Any) -> None:
    site = Path(config.site_dir)
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    scripts = [path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.js"))]
    theme = sorted(site.glob("assets/stylesheets/main.*.css"))
    joined = "".join(
        path.read_text(encoding="utf-8") for path in [*theme, *(site / sheet for sheet in sheets)]
    )
    text = pruned(NOTE.sub("", joined), known([*pages.values()], scripts))
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    address = SHEET.replace(".css", f".{digest}.css")
    (site / address).write_text(text, encoding="utf-8", newline="\n")
    for path, page in pages.items():
        path.write_text(page.replace(SHEET, address, 1), encoding="utf-8", newline="\n")
    for sheet in [*site.glob("assets/stylesheets/*"), *(site / sheet for sheet in sheets)]:
        sheet.unlink()
    (site / "assets/stylesheets").rmdir()


def known(pages: list[str], scripts: list[str]) -> Callable[[str], bool]:
    """Whether a page has an element of this class or id, or a script may make one.

    To a script, every word of it counts, and a word that ends with a hyphen as the beginning of
    others.
    """
    names = set().union(*map(given, pages), *map(words, scripts))
    begun = tuple(name for name in names if name.endswith("-"))
    return lambda name: name in names or name.startswith(begun)


@remembered
def given(page: str) -> set[str]:
    return {
        name
        for names in set(re.findall(r'\b(?:class|id)="([^"]*)"', page))
        for name in names.split()
    }


@remembered
def words(script: str) -> set[str]:
    return set(re.findall(NAME, script))


def pruned(sheet: str, known: Callable[[str], bool]) -> str:
    """The rules that some element may follow."""
    found = []
    for head, body in rules(sheet):
        if body is None or head.startswith("@"):
            nested = head.startswith(("@media", "@supports"))
            inner = pruned(body, known) if nested and body is not None else body
            if inner is None:
                found.append(f"{head};")
            elif inner.strip():
                found.append(f"{head}{{{inner.strip()}}}")
            continue
        kept = [part.strip() for part in listed(head) if possible(part, known)]
        if kept and body.strip():
            found.append(f"{','.join(kept)}{{{body.strip()}}}")
    return "\n".join(found)


def rules(sheet: str) -> Iterator[tuple[str, str | None]]:
    """Each rule as what stands before its braces and in them; of a statement, no braces."""
    at = 0
    while match := WHOLE.match(sheet, at):
        head, end = match[0].strip(), match.end()
        if end == len(sheet):
            return
        at = end + 1
        if sheet[end] == "{":
            depth = 1
            while depth:
                brace = INSIDE.search(sheet, at)
                if brace is None:
                    raise ValueError(f"a rule of a style sheet is not closed: {head}")
                depth += {"{": 1, "}": -1}.get(brace[0], 0)
                at = brace.end()
            yield head, sheet[end + 1 : at - 1]
        elif head:
            yield head, None


def listed(selectors: str) -> list[str]:
    """The selectors of a list. Commas in brackets part nothing."""
    parts = list[str]()
    for piece in selectors.split(","):
        if parts and len(re.findall(r"[(\[]", parts[-1])) > len(re.findall(r"[)\]]", parts[-1])):
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    return parts


def possible(selector: str, known: Callable[[str], bool]) -> bool:
    """What stands in brackets is not judged: it may be what must not be."""
    while (outside := IN_BRACKETS.sub("", selector)) != selector:
        selector = outside
    return all(map(known, re.findall(rf"[.#]({NAME})", selector)))
