"""Every document of the project: found, complete, and watched down to its last digit."""

import functools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from checker.check import check, tie_keys
from checker.document import Code, Page, parse
from checker.mutate import count_examples, nudged, orphans, overlooked, survivors
from checker.project import Project, Said
from checker.redraw import said
from checker.run import Truth, run_once
from checker.sybils import sybils

PROJECT = Project.at()
SYBILS = sybils()
DOCUMENTS = {PROJECT.name(path): path for path in PROJECT.documents()}
MODULES = [name for name in DOCUMENTS if name.startswith("src/")]


PAGES = [name for name in DOCUMENTS if name not in MODULES]


@functools.cache
def read(name: str) -> Page:
    return parse(DOCUMENTS[name].read_text("utf-8"), DOCUMENTS[name], PROJECT)


@functools.cache
def came_to(name: str) -> tuple[Page, list[Truth]]:
    return read(name), run_once(read(name))


def test_c4_there_are_documents() -> None:
    assert {"README.md", "docs/index.md", "docs/worklog.md", "src/tinyattn/attention.py"} <= set(
        DOCUMENTS
    )
    everywhere = {path for path in (PROJECT.root / "docs").rglob("*") if path.suffix == ".md"}
    assert everywhere <= set(DOCUMENTS.values())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_c4_what_looks_like_an_example_is_one(name: str) -> None:
    """Counted by a scan that knows nothing of the parser, and collected by sybil."""
    page = read(name)
    examples = [item for item in page.items if isinstance(item, Code)]
    assert len(examples) == count_examples(page.text, Path(name).suffix)
    [sybil] = [one for one in SYBILS if one.should_parse(DOCUMENTS[name])]
    collected = list(sybil.parse(DOCUMENTS[name]).examples())
    assert len(collected) >= len({item.at for item in page.items})


@pytest.mark.parametrize("name", PAGES)
def test_any_changed_digit_is_red_at_its_line(name: str) -> None:
    page, truths = came_to(name)
    assert check(page, truths) == []
    assert survivors(page, truths) == []
    assert overlooked(page, truths) == []


@pytest.mark.parametrize("name", PAGES)
def test_c6_another_processor_finds_no_fault(name: str) -> None:
    """A millionth more or less, and the page is as true as before, by the ties it has locked."""
    assert nudged(*came_to(name)) == []


def test_c9_pages_are_true_without_the_processors_wide_registers() -> None:
    """Two pages of matrix products, in a process of their own: the setting is read at import."""
    pages = ["docs/worklog.md", "docs/attention/one-head.md"]
    done = subprocess.run(
        [sys.executable, "-m", "checker", "--check", *pages],
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default", "PYTHONPATH": "tests"},
        cwd=PROJECT.root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all true"


def test_every_drawing_is_drawn_by_a_page() -> None:
    assert orphans(PROJECT, map(read, DOCUMENTS)) == []


def test_the_lock_is_what_redraw_writes() -> None:
    """Ties aside: which values are near one depends on the processor."""
    now = {name: replace(said(*came_to(name)), ties=()) for name in PAGES}
    locked = {name: replace(lock, ties=()) for name, lock in PROJECT.lock.items()}
    assert {name: lock for name, lock in locked.items() if lock != Said()} == {
        name: lock for name, lock in now.items() if lock != Said()
    }
    for name, lock in PROJECT.lock.items():
        assert set(lock.ties) <= {key for item in read(name).items for key in tie_keys(item)}
