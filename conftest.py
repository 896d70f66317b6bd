"""Which files hold examples: see tests/checker/sybils.py. Which tests go to one worker: here."""

import os
from pathlib import Path
from typing import Any

# Before torch is loaded: two workers on two cores, and threads which wait would only heat them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from checker.sybils import sybils
from xdist.scheduler.loadscope import LoadScopeScheduling

pytest_collect_file = sybils().pytest()

ALL_PAGES = ("test_browser.py", "test_site.py")
SOME_PAGES = ("test_figures.py", "test_services.py")
"""These look at the built site. It is built first, by the worker that visits every page of it;
the other finds the pages kept when it comes to its own, after the documents."""


def worker(path: str) -> str:
    """What a worker takes as one piece: a file; or all that share what is costly to make."""
    name = Path(path)
    if name.name in ALL_PAGES:
        return "all pages"
    if name.name in SOME_PAGES:
        return "some pages"
    return "documents" if name.name == "test_pages.py" or "labs" in name.parts else path


class Pieces(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return worker(nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)  # with -p no:xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Pieces:
    return Pieces(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    first = ("all pages", "documents", "some pages")
    place = {name: at for at, name in enumerate(first)}
    items.sort(key=lambda item: place.get(worker(item.nodeid.partition("::")[0]), len(place)))
