"""Write what the code gives into the pages: outputs, pins, pictures and the lock."""

from collections.abc import Callable
from pathlib import Path

from checker.check import in_percent, rows_agree, ties
from checker.compare import compare, rewrite
from checker.document import Code, Page, Picture, Pin, parse
from checker.locks import code_numbers
from checker.project import LOCK, Project, Said, write_lock
from checker.run import Truth, run_once, same_error


def redrawn(page: Page, truths: list[Truth]) -> tuple[str, list[str]]:
    """The page's text with the code's outputs and numbers, and a line for each change."""
    edits: list[tuple[int, int, str]] = []
    changes: list[str] = []
    for item, truth in zip(page.items, truths, strict=True):
        if truth.not_run or truth.complaint:
            continue
        edit = None
        if isinstance(item, Code):
            edit = _output(item, truth)
        elif isinstance(item, Pin) and item.op == "=" and not truth.error:
            value, percent = truth.value, in_percent(item)
            new = rewrite(item.literal, value, percent)
            if new is not None and compare(item.literal, value, percent) == "differs":
                edit = item.at, item.at + len(item.literal), new
        if edit and page.text[edit[0] : edit[1]] != edit[2]:
            old = page.text[edit[0] : edit[1]].strip()
            edits.append(edit)
            changes.append(f"{page.name}:{item.line}: {old!r} -> {edit[2].strip()!r}")
    text = page.text
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text, changes


def _output(item: Code, truth: Truth) -> tuple[int, int, str] | None:
    said = item.output
    if said is None:
        if truth.error or item.in_lab or not truth.text:
            return None
        if item.module:
            return item.end, item.end, _prefixed(truth.text, item.prefix)
        body = _prefixed(f"```output\n{truth.text}\n```", item.prefix).rstrip("\n")
        return item.end, item.end, f"\n{item.prefix.rstrip()}\n{body}"
    if "differs" not in rows_agree(item, truth):
        return None
    new = truth.text
    if truth.error and not same_error(truth.error, said.text):
        return None  # an accident is not to be written down as a result
    if truth.error and item.module:
        if said.text == truth.error:
            return None
        new = f"Traceback (most recent call last):\n    ...\n{truth.error}"
    return said.start, said.end, _prefixed(new, item.prefix)


def _prefixed(text: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}".rstrip() + "\n" for line in text.split("\n"))


def redraw(
    paths: list[Path], project: Project, tell: Callable[[str], object] = lambda name: None
) -> list[str]:
    """Rewrite these files, their pictures and their part of the lock; say what changed."""
    changes: list[str] = []
    lock: dict[str, Said] = {}
    for path in paths:
        tell(project.name(path))
        page = parse(path.read_text("utf-8"), path, project)
        truths = run_once(page)
        text, edits = redrawn(page, truths)
        changes += edits
        if text != page.text:
            path.write_text(text, "utf-8")
            page = parse(text, path, project)
        for item, truth in zip(page.items, truths, strict=True):
            if isinstance(item, Picture) and truth.value:
                file = path.parent / item.target
                if not file.exists() or file.read_bytes() != truth.value.encode():
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(truth.value.encode())
                    changes.append(f"{page.name}:{item.line}: {item.target} drawn")
        lock[page.name] = said(page, truths)
        if lock[page.name] != project.lock.get(page.name, Said()):
            changes.append(f"{page.name}: what no code computes, in {LOCK}")
    file, every = project.root / LOCK, {project.name(path) for path in project.documents()}
    lock = {**Project.at(project.root).lock, **lock}  # read again: others redraw other pages
    if every <= {project.name(path) for path in paths}:
        lock = {name: said for name, said in lock.items() if name in every}
    text = write_lock(lock)
    if not file.exists() or file.read_text("utf-8") != text:
        new = file.with_suffix(".new")
        new.write_text(text, "utf-8")
        new.replace(file)
    return changes


def said(page: Page, truths: list[Truth]) -> Said:
    """What the lock is to hold of this page."""
    given = tuple((given.literal, given.source) for given in page.given)
    return Said(given, tuple(sorted(ties(page, truths))), code_numbers(page))
