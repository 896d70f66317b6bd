"""Slow tests run where they are asked for by name: ``make test-slow``."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("slow" in argument for argument in config.args) else True
