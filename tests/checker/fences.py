"""Where code stands in a Markdown page, or in a percent script, and where its prose stands."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

TEXT = frozenset(("text", "bash", "yaml", "toml", "bibtex", "html", "markdown"))
OPEN = re.compile(
    r"(?P<prefix>[ \t>]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)*)(?P<ticks>`{3,}|~{3,})[ \t]*(?P<info>.*)"
)
CELL = re.compile(r"# ?%%(?P<rest>.*)")
SHOWN = re.compile(r"""^["']?(?:title|description)["']?\s*:.*(?:\n[ \t]+.*)*$""", re.M)
Complain = Callable[[int, str], None]  # at a place in the text, with a message


@dataclass(frozen=True)
class Fence:
    start: int  # where its first line begins
    body: int
    close: int  # where its last line begins
    end: int
    prefix: str  # what stands before each line: indentation, quote marks
    info: str
    text: str

    @property
    def language(self) -> str:
        """The first word decides, whatever follows it."""
        return "{" if self.info.startswith("{") else (self.info.split() or [""])[0]


def blank(text: str, start: int, end: int) -> str:
    """Spaces instead of a part, so that everything else stays at its place."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[max(start, end) :]


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line and where it begins. Only a newline ends one: an editor counts no other sign."""
    for match in re.finditer(r"[^\n]*\n|[^\n]+", text):
        yield match.start(), match[0].removesuffix("\n")


def without_front_matter(text: str) -> str:
    """Only the title and the description of a page's header are shown to anybody."""
    header = re.match(r"---\n(.*?\n)---\n", text, re.S)
    if not header:
        return text
    shown = [match.span() for match in SHOWN.finditer(header[0])]
    place = 0
    for start, end in [*shown, (header.end(), 0)]:
        text, place = blank(text, place, start), end
    return text


def without_fences(text: str, fences: list[Fence]) -> str:
    """The prose alone; a fence's title belongs to it."""
    for fence in fences:
        head = text[fence.start : fence.body]
        title = re.search(r'title="([^"]*)"', head) or re.search(r"title='([^']*)'", head)
        start, end = title.span(1) if title else (0, 0)
        text = blank(text, fence.start, fence.start + start)
        text = blank(text, fence.start + end, fence.end)
    return text


def find(text: str, complain: Complain) -> Iterator[Fence]:
    """The fences of a page, indented and quoted ones too, but none inside another."""
    opened: re.Match[str] | None = None
    start, hidden, body = 0, False, list[str]()
    for at, line in lines(text):
        match = OPEN.fullmatch(line)
        if match and match["ticks"][0] == "`" and "`" in match["info"]:
            match = None
        if hidden:
            if match:
                complain(at, "a fence inside a comment: no reader sees it")
            hidden = "-->" not in line
        elif opened:
            closing = line.strip(" \t>")
            if set(closing) != {opened["ticks"][0]} or len(closing) < len(opened["ticks"]):
                body.append(line)
                continue
            prefix = re.sub(r"[^\s>]", " ", opened["prefix"])
            inside = start + len(opened[0]) + 1
            code = "".join(_inside(line, prefix) + "\n" for line in body)
            yield Fence(start, inside, at, at + len(line), prefix, opened["info"].strip(), code)
            opened, body = None, []
        elif match:
            opened, start = match, at
        else:
            hidden = "<!--" in re.sub(r"<!--.*?-->|(`+).*?\1", "", line)
    if opened:
        complain(start, "this fence is never closed")


def _inside(line: str, prefix: str) -> str:
    return line[: len(prefix)].lstrip(" \t>") + line[len(prefix) :]


def cells(script: str, complain: Complain) -> tuple[str, list[Fence]]:
    """A percent script: its prose, each character at its place, and its code cells."""
    prose, found = list[str](), list[Fence]()
    in_code, start, body = True, 0, list[str]()

    def close(end: int) -> None:
        if not in_code or not any(line.strip() for line in body):
            return
        if all(not line.strip() or line[0] == "#" for line in body):
            complain(start, "a cell of comments only: make it a # %% [markdown] cell")
        else:
            code = "".join(line + "\n" for line in body)
            found.append(Fence(start, start, end, end, "", "python", code))

    for at, line in lines(script):
        if marker := CELL.fullmatch(line):
            close(at)
            in_code = "[markdown]" not in marker["rest"]
            kind = re.search(r"(?<!=)\[\w+\]", marker["rest"])
            if in_code and kind:
                complain(at, f"a {kind[0]} cell is shown and not checked: write [markdown]")
            start, body = at + len(line) + 1, []
        elif in_code:
            body.append(line)
        elif line.startswith("#"):
            prose.append("  "[: len(line)] + line[2:] + "\n")
            continue
        elif line.strip():
            complain(at, "a line of a markdown cell begins with #")
        prose.append(" " * len(line) + "\n")
    close(len(script))
    return "".join(prose)[: len(script)], found
