"""Pictures of what a head does, as SVG text.

Rows read, columns are read, and each picture says so. Query 0 is on top, as in the matrix. The
same position has the same colour in every picture of one sentence.

A picture stands alone: no script, no font, no file beside it. Its colours are the CSS variables
``--picture-paper``, ``-ink``, ``-muted``, ``-line``, ``-cell``, ``-negative``, ``-on-cell`` and
``-token-0`` to ``-token-7`` of the page it is put into, with a light palette where there is none.
It is the same text, byte for byte, whenever it is drawn from the same numbers.
"""

import hashlib
import json
import math
import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.shapes import describe, inspectable, typed
from tinyattn.show import labels, number, visible, width

TOKENS = 8
"""How many colours positions have before the colours repeat."""

LEGIBLE = 20
"""Up to as many rows and columns each cell is an element of its own, with its number in it."""

TABLE = 1024
"""Up to as many cells a picture carries its numbers in its metadata, for a table beside it."""

_LIGHT = {
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
_SANS, _MONO = "system-ui,sans-serif", "ui-monospace,Menlo,Consolas,monospace"
_PAD, _LONGEST, _LEVELS, _MOST = 12, 12, 20, 120_000


@dataclass(frozen=True)
class Picture:
    """A drawing that shows itself in a notebook, and is plain SVG text everywhere else.

    Examples:
        >>> import torch
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


@typed
def draw_pattern(
    pattern: Float[Tensor, "query key"],
    tokens: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    title: str | None = None,
) -> Picture:
    """Draw how each query divides its attention: the darker a cell, the more its row reads there.

    Below one half the shade of a cell is its weight. From one half on it is darker by a step, so
    that light text stands on it. A weight of exactly 0, such as a blocked one, leaves its cell
    empty; a small weight has its number. Above 20 tokens the numbers are dropped, above 64 labels
    too: every second, fifth or tenth remains. Rows that do not sum to one are drawn, and the
    picture says so.

    Args:
        pattern: One head's pattern, as :func:`tinyattn.pattern` returns it.
        tokens: What reads: one label for each row, and for each column if ``keys`` is left out.
        keys: What is read, if it differs.
        title: A line above the picture.

    Raises:
        ShapeError: If the pattern has batch or head axes left.
        TypeError: If the labels are one string, or not strings.
        ValueError: If labels and axes differ in number, if an entry is NaN or no weight, or if
            there is nothing to draw.

    Examples:
        >>> import torch
        >>> A = torch.tensor([[1.0, 0.0], [0.75, 0.25]])
        >>> draw_pattern(A, ["The", "cat"]).svg.count("<rect data-row")
        3
    """
    values = _values("draw_pattern", "pattern", pattern)
    n_query, n_key = pattern.shape
    readers = labels("draw_pattern", "tokens", tokens, n_query, "queries (rows)")
    if keys is None and n_query != n_key:
        raise ValueError(
            f"draw_pattern: pattern is {describe(pattern)}, {n_query} queries and {n_key} keys: "
            f"name the keys as well, draw_pattern(pattern, tokens, keys)"
        )
    read = (
        readers if keys is None else labels("draw_pattern", "keys", keys, n_key, "keys (columns)")
    )
    slack = max(1e-3, torch.finfo(pattern.dtype).eps)
    for i, row in enumerate(values):
        for j, weight in enumerate(row):
            if not -slack <= weight <= 1 + slack:
                raise ValueError(
                    f"draw_pattern: pattern[{i}, {j}] is {weight:g} ({visible(readers[i])} reads "
                    f"{visible(read[j])}), but a weight lies between 0 and 1: draw the pattern, "
                    f"or any matrix with draw_matrix"
                )
            row[j] = min(max(weight, 0.0), 1.0)
    sums = [(label, math.fsum(row)) for label, row in zip(readers, values, strict=True)]
    off = [
        f"Row {_short(label)} sums to {total:.2f}."
        for label, total in sums
        if abs(total - 1) > slack
    ]
    readers, read = [visible(label) for label in readers], [visible(label) for label in read]
    # The queries that are the last of the keys are the same positions, and keep their colours.
    first = n_key - n_query if read[-n_query:] == readers else 0
    said = " ".join(read) if n_key <= 8 and readers == read else f"{n_query} × {n_key}"
    return _grid(
        kind="pattern",
        shares=values,
        texts=[[f"{weight:.2f}" if weight else "" for weight in row] for row in values],
        values=[[round(weight, 2) if weight else 0 for weight in row] for row in values],
        rows=readers,
        columns=read,
        axes=("reads ↓", "is read →"),
        colours=(range(first, first + n_query), range(n_key)),
        legend=[
            ("", "A row reads, a column is read."),
            *([("", "Empty: weight exactly 0.")] if any(0.0 in row for row in values) else []),
            *(
                ("", line)
                for line in (off if len(off) < 3 else [f"{len(off)} rows do not sum to 1."])
            ),
        ],
        title=title,
        name=f"Attention pattern of {said}",
        description=_who_reads_whom(values, readers, read),
    )


@typed
def draw_matrix(
    matrix: Float[Tensor, "row column"],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    axes: tuple[str, str] = ("", ""),
    digits: int = 2,
    title: str | None = None,
) -> Picture:
    """Draw any matrix: the darker a cell, the farther its entry is from zero, in two hues by sign.

    Args:
        matrix: Two axes. An entry of −∞, such as a blocked score, leaves its cell unshaded.
        rows: One label for each row; indices from 0, if left out.
        columns: One label for each column; indices from 0, if left out.
        axes: What the rows are and what the columns are, written beside them.
        digits: Decimals of each number.
        title: A line above the picture.

    Raises:
        ShapeError: If the matrix has batch or head axes left.
        TypeError: If the labels are one string, or not strings.
        ValueError: If labels and axes differ in number, if an entry is NaN or +∞, or if there is
            nothing to draw.

    Examples:
        >>> import torch
        >>> S = torch.tensor([[2.0, -1.0]])
        >>> draw_matrix(S, ["cat"], ["The", "cat"], axes=("reads ↓", "is read →"))
        <Picture: Matrix of 1 × 2>
    """
    values = _values("draw_matrix", "matrix", matrix)
    n_row, n_column = matrix.shape
    names = [visible(label) for label in labels("draw_matrix", "rows", rows, n_row, "rows")]
    heads = [
        visible(label) for label in labels("draw_matrix", "columns", columns, n_column, "columns")
    ]
    for i, row in enumerate(values):
        if math.inf in row:
            raise ValueError(
                f"draw_matrix: matrix[{i}, {row.index(math.inf)}] is inf, beside which every other "
                f"entry is pale: draw finite entries (−∞ may stay)"
            )
    finite = [entry for row in values for entry in row if entry != -math.inf]
    most = max(map(abs, finite), default=0.0)
    return _grid(
        kind="matrix",
        shares=[
            [entry / most if most and entry != -math.inf else 0.0 for entry in row]
            for row in values
        ],
        texts=[[number(entry, digits) for entry in row] for row in values],
        values=[
            [round(entry, digits) + 0.0 if entry != -math.inf else "-inf" for entry in row]
            for row in values
        ],
        rows=names,
        columns=heads,
        axes=axes,
        colours=None,
        legend=[
            ("", f"Darkest: {number(most, digits)} from zero."),
            *([("cell", "above zero")] if any(entry > 0 for entry in finite) else []),
            *([("negative", "below zero")] if any(entry < 0 for entry in finite) else []),
        ],
        title=title,
        name=f"Matrix of {n_row} × {n_column}",
        description=f"{n_row} rows and {n_column} columns; entries lie between "
        f"{number(min(finite, default=0.0), digits)} and "
        f"{number(max(finite, default=0.0), digits)}.",
    )


# ----- what the pictures are made of -----


def _values(function: str, name: str, tensor: Tensor) -> list[list[float]]:
    """Read a matrix that can be drawn, and refuse one that cannot."""
    if not inspectable(tensor):
        raise ValueError(
            f"{function}: {name} is {describe(tensor)} and has no values to draw: "
            f"make it on a device such as 'cpu', outside of torch.compile"
        )
    if not tensor.numel():
        raise ValueError(f"{function}: {name} is {describe(tensor)}: there is nothing to draw")
    lost = tensor.isnan().nonzero()
    if len(lost):
        i, j = lost[0].tolist()
        raise ValueError(
            f"{function}: {name}[{i}, {j}] is NaN: look for it in what row {i} was made from"
        )
    return tensor.tolist()


def _who_reads_whom(values: list[list[float]], rows: list[str], columns: list[str]) -> str:
    """Say the pattern in words: for each row where it reads most, for many rows the largest."""
    if len(rows) > LEGIBLE:
        cells = [
            (weight, i, j) for i, row in enumerate(values) for j, weight in enumerate(row) if weight
        ]
        top = sorted(cells, key=lambda cell: (-cell[0], cell[1:]))[:5]
        said = [f"{rows[i]} reads {columns[j]} ({weight:.2f})" for weight, i, j in top]
        return "The largest weights: " + ", ".join(said) + "."
    sentences = []
    for label, row in zip(rows, values, strict=True):
        best = max(row)
        where = [columns[j] for j, weight in enumerate(row) if weight == best]
        if not best:
            sentences.append(f"{label} reads nothing")
        elif len(where) == 1:
            sentences.append(f"{label} reads most from {where[0]} ({best:.2f})")
        elif len(where) < 4:
            sentences.append(f"{label} reads equally from {' and '.join(where)} ({best:.2f})")
        else:
            sentences.append(f"{label} reads equally from {len(where)} positions ({best:.2f})")
    return "; ".join(sentences) + "."


def _grid(
    *,
    kind: str,
    shares: list[list[float]],
    texts: list[list[str]],
    values: Sequence[Sequence[float | str]],
    rows: list[str],
    columns: list[str],
    axes: tuple[str, str],
    colours: tuple[range, range] | None,
    legend: list[tuple[str, str]],
    title: str | None,
    name: str,
    description: str,
) -> Picture:
    """Lay out a matrix as shaded cells: row 0 on top, labels left and above, the legend below.

    Args:
        shares: How dark each cell is, from −1 to 1.
        texts: What stands in it.
        values: What the metadata says about it.
    """
    n_row, n_column = len(rows), len(columns)
    most = max(n_row, n_column)
    legible = most <= LEGIBLE
    tall = min(40.0, max(640 / most, 12.0 if most <= 64 else 768 / most))
    longest = max(map(len, (text for row in texts for text in row))) if legible else 0
    wide = max(tall, longest * 7.2 + 4)
    font = 10.0 if most > 64 else min(13.0, 0.7 * tall)
    shown_rows = range(0, n_row, _step(font * 1.3 / tall))
    shown_columns = range(0, n_column, _step(font * 1.5 / wide) if most > 64 else 1)

    slant = max(_length(columns[j], font) for j in shown_columns) > wide - 4
    chip = 8.0 if colours else 2.0
    left = _PAD + max(_length(rows[i], font) for i in shown_rows) + chip + 2
    left = max(left, _PAD + _prose(axes[0]) + chip + 2)
    above = _PAD + (24 if title else 0) + (18 if axes[1] else 0)
    top = above + chip + font * 1.2
    right = left + n_column * wide
    runs, faint = ([], 0.0) if legible else _runs(shares)
    if faint:
        legend = [*legend, ("", f"Left out: below {faint:.3f} of full shade.")]
    reach = [
        right,
        left + _prose(axes[1]),
        *(_PAD + 14 * bool(mark) + _prose(line) for mark, line in legend),
    ]
    if slant:
        top = (
            above + chip + 0.72 * max(_length(columns[j], font) for j in shown_columns) + font * 0.8
        )
        reach += [left + (j + 0.9) * wide + 0.72 * _length(columns[j], font) for j in shown_columns]
    if title:
        reach.append(_PAD + _prose(title, 15))
    bottom = top + n_row * tall

    body: list[str] = []
    if title:
        body.append(_text(_PAD, _PAD + 14, visible(title), f'font-size="15" {_fill("ink")}'))
    body.append(f'<g font-size="12" {_fill("muted")}>')
    if axes[1]:
        body.append(_text(left, above - 6, visible(axes[1])))
    if axes[0]:
        body.append(_text(left - chip - 2, top - chip - 2, visible(axes[0]), 'text-anchor="end"'))
    body.append("</g>")
    body.append(
        f'<g font-family="{_MONO}" font-size="{_n(font)}" {_fill("ink", "unicode-bidi:isolate")}>'
    )
    body.append('<g text-anchor="end">')
    body += [
        _label(left - chip - 2, top + (i + 0.5) * tall + font * 0.35, rows[i]) for i in shown_rows
    ]
    body.append("</g>")
    if slant:
        for j in shown_columns:
            x, y = left + (j + 0.5) * wide + font * 0.25, top - chip - 1
            body.append(_label(x, y, columns[j], f' transform="rotate(-45 {_n(x)} {_n(y)})"'))
    else:
        body.append('<g text-anchor="middle">')
        body += [_label(left + (j + 0.5) * wide, top - chip - 2, columns[j]) for j in shown_columns]
        body.append("</g>")
    body.append("</g>")
    if colours:
        body += _chips(colours, shown_rows, shown_columns, left, top, wide, tall)
    if legible:
        body += _cells(shares, left, top, wide, tall)
        body += _numbers(shares, texts, left, top, wide, tall)
        lines = [
            f"M{_n(left)} {_n(top + i * tall)}h{_n(n_column * wide)}" for i in range(n_row + 1)
        ]
        lines += [
            f"M{_n(left + j * wide)} {_n(top)}v{_n(n_row * tall)}" for j in range(n_column + 1)
        ]
    else:
        place = f"translate({_n(left)} {_n(top + tall / 2)}) scale({wide:.4f} {tall:.4f})"
        body += [f'<g shape-rendering="crispEdges" transform="{place}">', *runs, "</g>"]
        lines = [f"M{_n(left)} {_n(top)}h{_n(n_column * wide)}v{_n(n_row * tall)}H{_n(left)}z"]
    body.append(f'<path fill="none" {_stroke("line")} d="{"".join(lines)}"/>')

    body.append(f'<g font-size="11" {_fill("muted")}>')
    for mark, line in legend:
        bottom += 16
        if mark:
            body.append(_rect(_PAD, bottom - 8, 9, 9, _fill(mark)))
        body.append(_text(_PAD + 14 * bool(mark), bottom, line))
    body.append("</g>")
    data: dict[str, object] = {"kind": kind, "rows": rows, "columns": columns}
    if n_row * n_column <= TABLE:
        data["values"] = values
    data["reads"] = "rows read columns" if kind == "pattern" else " ".join(filter(None, axes))
    return _document(max(reach) + _PAD, bottom + _PAD, body, title or name, description, data)


def _chips(
    colours: tuple[range, range],
    rows: range,
    columns: range,
    left: float,
    top: float,
    wide: float,
    tall: float,
) -> list[str]:
    """Mark each label with the colour of its position: a bar before its row, above its column."""
    inset = min(4.0, tall / 6)
    paths: dict[int, list[str]] = {}
    for i in rows:
        bar = f"M{_n(left - 7)} {_n(top + i * tall + inset)}h4v{_n(tall - 2 * inset)}h-4z"
        paths.setdefault(colours[0][i] % TOKENS, []).append(bar)
    for j in columns:
        bar = f"M{_n(left + j * wide + inset)} {_n(top - 7)}v4h{_n(wide - 2 * inset)}v-4z"
        paths.setdefault(colours[1][j] % TOKENS, []).append(bar)
    return [
        f'<path {_fill(f"token-{colour}")} d="{"".join(bars)}"/>'
        for colour, bars in sorted(paths.items())
    ]


def _cells(
    shares: list[list[float]], left: float, top: float, wide: float, tall: float
) -> list[str]:
    """Shade each cell by an element of its own, which says where it stands."""
    drawn: list[str] = []
    for hue, sign in (("cell", 1), ("negative", -1)):
        rects = [
            f'<rect data-row="{i}" data-column="{j}" x="{_n(left + j * wide)}" '
            f'y="{_n(top + i * tall)}" width="{_n(wide)}" height="{_n(tall)}" '
            f'fill-opacity="{_n(_shade(share))}"/>'
            for i, row in enumerate(shares)
            for j, share in enumerate(row)
            if share * sign > 0
        ]
        if rects:
            drawn += [f"<g {_fill(hue)}>", *rects, "</g>"]
    return drawn


def _numbers(
    shares: list[list[float]],
    texts: list[list[str]],
    left: float,
    top: float,
    wide: float,
    tall: float,
) -> list[str]:
    """Write each number in the colour that can be read on its cell."""
    drawn: list[str] = []
    for paint, dark in (("ink", False), ("on-cell", True)):
        words = [
            _text(left + (j + 0.5) * wide, top + (i + 0.5) * tall + 4.2, texts[i][j])
            for i, row in enumerate(shares)
            for j, share in enumerate(row)
            if texts[i][j] and (abs(share) >= 0.5) == dark
        ]
        if words:
            face = f'font-family="{_MONO}" font-size="12" text-anchor="middle"'
            drawn += [f"<g {face} {_fill(paint)}>", *words, "</g>"]
    return drawn


def _runs(shares: list[list[float]]) -> tuple[list[str], float]:
    """Shade many cells by few elements, and say below which share cells are left out.

    Neighbours of one shade are one line, and all lines of one shade are one path, whose unit is
    a cell. A hundred thousand cells stay below a megabyte.
    """
    sizes = sorted((abs(share) for row in shares for share in row if share), reverse=True)
    faint = 0.005 if max(len(shares), len(shares[0])) > 64 else 0.0
    if len(sizes) > _MOST:
        faint = max(faint, sizes[_MOST])
    paths: dict[tuple[str, int], list[str]] = {}
    for i, row in enumerate(shares):
        start, level = 0, 0
        for j, share in enumerate([*row, 0.0]):
            new = math.ceil(_shade(share) * _LEVELS) if abs(share) > faint else 0
            new = -new if share < 0 else new
            if new != level:
                if level:
                    hue = "cell" if level > 0 else "negative"
                    paths.setdefault((hue, abs(level)), []).append(f"M{start} {i}h{j - start}")
                start, level = j, new
    drawn = [
        f'<path {_stroke(hue)} stroke-opacity="{_n(level / _LEVELS)}" d="{"".join(lines)}"/>'
        for (hue, level), lines in sorted(paths.items())
    ]
    return drawn, faint if sizes and sizes[-1] <= faint else 0.0


def _shade(share: float) -> float:
    """How opaque a cell is. No shade lies between 0.50 and 0.66, where no text can be read."""
    size = abs(share)
    if not size:
        return 0.0
    return max(size, 0.03) if size < 0.5 else 0.32 + 0.68 * size


def _step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, … that is not below a bound."""
    step, factors = 1, (2, 2.5, 2)
    turn = 0
    while step < least:
        step, turn = round(step * factors[turn % 3]), turn + 1
    return step


def _length(label: str, font: float) -> float:
    return 0.6 * font * width(_short(label))


def _prose(text: str, font: float = 12) -> float:
    return 0.56 * font * width(text)


def _short(label: str) -> str:
    """Cut a label that would push the picture aside; the whole of it is in its title."""
    if width(label) <= _LONGEST:
        return label
    while width(label) >= _LONGEST:
        label = label[:-1]
    while label and unicodedata.category(label[-1]) in ("Cf", "Mn", "Me"):
        label = label[:-1]
    return label + "…"


def _label(x: float, y: float, label: str, attributes: str = "") -> str:
    whole = f"<title>{_escaped(label)}</title>" if _short(label) != label else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{attributes}>{whole}{_escaped(_short(label))}</text>'


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    space = " " if attributes else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{space}{attributes}>{_escaped(text)}</text>'


def _rect(x: float, y: float, wide: float, tall: float, attributes: str) -> str:
    return f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(tall)}" {attributes}/>'


def _fill(paint: str, also: str = "") -> str:
    """Fill by a variable of the page, and by the light palette where variables are unknown."""
    style = f"fill:var(--picture-{paint},{_LIGHT[paint]})"
    return f'fill="{_LIGHT[paint]}" style="{";".join(filter(None, (style, also)))}"'


def _stroke(paint: str) -> str:
    return f'stroke="{_LIGHT[paint]}" style="stroke:var(--picture-{paint},{_LIGHT[paint]})"'


def _n(length: float) -> str:
    """Two decimals and no more, without trailing zeros and never a minus zero."""
    text = f"{length:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _escaped(text: str) -> str:
    return escape(text, quote=True)


def _document(
    wide: float, tall: float, body: Iterable[str], title: str, description: str, data: object
) -> Picture:
    """Frame a picture: its size, its name, its words, its numbers and its paper."""
    content = "\n".join(body)
    told = json.dumps(data, ensure_ascii=False)
    mark = hashlib.sha256("\0".join((title, description, told, content)).encode()).hexdigest()[:8]
    size = f'viewBox="0 0 {_n(wide)} {_n(tall)}" width="{_n(wide)}" height="{_n(tall)}"'
    svg = f"""\
<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="p{mark}-t p{mark}-d" \
direction="ltr" font-family="{_SANS}" style="max-width:100%;height:auto">
<title id="p{mark}-t">{_escaped(title)}</title>
<desc id="p{mark}-d">{_escaped(description)}</desc>
<metadata>{_escaped(told)}</metadata>
<rect width="100%" height="100%" rx="6" {_fill("paper")}/>
{content}
</svg>
"""
    return Picture(svg, title)
