"""Chapters: how long a page takes, and which pages to have read before it.

A page names those in its front matter, ``needs: [attention/one-head.md]``. Each must be there
and stand earlier in the navigation; what does not is a warning, and a strict build fails.
"""

import html
import logging
import math
import re
from typing import Any

from mkdocs.utils import get_relative_url

log = logging.getLogger("mkdocs.hooks.chapters")

WORDS_A_MINUTE = 200
LINES_A_MINUTE = 15  # of code and of what it prints

order: dict[str, Any] = {}  # the pages of the navigation, first to last

UNREAD = re.compile(r"<(figure|math|table|svg)\b.*?</\1>", re.DOTALL)
CODE = re.compile(r"<pre.*?</pre>", re.DOTALL)


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    order.clear()
    order.update({page.file.src_uri: page for page in nav.pages})
    return nav


def minutes(content: str) -> int:
    """A page's reading time, tables and pictures left aside."""
    code = CODE.findall(content)
    prose = re.sub(r"<[^>]*>", "", UNREAD.sub("", CODE.sub("", content)))
    lines = sum(block.count("\n") for block in code)
    return math.ceil(len(prose.split()) / WORDS_A_MINUTE + lines / LINES_A_MINUTE)


def needed(page: Any) -> list[Any]:
    earlier = list(order)
    place = earlier.index(page.file.src_uri) if page.file.src_uri in order else len(earlier)
    found = []
    for name in page.meta.get("needs", []):
        if name not in earlier[:place]:
            log.warning("%s needs %s, which is no earlier page", page.file.src_uri, name)
        else:
            found.append(order[name])
    return found


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """Put the line under the title, when every page is read and its title known."""
    content = page.content
    if page.is_homepage or 'class="language-python' not in content or "doc-heading" in content:
        return context
    time = minutes(content)
    said = f"About {time} minute{'s' * (time > 1)}."
    links = [
        f'<a href="{get_relative_url(other.url, page.url)}">{html.escape(other.title)}</a>'
        for other in needed(page)
    ]
    if links:
        last = f" and {links.pop()}" if len(links) > 1 else ""
        said += f" Read before it: {', '.join(links)}{last}."
    line = f'<p class="about" data-search-exclude="true">{said}</p>'
    page.content = content.replace("</h1>", f"</h1>\n{line}", 1)
    return context
