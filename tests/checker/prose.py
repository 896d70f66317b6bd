"""Every number outside the fences: pinned, given, cited, or a fault."""

import html
import re
from collections.abc import Iterator

from checker import grammar
from checker.document import Page, Picture, Pin
from checker.fences import lines
from checker.project import BIBLIOGRAPHY, citation_key

LIST_LINE = re.compile(r"[\s>]*(?:[-*+]|\d{1,2}[.)])\s|[ \t>]+\S")
CITED_AFTER = re.compile(rf"\s+(?:of|in)\s+\[?({grammar.CITATION})")
SVG = re.compile(r"\.svg(?![\w.])", re.I)
# What would change a number if it stood in the literal: signs, units of counting.
BEFORE = re.compile(
    r"(?:(?<![\w)>])[-–‑－﹣➖−]|(?<=[=(|,:])\s?−\s|(?<!-->)(?<!-->\s)±\s?|√\s?|&minus;|&#8722;"
    r"|(?<!-->\s)\bminus\s+"
    r"|\b(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand)[\s-]+)"
    r"[*`$]*\Z",
    re.I,
)
AFTER = re.compile(
    r"\s?(?:\\?%|‰)|\s(?:per\s?cent|hundred|thousand|dozen|halves|thirds?|quarters?)\b|[^\W_]", re.I
)
SENTENCE_END = re.compile(r"[.!?][\s)*”\"]|\n\s*\n")


def read_prose(page: Page, prose: str) -> None:
    """Add the pins, pictures, sources and faults of a page's prose to the page."""
    if page.name == BIBLIOGRAPHY:  # all of it is given
        for at, line in lines(prose):
            if re.search(r"\d", line):
                page.give(at, line, "bibliography")
        return
    code = "\n".join(fence.text for fence in page.fences)
    since_citation = ". "  # the text from the last citation on, addresses left out
    place = 0
    for match in grammar.TOKEN.finditer(prose):
        at, kind, text = match.start(), match.lastgroup, match[0]
        since_citation += prose[place:at]
        place = match.end()
        if kind == "expression":
            page.items.append(Picture(at, page.line(at), match["target"], match["expression"]))
            _description(page, match["alt"], at)
            if match["op"] != "=":
                page.fault(at, "a picture is pinned with =")
        elif kind == "expr2":
            op, expression = match["op2"], match["expr2"]
            line = page.line_of(at, match["literal"])
            page.items.append(Pin(at, line, match["literal"], op, expression))
            _alone(page, prose, match)
            if op != "=":
                page.give(at, match["literal"], f"{op} {expression}")
        elif kind == "source":
            page.give(at, match["literal"], f"given: {' '.join(match['source'].split())}")
        elif kind == "comment":
            page.fault(at, f"this comment pins nothing: {' '.join(text.split())}")
        elif kind == "code":
            if any(_numbers(text, at, grammar.IN_CODE)):
                page.give(at, text, "code")
                if text.strip("`").strip() not in code:
                    page.fault(at, f"{text}: no fence on this page says so")
        elif kind == "image":
            _description(page, match["alt2"], at)
            if SVG.search(match["target2"]):
                page.fault(at, f"{match['target2']}: pin the picture to what draws it")
        elif kind == "math":
            for where, number in _numbers(text, at, grammar.IN_MATH):
                _unpinned(page, where, number)
        elif kind == "marker":
            before = prose[: max(at - 1, 0)].rpartition("\n")[2]
            if before.strip() and not LIST_LINE.match(before):
                _unpinned(page, at, text.strip())
        elif kind == "section":
            after = CITED_AFTER.match(prose, match.end())
            cited = after and citation_key(after[1]) in page.project.cited
            if cited or not SENTENCE_END.search(since_citation.replace("et al.", "") + " "):
                page.give(at, text, "section")
            elif re.search(r"\d", text):
                _unpinned(page, at, text)
        elif kind == "citation":
            page.give(at, text, "citation", citation_key(text))
            since_citation = ""
            if citation_key(text) not in page.project.cited:
                _unpinned(page, at, f"{text} (not in {BIBLIOGRAPHY})")
        elif kind == "number" or (kind == "skip" and html.unescape(text).isnumeric()):
            _unpinned(page, at, text)  # &#51; is a 3 to the reader
        elif kind == "skip":
            if re.match(r"<img\b", text, re.I) and SVG.search(text):
                page.fault(at, "a picture in a tag: write ![…](…) and pin it to what draws it")
            if re.match(r"<pre\b", text, re.I):
                page.fault(at, "code in a tag: nobody runs it. Make it a fence")
            for said in grammar.SEEN.finditer(text):
                for _, number in _numbers(said[1] or said[2], at, grammar.IN_CODE):
                    page.fault(at, f"{number} in a title or description: write it as a word")
        if kind not in ("skip", "citation", "comment"):
            since_citation += match["literal"] or text


def _alone(page: Page, prose: str, pin: re.Match[str]) -> None:
    """A sign before the literal or a unit after it would be read, and not checked."""
    if not re.search(rf"\d|∞|\b(?:inf|{'|'.join(grammar.WORDS)})\b", pin["literal"], re.I):
        return
    before = BEFORE.search(prose, max(0, pin.start() - 12), pin.start())
    after = AFTER.match(prose, pin.end())
    for beside in filter(None, (before, after)):
        said = f"{beside[0].strip()!r} stands beside {pin['literal']} and is not checked"
        page.fault(pin.start(), f"{said}: write it into the number")


def _numbers(text: str, at: int, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for match in pattern.finditer(text):
        if match["number"]:
            yield at + match.start("number"), match["number"]


def _unpinned(page: Page, at: int, text: str) -> None:
    how = "pin it, <!-- = expression -->, or name its <!-- given: source -->"
    page.fault(at, f"{' '.join(text.split())}: {how}", page.line_of(at, text))


def _description(page: Page, alt: str, at: int) -> None:
    if not alt.strip():
        page.fault(at, "a picture without a description: write it between the brackets")
    for _, number in _numbers(alt, at, grammar.IN_CODE):
        page.fault(at, f"{number} in a picture's description: write it as a word")
