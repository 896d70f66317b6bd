"""A matrix as shaded cells: row 0 on top, labels left and above, the legend below.

Up to twenty rows and columns each cell is an element with its number in it. Beyond that numbers
are dropped and neighbours of one shade are drawn as one line, and beyond sixty-four only some
labels remain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinyattn.show import visible
from tinyattn.svg import (
    MONO,
    TOKENS,
    Picture,
    document,
    fill,
    label,
    label_length,
    plain,
    rect,
    stroke,
    text,
    words_length,
)

LEGIBLE = 20
"""Up to as many rows and columns each cell is an element of its own, with its number in it."""

LABELLED = 64
"""Up to as many rows and columns each has its label."""

TABLE = 1024
"""Up to as many cells a picture carries its numbers in its metadata, for a table beside it."""

_PAD, _LEVELS, _MOST = 12, 20, 120_000


@dataclass(frozen=True)
class Grid:
    """What is drawn, before it is known where.

    Attributes:
        shares: How dark each cell is, from −1 to 1.
        texts: What stands in it.
        axes: What the rows and what the columns do.
        colours: The position of each row and column, or None if they are no tokens.
        legend: Lines below, each with a paint for the square before it, or none.
        data: What the metadata says about the picture.
    """

    shares: list[list[float]]
    texts: list[list[str]]
    rows: list[str]
    columns: list[str]
    axes: tuple[str, str]
    colours: tuple[range, range] | None
    legend: list[tuple[str, str]]
    data: dict[str, object]


@dataclass(frozen=True)
class Place:
    """Where the cells are, and how large."""

    left: float
    top: float
    wide: float
    tall: float

    def x(self, column: float) -> float:
        """The left edge of a column."""
        return self.left + column * self.wide

    def y(self, row: float) -> float:
        """The top edge of a row."""
        return self.top + row * self.tall


def draw_grid(grid: Grid, title: str | None, name: str, description: str) -> Picture:
    """Lay a grid out and draw it, under a visible title if it has one."""
    n_row, n_column = len(grid.rows), len(grid.columns)
    most = max(n_row, n_column)
    title = visible(title) if title else ""
    legend = list(grid.legend)

    tall = (
        48.0 if most <= 6 else min(40.0, max(640 / most, 12.0 if most <= LABELLED else 768 / most))
    )
    longest = max(len(words) for row in grid.texts for words in row)
    wide = max(tall, 7.2 * longest + 8) if most <= LEGIBLE and longest > 4 else tall
    font = 10.0 if most > LABELLED else min(13.0, 0.7 * tall)
    rows = range(0, n_row, step(font * 1.3 / tall))
    columns = range(0, n_column, step(font * 1.5 / wide) if most > LABELLED else 1)

    chip = 8.0 if grid.colours else 2.0
    beside = max(label_length(grid.rows[i], font) for i in rows)
    above = max(label_length(grid.columns[j], font) for j in columns)
    slant = above > wide - 4
    head = _PAD + (24 if title else 0) + (18 if grid.axes[1] else 0)
    place = Place(
        left=_PAD + max(beside, words_length(grid.axes[0])) + chip + 2,
        top=head + chip + (0.72 * above + 0.8 * font if slant else 1.3 * font),
        wide=wide,
        tall=tall,
    )

    cells, faint = _runs(grid, place) if most > LEGIBLE else (_cells(grid, place), 0.0)
    if faint:
        legend.append(("", f"Empty too: below {faint:.3f} of full shade."))
    body = [
        *([text(_PAD, _PAD + 14, title, f'font-size="15" {fill("ink")}')] if title else []),
        *_axes(grid.axes, place, head - 6, chip),
        *_labels(grid, place, font, rows, columns, slant, chip),
        *(_chips(grid.colours, place, rows, columns) if grid.colours else []),
        *cells,
        _lines(place, n_row, n_column),
        *_legend(legend, place.y(n_row)),
    ]
    reach = [
        place.x(n_column),
        place.left + words_length(grid.axes[1]),
        _PAD + words_length(title, 15),
        *(_PAD + (14 if paint else 0) + words_length(line) for paint, line in legend),
        *(place.x(j + 0.9) + 0.72 * label_length(grid.columns[j], font) for j in columns if slant),
    ]
    bottom = place.y(n_row) + 16 * len(legend)
    return document(max(reach) + _PAD, bottom + _PAD, body, title or name, description, grid.data)


def shade(share: float) -> float:
    """How opaque a cell is: its share, and a step darker from one half on.

    No shade lies between 0.50 and 0.66, where neither dark nor light text could be read. The step
    is taken by the two decimals that are shown, so that float noise does not turn it.

    Examples:
        >>> from tinyattn.grid import shade
        >>> shade(0.0), shade(0.25), shade(1.0)
        (0.0, 0.25, 1.0)
        >>> shade(0.5) == shade(0.4999999)
        True
    """
    size = round(abs(share), 2)
    if not share:
        return 0.0
    return 0.32 + 0.68 * size if is_dark(share) else max(size, 0.03)


def is_dark(share: float) -> bool:
    """Whether light text stands on a cell."""
    return round(abs(share), 2) >= 0.5


def step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, … that is not below a bound.

    Examples:
        >>> from tinyattn.grid import step
        >>> step(0.3), step(1.5), step(12)
        (1, 2, 20)
    """
    ten = 1
    while True:
        for factor in (1, 2, 5):
            if factor * ten >= least:
                return factor * ten
        ten *= 10


def _axes(axes: tuple[str, str], place: Place, y: float, chip: float) -> list[str]:
    side, head = axes
    drawn = [text(place.left, y, head)] if head else []
    if side:
        x = place.left - chip - 2
        drawn.append(text(x, place.top - chip - 4, side, 'text-anchor="end"'))
    return [f'<g font-size="12" {fill("muted")}>', *drawn, "</g>"] if drawn else []


def _labels(
    grid: Grid, place: Place, font: float, rows: range, columns: range, slant: bool, chip: float
) -> list[str]:
    style = fill("ink", "unicode-bidi:isolate")
    drawn = [f'<g font-family="{MONO}" font-size="{plain(font)}" {style}>', '<g text-anchor="end">']
    for i in rows:
        drawn.append(label(place.left - chip - 2, place.y(i + 0.5) + 0.35 * font, grid.rows[i]))
    drawn += ["</g>", f'<g text-anchor="{"start" if slant else "middle"}">']
    for j in columns:
        x, y = place.x(j + 0.5), place.top - chip
        if slant:
            x, y = x + 0.25 * font, y - 1
            turn = f'transform="rotate(-45 {plain(x)} {plain(y)})"'
            drawn.append(label(x, y, grid.columns[j], turn))
        else:
            drawn.append(label(x, y - 4, grid.columns[j]))
    return [*drawn, "</g>", "</g>"]


def _chips(colours: tuple[range, range], place: Place, rows: range, columns: range) -> list[str]:
    """Mark each label with the colour of its position: a bar before its row, above its column."""
    inset = min(4.0, place.tall / 6)
    paths: dict[int, list[str]] = {}
    for i in rows:
        corner = f"M{plain(place.left - 7)} {plain(place.y(i) + inset)}"
        bar = f"{corner}h4v{plain(place.tall - 2 * inset)}h-4z"
        paths.setdefault(colours[0][i] % TOKENS, []).append(bar)
    for j in columns:
        corner = f"M{plain(place.x(j) + inset)} {plain(place.top - 7)}"
        bar = f"{corner}v4h{plain(place.wide - 2 * inset)}v-4z"
        paths.setdefault(colours[1][j] % TOKENS, []).append(bar)
    return [
        f'<path {fill(f"token-{colour}")} d="{"".join(bars)}"/>'
        for colour, bars in sorted(paths.items())
    ]


def _cells(grid: Grid, place: Place) -> list[str]:
    """Shade each cell by an element that says where it stands, and write its number on it."""
    drawn: list[str] = []
    spots = [(i, j, share) for i, row in enumerate(grid.shares) for j, share in enumerate(row)]
    for hue, sign in (("cell", 1), ("negative", -1)):
        rects = [
            rect(
                place.x(j),
                place.y(i),
                place.wide,
                place.tall,
                f'fill-opacity="{plain(shade(share))}" data-row="{i}" data-column="{j}"',
            )
            for i, j, share in spots
            if share * sign > 0
        ]
        if rects:
            drawn += [f"<g {fill(hue)}>", *rects, "</g>"]
    for paint, dark in (("ink", False), ("on-cell", True)):
        numbers = [
            text(place.x(j + 0.5), place.y(i + 0.5) + 4.2, grid.texts[i][j])
            for i, j, share in spots
            if grid.texts[i][j] and is_dark(share) == dark
        ]
        if numbers:
            face = f'font-family="{MONO}" font-size="12" text-anchor="middle"'
            drawn += [f"<g {face} {fill(paint)}>", *numbers, "</g>"]
    return drawn


def _runs(grid: Grid, place: Place) -> tuple[list[str], float]:
    """Shade many cells by few elements, and say below which share cells are left out.

    Neighbours of one shade are one line, and all lines of one shade are one path, whose unit is
    a cell. A hundred thousand cells stay near a megabyte.
    """
    sizes = sorted((abs(share) for row in grid.shares for share in row if share), reverse=True)
    faint = 0.005 if max(len(grid.rows), len(grid.columns)) > LABELLED else 0.0
    if len(sizes) > _MOST:
        faint = max(faint, sizes[_MOST])
    paths: dict[tuple[str, int], list[str]] = {}
    for i, row in enumerate(grid.shares):
        start, level = 0, 0
        for j, share in enumerate([*row, 0.0]):
            new = math.ceil(shade(share) * _LEVELS) if abs(share) > faint else 0
            new = -new if share < 0 else new
            if new != level:
                if level:
                    hue = "cell" if level > 0 else "negative"
                    paths.setdefault((hue, abs(level)), []).append(f"M{start} {i}h{j - start}")
                start, level = j, new
    drawn = [
        f'<path {stroke(hue)} stroke-opacity="{plain(level / _LEVELS)}" d="{"".join(lines)}"/>'
        for (hue, level), lines in sorted(paths.items())
    ]
    move = f"translate({plain(place.left)} {plain(place.y(0.5))})"
    unit = f"scale({place.wide:.4f} {place.tall:.4f})"
    open_group = f'<g shape-rendering="crispEdges" transform="{move} {unit}">'
    return [open_group, *drawn, "</g>"], faint if sizes and sizes[-1] <= faint else 0.0


def _lines(place: Place, n_row: int, n_column: int) -> str:
    """Rule the grid, or only frame it where ruling would hide it."""
    right, down = plain(n_column * place.wide), plain(n_row * place.tall)
    ruled = max(n_row, n_column) <= LEGIBLE
    heights = range(n_row + 1) if ruled else (0, n_row)
    widths = range(n_column + 1) if ruled else (0, n_column)
    path = "".join(
        [f"M{plain(place.left)} {plain(place.y(i))}h{right}" for i in heights]
        + [f"M{plain(place.x(j))} {plain(place.top)}v{down}" for j in widths]
    )
    return f'<path fill="none" {stroke("line")} d="{path}"/>'


def _legend(legend: Sequence[tuple[str, str]], y: float) -> list[str]:
    drawn = [f'<g font-size="11" {fill("muted")}>']
    for paint, line in legend:
        y += 16
        if paint:
            drawn.append(rect(_PAD, y - 8, 9, 9, fill(paint)))
        drawn.append(text(_PAD + (14 if paint else 0), y, line))
    return [*drawn, "</g>"]
