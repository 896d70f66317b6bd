"""How far a long task has come, on standard error."""

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def progress(items: Iterable[Item], total: int, label: str, *, show: bool = True) -> Iterator[Item]:
    """Pass items on, and show how many have passed where a person is watching.

    A bar by tqdm if it is installed, a plain line if it is not, and nothing where standard error
    is not a terminal.

    Examples:
        >>> list(progress("abc", 3, "letters"))
        ['a', 'b', 'c']
    """
    if not (show and sys.stderr.isatty()):
        yield from items
        return
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError:
        yield from _plain(items, total, label)
    else:
        yield from tqdm(items, total=total, desc=label)


def _plain(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    count = 0
    try:
        for count, item in enumerate(items, start=1):
            yield item
            print(f"\r{label}: {count} of {total}", end="", file=sys.stderr, flush=True)
    finally:
        if count:
            print(file=sys.stderr)
