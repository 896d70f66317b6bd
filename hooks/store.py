"""What takes long to make is kept in ``.cache``; where that cannot be, it is made again.

A file that is damaged, or no file at all, counts as nothing kept.
"""

import contextlib
import hashlib
import logging
import os
from pathlib import Path

log = logging.getLogger("mkdocs")


def recall(place: Path) -> bytes | None:
    """What was kept there, to the byte, or None."""
    try:
        data = place.read_bytes()
    except OSError:
        return None
    digest, what = data[:32], data[32:]
    return what if hashlib.sha256(what).digest() == digest else None


def keep(place: Path, what: bytes) -> None:
    """A build beside this one sees all of it or nothing."""
    written = place.with_suffix(f".{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(hashlib.sha256(what).digest() + what)
        written.replace(place)
    except OSError as error:
        log.info("Not kept for the next time: %s", error)
        with contextlib.suppress(OSError):
            written.unlink()


def usable(folder: Path) -> bool:
    """Whether files can be kept in a folder, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
