"""A page taken along: the same page as a notebook, as a script, and as plain Markdown.

What a page is made of, in its order: prose, code with what it shows, and pictures with the
expressions that draw them. Marks that only the checker reads are gone, numbers stay.
"""

import ast
import io
import json
import posixpath
import re
import sys
import textwrap
import tokenize
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from checker import fences
from checker.grammar import TOKEN

PLACE = re.compile("[ \t>]*\ue100(\\d+)\ue101")
BOX = re.compile(r'(?:!!!|\?\?\?\+?|===)(?P<kinds>(?: +[\w-]+)*)(?: +"(?P<title>.*)")? *')
RAW = re.compile(r"^[ \t]*</?(?:div|noscript|section|figure|template)\b[^\n]*\n?", re.MULTILINE)
LINK = re.compile(r"(`+.+?`+)|(\]\()([^)\s]+)(\))", re.DOTALL)
ERROR = re.compile(r"^[\w.]*(?:Error|Exception)\b", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    kind: str  # prose, code, picture, or the language of another fence
    text: str
    shown: str | None = None  # under code, what it shows; of a picture, its Markdown


def full_links(source: str, site: str, known: dict[str, str]) -> Callable[[str], str]:
    """How a page's links are written where they do not stand below the site."""

    def full(link: str) -> str:
        path, mark, anchor = link.partition("#")
        if ":" in path:
            return link
        folder = posixpath.dirname(source)
        to = posixpath.normpath(posixpath.join(folder, path)) if path else source
        return urljoin(site, known.get(to, to)) + mark + anchor

    return full


def cells(markdown: str, link: Callable[[str], str]) -> list[Cell]:
    """A page in parts; ``link`` gives the full address of what the page links to."""
    kept: list[Cell] = []
    done, at = [], 0
    for fence in fences.find(markdown, lambda at, said: None):
        done += [plain(markdown[at : fence.start], kept, link), held(kept, fence.prefix)]
        kept.append(Cell("code" if fence.language == "python" else fence.language, fence.text))
        at = fence.end
    done.append(plain(markdown[at:], kept, link))
    lines = unboxed("".join(done).split("\n"))
    return joined(lines, kept)


def held(kept: list[Cell], prefix: str = "") -> str:
    """The place of the cell that is kept next."""
    return f"{prefix}\ue100{len(kept)}\ue101"


def plain(text: str, kept: list[Cell], link: Callable[[str], str]) -> str:
    """Prose without the checker's comments, pictures put aside, every link a full one."""

    def full(match: re.Match[str]) -> str:
        return match[0] if match[1] else f"{match[2]}{link(match[3])}{match[4]}"

    def told(token: re.Match[str]) -> str:
        if token["picture"]:
            place = held(kept)
            kept.append(Cell("picture", token["expression"], LINK.sub(full, token["picture"])))
            return place
        return token["literal"] or ("" if token["comment"] else token[0])

    return LINK.sub(full, RAW.sub("", TOKEN.sub(told, text)))


def unboxed(lines: list[str]) -> list[str]:
    """Boxes, questions and tabs as a title with what stands in them below it."""
    done: list[str] = []
    at = 0
    while at < len(lines):
        box = BOX.fullmatch(lines[at])
        at += 1
        if not box:
            done.append(lines[at - 1])
            continue
        start = at
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith("    ")):
            at += 1
        title = box["title"] or box["kinds"].split()[0].capitalize()
        done += [f"**{title}**", "", *unboxed([line[4:] for line in lines[start:at]])]
    return done


def joined(lines: list[str], kept: list[Cell]) -> list[Cell]:
    """The lines as prose between the cells they hold places for; outputs go to their code."""
    found: list[Cell] = []
    prose: list[str] = []

    def end() -> None:
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip("\n")
        if text.strip():
            found.append(Cell("prose", text))
        prose.clear()

    for line in lines:
        place = PLACE.fullmatch(line)
        if not place:
            prose.append(line)
            continue
        cell = kept[int(place[1])]
        if cell.kind == "output":
            if not "".join(prose).strip() and found and found[-1].kind == "code":
                prose.clear()
                found[-1] = replace(found[-1], shown=cell.text)
            continue
        end()
        found.append(cell)
    end()
    return found


def fenced(language: str, text: str) -> str:
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def as_markdown(page: list[Cell]) -> str:
    parts = []
    for cell in page:
        if cell.kind == "prose":
            parts.append(cell.text)
        elif cell.kind == "picture":
            parts.append(cell.shown or "")
        else:
            parts.append(fenced("python" if cell.kind == "code" else cell.kind, cell.text))
            if cell.kind == "code" and cell.shown is not None:
                parts.append(fenced("output", cell.shown))
    return "\n\n".join(parts) + "\n"


def indented(code: str) -> str:
    """Code one step to the right; the lines inside a long string stay where they are."""
    inside = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.STRING:
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    lines = code.rstrip("\n").split("\n")
    return "\n".join(
        line if number in inside or not line.strip() else f"    {line}"
        for number, line in enumerate(lines, 1)
    )


def runnable(cell: Cell) -> str:
    """The code of a cell. Where it fails on purpose, the error is printed and the run goes on."""
    code = cell.text.rstrip()
    if not ERROR.search(cell.shown or "") or re.search(r"^\s*except\b", code, re.MULTILINE):
        return code
    return (
        "# This fails, as the page shows.\n"
        f"import traceback\n\ntry:\n{indented(code)}\n"
        "except Exception as raised:\n"
        '    print("".join(traceback.format_exception_only(raised)).strip())'
    )


def gives_nothing(page: list[Cell]) -> set[str]:
    """``print``, and the functions of a page that return no value."""
    names = {"print"}
    for cell in page:
        if cell.kind == "code" and "def " in cell.text:
            for node in ast.walk(ast.parse(cell.text)):
                if isinstance(node, ast.FunctionDef):
                    inside = ast.walk(node)
                    if not any(isinstance(part, ast.Return) and part.value for part in inside):
                        names.add(node.name)
    return names


def printing(code: str, shown: str | None, nothing: set[str]) -> str:
    """Code for a script, which must print what a notebook shows of a last expression."""
    if not shown:
        return code
    body = ast.parse(code).body
    last = body[-1] if body else None
    if not isinstance(last, ast.Expr):
        return code
    called = last.value.func if isinstance(last.value, ast.Call) else None
    if isinstance(called, ast.Name) and called.id in nothing:
        return code
    lines = code.split("\n")
    before, itself = lines[: last.lineno - 1], lines[last.lineno - 1 : last.end_lineno]
    itself[0] = f"print(repr({itself[0]}" if shown[0] in "'\"" else f"print({itself[0]}"
    itself[-1] += "))" if shown[0] in "'\"" else ")"
    return "\n".join([*before, *itself])


def as_notebook(page: list[Cell], install: str) -> str:
    """The page as a notebook of Jupyter, with its outputs as the page shows them."""
    made: list[dict[str, Any]] = []

    def add(kind: str, source: str, shown: str | None = None) -> None:
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"cell-{len(made) + 1}",
            "metadata": {},
            "source": source.splitlines(keepends=True),
        }
        if kind == "code":
            stream = {"name": "stdout", "output_type": "stream", "text": shown}
            cell |= {"execution_count": None, "outputs": [stream] if shown else []}
        made.append(cell)

    add("code", f"# The package as it was when this page was made.\n%{install}")
    for cell in page:
        if cell.kind == "prose":
            add("markdown", cell.text)
        elif cell.kind == "code":
            add("code", runnable(cell), cell.shown)
        elif cell.kind == "picture":
            add("code", cell.text)
        else:
            add("markdown", fenced(cell.kind, cell.text))
    about = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook = {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False) + "\n"


def as_script(page: list[Cell], install: str, name: str) -> str:
    """The page as a script in cells, its prose as comments."""

    def comment(text: str) -> str:
        return textwrap.indent(text, "# ", lambda line: True).replace("# \n", "#\n")

    parts = [f"# {install}"]
    nothing = gives_nothing(page)
    pictures = 0
    for cell in page:
        if cell.kind == "code":
            code = runnable(cell)
            if code == cell.text.rstrip():
                code = printing(code, cell.shown, nothing)
            parts.append(f"# %%\n{code}")
        elif cell.kind == "picture":
            pictures += 1
            parts.append(f'# %%\n{cell.text}.save("{name}-{pictures}.svg")')
        else:
            text = cell.text if cell.kind == "prose" else fenced(cell.kind, cell.text)
            parts.append(f"# %% [markdown]\n{comment(text)}")
    return "\n\n".join(parts) + "\n"
