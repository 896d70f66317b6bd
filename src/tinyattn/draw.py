"""Pictures of what a head does.

Rows read, columns are read, and each picture says so. Query 0 is on top, as in the matrix. The
same position has the same colour in every picture of one sentence.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.grid import LEGIBLE, TABLE, Grid, draw_grid
from tinyattn.shapes import describe, inspectable, typed
from tinyattn.show import check_digits, labels, number, visible
from tinyattn.svg import Picture, short


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
        >>> from tinyattn import draw_pattern
        >>> A = torch.tensor([[1.0, 0.0], [0.75, 0.25]])
        >>> draw_pattern(A, ["The", "cat"]).svg.count("data-row=")
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
    readers, read = [visible(label) for label in readers], [visible(label) for label in read]
    # The queries that are the last of the keys are the same positions, and keep their colours.
    first = n_key - n_query if read[-n_query:] == readers else 0
    legend = ["A row reads, a column is read."]
    if any(0.0 in row for row in values):
        legend.append("Empty: weight exactly 0.")
    said = " ".join(read) if n_key <= 8 and readers == read else f"{n_query} × {n_key}"
    grid = Grid(
        shares=values,
        texts=[[f"{weight:.2f}" if weight else "" for weight in row] for row in values],
        rows=readers,
        columns=read,
        axes=("reads ↓", "is read →"),
        colours=(range(first, first + n_query), range(n_key)),
        legend=[("", line) for line in (*legend, *_strange_sums(values, readers, slack))],
        data=_data(
            "pattern",
            readers,
            read,
            [[round(weight, 2) if weight else 0 for weight in row] for row in values],
            "rows read columns",
        ),
    )
    name = f"Attention pattern of {said}"
    return draw_grid(grid, title, name, _who_reads_whom(values, readers, read))


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
        ValueError: If labels and axes differ in number, if an entry is NaN or +∞, if ``digits``
            is negative, or if there is nothing to draw.

    Examples:
        >>> import torch
        >>> from tinyattn import draw_matrix
        >>> S = torch.tensor([[2.0, -1.0]])
        >>> draw_matrix(S, ["cat"], ["The", "cat"], axes=("reads ↓", "is read →"))
        <Picture: Matrix of 1 × 2>
    """
    check_digits("draw_matrix", digits)
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
    blocked = n_row * n_column - len(finite)
    grid = Grid(
        shares=[
            [entry / most if most and math.isfinite(entry) else 0.0 for entry in row]
            for row in values
        ],
        texts=[[number(entry, digits) for entry in row] for row in values],
        rows=names,
        columns=heads,
        axes=axes,
        colours=None,
        legend=[
            *([("", f"Darkest: {_sized(most, digits)} from zero.")] if finite else []),
            *([("cell", "above zero")] if max(finite, default=0.0) > 0 else []),
            *([("negative", "below zero")] if min(finite, default=0.0) < 0 else []),
            *(
                [("", "Empty: −∞, or exactly 0.")]
                if blocked and max(n_row, n_column) > LEGIBLE
                else []
            ),
        ],
        data=_data(
            "matrix",
            names,
            heads,
            [[_json(entry, digits) for entry in row] for row in values],
            " ".join(filter(None, axes)),
        ),
    )
    name = f"Matrix of {n_row} × {n_column}"
    counts = (f"{n_row} row{'s' * (n_row > 1)}", f"{n_column} column{'s' * (n_column > 1)}")
    facts = []
    if finite:
        low, high = (_sized(edge(finite), digits) for edge in (min, max))
        facts.append(f"entries lie between {low} and {high}")
    if blocked:
        facts.append(f"{blocked} of {n_row * n_column} are −∞" if finite else "all entries are −∞")
    description = f"{' and '.join(counts)}; {'; '.join(facts)}."
    return draw_grid(grid, title, name, description)


def _sized(value: float, digits: int) -> str:
    """A number in words of the picture: one too small for its digits is not said to be 0."""
    small = value and not round(value, digits)
    return f"{value:.1e}".replace("-", "−") if small else number(value, digits)


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
        top = sorted(cells, key=lambda cell: (-round(cell[0], 4), cell[1:]))[:5]
        said = [f"{rows[i]} reads {columns[j]} ({weight:.2f})" for weight, i, j in top]
        return "The largest weights: " + ", ".join(said) + "."
    sentences = []
    for label, row in zip(rows, values, strict=True):
        best = max(row)
        where = [columns[j] for j, weight in enumerate(row) if best - weight < 1e-5]
        if not best:
            sentences.append(f"{label} reads nothing")
        elif len(where) == 1:
            sentences.append(f"{label} reads most from {where[0]} ({best:.2f})")
        elif len(where) < 4:
            sentences.append(f"{label} reads equally from {' and '.join(where)} ({best:.2f})")
        else:
            sentences.append(f"{label} reads equally from {len(where)} positions ({best:.2f})")
    return "; ".join(sentences) + "."


def _strange_sums(values: list[list[float]], rows: list[str], slack: float) -> list[str]:
    """Name the rows that share out more or less than one; the picture shows them as they are."""
    totals = [(label, math.fsum(row)) for label, row in zip(rows, values, strict=True)]
    off = [(label, total) for label, total in totals if abs(total - 1) > slack]
    if len(off) > 2:
        return [f"{len(off)} rows do not sum to 1."]
    return [f"Row {short(label)} sums to {total:.2f}." for label, total in off]


def _data(
    kind: str, rows: list[str], columns: list[str], values: list[list[float | str]], reads: str
) -> dict[str, object]:
    """What the metadata says: the labels, the numbers as shown unless there are too many."""
    table = {"values": values} if len(rows) * len(columns) <= TABLE else {}
    return {"kind": kind, "rows": rows, "columns": columns, **table, "reads": reads}


def _json(entry: float, digits: int) -> float | str:
    """A number without a minus zero; JSON has no infinity, so −∞ is a word."""
    return round(entry, digits) + 0.0 if math.isfinite(entry) else number(entry)
