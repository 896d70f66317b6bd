"""Which files hold examples: see tests/checker/sybils.py. Which tests go to one worker: here."""

import functools
import os
from pathlib import Path
from typing import Any

# Before torch is loaded: two workers on two cores, and threads which wait would only heat them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

BUILT = ("test_browser.py", "test_figures.py", "test_services.py", "test_site.py")
"""These look at the whole built site. It is built once, first, and by one worker."""


@functools.cache
def documents() -> Any:
    """Not loaded where nothing is collected: with it comes torch."""
    from checker.sybils import sybils

    return sybils().pytest()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Any:
    return documents()(file_path, parent)


def worker(path: str) -> str:
    """What a worker takes as one piece: a file; or all that share what is costly to make."""
    name = Path(path)
    if name.name in BUILT:
        return "built"
    return "documents" if name.name == "test_pages.py" or "labs" in name.parts else path


class Pieces(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return worker(nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)  # with -p no:xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Pieces:
    return Pieces(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    first = {"built": 0, "documents": 1}
    items.sort(key=lambda item: first.get(worker(item.nodeid.partition("::")[0]), 2))
