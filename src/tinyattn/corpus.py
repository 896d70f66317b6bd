"""The text that the text models learn: the King James Bible of 1611, as Debian packages it.

Nothing of it is shipped with this package. Debian's ``bible-kjv-text`` holds it compressed, and
its ``bible-kjv`` has the program that reads it.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping

HELD_OUT = 20
"""One chapter in so many is never trained on."""

_VERSE = re.compile(r"(\d?[A-Za-z]+\d+):\d+ (.*)")


def king_james() -> dict[str, str]:
    """Read the text: its chapters by name, "Ge1" say, a verse a line, without verse numbers.

    Raises:
        FileNotFoundError: If the Debian packages are missing, saying how to install them.

    Examples:
        >>> import shutil
        >>> from tinyattn.corpus import king_james
        >>> if shutil.which("bible"):
        ...     assert king_james()["Ge1"].startswith("In the beginning God created")
    """
    program = shutil.which("bible")
    if program is None:
        raise FileNotFoundError(
            "the text is read by Debian's program bible, which is not installed: "
            "apt install bible-kjv bible-kjv-text"
        )
    done = subprocess.run(
        [program, "-f", "-l10000", "Gen1:1-Rev22:21"], capture_output=True, text=True, check=False
    )
    chapters: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        verse = _VERSE.fullmatch(line)
        if verse:
            chapters.setdefault(verse[1], []).append(verse[2])
    if len(chapters) != 1189:
        raise FileNotFoundError(
            f"the program bible gave {len(chapters)} chapters of 1189 ({done.stderr.strip()}): "
            f"apt install --reinstall bible-kjv bible-kjv-text"
        )
    return {name: "\n".join(verses) + "\n" for name, verses in chapters.items()}


def split(chapters: Mapping[str, str]) -> tuple[str, str]:
    """Divide chapters into what is trained on and what is held out: every twentieth.

    Examples:
        >>> from tinyattn.corpus import split
        >>> split({str(number): f"{number} " for number in range(1, 41)})[1]
        '20 40 '
    """
    kept, held_out = "", ""
    for number, chapter in enumerate(chapters.values(), start=1):
        if number % HELD_OUT:
            kept += chapter
        else:
            held_out += chapter
    return kept, held_out
