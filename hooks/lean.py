"""Lean pages: what costs bytes and shows nothing is left out.

Names, punctuation and operators have the colour of ordinary text, so their spans go. So do
the blanks at the beginnings and ends of lines, wherever they are not part of a snippet.
"""

import re
from typing import Any

from remembered import remembered

CODE = re.compile(r'(<div[^>]* class="[^"]*highlight">)(.*?)(</div>)', re.DOTALL)
PLAIN = re.compile(r'<span class="(?:n|o|p|w)">([^<]*)</span>')
KEPT = re.compile(r"(<(pre|script|style|textarea)\b.*?</\2>)", re.DOTALL)
BLANKS = re.compile(r"\s*\n\s*")


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    return unmarked(content)


@remembered
def unmarked(content: str) -> str:
    return CODE.sub(lambda code: PLAIN.sub(r"\1", code[0]), content)


def on_post_page(output: str, page: Any, config: Any) -> str:
    return tight(output)


@remembered
def tight(output: str) -> str:
    parts = KEPT.split(output)
    # Of each three: between, kept, and the name of what is kept.
    parts[::3] = [BLANKS.sub("\n", between) for between in parts[::3]]
    del parts[2::3]
    return "".join(parts)
