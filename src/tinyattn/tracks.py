"""A picture of the paths through a model: a track from source to logit, and what it adds.

A row is a path. From left to right it runs through the layers: straight on where it stays in the
stream, through a numbered stop where a head moves it. The bar at its end is what it adds.
"""

import math
import re
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from tinyattn.grid import TABLE
from tinyattn.shapes import describe, inspectable, typed
from tinyattn.show import check_digits, labels, number, visible
from tinyattn.svg import (
    PAD,
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

_FONT, _SCREEN, _ROW = 13, 366, 28.0
_ARROW = " → "
_NO_TRACK = ("longer", "b_U")
"""Rows that are many paths, or none through the stream."""


@typed
def draw_paths(
    names: Sequence[str],
    shares: Float[Tensor, " path"],
    *,
    most: int = 12,
    digits: int = 2,
    title: str | None = None,
) -> Picture:
    """Draw each path as a track through the layers, and its share as a bar; the last row sums up.

    Args:
        names: One for each path, as :func:`tinyattn.paths` gives them: heads it passes through as
            "0.3 → 1.2", a source before them if it is not the embedding.
        shares: What each adds to one number, such as one token's logit at one position.
        most: How many paths have a row of their own: those with the largest shares, in the order
            given. The others are one row together.
        digits: Decimals of each number.
        title: A line above the picture.

    Raises:
        TypeError: If the names are one string, or not strings.
        ValueError: If names and shares differ in number, if a share is NaN or infinite, if a path
            goes back to an earlier layer, or if there is nothing to draw.

    Examples:
        >>> import torch
        >>> from tinyattn import draw_paths
        >>> draw_paths(["embed", "0.0", "0.0 → 1.0"], torch.tensor([0.5, -1.0, 2.0]))
        <Picture: 3 paths that sum to 1.50>
    """
    check_digits("draw_paths", digits)
    values = _values(shares)
    given = labels("draw_paths", "names", names, len(values), "shares")
    if most < 1:
        raise ValueError(f"draw_paths: most = {most}: give 1 or more")
    tracks = [_track(name) for name in given]
    total = math.fsum(values)
    kept = sorted(sorted(range(len(values)), key=lambda i: (-abs(values[i]), i))[:most])
    rows = [(*tracks[i], values[i]) for i in kept]
    rest = len(values) - len(kept)
    others = f"{rest} others" if rest > 1 else "1 other"
    if rest:
        left_out = math.fsum(value for i, value in enumerate(values) if i not in kept)
        rows.append((others, [], left_out))
    spoken = [visible(given[i]) for i in kept] + [others] * bool(rest)

    layers = max((layer for _, stops in tracks for layer, _ in stops), default=-1) + 1
    heads = [(layer, stop) for _, stops, _ in rows for layer, stop in stops]
    stop_wide = max((label_length(stop, 11) for _, stop in heads), default=0) + 10
    step = max(38.0, stop_wide + 12)
    ends = [*(source for source, _, _ in rows), "sum"]
    left = PAD + max(label_length(source, _FONT) for source in ends) + 10
    track_end = left + step * layers + (12 if layers else 24)
    texts = [number(value, digits) for value in [*(row[2] for row in rows), total]]
    room = max(len(words) for words in texts) * 6.6 + 8
    low = min(0.0, total, *(value for _, _, value in rows))
    high = max(0.0, total, *(value for _, _, value in rows))
    before = room if low < 0 else 0.0  # numbers of bars to the left stand on their left
    after = room if max(total, *(value for _, _, value in rows)) >= 0 else 8.0
    reach = max(_SCREEN - track_end - 12 - before - after, 60.0)
    unit = reach / (high - low) if high > low else 0.0
    zero = track_end + 12 + before - unit * low
    right = zero + unit * high + after

    top = PAD + (24 if title else 0) + (14.0 if layers else 0.0)
    first = top + (12 if layers else 0)
    lines, stops, numbers, sources = [], [], [], []
    bars: dict[str, list[str]] = {"cell": [], "negative": [], "token-0": []}
    for i, (source, through, value) in enumerate([*rows, ("sum", [], total)]):
        last = i == len(rows)
        y = first + _ROW * (i + 0.5) + (10 if last else 0)
        sources.append(label(left - 8, y + 4.5, source))
        if not last and source not in _NO_TRACK and source != others:
            lines.append(f"M{plain(left)} {plain(y)}H{plain(track_end)}")
        for layer, stop in through:
            x = left + step * (layer + 0.5) + 6
            wide = max(label_length(stop, 11) + 10, 20)
            place = f'rx="9" data-row="{i}" data-column="{layer}"'
            stops.append((rect(x - wide / 2, y - 9, wide, 18, place), text(x, y + 4, stop)))
        paint = "token-0" if last else "cell" if value > 0 else "negative"
        x0, x1 = sorted((zero, zero + unit * value))
        if value:
            place = f'data-row="{i}" data-column="{layers}"'
            bars[paint].append(rect(x0, y - 7, max(x1 - x0, 1.0), 14, place))
        side = (x1 + 5, "start") if value >= 0 else (x0 - 5, "end")
        numbers.append(text(side[0], y + 4, texts[i], f'text-anchor="{side[1]}"'))
    bottom = first + _ROW * (len(rows) + 1) + 10
    body = [
        *([text(PAD, PAD + 14, visible(title), title_face())] if title else []),
        *(
            [text(left - 8, top, "layer", f'font-size="12" text-anchor="end" {fill("muted")}')]
            if layers
            else []
        ),
        *group(
            f'font-size="12" text-anchor="middle" {fill("muted")}',
            [text(left + step * (n + 0.5) + 6, top, str(n)) for n in range(layers)],
        ),
        f'<path fill="none" {stroke("line")} d="M{plain(zero)} {plain(first)}V{plain(bottom)}"/>',
        f'<path fill="none" {stroke("muted")} stroke-width="2" d="{"".join(lines)}"/>',
        *group(fill("ink"), [shape for shape, _ in stops]),
        *group(fill("paper") + face(11, "middle"), [words for _, words in stops]),
        *group(fill("ink", "unicode-bidi:isolate") + face(_FONT, "end"), sources),
        *(line for paint, drawn in bars.items() for line in group(fill(paint), drawn)),
        *group(fill("ink") + face(11, "start").replace(' text-anchor="start"', ""), numbers),
        f'<path {stroke("ink")} d="M{PAD} {plain(bottom - _ROW - 5)}H{plain(right)}"/>',
    ]
    legend = [
        *([("ink", "a head that moves it; a line stays in the stream")] if heads else []),
        *([("cell", "adds to the logit")] if bars["cell"] else []),
        *([("negative", "takes away from it")] if bars["negative"] else []),
        ("", "The last row is the sum of all paths."),
    ]
    data = {
        "kind": "paths",
        "rows": [*spoken, "sum"],
        "columns": ["share"],
        **({"values": [[_rounded(v, digits)] for v in [*(row[2] for row in rows), total]]}
           if len(rows) < TABLE else {}),
        "reads": "each row is a path and what it adds; the last row is the sum",
    }  # fmt: skip
    count = f"{len(values)} path{'s' * (len(values) != 1)}"
    said = ", ".join(f"{name} {words}" for name, words in zip(spoken, texts, strict=False))
    return finish(
        body,
        legend,
        (max(right, PAD + words_length(visible(title or ""), 15)), bottom),
        (title, f"{count} that sum to {texts[-1]}"),
        f"{count} sum to {texts[-1]}: {said}.",
        data,
    )


def _track(name: str) -> tuple[str, list[tuple[int, str]]]:
    """Where a path comes from, and its stops: layer and head."""
    if "->" in name:
        raise ValueError(f"draw_paths: {name!r} has no arrow that is read: write '0.0{_ARROW}1.0'")
    first, *others = name.split(_ARROW)
    source, stops = ("embed", [first, *others]) if _is_head(first) else (first, others)
    through = []
    for stop in stops:
        if not _is_head(stop):
            raise ValueError(
                f"draw_paths: {name!r} goes through {stop!r}, which is no head: write layer and "
                f"head, '0.3'"
            )
        through.append((int(stop.partition(".")[0]), stop))
    order = [layer for layer, _ in through]
    if order != sorted(set(order)):
        raise ValueError(
            f"draw_paths: {name!r} does not go from layer to later layer: a head reads only what "
            f"earlier layers wrote"
        )
    return visible(source), through


def _is_head(stop: str) -> bool:
    return re.fullmatch(r"\d{1,3}\.\d{1,3}", stop, re.ASCII) is not None


def _values(shares: Tensor) -> list[float]:
    """Read shares that can be drawn, and refuse those that cannot."""
    if not inspectable(shares):
        raise ValueError(
            f"draw_paths: shares are {describe(shares)} and have no values to draw: make them on "
            f"a device such as 'cpu', outside of torch.compile"
        )
    if not shares.numel():
        raise ValueError("draw_paths: there are no paths: there is nothing to draw")
    lost = (~shares.isfinite()).nonzero()
    if len(lost):
        index = int(lost[0])
        raise ValueError(
            f"draw_paths: shares[{index}] is {shares[index].item():g}: a sum needs finite numbers"
        )
    return shares.tolist()


def _rounded(entry: float, digits: int) -> float:
    return round(entry, digits) + 0.0
