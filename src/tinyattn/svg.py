"""What every picture is made of: SVG text, in the colours of the page it is put into.

A picture stands alone: no script, no font, no file beside it. Its colours are the CSS variables
``--picture-paper``, ``-ink``, ``-muted``, ``-line``, ``-cell``, ``-negative``, ``-on-cell`` and
``-token-0`` to ``-token-7``, with a light palette where a page does not set them. Lengths have
two decimals, so that the same picture is the same text, byte for byte.
"""

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tinyattn.show import visible, width

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "muted": "#59636e",
    "line": "#d1d9e0",
    "cell": "#102c62",
    "negative": "#6b1616",
    "on-cell": "#ffffff",
    "token-0": "#0b6e99",
    "token-1": "#b8550a",
    "token-2": "#2f7d32",
    "token-3": "#a33a7e",
    "token-4": "#6750a4",
    "token-5": "#8a6d00",
    "token-6": "#c0392b",
    "token-7": "#4d6b78",
}
TOKENS = 8
"""How many colours positions have before the colours repeat."""

SANS, MONO = "system-ui,sans-serif", "ui-monospace,Menlo,Consolas,monospace"
PAD = 12
"""Room around what is drawn."""

_UNWRITABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""What JSON may hold and an XML file may not: JSON spells it out as well."""

LONGEST = 12
"""Columns of a label before it is shortened; the whole of it is then in its title."""


@dataclass(frozen=True)
class Picture:
    """A drawing that shows itself in a notebook, and is plain SVG text everywhere else.

    Examples:
        >>> import torch
        >>> from tinyattn import draw_pattern
        >>> picture = draw_pattern(torch.eye(2), ["The", "cat"])
        >>> picture
        <Picture: Attention pattern of The cat>
        >>> picture.svg[:4]
        '<svg'
    """

    svg: str
    title: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture into a file that any browser opens.

        Raises:
            ValueError: If the name does not end in ``.svg``.
        """
        if Path(path).suffix.lower() != ".svg":
            raise ValueError(f"save: {os.fspath(path)!r} must end in .svg: the picture is SVG text")
        Path(path).write_text(self.svg, encoding="utf-8", newline="\n")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture: {self.title}>"


def document(
    wide: float, tall: float, body: Iterable[str], title: str, description: str, data: object
) -> Picture:
    """Frame a picture: its size, its name, its words, its numbers as JSON, and its paper."""
    content = "\n".join(body)
    told = _UNWRITABLE.sub(
        lambda sign: f"\\u{ord(sign[0]):04x}", json.dumps(data, ensure_ascii=False)
    )
    mark = hashlib.sha256("\0".join((title, description, told, content)).encode()).hexdigest()[:8]
    size = f'viewBox="0 0 {plain(wide)} {plain(tall)}" width="{plain(wide)}" height="{plain(tall)}"'
    svg = f"""\
<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="p{mark}-t p{mark}-d" \
direction="ltr" font-family="{SANS}" style="max-width:100%;height:auto">
<title id="p{mark}-t">{escape(title)}</title>
<desc id="p{mark}-d">{escape(description)}</desc>
<metadata>{escape(told)}</metadata>
<rect width="100%" height="100%" rx="6" {fill("paper")}/>
{content}
</svg>
"""
    return Picture(svg, title)


def finish(
    body: Iterable[str],
    legend: Sequence[tuple[str, str]],
    corner: tuple[float, float],
    names: tuple[str | None, str],
    description: str,
    data: object,
) -> Picture:
    """Put the legend below what is drawn, and frame both.

    Args:
        body: What is drawn.
        legend: Lines, each with a paint for the square before it, or none.
        corner: How far it reaches to the right and down.
        names: The title that is seen, if there is one, and the name without it.
        description: What is seen, in words.
        data: What the metadata says.
    """
    wide, y = corner
    lines = []
    for paint, line in legend:
        y += 16
        if paint:
            lines.append(rect(PAD, y - 8, 9, 9, fill(paint)))
        lines.append(text(PAD + (14 if paint else 0), y, line))
        wide = max(wide, PAD + 14 + words_length(line, 11))
    title = visible(names[0]) if names[0] else names[1]
    drawn = [*body, *group(f'font-size="11" {fill("muted")}', lines)]
    return document(wide + PAD, y + PAD, drawn, title, description, data)


def group(attributes: str, drawn: Sequence[str]) -> list[str]:
    """Give many elements the same attributes; nothing, if there are none."""
    return [f"<g {attributes}>", *drawn, "</g>"] if drawn else []


def face(font: float, anchor: str) -> str:
    """The attributes of numbers and tokens: a font of one width."""
    return f' font-family="{MONO}" font-size="{plain(font)}" text-anchor="{anchor}"'


def title_face() -> str:
    """The attributes of a title."""
    return f'font-size="15" {fill("ink")}'


def text(x: float, y: float, words: str, attributes: str = "") -> str:
    """Write words, every character of them literally.

    Examples:
        >>> from tinyattn.svg import text
        >>> text(4, 9.5, "<s>")
        '<text x="4" y="9.5">&lt;s&gt;</text>'
    """
    space = " " if attributes else ""
    return f'<text x="{plain(x)}" y="{plain(y)}"{space}{attributes}>{escape(visible(words))}</text>'


def label(x: float, y: float, token: str, attributes: str = "") -> str:
    """Write a token, shortened if it is long, with the whole of it in its title."""
    if short(token) == token:
        return text(x, y, token, attributes)
    whole = f"<title>{escape(token)}</title>"
    return text(x, y, short(token), attributes).replace(">", f">{whole}", 1)


def short(token: str) -> str:
    """Cut a label that would push the picture aside.

    Examples:
        >>> from tinyattn.svg import short
        >>> short("cat"), short("supercalifragilistic")
        ('cat', 'supercalifr…')
    """
    if width(token) <= LONGEST:
        return token
    while width(token) >= LONGEST:
        token = token[:-1]
    while token and unicodedata.category(token[-1]) in ("Cf", "Mn", "Me"):
        token = token[:-1]
    return token + "…"


def label_length(token: str, font: float) -> float:
    """How much room a label takes in the fixed-width font."""
    return 0.6 * font * width(short(token))


def words_length(words: str, font: float = 12) -> float:
    """About how much room words take in the other font."""
    return 0.56 * font * width(words)


def rect(x: float, y: float, wide: float, tall: float, attributes: str) -> str:
    """A rectangle, from its top left corner."""
    place = f'x="{plain(x)}" y="{plain(y)}" width="{plain(wide)}" height="{plain(tall)}"'
    return f"<rect {place} {attributes}/>"


def fill(paint: str, also: str = "") -> str:
    """Fill by a variable of the page, and by the light palette where variables are unknown.

    Examples:
        >>> from tinyattn.svg import fill
        >>> fill("ink")
        'fill="#1f2328" style="fill:var(--picture-ink,#1f2328)"'
    """
    style = f"fill:var(--picture-{paint},{LIGHT[paint]})"
    return f'fill="{LIGHT[paint]}" style="{";".join(filter(None, (style, also)))}"'


def stroke(paint: str) -> str:
    """Draw a line as :func:`fill` fills."""
    return f'stroke="{LIGHT[paint]}" style="stroke:var(--picture-{paint},{LIGHT[paint]})"'


def plain(length: float) -> str:
    """Two decimals and no more, without trailing zeros and never a minus zero.

    Examples:
        >>> from tinyattn.svg import plain
        >>> plain(1 / 3), plain(2.5), plain(40.0), plain(-0.001)
        ('0.33', '2.5', '40', '0')
    """
    digits = f"{length:.2f}".rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits
