"""A file as a list of things to check, each at its place.

Nothing is run here: ``parse`` tells examples, pins, pictures and sources apart, and reports
what can be seen to be wrong without running anything.
"""

import ast
import bisect
import doctest
import functools
import io
import re
import tokenize
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from checker import fences
from checker.fences import Fence
from checker.grammar import IN_CODE
from checker.project import Project, Said


@dataclass(frozen=True)
class Fault:
    line: int
    message: str
    at: int = 0


@dataclass(frozen=True)
class Output:
    """What the page says an example shows, and where it says so."""

    text: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Code:
    at: int
    line: int
    source: str
    output: Output | None
    end: int  # where a missing output would be written
    prefix: str = ""
    scope: int = 0  # examples share names within one scope
    in_lab: bool = False  # the site shows the outputs of a lab by itself
    module: str = ""  # where it is a docstring's


@dataclass(frozen=True)
class Pin:
    at: int
    line: int
    literal: str
    op: str
    expression: str


@dataclass(frozen=True)
class Picture:
    at: int
    line: int
    target: str
    expression: str


Item = Code | Pin | Picture


@dataclass(frozen=True)
class Given:
    """Something the page says that no code computes."""

    at: int
    end: int
    line: int
    literal: str
    source: str


@dataclass
class Page:
    path: Path
    text: str
    project: Project
    items: list[Item] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.project.name(self.path)
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    @property
    def said(self) -> Said:
        """What the lock holds of this page."""
        return self.project.lock.get(self.name, Said())

    @property
    def module(self) -> str:
        """The module whose docstrings these are, or nothing."""
        name = re.fullmatch(r"src/(.+?)(?:/__init__)?\.py", self.name)
        return name[1].replace("/", ".") if name else ""

    def line(self, at: int) -> int:
        return bisect.bisect_right(self.starts, at)

    def line_of(self, at: int, literal: str) -> int:
        """The line of the first digit of a literal that may be wrapped over two."""
        digit = re.search(r"\d", literal)
        return self.line(at + digit.start() if digit else at)

    def fault(self, at: int, message: str, line: int = 0) -> None:
        self.faults.append(Fault(line or self.line(at), message, at))

    def give(self, at: int, text: str, source: str, literal: str = "") -> None:
        """Note a text as it stands here, and how the lock writes it."""
        literal = literal or " ".join(text.split())
        self.given.append(Given(at, at + len(text), self.line_of(at, text), literal, source))


def parse(text: str, path: Path, project: Project) -> Page:
    from checker.locks import as_locked  # these need Page
    from checker.prose import read_prose

    page = Page(path, text, project)
    if page.module:
        _docstrings(page)
    else:
        is_lab = path.suffix == ".py"
        prose, cells = fences.cells(text, page.fault) if is_lab else (text, [])
        prose = fences.without_front_matter(prose)
        found = list(fences.find(prose, page.fault))
        page.fences = sorted([*found, *cells], key=lambda fence: fence.start)
        _examples(page, prose, cells)
        read_prose(page, fences.without_fences(prose, found))
    page.items.sort(key=lambda item: item.at)
    page.given.sort(key=lambda given: given.at)
    if not page.module:
        _each_uses_tinyattn(page)
    as_locked(page)
    page.faults.sort(key=lambda fault: fault.at)
    return page


def _examples(page: Page, prose: str, cells: list[Fence]) -> None:
    """Join each python fence with the output fence under it; refuse what would not run."""
    taken: Fence | None = None
    for fence, below in zip_longest(page.fences, page.fences[1:]):
        language = fence.language
        if language == "python":
            for row, number in _numbers_in_comments(fence.text):
                at = page.starts[page.line(fence.body) + row - 2]
                page.fault(at, f"{number} in a comment of code: nothing checks it")
            output = None
            shown = below is not None and below.language == "output"
            if below and shown and not prose[fence.end : below.start].strip(" \t\n>"):
                text = below.text.rstrip("\n")
                output = Output(text, below.body, below.close, page.line(below.body))
                taken = below
            page.items.append(
                Code(
                    at=fence.start,
                    line=page.line(fence.body),
                    source=fence.text,
                    output=output,
                    end=fence.end,
                    prefix="# " + fence.prefix[2:] if cells else fence.prefix,
                    in_lab=fence in cells,
                )
            )
        elif language == "output":
            if fence is not taken:
                page.fault(fence.start, "an output fence with no python fence directly above it")
        elif language in fences.TEXT:
            for at, line in fences.lines(page.text[fence.body : fence.close]):
                if re.search(r"\d", line):
                    page.give(fence.body + at, line, f"a {language} fence")
        elif not language:
            page.fault(fence.start, "a fence without a language: write ```python or ```text")
        elif re.search("py|{", language, re.I):
            page.fault(fence.start, f"write ```python, not ```{fence.info}: only that runs")
        else:
            known = ", ".join(sorted(fences.TEXT))
            page.fault(fence.start, f"unknown language {language}: python, output, {known}")


@functools.cache
def _numbers_in_comments(source: str) -> list[tuple[int, str]]:
    """Numbers in the comments of code look true and are never held against anything."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError):
        return []  # running it says so
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    found = [(token.start[0], IN_CODE.finditer(token.string)) for token in comments]
    return [(row, match["number"]) for row, some in found for match in some if match["number"]]


def _docstrings(page: Page) -> None:
    """The ``>>>`` examples of a module, each docstring with names of its own."""
    for scope, node in enumerate(ast.walk(ast.parse(page.text))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node, clean=False) or ""
        first = node.body[0].lineno - 1 if docstring else 0
        try:
            examples = doctest.DocTestParser().get_examples(docstring)
        except ValueError as error:
            page.fault(page.starts[first], f"a docstring that cannot be read: {error}")
            continue
        for example in examples:
            line = first + example.lineno
            below = line + example.source.count("\n")
            said = (example.exc_msg or example.want).rstrip("\n")
            start, end = page.starts[below], page.starts[below + example.want.count("\n")]
            if example.options:
                page.fault(page.starts[line], "no doctest options: say what the code gives")
            page.items.append(
                Code(
                    at=page.starts[line],
                    line=line + 1,
                    source=example.source,
                    output=Output(said, start, end, below + 1) if said else None,
                    end=start,
                    prefix=" " * example.indent,
                    scope=scope,
                    module=page.module,
                )
            )


def _each_uses_tinyattn(page: Page) -> None:
    """Follow the names that came from tinyattn; each example must use one."""
    ours: set[str] = set()
    for item in page.items:
        if not isinstance(item, Code):
            continue
        statements, uses = _names(item.source), False
        if statements is None:
            continue  # running it says so
        for imported, loaded, bound in statements:
            ours |= imported
            if loaded & ours:
                uses = True
                ours |= bound
        if not uses:
            page.fault(item.at, "this code does not use tinyattn, nor a value made with it above")


@functools.cache
def _names(source: str) -> list[tuple[set[str], set[str], set[str]]] | None:
    """For each statement: the names it imports from tinyattn, those it uses, those it makes."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return None
    found = []
    for statement in statements:
        nodes = list(ast.walk(statement))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        loaded = {name.id for name in names if isinstance(name.ctx, ast.Load)}
        bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        bound |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        found.append((_imported(nodes), loaded, bound))
    return found


def _imported(nodes: list[ast.AST]) -> set[str]:
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            ours = [alias for alias in node.names if alias.name.split(".")[0] == "tinyattn"]
            names |= {(alias.asname or alias.name).split(".")[0] for alias in ours}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tinyattn":
            names |= {alias.asname or alias.name for alias in node.names}
    return names
