"""Hold what a page says against what its code came to."""

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

from checker.compare import Verdict, agree_in_row, compare
from checker.document import Code, Fault, Item, Page, Pin, parse
from checker.project import Project
from checker.run import Truth, run, same_error

A_TIE = "rounded either way: write another digit, or `make redraw` locks it"


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
    """The pins and rows whose value lies on a rounding tie or near one, as the lock writes them."""
    return {
        key
        for item, truth in zip(page.items, truths, strict=True)
        if not truth.not_run
        for key, verdict in _verdicts(item, truth)
        if verdict in ("tie", "near")
    }


def tie_keys(item: Item) -> list[str]:
    """What the lock would write of an item, if it lay on a tie."""
    if isinstance(item, Pin):
        return [f"{item.literal} = {item.expression}"]
    said = item.output if isinstance(item, Code) else None
    return [" ".join(row.split()) for row in said.text.split("\n")] if said else []


def _verdicts(item: Item, truth: Truth) -> Iterator[tuple[str, Verdict]]:
    if isinstance(item, Pin) and item.op == "=" and not truth.error:
        yield tie_keys(item)[0], compare(item.literal, truth.value, in_percent(item))
    elif isinstance(item, Code) and item.output:
        yield from zip(tie_keys(item), rows_agree(item, truth), strict=False)


def rows_agree(item: Code, truth: Truth) -> list[Verdict]:
    """How each row the page shows agrees with the code's; a row too many does not."""
    ours = item.output.text.split("\n") if item.output else []
    theirs = truth.text.split("\n")
    pairs = zip(ours, theirs, strict=False)
    agree: list[Verdict] = [row_agrees(our, their, truth) for our, their in pairs]
    return agree + ["differs"] * abs(len(ours) - len(theirs))


def row_agrees(ours: str, theirs: str, truth: Truth) -> Verdict:
    return agree_in_row(ours, theirs, truth.shown)


def in_percent(pin: Pin) -> bool:
    """``62%<!-- = 100 * share -->`` is in percent already; ``62%<!-- = share -->`` is not."""
    try:
        return _in_percent(ast.parse(pin.expression, mode="eval").body)
    except SyntaxError:
        return False


SIZED = {"round", "int", "float", "abs", "max", "min", "sum", "mean", "item", "tolist", "detach"}


def _in_percent(node: ast.AST) -> bool:
    """Whether something is taken a hundred times, and then shared, rounded, picked or added."""
    match node:
        case ast.BinOp(left=one, op=ast.Mult(), right=other):
            return _hundred(one) or _hundred(other) or _in_percent(one) or _in_percent(other)
        case ast.BinOp(left=one, op=ast.Div() | ast.FloorDiv(), right=other):
            return (_hundred(one) or _in_percent(one)) and not _hundred(other)
        case ast.BinOp(left=one, op=ast.Add() | ast.Sub(), right=other):
            return _in_percent(one) or (_hundred(one) and _in_percent(other))
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            return _in_percent(inner)
        case ast.Call(func=ast.Name(id=name), args=[inner, *_]) if name in SIZED:
            return _in_percent(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=given) if name in SIZED:
            return any(map(_in_percent, [inner, *given]))
    return False


def _hundred(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 100


def _check(page: Page, item: Item, truth: Truth) -> Iterator[tuple[int, str]]:
    if truth.not_run:
        yield item.line, truth.not_run
    elif truth.complaint:
        yield item.line, truth.complaint
    elif isinstance(item, Code):
        yield from _check_code(page, item, truth)
    elif truth.error:
        yield item.line, f"cannot compute {item.expression}\n  {truth.error}"
    elif isinstance(item, Pin):
        yield from check_pin(page, item, truth)
    else:
        file = page.path.parent / item.target
        if not file.exists():
            yield item.line, f"{item.target} is missing; {item.expression} draws it"
        elif file.read_bytes() != truth.value.encode():
            yield item.line, f"{item.target} is not what {item.expression} draws"


def _check_code(page: Page, item: Code, truth: Truth) -> Iterator[tuple[int, str]]:
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
    elif not said.text and not truth.text:
        yield said.line, "an empty output: leave the fence out"
    else:
        rows, verdicts = said.text.split("\n"), rows_agree(item, truth)
        if "differs" in verdicts:
            diff = difflib.unified_diff(
                rows, truth.text.split("\n"), "the page", "the code", lineterm=""
            )
            line = said.line + min(verdicts.index("differs"), len(rows) - 1)
            yield line, "the output differs\n" + "\n".join(f"  {row}" for row in diff)
            return
        for line, (key, verdict) in enumerate(
            zip(tie_keys(item), verdicts, strict=True), said.line
        ):
            if verdict == "tie" and key not in page.said.ties:
                yield line, f"a tie in {key!r}, {A_TIE}"


def check_pin(page: Page, item: Pin, truth: Truth) -> Iterator[tuple[int, str]]:
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
    if verdict == "tie" and tie_keys(item)[0] not in page.said.ties:
        yield item.line, f"{said}; a tie, {A_TIE}\n  expression: {item.expression}"
    elif verdict == "differs":
        yield item.line, f"{said}\n  expression: {item.expression}"
