"""Pins: ``0.75<!-- = A[1, 0] -->`` is shown as 0.75, with its expression at hand.

The tests hold the number against the code. Here it is only marked, so that a reader can
see which numbers are computed and by what, and which are quoted and from where. What a pin
looks like is said once, in ``tests/checker/grammar.py``.
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from checker.grammar import TOKEN

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Where no mark can stand: headings (their anchors), titles of boxes and tabs.
BARE_LINE = re.compile(r"[ \t]*(?:#{1,6}[ \t]|!!!|\?\?\?|===)")

# Characters of the private use area carry a mark through Markdown: one opens it, one closes
# it, and one more tells which of the page's marks it is.
OPEN, CLOSE, FIRST, LAST = "\ue200", "\ue201", 0xE300, 0xF8FF
MARK = re.compile(f"{OPEN}(.*?){CLOSE}([{chr(FIRST)}-{chr(LAST)}])", re.DOTALL)

marks: list[tuple[str, str]] = []


def marked(text: str) -> str:
    """The source with each note turned into a mark around its literal, or dropped."""

    def mark(token: re.Match[str]) -> str:
        literal = token["literal"] or token["picture"] or ""
        if not (literal or token["comment"]):
            return token[0]
        line = text[text.rfind("\n", 0, token.start()) + 1 : token.start()] + literal
        plain = not token["literal"] or literal.startswith("$$") or BARE_LINE.match(line)
        if plain or FIRST + len(marks) > LAST:
            return literal
        op, expression, source = token["op2"], token["expr2"], token["source"]
        said = " ".join((source or expression).split())
        marks.append(("given", said) if source else ("pin", said if op == "=" else f"{op} {said}"))
        return f"{OPEN}{literal}{CLOSE}{chr(FIRST + len(marks) - 1)}"

    return TOKEN.sub(mark, text)


def spans(content: str) -> str:
    """The page with its marks as spans, and no comment left in it."""

    def span(match: re.Match[str]) -> str:
        kind, said = marks[ord(match[2]) - FIRST]
        return f'<span class="{kind}" title="{html.escape(said)}">{match[1]}</span>'

    return COMMENT.sub("", MARK.sub(span, content))


class Marks(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        return marked("\n".join(lines)).split("\n")


class Spans(Postprocessor):
    def run(self, text: str) -> str:
        return spans(text)


class Pins(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # After fences have been put aside (25), before raw HTML and its comments are (20).
        md.preprocessors.register(Marks(md), "pins", 23)
        # After what was put aside is back (30) and escapes are resolved (10).
        md.postprocessors.register(Spans(md), "pins", 5)


def on_config(config: Any) -> Any:
    config.markdown_extensions.append(Pins())
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    marks.clear()
    for key, value in page.meta.items():
        if isinstance(value, str):
            page.meta[key] = COMMENT.sub("", value)
    return markdown
