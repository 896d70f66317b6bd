"""A picture of a calculation: each step a box, with its shape and what it is made of."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from tinyattn.shapes import typed
from tinyattn.show import visible, width
from tinyattn.svg import (
    PAD,
    TOKENS,
    Picture,
    face,
    fill,
    finish,
    group,
    plain,
    rect,
    stroke,
    text,
    title_face,
)

POSITIONS = {"pos", "query", "key", "source"}
"""Axes along which tokens stand."""

_FONT, _SMALL, _GAP = 13.0, 11.0, 28.0


@typed
def draw_shapes(
    steps: Mapping[str, Tensor] | Sequence[tuple[str, Tensor]],
    made: Mapping[str, str],
    axes: Mapping[str, str] | None = None,
    *,
    title: str | None = None,
) -> Picture:
    """Draw the way of a tensor through its steps: each box a step, with its matrix and its shape.

    What a step is made of is read from its line in ``made``: every name of another step in it is
    an arrow. Rows and columns along which tokens stand are marked in the colours of the tokens.

    Args:
        steps: Each step under its name, in order. Only shapes are looked at.
        made: How a step is made, such as ``{"q": "x @ W_Q"}``. Steps without a line are given.
        axes: The names of a step's axes, such as ``{"q": "query d_head"}``.
        title: A line above the picture.

    Raises:
        TypeError: If a step is no tensor.
        ValueError: If a line is for no step, names a step that comes later, or if the names of
            axes and the axes differ in number.

    Examples:
        >>> import torch
        >>> from tinyattn import draw_shapes
        >>> x, W_Q = torch.ones(3, 8), torch.ones(8, 4)
        >>> draw_shapes({"x": x, "q": x @ W_Q}, {"q": "x @ W_Q"}, {"q": "query d_head"})
        <Picture: From x to q>
    """
    pairs = list(steps.items()) if isinstance(steps, Mapping) else list(steps)
    boxes = _boxes(pairs, made, axes or {})
    rows = _place(boxes)
    top = float(PAD + (24 if title else 0))
    for row in rows:
        for box in row:
            box.y = top
        top += max(box.tall for box in row)
        for box in row:
            box.tall = box.tall if box.name else top - box.y
        top += 28
    left = min(box.x - box.wide / 2 for box in boxes)
    right = max(box.x + box.wide / 2 for box in boxes) - left + PAD
    for box in boxes:
        box.x += PAD - left
    named = [box for box in boxes if box.name]
    body = [
        *_arrows(boxes),
        *(line for box in named for line in box.drawn()),
        *([text(PAD, PAD + 14, visible(title), title_face())] if title else []),
    ]
    chips = any(any(box.chips) for box in named)
    legend = [
        ("", "An arrow: the lower step is made of the upper one."),
        *([("", "A coloured edge: tokens stand along this axis.")] if chips else []),
    ]
    data = {
        "kind": "shapes",
        "rows": [visible(box.name) for box in named],
        "columns": ["shape", "axes", "made by"],
        "values": [[str(box.shape), " ".join(box.axes), box.made] for box in named],
        "reads": "each step, its shape, and what it is made of",
    }
    told = [f"{visible(b.name)} {b.shape}{f' is {b.made}' if b.made else ''}" for b in named]
    return finish(
        body,
        legend,
        (right, top - 28),
        (title, f"From {visible(named[0].name)} to {visible(named[-1].name)}"),
        "; ".join(told) + ".",
        data,
    )


@dataclass(eq=False)
class _Box:
    """A step and where it is drawn; a box without a name keeps the way free for a long arrow."""

    name: str
    shape: list[int]
    axes: list[str]
    made: str
    of: list["_Box"] = field(default_factory=list)
    level: int = 0
    x: float = 0.0
    y: float = 0.0
    wide: float = 6.0
    tall: float = 0.0

    def __post_init__(self) -> None:
        if not self.name:
            return
        self.rows, self.columns = ([1, 1, *self.shape])[-2:]
        self.unit = min(9.0, 72 / max(self.columns, 1), 54 / max(self.rows, 1))
        lines = [
            0.6 * _SMALL * width(self.made),
            0.6 * _FONT * width(f"{self.name} {self.shape}"),
            0.6 * _SMALL * width(" ".join(self.axes)),
            self.unit * self.columns + 12,
        ]
        self.wide = max(lines) + 14
        along = [False, False, *(word in POSITIONS and self.unit >= 2 for word in self.axes)]
        self.chips = along[-2:]
        strip = 20 if self.made else 0
        self.tall = strip + 22 + (14 if self.axes else 0) + self.unit * self.rows + 18

    def drawn(self) -> list[str]:
        """The box, its words, and its matrix."""
        left, y = self.x - self.wide / 2, self.y
        lines = [
            rect(
                left,
                y,
                self.wide,
                self.tall,
                f'rx="5" {fill("paper", "stroke:var(--picture-line,#d1d9e0)")}',
            )
        ]
        words = []
        if self.made:
            y += 20
            lines.append(
                f'<path {stroke("line")} d="M{plain(left)} {plain(y)}h{plain(self.wide)}"/>'
            )
            words.append(text(self.x, y - 6, self.made, f'font-size="11" {fill("muted")}'))
        words.append(text(self.x, y + 17, f"{visible(self.name)} {self.shape}"))
        y += 22
        if self.axes:
            words.append(
                text(self.x, y + 10, " ".join(self.axes), f'font-size="11" {fill("muted")}')
            )
            y += 14
        return [*lines, *group(fill("ink") + face(_FONT, "middle"), words), *self._matrix(y + 10)]

    def _matrix(self, top: float) -> list[str]:
        """The last two axes to scale, with the colours of the tokens along them."""
        wide, tall = (
            max(self.unit * size, 3.0) if size else 0.0 for size in (self.columns, self.rows)
        )
        left = self.x - wide / 2
        ruled = self.unit >= 4
        rules = [f"M{plain(left)} {plain(top + self.unit * i)}h{plain(wide)}" for i in
                 (range(self.rows + 1) if ruled else (0, self.rows))]  # fmt: skip
        rules += [f"M{plain(left + self.unit * j)} {plain(top)}v{plain(tall)}" for j in
                  (range(self.columns + 1) if ruled else (0, self.columns))]  # fmt: skip
        drawn = []
        if len(self.shape) > 2:
            drawn.append(rect(left + 4, top - 4, wide, tall, f'fill="none" {stroke("muted")}'))
        drawn += [
            rect(left, top, wide, tall, fill("paper")),
            rect(left, top, wide, tall, fill("cell") + ' fill-opacity="0.12"'),
            f'<path fill="none" {stroke("muted")} stroke-width="0.75" d="{"".join(rules)}"/>',
        ]
        beside, above = self.chips
        if beside:
            drawn += [
                rect(left - 5, top + self.unit * i + 0.5, 4, self.unit - 1, _token(i))
                for i in range(self.rows)
            ]
        if above:
            drawn += [
                rect(left + self.unit * j + 0.5, top - 5, self.unit - 1, 4, _token(j))
                for j in range(self.columns)
            ]
        return drawn


def _boxes(
    pairs: Sequence[tuple[str, Tensor]], made: Mapping[str, str], axes: Mapping[str, str]
) -> list[_Box]:
    """Make a box of each step, tied to those its line names, and refuse what does not fit."""
    if not pairs:
        raise ValueError("draw_shapes: steps is empty: give at least one, such as {'x': x}")
    known: dict[str, _Box] = {}
    every = [name for name, _ in pairs]
    names = "|".join(re.escape(name) for name in sorted(every, key=len, reverse=True))
    for given, lines in (("made", made), ("axes", axes)):
        for name in lines:
            if name not in every:
                raise ValueError(
                    f"draw_shapes: {given} has a line for {name!r}, but the steps are "
                    f"{', '.join(every)}: name it as the step is named"
                )
    for name, tensor in pairs:
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"draw_shapes: step {name!r} is a {type(tensor).__name__}, but must be a tensor"
            )
        if not name or name in known:
            fault = "has no name" if not name else f"{name!r} is there twice"
            raise ValueError(f"draw_shapes: a step {fault}: give each step a name of its own")
        words = axes.get(name, "").split()
        if name in axes and len(words) != tensor.ndim:
            raise ValueError(
                f"draw_shapes: axes of {name!r} are {axes[name]!r}, {len(words)} names for "
                f"{tensor.ndim} axes of {list(tensor.shape)}: name each axis once"
            )
        line = made.get(name, "")
        seen = [visible(word) for word in words]
        box = _Box(name, list(tensor.shape), seen, visible(line) if line else "")
        for word in dict.fromkeys(re.findall(rf"(?<!\w)(?:{names})(?!\w)", line)):
            if word in known:
                box.of.append(known[word])
            elif word in every:
                raise ValueError(
                    f"draw_shapes: {name!r} is made by {line!r}, but {word!r} is not there before "
                    f"it: put {word!r} first, or give what is updated a second name"
                )
        known[name] = box
    return list(known.values())


def _place(boxes: list[_Box]) -> list[list[_Box]]:
    """Put each box below all it is made of, near the middle of them, and none upon another.

    A long arrow gets a place in each row it passes, so that it goes around the boxes there. The
    rows are those of Sugiyama et al. (1981), "Methods for Visual Understanding of Hierarchical
    System Structures".
    """
    for box in boxes:
        box.level = max((one.level + 1 for one in box.of), default=0)
    for box in boxes[1:]:
        readers = [other.level for other in boxes if box in other.of]
        if not box.of and readers:
            box.level = min(readers) - 1
    rows: list[list[_Box]] = [[] for _ in range(1 + max(box.level for box in boxes))]
    for box in boxes:
        rows[box.level].append(box)
    for box in list(boxes):
        for place, one in enumerate(box.of):
            for level in range(one.level + 1, box.level):
                one = _Box("", [], [], "", [one], level)
                rows[level].append(one)
                boxes.append(one)
            box.of[place] = one
    for row in rows:
        wish = {id(box): _middle(box) for box in row}
        row.sort(key=lambda box: wish[id(box)])
        for before, box in zip([None, *row], row, strict=False):
            free = before.x + (before.wide + box.wide) / 2 + 12 if before else wish[id(box)]
            box.x = max(wish[id(box)], free)
        shift = sum(wish[id(box)] - box.x for box in row) / len(row)
        for box in row:
            box.x += shift
    return rows


def _middle(box: _Box) -> float:
    return sum(one.x for one in box.of) / len(box.of) if box.of else 0.0


def _arrows(boxes: list[_Box]) -> list[str]:
    """Lines from each step into what is made of it, side by side where several arrive."""
    lines, tips = [], []
    for box in boxes:
        above = sorted(box.of, key=lambda one: one.x)
        apart = min(24.0, box.wide / (len(above) + 1))
        for place, one in enumerate(above):
            x0, y0 = one.x, one.y + one.tall
            x1 = box.x + apart * (place - (len(above) - 1) / 2)
            y1 = box.y - (5 if box.name else 0)
            middle = plain((y0 + y1) / 2)
            lines.append(
                f"M{plain(x0)} {plain(y0)}C{plain(x0)} {middle} {plain(x1)} {middle} "
                f"{plain(x1)} {plain(y1)}"
            )
            if box.name:
                tips.append(f"M{plain(x1 - 4)} {plain(y1 - 2)}h8l-4 7z")
            else:
                lines.append(f"v{plain(box.tall)}")
    if not lines:
        return []
    return [
        f'<path fill="none" {stroke("muted")} stroke-width="1.5" d="{"".join(lines)}"/>',
        f'<path {fill("muted")} d="{"".join(tips)}"/>',
    ]


def _edge(paint: str) -> str:
    return f"stroke:var(--picture-{paint})"


def _token(position: int) -> str:
    return fill(f"token-{position % TOKENS}")
