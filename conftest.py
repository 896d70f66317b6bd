"""Which files hold examples: see tests/checker/sybils.py. Which tests share a worker: see below."""

import pytest
from checker.sybils import sybils

pytest_collect_file = sybils().pytest()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each file on one worker, and all that reads the built site on one; start with that."""
    for item in items:
        browses = item.path.parent.name == "site" and item.path.name != "test_builds.py"
        item.add_marker(pytest.mark.xdist_group("site" if browses else str(item.path)))
    items.sort(key=lambda item: item.path.parent.name != "site")
