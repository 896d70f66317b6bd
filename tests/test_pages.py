"""Every document of the project: found, complete, and watched down to its last digit."""

import functools
from pathlib import Path

import pytest
from checker.check import check, tie_key
from checker.document import Code, Page, Pin, parse
from checker.mutate import count_examples, orphans, survivors
from checker.project import Project
from checker.redraw import said
from checker.run import Truth, run_once
from checker.sybils import sybils

PROJECT = Project.at()
DOCUMENTS = {PROJECT.name(path): path for path in PROJECT.documents()}
MODULES = [name for name in DOCUMENTS if name.startswith("src/")]


@functools.cache
def came_to(name: str) -> tuple[Page, list[Truth]]:
    page = parse(DOCUMENTS[name].read_text("utf-8"), DOCUMENTS[name], PROJECT)
    return page, run_once(page)


def test_c4_there_are_documents() -> None:
    assert {"README.md", "docs/index.md", "docs/worklog.md", "src/tinyattn/attention.py"} <= set(
        DOCUMENTS
    )
    everywhere = {path for path in (PROJECT.root / "docs").rglob("*") if path.suffix == ".md"}
    assert everywhere <= set(DOCUMENTS.values())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_c4_what_looks_like_an_example_is_one(name: str) -> None:
    """Counted by a scan that knows nothing of the parser, and collected by sybil."""
    page = parse(DOCUMENTS[name].read_text("utf-8"), DOCUMENTS[name], PROJECT)
    examples = [item for item in page.items if isinstance(item, Code)]
    assert len(examples) == count_examples(page.text, Path(name).suffix)
    [sybil] = [one for one in sybils() if one.should_parse(DOCUMENTS[name])]
    collected = list(sybil.parse(DOCUMENTS[name]).examples())
    assert len(collected) >= len({item.at for item in page.items})


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in MODULES])
def test_any_changed_digit_is_red_at_its_line(name: str) -> None:
    page, truths = came_to(name)
    assert check(page, truths) == []
    assert survivors(page, truths) == []


def test_every_drawing_is_drawn_by_a_page() -> None:
    assert orphans(PROJECT) == []


def test_the_lock_is_what_redraw_writes() -> None:
    """Ties aside: which values are near one depends on the processor."""
    given = {name: said(*came_to(name)).given for name in DOCUMENTS if name not in MODULES}
    locked = {name: locked.given for name, locked in PROJECT.lock.items() if locked.given}
    assert locked == {name: pairs for name, pairs in given.items() if pairs}
    for name, lock in PROJECT.lock.items():
        pins = {tie_key(item) for item in came_to(name)[0].items if isinstance(item, Pin)}
        assert set(lock.ties) <= pins
