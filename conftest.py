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

BUILT = ("test_browser.py", "test_figures.py", "test_services.py", "test_site.py")
"""These look at the whole built site. It is built once, first, and by one worker."""


def worker(path: str) -> str:
    """What a worker takes as one piece: a file; or all that share what is costly to make."""
    name = Path(path)
    if name.name in BUILT:
        return "the built site"
    return "tests/test_pages.py" if name.parent.name == "labs" else path  # each trains the lab once


class Pieces(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return worker(nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Pieces:
    return Pieces(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in BUILT)
