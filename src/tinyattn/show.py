"""A matrix as a table whose rows and columns carry names.

A matrix without names is easily misread by one row. Here the token that reads stands before its
row and the token that is read above its column, so that ``A[i, j]`` is found by its words.
Numbers are rounded, never in scientific notation and never a minus zero, so that a table reads
the same on every machine.
"""

import re
import unicodedata
from collections.abc import Sequence

from torch import Tensor

from tinyattn.shapes import ShapeError, describe, typed

SPACE, NEWLINE, TAB, EMPTY = "␣", "⏎", "⇥", "∅"

_GAP = "  "
_JOINER, _EMOJI_STYLE, _CARRIER = "\u200d", "\ufe0f", "◌"


@typed
def show(
    matrix: Tensor,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    digits: int = 2,
) -> str:
    """Lay a matrix out as a table that says what its rows and columns are.

    Every entry is printed, however many there are. A vector is one row, and needs no name for
    it. Booleans become ``yes`` and ``no``, so that a mask reads as who may look at whom; whole
    numbers keep no decimals. Labels are made readable by :func:`visible`.

    Args:
        matrix: Two axes, or one; any dtype.
        rows: One label for each row; indices from 0, if left out.
        columns: One label for each column; indices from 0, if left out.
        digits: Decimals of a floating-point entry.

    Raises:
        ShapeError: If the tensor has no axis or more than two.
        TypeError: If the labels are one string, or not strings.
        ValueError: If labels and entries differ in number, if ``digits`` is negative, or if the
            tensor is on the meta device and so has no values.

    Examples:
        >>> import torch
        >>> from tinyattn import show
        >>> A = torch.tensor([[1.0, 0.0], [0.75, 0.25]])
        >>> print(show(A, rows=["The", "cat"], columns=["The", "cat"]))
              The   cat
        The  1.00  0.00
        cat  0.75  0.25
    """
    if matrix.ndim not in (1, 2):
        remedy = "matrix.item() is its number"
        if matrix.ndim:
            remedy = f"pick one matrix, e.g. matrix[{', '.join(['0'] * (matrix.ndim - 2))}]"
        raise ShapeError(f"show: matrix is {describe(matrix)}, but must have 1 or 2 axes: {remedy}")
    if matrix.is_meta:
        raise ValueError(
            f"show: matrix is {describe(matrix)} on the meta device, which keeps shapes and no "
            f"values: make it on a device such as 'cpu'"
        )
    check_digits("show", digits)
    grid = matrix if matrix.ndim == 2 else matrix[None]
    if matrix.ndim == 1 and rows is None:
        names = [""]
    else:
        names = [visible(label) for label in labels("show", "rows", rows, grid.shape[0], "rows")]
    heads = [
        visible(label) for label in labels("show", "columns", columns, grid.shape[1], "columns")
    ]
    cells = [[number(entry, digits) for entry in row] for row in grid.tolist()]

    stub = max(map(width, names), default=0)
    lines = [" " * stub, *(name + " " * (stub - width(name)) for name in names)]
    for column, head in enumerate(heads):
        texts = [head, *(row[column] for row in cells)]
        room = max(map(width, texts))
        gap = _GAP if stub or column else ""
        for line, text in enumerate(texts):
            lines[line] += gap + " " * (room - width(text)) + text
    return "\n".join(line.rstrip() for line in lines)


def check_digits(function: str, digits: int) -> None:
    """Refuse a number of decimals below 0.

    Raises:
        ValueError: If it is.

    Examples:
        >>> from tinyattn.show import check_digits
        >>> check_digits("show", 0)
    """
    if digits < 0:
        raise ValueError(f"{function}: digits is {digits}, but must be 0 or more")


def labels(function: str, name: str, given: Sequence[str] | None, count: int, of: str) -> list[str]:
    """Give each row or column its label, and refuse labels that do not fit.

    Args:
        function: Who asks, for the message.
        name: Which of its arguments the labels are.
        given: The labels, or None for indices from 0.
        count: How many there must be.
        of: What is labelled, for the message.

    Raises:
        TypeError: If the labels are one string, or not strings.
        ValueError: If there are too few or too many.

    Examples:
        >>> from tinyattn.show import labels
        >>> labels("show", "rows", None, 2, "rows")
        ['0', '1']
    """
    if given is None:
        return [str(index) for index in range(count)]
    if isinstance(given, str):
        raise TypeError(
            f"{function}: {name} is one string, {given!r}: give a list with one label for each "
            f"position, such as {name}.split()"
        )
    for index, label in enumerate(given):
        if not isinstance(label, str):
            raise TypeError(
                f"{function}: {name}[{index}] is {label!r}, but must be a string: "
                f"[str(label) for label in {name}]"
            )
    if len(given) != count:
        raise ValueError(
            f"{function}: {name} has {len(given)} label{'s' * (len(given) != 1)} for {count} {of}: "
            f"give one for each "
            f"(does one of the two lack the start token?)"
        )
    return list(given)


def visible(token: str) -> str:
    """Write a token so that everything in it can be seen.

    A space at an edge, or beside another space, becomes ``␣``, a newline ``⏎``, a tab ``⇥``, and
    the empty token ``∅``. The signs by which vocabularies mark these are read as what they stand
    for: Ġ (U+0120) and ▁ (U+2581) before a word are a space, Ċ (U+010A) at an edge is a newline.
    Any other character that draws nothing, or turns the writing direction, is spelled out as
    ``⟨U+202E⟩``.

    Examples:
        >>> from tinyattn.show import visible
        >>> visible("the"), visible(" the"), visible("Ġthe"), visible("")
        ('the', '␣the', '␣the', '∅')
        >>> visible("a\\n\\tb")
        'a⏎⇥b'
    """
    if not isinstance(token, str):
        raise TypeError(f"a label or title is {token!r}: give a string")
    if not token:
        return EMPTY
    rest = token.lstrip("ĠĊ▁ ")
    body = rest.rstrip("Ċ ")
    head, tail = token[: len(token) - len(rest)], rest[len(body) :]
    edge = {" ": SPACE, "Ġ": SPACE, "▁": SPACE, "Ċ": NEWLINE}
    inner = re.sub("  +", lambda run: SPACE * len(run[0]), body)
    drawn = "".join(
        _drawn(letter, 0 < index < len(inner) - 1) for index, letter in enumerate(inner)
    )
    if inner and unicodedata.category(inner[0]) in ("Mn", "Me", "Mc"):
        drawn = _CARRIER + drawn
    return "".join(edge[sign] for sign in head) + drawn + "".join(edge[sign] for sign in tail)


def width(text: str) -> int:
    """Count the columns a text takes in a fixed-width font: a CJK character or an emoji takes two.

    Examples:
        >>> from tinyattn.show import width
        >>> width("cat"), width("猫"), width("🐈")
        (3, 2, 2)
    """
    columns = 0
    for index, letter in enumerate(text):
        joined = index > 0 and text[index - 1] == _JOINER
        toned = index > 0 and "🏻" <= letter <= "🏿"
        if letter == _EMOJI_STYLE and index > 0:
            columns += 2 - _columns(text[index - 1])
        elif not joined and not toned:
            columns += _columns(letter)
    return columns


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def _drawn(letter: str, inside: bool) -> str:
    """Keep a character that can be seen, and spell out one that cannot."""
    code, kind = ord(letter), unicodedata.category(letter)
    if letter == "\n":
        return NEWLINE
    if letter == "\t":
        return TAB
    if code < 0x20:
        return chr(0x2400 + code)
    joins = letter in "\u200c\u200d" and inside
    hidden = kind in ("Cc", "Cs", "Co", "Zl", "Zp") or (kind == "Cf" and not joins)
    blank = kind == "Zs" and letter != " "
    nothing = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    return f"⟨U+{code:04X}⟩" if hidden or blank or nothing else letter


def number(entry: float | bool | complex, digits: int = 2) -> str:
    """Spell one entry: ``yes``, ``3``, ``0.25`` or ``-inf``, and never a minus zero.

    Examples:
        >>> from tinyattn.show import number
        >>> number(-0.001), number(True), number(7)
        ('0.00', 'yes', '7')
    """
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    if isinstance(entry, int):
        return str(entry)
    if isinstance(entry, complex):
        imaginary = number(entry.imag, digits)
        sign = "" if imaginary.startswith("-") else "+"
        return f"{number(entry.real, digits)}{sign}{imaginary}j"
    text = f"{entry:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text
