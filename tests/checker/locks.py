"""Hold what no code proves against the lock: sources, and the numbers code starts from."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from checker.document import Given, Page
from checker.fences import Fence
from checker.grammar import IN_SOURCE
from checker.project import LOCK


def code_numbers(page: Page) -> tuple[str, ...]:
    """The numbers of each example as the lock writes them; nothing if there are none at all."""
    found = tuple(" ".join(text for _, text in _numbers(fence)) for fence in _python(page))
    return found if any(found) else ()


def as_locked(page: Page) -> None:
    """What no code computes must be what the lock says, in the same order."""
    _given_as_locked(page)
    if page.said.code is not None:
        _code_as_locked(page, page.said.code)


def _given_as_locked(page: Page) -> None:
    said = [(given.literal, given.source) for given in page.given]
    locked = list(page.said.given)
    for a, b, c, d in _changes(locked, said):
        was = ", ".join(f"{text} ({source})" for text, source in locked[a:b])
        for given in page.given[c:d]:
            message = f"{given.literal} ({given.source}): not as locked in {LOCK}"
            line = _changed_line(page, given, locked[a][0]) if b - a == d - c == 1 else given.line
            page.fault(given.at, f"{message}; there: {was}" if was else message, line)
        if c == d:
            at = page.given[min(c, len(said) - 1)].at if said else 0
            page.fault(at, f"gone from here, but locked in {LOCK}: {was}")


def _changes(
    locked: Sequence[tuple[str, str]], said: Sequence[tuple[str, str]]
) -> Iterator[tuple[int, int, int, int]]:
    """Where the two differ. If only digits do, each is held against its own, in order."""
    if [re.sub(r"\d", "", text) for text, _ in locked] == [re.sub(r"\d", "", t) for t, _ in said]:
        for i, (one, other) in enumerate(zip(locked, said, strict=True)):
            if one != other:
                yield i, i + 1, i, i + 1
        return
    for kind, *places in SequenceMatcher(None, locked, said, autojunk=False).get_opcodes():
        if kind != "equal":
            a, b, c, d = places
            yield a, b, c, d


def _changed_line(page: Page, given: Given, locked: str) -> int:
    """The line of the first digit that differs: a literal may be wrapped over two."""
    places = [given.at + m.start() for m in re.finditer(r"\d", page.text[given.at : given.end])]
    pairs = zip(places, re.findall(r"\d", locked), strict=False)
    return next((page.line(at) for at, digit in pairs if page.text[at] != digit), given.line)


def _code_as_locked(page: Page, locked: tuple[str, ...]) -> None:
    fences = _python(page)
    said = code_numbers(page)
    if len(said) == len(locked):
        pairs = list(zip(said, locked, fences, strict=False))
    else:
        pairs, said = [], said or ("",) * len(fences)
        blocks = SequenceMatcher(None, locked, said, autojunk=False).get_opcodes()
        for kind, a, b, c, d in blocks:
            if kind != "equal":
                was = [*locked[a:b][: d - c], *[""] * (d - c - (b - a))]
                pairs += zip(said[c:d], was, fences[c:d], strict=True)
            if b - a > d - c:
                gone = " ".join(locked[a + d - c : b]) or "no number"
                at = fences[min(d, len(fences) - 1)].start if fences else 0
                page.fault(at, f"code gone from here, but locked in {LOCK}: {gone}")
    for numbers, was_numbers, fence in pairs:
        if numbers != was_numbers:
            _first_difference(page, fence, was_numbers.split())


def _first_difference(page: Page, fence: Fence, locked: list[str]) -> None:
    numbers = list(_numbers(fence))
    texts = [text for _, text in numbers]
    common = min(len(texts), len(locked))
    first = next((i for i in range(common) if texts[i] != locked[i]), common)
    row = numbers[min(first, len(numbers) - 1)][0] if numbers else 0
    says, has = ((*some, "no more")[min(first, len(some))] for some in (texts, locked))
    line = page.line(fence.body) + row
    message = f"the code says {says}, {LOCK} has {has}: run make redraw if you meant it"
    page.fault(page.starts[line - 1], message)


def _python(page: Page) -> list[Fence]:
    return [fence for fence in page.fences if fence.language == "python"]


def _numbers(fence: Fence) -> Iterator[tuple[int, str]]:
    """The numbers of an example, strings included, each with its row."""
    for match in IN_SOURCE.finditer(fence.text):
        if match["number"]:
            yield fence.text.count("\n", 0, match.start()), match["number"]
