"""Hold what a page says against what its code came to."""

import difflib
from collections.abc import Iterator
from pathlib import Path

from checker.compare import compare
from checker.document import Code, Fault, Page, Picture, Pin, parse
from checker.project import Project
from checker.run import Truth, run, same_error


def faults(text: str, path: Path, project: Project | None = None) -> list[Fault]:
    """All that is wrong with a text that stands, or would stand, at this path."""
    page = parse(text, path, project or Project.at())
    return check(page, run(page))


def check(page: Page, truths: list[Truth]) -> list[Fault]:
    """All that is wrong with a page, given what its code came to."""
    found = list(page.faults)
    for item, truth in zip(page.items, truths, strict=True):
        for line, message in _check(page, item, truth):
            found.append(Fault(line, message, item.at))
    return sorted(found, key=lambda fault: (fault.line, fault.at))


def ties(page: Page, truths: list[Truth]) -> set[str]:
    """The pins whose value lies on a rounding tie or near one, as the lock writes them."""
    return {
        tie_key(item)
        for item, truth in zip(page.items, truths, strict=True)
        if isinstance(item, Pin)
        and item.op == "="
        and not (truth.error or truth.not_run)
        and compare(item.literal, truth.value, in_percent(item)) in ("tie", "near")
    }


def tie_key(pin: Pin) -> str:
    return f"{pin.literal} = {pin.expression}"


def in_percent(pin: Pin) -> bool:
    """``62%<!-- = 100 * share -->`` is in percent already; ``62%<!-- = share -->`` is not."""
    return pin.expression.replace(" ", "").startswith("100*")


def _check(page: Page, item: Code | Pin | Picture, truth: Truth) -> Iterator[tuple[int, str]]:
    if truth.not_run:
        yield item.line, truth.not_run
    elif truth.complaint:
        yield item.line, truth.complaint
    elif isinstance(item, Code):
        yield from _check_code(item, truth)
    elif truth.error:
        yield item.line, f"cannot compute {item.expression}\n  {truth.error}"
    elif isinstance(item, Pin):
        yield from _check_pin(page, item, truth)
    else:
        file = page.path.parent / item.target
        if not file.exists():
            yield item.line, f"{item.target} is missing; {item.expression} draws it"
        elif file.read_bytes() != truth.value.encode():
            yield item.line, f"{item.target} is not what {item.expression} draws"


def _check_code(item: Code, truth: Truth) -> Iterator[tuple[int, str]]:
    said = item.output
    if truth.error and not (said and same_error(truth.error, said.text)):
        yield truth.line, f"raises {truth.error}"
    elif said is None:
        if truth.text and not item.in_lab:
            below = "output" if item.module else "```output fence"
            first = truth.text.split("\n")[0]
            yield item.line, f"shows {first!r}, but no {below} follows"
    elif item.module and truth.error and said.text == truth.error:
        return
    elif said.text != truth.text:
        ours, theirs = said.text.split("\n"), truth.text.split("\n")
        same = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        diff = difflib.unified_diff(ours, theirs, "the page", "the code", lineterm="")
        line = said.line + min(same, len(ours) - 1)
        yield line, "the output differs\n" + "\n".join(f"  {row}" for row in diff)
    elif not said.text:
        yield said.line, "an empty output: leave the fence out"


def _check_pin(page: Page, item: Pin, truth: Truth) -> Iterator[tuple[int, str]]:
    value, percent = truth.value, in_percent(item)
    if item.op != "=":
        bound = item.literal.strip("`*$").replace(",", "").replace("−", "-")
        try:
            apart = float(bound) - float(value)
        except (TypeError, ValueError):
            yield item.line, f"a bound compares numbers, not {item.literal} with {value!r}"
            return
        if not (apart > 0 if item.op == ">" else apart < 0):
            yield (
                item.line,
                (
                    f"the page says {item.literal} {item.op} the code's {value!r}\n"
                    f"  expression: {item.expression}"
                ),
            )
        return
    verdict = compare(item.literal, value, percent)
    said = f"the page says {item.literal}, the code gives {value!r}"
    if verdict == "tie" and tie_key(item) not in page.said.ties:
        how = "a tie, rounded either way: write another digit, or `make redraw` locks it"
        yield item.line, f"{said}; {how}\n  expression: {item.expression}"
    elif verdict == "differs":
        yield item.line, f"{said}\n  expression: {item.expression}"
