"""Change one digit at a time and see whether anybody notices."""

import functools
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checker.check import check, check_pin, row_agrees
from checker.document import Code, Fault, Output, Page, Picture, Pin, parse
from checker.fences import blank
from checker.grammar import IN_SOURCE
from checker.project import Project, Said
from checker.run import Truth, nudges, run

Edit = tuple[int, str]  # a place, and the digit to write there


def neighbours(digit: str) -> list[str]:
    """A digit one more and one less."""
    return [str(n) for n in (int(digit) + 1, int(digit) - 1) if 0 <= n <= 9]


def edited(text: str, edits: list[Edit]) -> str:
    characters = list(text)
    for at, digit in edits:
        characters[at] = digit
    return "".join(characters)


def shown_digits(page: Page) -> list[int]:
    """The places of all digits a reader takes for numbers, found without the page's parser.

    Names (W_1, GPT-2, float32), list markers, addresses and comments hold none.
    """
    text, shown = page.text, list[str]()
    for fence in page.fences:
        if fence.language == "python":
            shown.append(_hide(r"[^\W\d]\w*", text[fence.body : fence.close]))
            text = blank(text, fence.start, fence.end)
    hidden = (
        r"<!--.*?-->|\]\([^)]*\)|https?://[^\s)>]+|<[A-Za-z/][^<>]*>|\{[:#.][^}\n]*\}"
        r"|^#?[ \t>]*(?:[-*+] +)?\d{1,2}[.)] |(?<=[A-Za-z})'])_\{?\d+\}?"
        r"|[A-Z]\w*(?:-\d[\w.]*\w|-\d)|[^\W\d]\w*"
    )
    text = _hide(hidden, text)
    for fence in page.fences:
        if fence.language == "python":
            text = text[: fence.body] + shown.pop(0) + text[fence.close :]
    return [match.start() for match in re.finditer("[0-9]", text)]


def _hide(pattern: str, text: str) -> str:
    return re.sub(pattern, lambda match: " " * len(match[0]), text, flags=re.S | re.M)


@dataclass(frozen=True)
class Region:
    """A part of a page in which digits stand, and what tells whether one may be changed."""

    start: int
    end: int
    notices: Callable[[int, str], bool]  # at a place, a digit


def regions(page: Page, truths: list[Truth]) -> list[Region]:
    """The parts of a true page whose digits are held against something."""
    found = [Region(given.at, given.end, lambda at, digit: True) for given in page.given]
    for item, truth in zip(page.items, truths, strict=True):
        if isinstance(item, Pin):
            notices = functools.partial(_pin_notices, page, item, truth)
            found.append(Region(item.at, item.at + len(item.literal), notices))
        elif isinstance(item, Code) and item.output:
            notices = functools.partial(_row_notices, page, item, item.output, truth)
            found.append(Region(item.output.start, item.output.end, notices))
    for fence in page.fences:
        if fence.language == "python" and page.said.code:
            found.append(Region(fence.body, fence.close, lambda at, digit: True))
    return found


def _pin_notices(page: Page, pin: Pin, truth: Truth, at: int, digit: str) -> bool:
    changed = replace(pin, literal=edited(pin.literal, [(at - pin.at, digit)]))
    return any(line == page.line(at) for line, _ in check_pin(page, changed, truth))


def _row_notices(page: Page, item: Code, output: Output, truth: Truth, at: int, digit: str) -> bool:
    row = page.line(at) - output.line
    place = at - page.starts[page.line(at) - 1] - len(item.prefix)
    ours = edited(output.text.split("\n")[row], [(place, digit)])
    verdict = row_agrees(ours, truth.text.split("\n")[row], truth)
    locked = " ".join(ours.split()) in page.said.ties
    return verdict == "differs" or (verdict == "tie" and not locked)


def survivors(page: Page, truths: list[Truth]) -> list[str]:
    """The digits of a true page that can be changed by one without a fault at their line.

    Each is held only against what it stands in, which takes no time; one that stands in nothing
    known makes the page be read again. That both ways agree is what ``overlooked`` shows.
    """
    around = regions(page, truths)
    alive = []
    for at in shown_digits(page):
        inside = [region for region in around if region.start <= at < region.end]
        for digit in neighbours(page.text[at]):
            if not any(region.notices(at, digit) for region in inside) and (
                inside or page.line(at) not in _red_lines(page, truths, [(at, digit)])
            ):
                alive.append(_told(page, (at, digit)))
    return alive


def overlooked(page: Page, truths: list[Truth], sample: int = 30) -> list[str]:
    """Digits whose change goes unseen when the page is read again, though none should.

    The same digits on every run; they are changed together, at most one in each line and in each
    output or example, since each must be found by itself.
    """
    dice, chosen = random.Random(page.name), dict[int, Edit]()
    digits = shown_digits(page)
    for at in dice.sample(digits, len(digits)):
        fences = (fence.start for fence in page.fences if fence.start <= at < fence.end)
        place = page.line(next(fences, at))
        if len(chosen) < sample and place not in chosen:
            chosen[place] = at, dice.choice(neighbours(page.text[at]))
    edits = list(chosen.values())
    red = _red_lines(page, truths, edits)
    return [_told(page, edit) for edit in edits if page.line(edit[0]) not in red]


def _red_lines(page: Page, truths: list[Truth], edits: list[Edit]) -> set[int]:
    """Where a changed page has faults, its code not run again."""
    changed = parse(edited(page.text, edits), page.path, page.project)
    same = len(changed.items) == len(page.items)
    return {fault.line for fault in (check(changed, truths) if same else changed.faults)}


def nudged(page: Page, truths: list[Truth]) -> list[Fault]:
    """What is wrong with a page after each value it shows has moved by a millionth of itself.

    This is how far another processor may be. The page runs again only if a number that
    ``tinyattn.show`` prints would be another.
    """
    found = []
    for step in (0, 1):
        moved = [
            truth if isinstance(item, Code) else replace(truth, value=_moved(truth.value, step))
            for item, truth in zip(page.items, truths, strict=True)
        ]
        found += check(page, moved)
    shown = {
        (text, value) for truth in truths for text in truth.shown for value in truth.shown[text]
    }
    decimals = ((len(text.partition(".")[2]), value) for text, value in shown)
    if any(len({f"{v:.{places}f}" for v in nudges(value)}) > 1 for places, value in decimals):
        found += check(page, run(page, nudge=True))
    return found


def _moved(value: Any, step: int) -> Any:
    if isinstance(value, list):
        return [_moved(element, step) for element in value]
    return nudges(value)[step] if isinstance(value, float) else value


def _told(page: Page, edit: Edit) -> str:
    at, digit = edit
    before = page.text[:at].rpartition("\n")[2]
    return f"{page.name}:{page.line(at)}: {before}[{page.text[at]}->{digit}]"


def code_survivors(path: Path, project: Project) -> Iterator[str]:
    """The digits inside examples that can be changed by one while the page stays true.

    The page is run again for each, which takes a while.
    """
    name = project.name(path)
    unlocked = replace(project.lock.get(name, Said()), code=None)
    project = replace(project, lock={**project.lock, name: unlocked})
    page = parse(path.read_text("utf-8"), path, project)
    if check(page, run(page)):
        yield f"{page.name}: not true to begin with"
        return
    for fence in page.fences:
        if fence.language != "python":
            continue
        for match in IN_SOURCE.finditer(page.text, fence.body, fence.close):
            for at in range(match.start("number"), match.end("number")):
                for digit in neighbours(page.text[at]) if page.text[at].isdigit() else ():
                    changed = parse(edited(page.text, [(at, digit)]), path, project)
                    if not check(changed, run(changed)):
                        yield _told(page, (at, digit))


def orphans(project: Project, pages: Iterable[Page] = ()) -> list[str]:
    """The drawings that no page pins, all pages if none is given."""
    drawn = set()
    for page in pages or [
        parse(path.read_text("utf-8"), path, project) for path in project.documents()
    ]:
        pictures = (item for item in page.items if isinstance(item, Picture))
        drawn |= {(page.path.parent / item.target).resolve() for item in pictures}
    return [
        f"{project.name(file)}: no page draws this picture"
        for file in sorted((project.root / "docs/img").rglob("*.svg"))
        if file.resolve() not in drawn
    ]


def count_examples(text: str, suffix: str = ".md") -> int:
    """Count what looks like an example, without reading as ``parse`` does."""
    if suffix == ".py" and "\n# %%" not in text:
        return len(re.findall(r"^\s*>>> ", text, re.M))
    count = len(re.findall(r"^# %%(?!.*\[markdown\])", text, re.M))
    quoted = False
    for line in text.splitlines():
        stripped = line.lstrip(" \t>#-*+0123456789.)")
        if stripped.startswith(("````", "~~~~")):
            quoted = not quoted
        elif not quoted and stripped.startswith(("```", "~~~")) and "py" in stripped.lower():
            count += 1
    return count
