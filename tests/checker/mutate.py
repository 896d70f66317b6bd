"""Change one digit at a time and see whether anybody notices."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from checker.check import check
from checker.document import Code, Item, Page, Picture, parse
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

    The code is not run again. Many digits are changed at once, one in each line of prose and one
    in each output, since each must be found by itself.
    """
    outputs = [item for item in page.items if isinstance(item, Code) and item.output]
    prose, shown = dict[int, list[Edit]](), dict[int, list[Edit]]()
    for at in shown_digits(page):
        edits = [(at, digit) for digit in neighbours(page.text[at])]
        inside = [o.at for o in outputs if o.output and o.output.start <= at < o.output.end]
        if inside:
            shown.setdefault(inside[0], []).extend(edits)
        else:
            prose.setdefault(page.line(at), []).extend(edits)
    alive = []
    for blocks, reread in ((prose, _reparsed), (shown, _with_outputs)):
        for abreast in zip_longest(*blocks.values()):
            made = [edit for edit in abreast if edit]
            changed = reread(edited(page.text, made), page)
            same = len(changed.items) == len(page.items)
            red = {fault.line for fault in check(changed, truths)} if same else set()
            alive += [_told(page, edit) for edit in made if page.line(edit[0]) not in red]
    return alive


def _reparsed(text: str, page: Page) -> Page:
    return parse(text, page.path, page.project)


def _with_outputs(text: str, page: Page) -> Page:
    """The page with the outputs of a changed text, which is quicker than to parse all of it."""
    items: list[Item] = []
    for item in page.items:
        if isinstance(item, Code) and item.output:
            rows = text[item.output.start : item.output.end].rstrip("\n").split("\n")
            rows = [row[len(item.prefix) :] for row in rows]
            item = replace(item, output=replace(item.output, text="\n".join(rows).rstrip("\n")))
        items.append(item)
    return replace(page, items=items)


def _told(page: Page, edit: Edit) -> str:
    at, digit = edit
    before = page.text[:at].rpartition("\n")[2]
    return f"{page.name}:{page.line(at)}: {before}[{page.text[at]}->{digit}]"


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
                        yield _told(page, (at, digit))


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
