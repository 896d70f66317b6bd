"""Formulas: LaTeX between dollar signs becomes MathML when the site is built.

No script is shipped, and a screen reader meets real mathematics. A formula that cannot be
read is a warning which names the page and the formula, so a strict build fails.
"""

import html
import logging
import re
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from math_core import LatexError, LatexToMathML

log = logging.getLogger("mkdocs.hooks.formulas")

INLINE = r"(?<![\\$])\$(?![\s$])((?:\\.|[^\\$])+?)(?<!\s)\$(?![\d$])"
DISPLAY = re.compile(r"^([ \t]*)\$\$(.+?)\$\$[ \t]*$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

to_mathml = LatexToMathML(fancy_error=False)
place = ""  # the page being rendered, for messages


def mathml(latex: str, *, display: bool) -> str:
    latex = COMMENT.sub("", latex).strip()
    try:
        formula = to_mathml.convert_with_local_state(latex, displaystyle=display)
    except LatexError as error:
        why = " ".join(str(error).split())
        log.warning("%s: the formula %s cannot be read: %s", place, latex, why)
        return f"<code>{html.escape(latex)}</code>"
    # Search shows text; the letters of a formula in a row would not be one.
    return formula.replace("<math", '<math data-search-exclude="true"', 1)


class Display(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        def block(match: re.Match[str]) -> str:
            formula = f'<div class="formula scroll">{mathml(match[2], display=True)}</div>'
            return f"\n{match[1]}{self.md.htmlStash.store(formula)}\n"

        return DISPLAY.sub(block, "\n".join(lines)).split("\n")


class Inline(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        return self.md.htmlStash.store(mathml(m[1], display=False)), m.start(0), m.end(0)


class Formulas(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.ESCAPED_CHARS.append("$")
        # After fences (25) and pins (23), before raw HTML (20).
        md.preprocessors.register(Display(md), "formulas", 22)
        # After code spans (190), before backslash escapes (180).
        md.inlinePatterns.register(Inline(INLINE, md), "formula", 185)


def on_config(config: Any) -> Any:
    config.markdown_extensions.append(Formulas())
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    global place
    place = page.file.src_uri
    return markdown
