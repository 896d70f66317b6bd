"""Change one digit at a time and see whether anybody notices."""

import re
from collections.abc import Iterator
from pathlib import Path

from checker.check import check
from checker.document import Code, Page, Picture, parse
from checker.grammar import IN_CODE
from checker.project import Project
from checker.run import Truth, run

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
    text = page.text
    for item in page.items:
        if isinstance(item, Code):
            end = item.at + len(text[item.at : item.end])
            text = text[: item.at] + re.sub(r"[^\n]", " ", text[item.at : end]) + text[end:]
    hidden = (
        r"<!--.*?-->|\]\([^)]*\)|https?://[^\s)>]+|<[A-Za-z/][^<>]*>|\{[:#.][^}\n]*\}"
        r"|^#?[ \t>]*(?:[-*+] +)?\d{1,2}[.)] |(?<=[A-Za-z})'])_\{?\d+\}?"
        r"|[A-Z]\w*(?:-\d[\w.]*\w|-\d)|[^\W\d]\w*"
    )
    spans = [match.span() for match in re.finditer(hidden, text, re.S | re.M)]
    free = list(text)
    for start, end in spans:
        free[start:end] = " " * (end - start)
    return [at for at, character in enumerate(free) if character in "0123456789"]


def survivors(page: Page, truths: list[Truth]) -> list[str]:
    """The digits that can be changed by one without a fault at their line.

    The code is not run again. Many digits are changed at once, one in each line and one in each
    output, since each must be found by itself.
    """
    blocks: dict[int, list[int]] = {}
    outputs = [item.output for item in page.items if isinstance(item, Code) and item.output]
    for at in shown_digits(page):
        block = next((o.start for o in outputs if o.start <= at < o.end), -page.line(at))
        blocks.setdefault(block, []).append(at)
    rounds: dict[int, list[Edit]] = {}
    for places in blocks.values():
        edits = [(at, digit) for at in places for digit in neighbours(page.text[at])]
        for number, edit in enumerate(edits):
            rounds.setdefault(number, []).append(edit)
    alive = []
    for edits in rounds.values():
        changed = parse(edited(page.text, edits), page.path, page.project)
        if len(changed.items) != len(page.items):
            red = set()
        else:
            red = {fault.line for fault in check(changed, truths)}
        for at, digit in edits:
            if page.line(at) not in red:
                line = page.text[:at].rpartition("\n")[2] + f"[{page.text[at]}->{digit}]"
                alive.append(f"{page.name}:{page.line(at)}: {line}")
    return alive


def code_survivors(path: Path, project: Project) -> Iterator[str]:
    """The digits inside examples that can be changed by one while the page stays true.

    The page is run again for each, which takes a while.
    """
    page = parse(path.read_text("utf-8"), path, project)
    if check(page, run(page)):
        yield f"{page.name}: not true to begin with"
        return
    for item in page.items:
        if not isinstance(item, Code):
            continue
        start = page.text.find(item.source.strip().split("\n")[0], item.at)
        body = page.text[start : item.output.start if item.output else item.end]
        for match in IN_CODE.finditer(body):
            for offset in range(match.start("number"), match.end("number")):
                at = start + offset
                for digit in neighbours(page.text[at]) if page.text[at].isdigit() else ():
                    changed = parse(edited(page.text, [(at, digit)]), path, project)
                    if not check(changed, run(changed)):
                        line = page.text[:at].rpartition("\n")[2] + f"[{page.text[at]}->{digit}]"
                        yield f"{page.name}:{page.line(at)}: {line}"


def orphans(project: Project) -> list[str]:
    """The drawings that no page pins."""
    drawn = set()
    for path in project.documents():
        page = parse(path.read_text("utf-8"), path, project)
        pictures = (item for item in page.items if isinstance(item, Picture))
        drawn |= {(path.parent / item.target).resolve() for item in pictures}
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
