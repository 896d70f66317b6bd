"""Many small pictures side by side: every head of a model, and curves over a training."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.grid import TABLE, shade
from tinyattn.shapes import ShapeError, describe, inspectable, typed
from tinyattn.show import labels, visible
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
    words_length,
)

FINEST = 48
"""Up to as many rows and columns a small pattern has a square for each weight."""

_LEVELS, _ROOM, _FAINT = 10, 9.0, 0.02


@typed
def draw_heads(
    patterns: Float[Tensor, "*whole query key"],
    tokens: Sequence[str] | None = None,
    *,
    marks: Mapping[str, str] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw the pattern of every head as a small square, so that the odd one out is seen.

    A row of squares is a layer, a square is a head. In each the top row is position 0: rows read,
    columns are read.

    Args:
        patterns: [head query key] of one layer, or [layer head query key].
        tokens: What the positions hold; indices from 0, if left out.
        marks: Heads to frame, each with a word: ``{"1.3": "induction"}`` is head 3 of layer 1.
        title: A line above the picture.

    Raises:
        ShapeError: If there is no head axis, or a batch axis is left.
        ValueError: If entries are not weights, or a mark is of no head.

    Examples:
        >>> import torch
        >>> from tinyattn import draw_heads
        >>> draw_heads(torch.eye(3).expand(2, 4, 3, 3), ["The", "cat", "sat"])
        <Picture: Patterns of 2 × 4 heads>

    Source: Elhage et al. (2021), "Two-Layer Attention-Only Transformers" (all heads at a glance).
    """
    if patterns.ndim not in (3, 4) or not patterns.numel() or not inspectable(patterns):
        raise ShapeError(
            f"draw_heads: patterns is {describe(patterns)}, but must be [head query key] or "
            f"[layer head query key], with values: take one row of a batch, or draw_pattern for "
            f"one head"
        )
    patterns = patterns.detach()
    least, most = patterns.aminmax()
    if not (least >= -1e-4 and most <= 1 + 1e-4):
        raise ValueError(
            f"draw_heads: entries of patterns lie between {least:g} and {most:g}, but a weight "
            f"lies between 0 and 1: give patterns, which are the softmax of scores"
        )
    layered = patterns.ndim == 4
    stack = patterns if layered else patterns.unsqueeze(0)
    n_layers, n_heads, n_query, n_key = stack.shape
    read = [visible(t) for t in labels("draw_heads", "tokens", tokens, n_key, "keys")]
    readers = read[-n_query:] if n_query <= n_key else [str(i) for i in range(n_query)]
    names = [
        [f"{layer}.{head}" if layered else str(head) for head in range(n_heads)]
        for layer in range(n_layers)
    ]
    marks = dict(marks or {})
    unknown = set(marks) - {name for row in names for name in row}
    if unknown:
        raise ValueError(
            f"draw_heads: no head {sorted(unknown)[0]!r}: heads are {names[0][0]!r} to "
            f"{names[-1][-1]!r}"
        )

    side = max(52.0, min(128.0, 620.0 / n_heads - _ROOM))
    pool = math.ceil(max(n_query, n_key) / FINEST)
    words = {name: f"{name} {visible(mark)}" for name, mark in marks.items()}
    side = max([side, *(words_length(word, 10) + 8 for word in words.values())])
    top = PAD + (24 if title else 0)
    body = [text(PAD, PAD + 14, visible(title), title_face())] if title else []
    heads, titles, frames = [], [], {"line": "", "ink": ""}
    for layer, row in enumerate(names):
        for head, name in enumerate(row):
            x, y = PAD + head * (side + _ROOM), top + layer * (side + 22) + 14
            A = stack[layer, head]
            said = f"head {name}" + (f", {visible(marks[name])}" if name in marks else "")
            heads.append(_panel(A, pool, (x, y, side), f"{said}: {_strongest(A, readers, read)}"))
            titles.append(text(x, y - 4, words.get(name, name)))
            square = f"M{plain(x)} {plain(y)}h{plain(side)}v{plain(side)}h{plain(-side)}z"
            frames["ink" if name in marks else "line"] += square
    body += group(f'font-size="10" {fill("ink")}', titles)
    body += heads
    for paint, path in frames.items():
        if path:
            thick = ' stroke-width="2"' if paint == "ink" else ""
            body.append(f'<path fill="none" {stroke(paint)}{thick} d="{path}"/>')
    legend = ["In each square a row reads, a column is read; position 0 is top left."]
    legend.append(
        f"{names[-1][0]} is head 0 of layer {n_layers - 1}."
        if layered
        else "The number is the head's."
    )
    if pool > 1:
        legend.append(f"Each cell is the largest of {pool} × {pool} weights.")
    if ((patterns > 0) & (patterns <= _FAINT)).any():
        legend.append(f"Empty: a weight of {_FAINT} or less.")
    slack = max(1e-3, torch.finfo(patterns.dtype).eps)
    strange = int(((patterns.double().sum(dim=-1) - 1).abs() > slack).sum())
    if strange:
        legend.append(f"{strange} row{'s do' if strange > 1 else ' does'} not sum to 1.")
    count = f"{n_layers} × {n_heads}" if layered else f"{n_heads}"
    described = [
        f"{name} ({visible(mark)}): {_strongest(_of(stack, name, layered), readers, read)}"
        for name, mark in marks.items()
    ]
    return finish(
        body,
        [("", line) for line in legend],
        (PAD + n_heads * (side + _ROOM) - _ROOM, top + n_layers * (side + 22)),
        (title, f"Patterns of {count} heads"),
        f"A small attention pattern for each of {count} heads over {n_key} positions. "
        + "; ".join(described),
        {"kind": "heads", "heads": names, "tokens": read, "marks": marks},
    )


def draw_curve(
    steps: Sequence[float],
    values: Mapping[str, Sequence[float]],
    *,
    mark: tuple[float, float] | None = None,
    axes: tuple[str, str] = ("step", "nats"),
    title: str | None = None,
) -> Picture:
    """Draw what was measured along a training: a line for each name, from the same steps.

    Args:
        steps: Where it was measured, rising.
        values: For each name as many values as steps.
        mark: The first and the last step of a stretch to shade: a phase change, say.
        axes: What runs to the right, and the unit that runs up.
        title: A line above the picture.

    Raises:
        TypeError: If steps or values are no numbers, or a name no string.
        ValueError: If there are fewer than two steps, if they do not rise, if a name has another
            number of values, if a value is not finite, or if the mark lies outside.

    Examples:
        >>> from tinyattn import draw_curve
        >>> draw_curve([0, 100, 200], {"two layers": [4.1, 3.7, 0.2]}, mark=(100, 200))
        <Picture: two layers over 3 steps>
    """
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise TypeError(
            "draw_curve: values are no lines by name: give them as {'loss': [2.0, 1.0]}"
        )
    steps = _numbers("steps", steps)
    values = {name: [float(v) for v in _numbers(repr(name), values[name])] for name in values}
    for name, given in (("mark", mark), ("axes", axes)):
        if given is not None and len(given if isinstance(given, Sequence) else ()) != 2:
            raise TypeError(f"draw_curve: {name} is {given!r}: give two of them, or leave it out")
    if mark is not None:
        start, end = _numbers("mark", mark)
        mark = start, end
    _check_curve(steps, values, mark)
    wide, tall, left = 560.0, 240.0, 52.0
    top = PAD + (24 if title else 0) + 16
    low, high, tick = _scale([value for series in values.values() for value in series])

    def x(step: float) -> float:
        return left + wide * (step - steps[0]) / (steps[-1] - steps[0])

    def y(value: float) -> float:
        return top + tall * (high - value) / (high - low)

    body = [text(PAD, PAD + 14, visible(title), title_face())] if title else []
    if mark:
        stretch = x(mark[1]) - x(mark[0])
        body.append(rect(x(mark[0]), top, stretch, tall, f'fill-opacity="0.14" {fill("cell")}'))
    ticks = [low + tick * i for i in range(round((high - low) / tick) + 1)]
    lines = "".join(f"M{plain(left)} {plain(y(value))}h{plain(wide)}" for value in ticks)
    body.append(f'<path fill="none" {stroke("line")} d="{lines}"/>')
    body += group(
        f"{fill('muted')}{face(11, 'end')}",
        [text(left - 6, y(value) + 4, _at(value, tick)) for value in ticks],
    )
    _, _, apart = _scale([float(steps[0]), float(steps[-1])], most=6)
    if all(isinstance(step, int) for step in steps):
        apart = max(1.0, apart)
    first, last = math.ceil(steps[0] / apart - 1e-9), math.floor(steps[-1] / apart + 1e-9)
    body += group(
        f"{fill('muted')}{face(11, 'middle')}",
        [
            text(x(apart * i), top + tall + 16, _at(apart * i, apart))
            for i in range(first, last + 1)
        ],
    )
    body += group(
        f'font-size="12" {fill("muted")}',
        [
            text(left, top - 6, axes[1]),
            text(left + wide, top + tall + 32, axes[0], 'text-anchor="end"'),
        ],
    )
    for number, series in enumerate(values.values()):
        places = [(x(s), y(v)) for s, v in zip(steps, series, strict=True)]
        points = [f"{plain(across)} {plain(down)}" for across, down in _thinned(places)]
        dash = f' stroke-dasharray="{_DASHES[number]}"' if _DASHES[number] else ""
        line = f'fill="none" stroke-width="2" stroke-linejoin="round"{dash}'
        body.append(f'<path {line} {stroke(f"token-{number}")} d="M{"L".join(points)}"/>')
    names, axes = [visible(name) for name in values], (visible(axes[0]), visible(axes[1]))
    legend = [
        (f"token-{number}", f"{name}: {_brief(series[0])} at first, {_brief(series[-1])} at last")
        for number, (name, series) in enumerate(zip(names, values.values(), strict=True))
    ]
    if mark:
        legend.append(("", f"Shaded: {axes[0]} {mark[0]} to {mark[1]}."))
    table = [[_rounded(value) for value in row] for row in zip(*values.values(), strict=True)]
    listed = len(steps) <= TABLE
    what = f"{' and '.join(names)} over {len(steps)} {axes[0]}s"
    return finish(
        body,
        legend,
        (left + wide, top + tall + 36),
        (title, what),
        f"Lines over {axes[0]}s {steps[0]} to {steps[-1]}. "
        + " ".join(f"{said.removesuffix('.')}." for _, said in legend),
        {
            "kind": "curve",
            "rows": [str(step) for step in steps] if listed else [],
            "columns": names,
            **({"values": table} if listed else {}),
            "reads": f"rows are {axes[0]}s, entries are {axes[1]}",
            "mark": mark,
        },
    )


_DASHES = ["", "6 3", "2 3", "9 3 2 3", "12 4", "1 4", "4 2 1 2 1 2", "8 8"]
"""Lines differ by more than their colour."""


def _at(value: float, tick: float) -> str:
    """A number beside an axis, with the digits that its ticks need."""
    return f"{value + 0.0:.{max(0, -math.floor(math.log10(tick) + 1e-9))}f}"


def _brief(value: float) -> str:
    """Two decimals, and two digits of what would be lost in them."""
    return f"{value + 0.0:.2f}" if value == 0 or abs(value) >= 0.01 else f"{value:.2g}"


def _rounded(value: float) -> float:
    return round(value, 3) if abs(value) >= 0.001 else float(f"{value:.2g}")


def _numbers(name: str, given: Sequence[float]) -> list[int | float]:
    """Whole numbers as they are, all others as float; nothing that only reads like a number."""
    try:
        entries = [e.detach().item() if isinstance(e, Tensor) else e for e in given]
        if isinstance(given, bytes) or any(isinstance(entry, str | bool) for entry in entries):
            raise TypeError
        floats = [float(entry) for entry in entries]  # a very large whole number is none
        return [e if isinstance(e, int) else f for e, f in zip(entries, floats, strict=True)]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"draw_curve: {name} must be a list of numbers") from None


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of very many points those that show: in each pixel the first, lowest, highest and last."""
    if len(points) <= 4 * TABLE:
        return points
    kept = []
    for _, run in groupby(points, key=lambda point: round(point[0])):
        column = list(run)
        extreme = (min(column, key=itemgetter(1)), max(column, key=itemgetter(1)))
        kept += sorted({column[0], *extreme, column[-1]})
    return kept


def _check_curve(
    steps: Sequence[float], values: Mapping[str, Sequence[float]], mark: tuple[float, float] | None
) -> None:
    rising = all(a < b < math.inf for a, b in pairwise(steps))
    if len(steps) < 2 or not rising or steps[0] == -math.inf:
        raise ValueError(f"draw_curve: steps are {list(steps)[:5]}: give two or more, rising")
    if not 1 <= len(values) <= TOKENS:
        raise ValueError(f"draw_curve: {len(values)} lines: give one to {TOKENS}")
    for name, series in values.items():
        if len(series) != len(steps):
            raise ValueError(
                f"draw_curve: {name!r} has {len(series)} values for {len(steps)} steps: "
                f"give one for each"
            )
        for step, value in zip(steps, series, strict=True):
            if not abs(value) < 1e300:
                what = "too large" if math.isfinite(value) else "not finite"
                raise ValueError(f"draw_curve: {name!r} is {what} at step {step}: leave it out")
    if mark and not steps[0] <= mark[0] < mark[1] <= steps[-1]:
        raise ValueError(
            f"draw_curve: mark = {mark} is no stretch of the steps {steps[0]} to {steps[-1]}"
        )


def _scale(values: Sequence[float], most: int = 5) -> tuple[float, float, float]:
    """Round bounds around the values, 0 among them where it is near, and the step between ticks."""
    low, high = min(values), max(values)
    low = min(low, 0.0) if low < 0.5 * high or low < 0 else low
    # A line that stays level fills no height: then a tenth of it does.
    span = high - low if high - low > 1e-6 * max(abs(high), abs(low)) else 0.1 * abs(high)
    span = span if span > 1e-12 else 1.0
    ten = 10.0 ** math.floor(math.log10(span / most))
    tick = next(ten * factor for factor in (1, 2, 5, 10) if span / (ten * factor) <= most)
    first = math.floor(low / tick + 1e-9)
    last = max(math.ceil(high / tick - 1e-9), first + 1)
    return first * tick, last * tick, tick


def _of(stack: Tensor, name: str, layered: bool) -> Tensor:
    layer, head = map(int, name.split(".")) if layered else (0, int(name))
    return stack[layer, head]


def _strongest(A: Tensor, readers: Sequence[str], read: Sequence[str]) -> str:
    """Where one head looks hardest, its look at the first position aside if it has another."""
    rest = A.clone()
    if A.shape[-1] > 1:
        rest[:, 0] = -1
    i, j = divmod(int(rest.argmax()), A.shape[-1])
    if A[i, j] <= 0:
        i, j = divmod(int(A.argmax()), A.shape[-1])
    return f"{readers[i]} ({i}) reads {read[j]} ({j}) at {float(A[i, j]):.2f}"


def _panel(A: Tensor, pool: int, place: tuple[float, float, float], said: str) -> str:
    """One small pattern: neighbours of one shade are a line, lines of one shade are a path."""
    x, y, side = place
    if pool > 1:
        pad = (0, -A.shape[1] % pool, 0, -A.shape[0] % pool)
        A = _padded(A, pad).unfold(0, pool, pool).unfold(1, pool, pool).amax(dim=(-1, -2))
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(A.tolist()):
        start, level = 0, 0
        for j, weight in enumerate([*row, 0.0]):
            new = math.ceil(shade(min(weight, 1.0)) * _LEVELS) if weight > _FAINT else 0
            if new != level:
                if level:
                    paths.setdefault(level, []).append(f"M{start} {i}h{j - start}")
                start, level = j, new
    tall, wide = side / A.shape[0], side / A.shape[1]
    move = f"translate({plain(x)} {plain(y + tall / 2)}) scale({wide:.4f} {tall:.4f})"
    drawn = "".join(
        f'<path stroke-opacity="{plain(level / _LEVELS)}" d="{"".join(lines)}"/>'
        for level, lines in sorted(paths.items())
    )
    ground = rect(0, -0.5, A.shape[1], A.shape[0], 'fill-opacity="0" stroke="none"')
    name = text(0, 0, said).partition(">")[2].removesuffix("</text>")
    return (
        f'<g class="head" shape-rendering="crispEdges" transform="{move}" {stroke("cell")}>'
        f"<title>{name}</title>{ground}{drawn}</g>"
    )


def _padded(A: Tensor, pad: tuple[int, int, int, int]) -> Tensor:
    new = A.new_zeros(A.shape[0] + pad[3], A.shape[1] + pad[1])
    new[: A.shape[0], : A.shape[1]] = A
    return new
