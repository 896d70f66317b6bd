"""Brackets: W[q][k] in prose is an entry of a matrix, not a link to something named k.

The references of ours are dotted names, [as here][tinyattn.attention.pattern].
"""

import re
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor


class Entry(InlineProcessor):
    def handleMatch(
        self, m: re.Match[str], data: str
    ) -> tuple[str, int, int] | tuple[None, None, None]:
        if m[1].lower() in self.md.references:
            return None, None, None
        return self.md.htmlStash.store(m[0]), m.start(0), m.end(0)


class Brackets(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # Before links by reference (170).
        md.inlinePatterns.register(Entry(r"\[[^\[\]\n]*\]\[([^\[\]\n.]+)\]", md), "entry", 175)


def on_config(config: Any) -> Any:
    config.markdown_extensions.append(Brackets())
    return config
