"""Frames: what may be wider than a phone scrolls inside a frame, so that the page never does.

Search is left to the prose: snippets and outputs would fill its results with brackets.
"""

import re
from typing import Any

from remembered import remembered

TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)
NOTHING = re.compile(r"<th( [^>]*)?></th>")  # the corner of a table heads nothing
BLOCK = re.compile(r'<div class="((?:[\w-]+ )*)highlight">')
ERROR = re.compile(
    r'<div class="language-output (highlight"><pre><span></span><code>'
    r'(?:<span class="go">[^\n]*\n)*?<span class="go">[\w.]*(?:Error|Exception)\b)'
)
# Where the output stands right under its snippet, the two are one box.
ANSWERED = re.compile(
    r'(?<=<div )(?=data-search-exclude="true" class="language-python highlight">'
    r'(?:(?!</div>).)*</div>\s*<div data-search-exclude="true" class="language-output )',
    re.DOTALL,
)
# How high a block will be, for a browser that lays it out once it comes near. Lines that are
# broken, as those of errors are, cannot be counted here.
COUNTED = re.compile(
    r'(?<=<div )(?=[^<>]*class="(?![^"]*\berror\b)[^"]*highlight"><pre><span></span>'
    r"<code>(.*?)</code>)",
    re.DOTALL,
)
CONSOLE = re.compile(r'(<div class="language-pycon highlight"><pre>.*?<code>)(.*?)(</code>)', re.S)


def typed_apart(console: str) -> str:
    """What the interpreter answers, errors too, in spans which copying leaves out."""
    lines = console.splitlines(keepends=True)
    answered = '<span class="go">{}</span>'.format
    return "".join(line if '<span class="gp">' in line else answered(line) for line in lines)


# The same for a picture: the shape it is drawn in. The rest of its style is in the sheet, too.
DRAWN = re.compile(
    r'(<figure class="picture"[^>]*>\s*<svg[^>]*? viewBox="0 0 ([\d.]+) ([\d.]+)"'
    r'[^>]*?) style="[^"]*"'
)

# Where a script puts the controls of the snippet that may be moved: nothing else moves then.
MOVED = re.compile(r'(<span class="filename">(?:(?!<figure ).)*)(?=<figure )', re.DOTALL)


def lines(code: str) -> int:
    return code.removesuffix("\n").count("\n") + 1


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    return framed(content, "three-tokens" in page.meta.get("live", []))


@remembered
def framed(content: str, moved: bool) -> str:
    # A class of its own keeps the theme from wrapping a table in a frame no key can reach.
    content = TABLE.sub(r'<div class="scroll"><table class="table">\1</table></div>', content)
    content = NOTHING.sub(r"<td\1></td>", content)
    content = CONSOLE.sub(lambda block: block[1] + typed_apart(block[2]) + block[3], content)
    content = ERROR.sub(r'<div class="language-output error \1', content)
    content = BLOCK.sub(r'<div data-search-exclude="true" class="\1highlight">', content)
    if moved:
        content = MOVED.sub(r'\1<div class="room"></div>\n', content, count=1)
    content = DRAWN.sub(r'\1 style="aspect-ratio:\2/\3"', content)
    content = ANSWERED.sub("data-answered ", content)
    return COUNTED.sub(lambda block: f'style="--lines:{lines(block[1])}" ', content)
