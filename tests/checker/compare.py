"""Does a literal say what a value is? To half a unit in the last digit written."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, get_args

from checker.grammar import DIGITS, SIGNED, WORDS

Verdict = Literal["same", "near", "tie", "differs"]  # from good to bad
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
CELL = re.compile(r"( *-?\d+(?:\.\d+)?)")  # a number in a table, with the blanks before it
# One that takes from nothing is a sign: after a relation, or close to its number after a command.
MINUS = re.compile(r"(?:(?:\A|[=(\[{,<>≤≥≈&])\s*[-−]\s*|(?:\\[A-Za-z]+|[^\w)}\s])\s*[-−])\{?\Z")
RELATIVE, ABSOLUTE = 1e-6, 1e-6  # what two processors may disagree by


def plain(value: Any) -> Any:
    """A value as Python's own numbers, strings and lists, so that it can be kept."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(element) for element in value)
    return str(value)


def agree(written: str, value: float) -> Verdict:
    """Compare a written number with a computed one.

    Half a unit of the last digit is rounding. A value on a tie, give or take float noise, might
    be written either way: that is its own verdict. Another processor may find a value a little
    nearer to the tie, so near it is one too.
    """
    digits = written.replace("−", "-").replace(",", "")
    number = Decimal(digits)
    if not math.isfinite(value) or (number == 0 and digits.startswith("-")):
        return "differs"
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if isinstance(value, int) and exponent == 0:
        return "same" if number == value else "differs"
    unit = 10.0**exponent
    noise = min(RELATIVE * abs(value) + ABSOLUTE, unit / 8)
    over = abs(float(number - Decimal(value))) - unit / 2
    if over > noise:
        return "differs"
    return "tie" if over > -noise else "near" if over > -2 * noise else "same"


def agree_in_row(said: str, row: str, shown: Mapping[str, Sequence[float]]) -> Verdict:
    """Compare a row of an output with what the code printed, knowing what was rounded for it.

    Where the numbers differ and take as much room, what counts is the value behind the code's.
    Whatever was not printed by ``tinyattn.show`` must be the same to the letter.
    """
    ours, theirs = CELL.split(said), CELL.split(row)
    if ours[::2] != theirs[::2] or [*map(len, ours)] != [*map(len, theirs)]:
        return "differs"
    cells = [(our, their.strip()) for our, their in zip(ours[1::2], theirs[1::2], strict=True)]
    worst: Verdict = "same"
    for our, their in cells:
        if our.strip() == their:
            continue
        verdicts = [agree(our.strip(), value) for value in shown.get(their, ())]
        worst = max(worst, min(verdicts, key=VERDICTS.index, default="differs"), key=VERDICTS.index)
        if worst == "differs":
            return worst
    for our, their in cells:  # what would be rounded to another number elsewhere is a tie
        if our.strip() == their:
            for verdict in (agree(their, value) for value in shown.get(their, ())):
                if verdict != "differs":
                    worst = max(worst, verdict, key=VERDICTS.index)
    return worst


def compare(literal: str, value: Any, in_percent: bool = False) -> Verdict:
    """Compare a literal as it stands on the page with a plain value."""
    return _compare(_read(literal), value, in_percent)


def _compare(said: Any, value: Any, in_percent: bool) -> Verdict:
    if isinstance(said, _Flat):
        value = list(_flat(value))
        said = list(said)
    if isinstance(said, str):
        if isinstance(value, list) and len(flat := list(_flat(value))) == 1:
            value = flat[0]
        return _leaf(said, value, in_percent)
    if not isinstance(value, list) or len(said) != len(value):
        return "differs"
    verdicts = [_compare(one, other, in_percent) for one, other in zip(said, value, strict=True)]
    return max(verdicts, key=VERDICTS.index, default="same")


def _leaf(said: str, value: Any, in_percent: bool) -> Verdict:
    forms = list(_unmarked(said))
    if isinstance(value, list):
        return "differs"
    if isinstance(value, str | bool | None) or math.isnan(value):
        return "same" if str(value) in forms else "differs"
    if math.isinf(value):
        bare = forms[-1].replace("−", "-").replace("∞", "inf").removeprefix("+")
        return "same" if bare == str(value) else "differs"
    bare = forms[-1]
    if bare.lower() in WORDS:
        noise = 0 if isinstance(value, int) else RELATIVE * abs(value) + ABSOLUTE
        return "same" if abs(WORDS.index(bare.lower()) - value) <= noise else "differs"
    percent = re.fullmatch(rf"({SIGNED})\s?\\?%", bare)
    if percent:
        return agree(percent[1], value if in_percent else 100 * value)
    return agree(bare, value) if re.fullmatch(SIGNED, bare) else "differs"


class _Flat(list[str]):
    """The numbers of a formula, in order."""


def _unmarked(text: str) -> Iterator[str]:
    """The text, then without its bold, its code marks, its quotes, one layer at a time."""
    yield text
    layer = re.fullmatch(
        r"\*\*(.+)\*\*|\*(.+)\*|``(.+)``|`(.+)`|\$\$(.+)\$\$|\$(.+)\$|“(.+)”|\"(.+)\"|'(.+)'",
        text,
        re.S,
    )
    if layer:
        yield from _unmarked(next(inner for inner in layer.groups() if inner is not None))


def _read(literal: str) -> Any:
    """A literal as a string, a nested list of strings, or the numbers of a formula."""
    forms = list(_unmarked(literal))
    bare = forms[-1].strip()
    bare = re.sub(r"^torch\.Size\((.*)\)$", r"\1", bare, flags=re.S)
    times = r"\s*(?:×|\\times|\\cdot)\s*"
    if re.fullmatch(rf"{SIGNED}(?:{times}(?:{DIGITS}))+", bare):
        return re.split(times, bare)
    if re.fullmatch(rf"{SIGNED}(?:, {SIGNED})*,? and {SIGNED}", " ".join(bare.split())):
        return re.findall(SIGNED, bare)
    if bare[:1] + bare[-1:] in ("()", "[]"):
        return [_read(part) for part in _split(bare[1:-1])]
    formula = any(form.startswith("$") for form in forms)
    if formula and not re.fullmatch(rf"{SIGNED}\s?\\?%?", bare):
        found = re.finditer(DIGITS, bare)
        return _Flat("-" * bool(MINUS.search(bare, 0, m.start())) + m[0] for m in found)
    return literal


def _split(inside: str) -> list[str]:
    parts, depth = [""], 0
    for character in inside:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for element in value:
            yield from _flat(element)
    else:
        yield value


def rewrite(literal: str, value: Any, in_percent: bool = False) -> str | None:
    """The literal with the value's numbers, as precise as before; None where that is unclear."""
    values = list(_flat(value))
    inner = list(_unmarked(literal))[-1]
    if isinstance(value, str):
        new = literal.replace(inner, value) if inner != literal else None
    elif inner.lower() in WORDS:
        if value not in range(len(WORDS)):
            return None
        word = WORDS[int(value)]
        new = literal.replace(inner, word.capitalize() if inner[0].isupper() else word)
    elif isinstance(value, bool):
        new = literal.replace(inner, str(value)) if inner in ("True", "False") else None
    else:
        scale = 100 if "%" in literal and not in_percent else 1
        pattern = rf"(?<![\w.,)}}])[-−](?:{DIGITS})|{DIGITS}"
        found = list(re.finditer(pattern, literal))
        if not found or any(isinstance(v, str | bool | None) for v in values):
            return None
        if len(found) != len(values):
            shape = re.fullmatch(r"(.*?[(\[])[^()\[\]]*([)\]].*)", literal)
            if not shape or any(isinstance(v, list) for v in value):
                return None
            like = found[0][0]
            middle = ", ".join(_number(like, scale * number) for number in values)
            new = shape[1] + middle + shape[2]
        else:
            feed = iter(values)
            new = re.sub(pattern, lambda m: _number(m[0], scale * next(feed)), literal)
    return new if new is not None and compare(new, value, in_percent) != "differs" else None


def _number(old: str, value: float) -> str:
    digits = old.replace("−", "-")
    mantissa, _, exponent = digits.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    if exponent:
        new = f"{value:.{decimals}e}"
        new = re.sub(r"e([-+])0(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", new)
    else:
        new = f"{value:{',' if ',' in old else ''}.{decimals}f}"
    if not float(new.replace(",", "")):
        new = new.lstrip("-")
    return new.replace("-", "−") if "−" in old else new
