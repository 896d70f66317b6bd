"""Which files hold examples: see tests/checker/sybils.py. Which tests go to one worker: here."""

from pathlib import Path

import pytest
from checker.sybils import sybils

pytest_collect_file = sybils().pytest()


PAGES = Path(__file__).parent / "tests" / "test_pages.py"
"""A worker that has run a lab has its results for these: labs train models."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests share a worker. Those of the built site share one too, and begin."""
    for item in items:
        built = "site" in getattr(item, "fixturenames", ())
        path = PAGES if item.path.parent.name == "labs" else item.path
        item.add_marker(pytest.mark.xdist_group("site" if built else str(path)))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group").args != ("site",))
