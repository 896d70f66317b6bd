"""Frames: what may be wider than a phone scrolls inside a frame, so that the page never does.

Search is left to the prose: snippets and outputs would fill its results with brackets.
"""

import re
from typing import Any

TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)
NOTHING = re.compile(r"<th( [^>]*)?></th>")  # the corner of a table heads nothing
BLOCK = re.compile(r'<div class="((?:[\w-]+ )*)highlight">')
ERROR = re.compile(
    r'<div class="language-output (highlight"><pre><span></span><code>'
    r'(?:<span class="go">[^\n]*\n)*?<span class="go">[\w.]*(?:Error|Exception)\b)'
)
CONSOLE = re.compile(r'(<div class="language-pycon highlight"><pre>.*?<code>)(.*?)(</code>)', re.S)


def typed_apart(console: str) -> str:
    """What the interpreter answers, errors too, in spans which copying leaves out."""
    lines = console.splitlines(keepends=True)
    answered = '<span class="go">{}</span>'.format
    return "".join(line if '<span class="gp">' in line else answered(line) for line in lines)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    # A class of its own keeps the theme from wrapping a table in a frame no key can reach.
    content = TABLE.sub(r'<div class="scroll"><table class="table">\1</table></div>', content)
    content = NOTHING.sub(r"<td\1></td>", content)
    content = CONSOLE.sub(lambda block: block[1] + typed_apart(block[2]) + block[3], content)
    content = ERROR.sub(r'<div class="language-output error \1', content)
    return BLOCK.sub(r'<div data-search-exclude="true" class="\1highlight">', content)
