"""Pictures of how values come about: what was written, by which step, and what waits for what.

Each reads from top to bottom, as the text beside it. A position is a column, under its token, and
has the colour it has in :mod:`tinyattn.draw`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.dependence import critical_path, earliest
from tinyattn.grid import LABELLED, LEGIBLE, TABLE, step
from tinyattn.shapes import describe, inspectable, typed
from tinyattn.show import check_digits, labels, number, visible
from tinyattn.svg import (
    LIGHT,
    PAD,
    TOKENS,
    Picture,
    face,
    fill,
    finish,
    group,
    label,
    label_length,
    plain,
    rect,
    stroke,
    text,
    title_face,
    words_length,
)

_FONT, _SCREEN = 13, 366
_TALLEST = 40


@typed
def draw_stream(
    writes: Float[Tensor, "writer pos"],
    writers: Sequence[str],
    tokens: Sequence[str],
    *,
    digits: int = 2,
    title: str | None = None,
) -> Picture:
    """Draw the stream as an addition: each write moves the sum of its board, the last row reads it.

    A board is a column, one for each position. A bar begins where the one above it ended, to the
    right if its write is above zero, to the left if it is below. A write of exactly 0 has no bar
    and no number. Above 20 positions, or 40 writers, the numbers are dropped.

    Args:
        writes: One number for each write, such as its reach along a direction, which
            :meth:`tinyattn.Stream.along` returns. Numbers that do not add up, such as lengths,
            have no place here.
        writers: Who wrote, in order: one label for each row.
        tokens: One label for each position.
        digits: Decimals of each number.
        title: A line above the picture.

    Raises:
        ShapeError: If the writes have batch axes left.
        TypeError: If the labels are one string, or not strings.
        ValueError: If labels and axes differ in number, if a write is NaN or infinite, or if there
            is nothing to draw.

    Examples:
        >>> import torch
        >>> from tinyattn import draw_stream
        >>> writes = torch.tensor([[1.0, 2.0], [0.5, -2.0]])
        >>> draw_stream(writes, ["embed", "head 0"], ["The", "cat"])
        <Picture: The stream of The cat, written by 2>
    """
    check_digits("draw_stream", digits)
    values = _values("draw_stream", "writes", writes)
    n_writer, n_pos = writes.shape
    names = [
        visible(label)
        for label in labels("draw_stream", "writers", writers, n_writer, "writes (rows)")
    ]
    boards = [
        visible(label) for label in labels("draw_stream", "tokens", tokens, n_pos, "positions")
    ]
    totals = [math.fsum(column) for column in zip(*values, strict=True)]
    rows, table = [*names, "sum"], [*values, totals]
    texts = [[number(entry, digits) if entry else "" for entry in row] for row in values]
    texts.append([number(entry, digits) for entry in totals])

    numbered, few = n_pos <= LEGIBLE and n_writer <= _TALLEST, n_writer * n_pos <= 4 * TABLE
    row_tall = 34.0 if numbered else 14.0
    longest = max(len(words) for row in texts for words in row) if numbered else 0
    left = PAD + max(label_length(name, _FONT) for name in rows) + 8
    wide = max(min(96.0, (_SCREEN - left) / n_pos), 6.6 * longest + 8, 18.0)
    head = _Head.over(boards, left, wide, title)
    y = [head.bottom + 6 + row_tall * i + (10 if i == n_writer else 0) for i in range(n_writer + 1)]
    bottom = y[-1] + row_tall

    reached = [list(accumulate(column, initial=0.0)) for column in zip(*values, strict=True)]
    low, high = (edge(edge(column) for column in reached) for edge in (min, max))
    unit = (wide - 12) / (high - low) if high > low else 0.0

    def x(j: int, value: float) -> float:
        return left + wide * j + 6 + (unit * (value - low) if unit else (wide - 12) / 2)

    bars: dict[str, list[str]] = {"cell": [], "negative": []}
    numbers, turns = [], []
    down, height = (18.0, 10.0) if numbered else (3.0, 8.0)
    for i, row in enumerate(table):
        for j, entry in enumerate(row):
            start = reached[j][i] if i < n_writer else 0.0
            ends = sorted((x(j, start), x(j, start + entry)))
            if i < n_writer:
                turn = plain(x(j, start + entry)), plain(y[i] + down), plain(y[i + 1] - y[i])
                turns.append("M{} {}v{}".format(*turn))
            if numbered and texts[i][j]:
                numbers.append(text(left + wide * (j + 0.5), y[i] + 13, texts[i][j]))
            if entry:
                paint = "cell" if entry > 0 else "negative"
                if i == n_writer:
                    paint = f"token-{j % TOKENS}"
                size = (ends[0], y[i] + down, max(ends[1] - ends[0], 1.0), height)
                place = f'data-row="{i}" data-column="{j}"'
                bars.setdefault(paint, []).append(rect(*size, place) if few else _bar(*size))
    zeros = [f"M{plain(x(j, 0.0))} {plain(y[0])}V{plain(bottom)}" for j in range(n_pos)]
    shown = range(0, n_writer + 1, 1 if numbered else step(_FONT * 1.1 / row_tall))
    body = [
        *head.drawn("is written to →"),
        *(
            rect(
                left + wide * j + 2,
                head.bottom,
                wide - 4,
                bottom - head.bottom,
                fill(f"token-{j % TOKENS}") + ' fill-opacity="0.08"',
            )
            for j in range(n_pos)
        ),
        f'<path fill="none" {stroke("line")} d="{"".join(zeros)}"/>',
        f'<path fill="none" {stroke("muted")} stroke-dasharray="2 2" d="{"".join(turns)}"/>',
        *group(
            fill("ink", "unicode-bidi:isolate") + face(_FONT, "end"),
            [label(left - 8, y[i] + row_tall / 2 + 5, rows[i]) for i in shown],
        ),
        *(line for paint, drawn in bars.items() for line in group(fill(paint), drawn)),
        *group(_halo() + face(11, "middle"), numbers),
        f'<path {stroke("ink")} d="M{PAD} {plain(y[-1] - 5)}H{plain(left + wide * n_pos)}"/>',
    ]
    legend = [
        *([("cell", "a write above zero")] if bars["cell"] else []),
        *([("negative", "a write below zero: it takes away")] if bars["negative"] else []),
        ("", "A bar begins where the one above it ended."),
        ("", "The last row is the sum, all that a reader sees."),
        *([("", "Empty: a write of exactly 0.")] if any(0.0 in row for row in values) else []),
    ]
    said = " ".join(boards) if n_pos <= 8 else f"{n_pos} positions"
    data = {
        "kind": "stream",
        "rows": rows,
        "columns": boards,
        **({"values": [[_rounded(entry, digits) for entry in row] for row in table]}
           if len(rows) * n_pos <= TABLE else {}),
        "reads": "each row writes to every column; the last row is the sum",
    }  # fmt: skip
    return finish(
        body,
        legend,
        (max(left + wide * n_pos, head.right), bottom),
        (title, f"The stream of {said}, written by {n_writer}"),
        _who_wrote(values, totals, names, boards, digits),
        data,
    )


@typed
def draw_dependencies(
    edges: Sequence[Tensor],
    names: Sequence[str],
    tokens: Sequence[str],
    *,
    feedback: Bool[Tensor, "to from"] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw what waits for what: a line where a value needs another, and the longest chain of them.

    The number in a node is the step at which it can be computed first. Nodes of one number can be
    computed side by side.

    Args:
        edges: From each level to the next, bool [to, from], as :func:`tinyattn.depends` returns.
        names: One label for each level, the input first: one more than ``edges``.
        tokens: One label for each position.
        feedback: Which inputs are made of which outputs, bool [to, from], as
            :func:`tinyattn.generation` returns. None: all inputs are given.
        title: A line above the picture.

    Raises:
        ShapeError: If the levels differ in the number of positions.
        TypeError: If the labels are one string, or not strings.
        ValueError: If labels differ in number from levels or positions, if a value waits for
            itself, or for more than 64 positions, whose lines could not be told apart.

    Examples:
        >>> from tinyattn import causal_mask, draw_dependencies
        >>> draw_dependencies([causal_mask(2)], ["embed", "head"], ["The", "cat"])
        <Picture: What waits for what: 1 step for The cat>
    """
    when = earliest(edges, feedback).tolist()
    path = critical_path(edges, feedback)
    n_level, n_pos = len(when), len(when[0])
    levels = [
        visible(label) for label in labels("draw_dependencies", "names", names, n_level, "levels")
    ]
    heads = [
        visible(label)
        for label in labels("draw_dependencies", "tokens", tokens, n_pos, "positions")
    ]
    if n_pos > LABELLED:
        raise ValueError(
            f"draw_dependencies: edges have {n_pos} positions, whose lines could not be told "
            f"apart: draw {LABELLED} or fewer"
        )
    numbered = n_pos <= LEGIBLE
    left = PAD + max(label_length(name, _FONT) for name in levels) + 8
    wide = max(min(88.0, (_SCREEN - left) / n_pos), 30.0 if numbered else 18.0)
    radius, tall = (11.0, max(52.0, min(72.0, 5.0 * n_pos + 40))) if numbered else (4.0, 60.0)
    head = _Head.over(heads, left, wide, title)

    def spot(level: int, pos: int) -> tuple[float, float]:
        return left + wide * (pos + 0.5), head.bottom + 10 + radius + tall * level

    lines: dict[str, list[str]] = {f"token-{colour}": [] for colour in range(TOKENS)}
    loops: list[str] = []
    chain: list[str] = []
    links = [
        ((level, j), (level + 1, i))
        for level, needs in enumerate(edges)
        for i, j in needs.nonzero().tolist()
    ]
    last = n_level - 1
    back = [] if feedback is None else feedback.nonzero().tolist()
    links += [((last, j), (0, i)) for i, j in back]
    on_path = set(pairwise(path))
    for start, end in links:
        (x0, y0), (x1, y1) = spot(*start), spot(*end)
        if end[0] == 0:
            middle = x1 - wide / 2 if x1 > x0 else x1 + wide / 2
            line = (
                f"M{plain(x0)} {plain(y0)}C{plain(middle)} {plain(y0)} {plain(middle)} {plain(y0)} "
                f"{plain(middle)} {plain((y0 + y1) / 2)}S{plain(middle)} {plain(y1)} "
                f"{plain(x1)} {plain(y1)}"
            )
        else:
            line = f"M{plain(x0)} {plain(y0)}L{plain(x1)} {plain(y1)}"
        if (start, end) in on_path:
            chain.append(line)
        elif end[0] == 0:
            loops.append(line)
        else:
            lines[f"token-{start[1] % TOKENS}"].append(line)
    nodes: list[str] = []
    inks: list[str] = []
    lights: list[str] = []
    for level in range(n_level):
        for pos in range(n_pos):
            x, y = spot(level, pos)
            critical = (level, pos) in path
            paint = fill("ink" if critical else "paper", _ring(pos))
            nodes.append(
                f'<circle cx="{plain(x)}" cy="{plain(y)}" r="{plain(radius)}" {paint} '
                f'data-row="{level}" data-column="{pos}"/>'
            )
            if numbered:
                (lights if critical else inks).append(text(x, y + 4, str(when[level][pos])))
    body = [
        *head.drawn("position →"),
        *group(
            fill("ink", "unicode-bidi:isolate") + face(_FONT, "end"),
            [label(left - 8, spot(level, 0)[1] + 4.5, name) for level, name in enumerate(levels)],
        ),
        *(
            f'<path fill="none" {stroke(paint)} stroke-width="1.5" d="{"".join(drawn)}"/>'
            for paint, drawn in lines.items()
            if drawn
        ),
        *_lines(stroke("muted") + ' stroke-width="1.5" stroke-dasharray="4 3"', loops),
        *_lines(stroke("ink") + ' stroke-width="3.5"', chain),
        *group('stroke-width="2"', nodes),
        *group(fill("ink") + face(11, "middle"), inks),
        *group(fill("paper") + face(11, "middle"), lights),
    ]
    length = len(path) - 1
    steps = f"{length} step{'s' * (length != 1)}"
    legend = [
        ("", "A line: the lower value needs the upper one."),
        *([("", "A number: the first step that can compute it.")] if numbered else []),
        ("ink", f"the longest chain: {steps}, one after another"),
        *([("", "Upwards: an output becomes an input.")] if back else []),
    ]
    data = {
        "kind": "dependencies",
        "rows": levels,
        "columns": heads,
        **({"values": when} if n_level * n_pos <= TABLE else {}),
        "path": path,
        "reads": "each number is the first step that can compute the value",
    }
    said = " ".join(heads) if n_pos <= 8 else f"{n_pos} positions"
    places = ", ".join(f"{levels[level]} of {heads[pos]}" for level, pos in path)
    return finish(
        body,
        legend,
        (max(left + wide * n_pos, head.right), spot(last, 0)[1] + radius + 4),
        (title, f"What waits for what: {steps} for {said}"),
        f"The longest chain has {steps}: {places}.",
        data,
    )


@dataclass(frozen=True)
class _Head:
    """The tokens above their columns, each with the mark of its position."""

    tokens: list[str]
    left: float
    wide: float
    title: str
    top: float
    bottom: float
    shown: range
    slant: bool

    @classmethod
    def over(cls, tokens: list[str], left: float, wide: float, title: str | None) -> "_Head":
        """Find the room the tokens need: aslant if they are wider than their columns."""
        shown = range(0, len(tokens), step(_FONT * 1.5 / wide))
        above = max(label_length(tokens[j], _FONT) for j in shown)
        slant = above > wide - 4
        top = PAD + (24 if title else 0) + 18.0
        bottom = top + 8 + (0.72 * above + 0.8 * _FONT if slant else 1.3 * _FONT)
        return cls(tokens, left, wide, visible(title) if title else "", top, bottom, shown, slant)

    @property
    def right(self) -> float:
        """How far it reaches."""
        ends = [self.left + words_length("is written to →"), PAD + words_length(self.title, 15)]
        if self.slant:
            ends += [self._x(j) + 0.75 * label_length(self.tokens[j], _FONT) for j in self.shown]
        return max(ends)

    def _x(self, column: int) -> float:
        return self.left + self.wide * (column + 0.5)

    def drawn(self, axis: str) -> list[str]:
        """The title, what the columns do, the tokens and their marks."""
        names, marks = [], []
        for j in range(len(self.tokens)):
            corner = f"M{plain(self._x(j) - self.wide / 2 + 2)} {plain(self.bottom - 5)}"
            bar = f"{corner}v4h{plain(self.wide - 4)}v-4z"
            marks.append(f'<path {fill(f"token-{j % TOKENS}")} d="{bar}"/>')
        for j in self.shown:
            x, y = self._x(j), self.bottom - 10
            if self.slant:
                x += 0.25 * _FONT
                turn = f'transform="rotate(-45 {plain(x)} {plain(y)})"'
                names.append(label(x, y, self.tokens[j], turn))
            else:
                names.append(label(x, y, self.tokens[j]))
        anchor = "start" if self.slant else "middle"
        return [
            *([text(PAD, PAD + 14, self.title, title_face())] if self.title else []),
            text(self.left, self.top - 6, axis, f'font-size="12" {fill("muted")}'),
            *group(fill("ink", "unicode-bidi:isolate") + face(_FONT, anchor), names),
            *marks,
        ]


def _bar(x: float, y: float, wide: float, tall: float) -> str:
    """A bar in half the letters, of which a picture has very many."""
    return f'<path d="M{plain(x)} {plain(y)}h{plain(wide)}v{plain(tall)}h{plain(-wide)}z"/>'


def _lines(attributes: str, paths: list[str]) -> list[str]:
    return [f'<path fill="none" {attributes} d="{"".join(paths)}"/>'] if paths else []


def _halo() -> str:
    """Ink with paper around it, so that a number stands out from lines."""
    around = f"stroke:var(--picture-paper,{LIGHT['paper']});stroke-width:3;paint-order:stroke"
    return fill("ink", around)


def _ring(pos: int) -> str:
    """The colour of a position around its node."""
    colour = f"token-{pos % TOKENS}"
    return f"stroke:var(--picture-{colour},{LIGHT[colour]})"


def _values(function: str, name: str, tensor: Tensor) -> list[list[float]]:
    """Read numbers that can be drawn, and refuse those that cannot."""
    if not inspectable(tensor):
        raise ValueError(
            f"{function}: {name} is {describe(tensor)} and has no values to draw: "
            f"make it on a device such as 'cpu', outside of torch.compile"
        )
    if not tensor.numel():
        raise ValueError(f"{function}: {name} is {describe(tensor)}: there is nothing to draw")
    lost = (~tensor.isfinite()).nonzero()
    if len(lost):
        i, j = lost[0].tolist()
        raise ValueError(
            f"{function}: {name}[{i}, {j}] is {tensor[i, j].item():g}: a sum of writes needs "
            f"finite numbers, look for it in what writer {i} read"
        )
    return tensor.tolist()


def _rounded(entry: float, digits: int) -> float:
    return round(entry, digits) + 0.0 if entry else 0


def _who_wrote(
    values: list[list[float]],
    totals: list[float],
    writers: list[str],
    tokens: list[str],
    digits: int,
) -> str:
    """Say the sums in words: each with its terms, or for many of them with the largest."""
    sentences = []
    for j, total in enumerate(totals[:LEGIBLE]):
        terms = [(row[j], name) for row, name in zip(values, writers, strict=True)]
        said = f"{tokens[j]} sums to {number(total, digits)}"
        if len(terms) * len(totals) <= 2 * LEGIBLE:
            parts = [f"{number(entry, digits)} by {name}" for entry, name in terms if entry]
            said += f": {', '.join(parts)}" if parts else ": nothing was written"
        else:
            entry, name = max(terms, key=lambda term: abs(term[0]))
            said += f", most by {name} ({number(entry, digits)})"
        sentences.append(said)
    rest = len(totals) - LEGIBLE
    return "; ".join(sentences) + (f"; and {rest} more" if rest > 0 else "") + "."
