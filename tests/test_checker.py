"""Plant one falsehood at a time on a true page, and see it found at its line."""

import importlib
import random
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

import pytest
import torch
from checker.__main__ import main
from checker.check import check, faults
from checker.compare import agree, agree_in_row, compare, rewrite
from checker.document import Code, Pin, parse
from checker.mutate import (
    code_survivors,
    edited,
    neighbours,
    nudged,
    orphans,
    overlooked,
    shown_digits,
    survivors,
)
from checker.project import ROOT, Project, citations, read_lock, write_lock
from checker.redraw import redraw, redrawn, said
from checker.run import Truth, clean_slate, run
from checker.sybils import sybils
from hypothesis import given, settings
from hypothesis import strategies as st

BIBLIOGRAPHY = "**Elhage et al. 2021.** Circuits, 3 parts.\n\n**Vaswani et al. 2017.** Attention.\n"
PAGE = """\
---
title: Reading a pattern
description: A page for the checker's own tests
---

# Reading a pattern

Three tokens<!-- given: nothing counts these words -->, GPT-2 has none of W_1, float32 and $x_0$.

```python title="One head"
import torch
from tinyattn import causal_mask, pattern, show

tokens = ["The", "cat", "sat"]
S = torch.tensor([[1.0, 1.0, 1.0], [3.0, 1.0, 1.0], [2.0, 5.0, 3.0]]).log()
A = pattern(S, causal_mask(3))
print(show(A, rows=tokens, columns=tokens))
```

```output
      The   cat   sat
The  1.00  0.00  0.00
cat  0.75  0.25  0.00
sat  0.20  0.50  0.30
```

*cat* spends 0.75<!-- = A[1, 0] --> on *The* and 25%<!-- = A[1, 1] --> on itself,
or 25 %<!-- = 100 * A[1, 1] -->. The shape is (3, 3)<!-- = A.shape -->,
`torch.Size([3, 3])`<!-- = A.shape -->, $3 \\times 3$<!-- = A.shape -->.
The last row is [0.20, 0.50, 0.30]<!-- = A[2] -->, for three<!-- = len(tokens) --> tokens;
**1,024**<!-- = 2**10 -->. Its scores were 2, 5 and 3<!-- = S[2].exp() -->,
the last token "sat"<!-- = tokens[2] -->, and −3.1<!-- = -3.1 -->.
It is True<!-- = bool(A[1, 0] > 0.5) --> that `causal_mask(3)` hides; 1e-3<!-- = 0.001 --> is small.
The error stays below 0.01<!-- > (A.sum(-1) - 1).abs().max() -->.

![Three rows, three columns](../img/a.svg)<!-- = Drawing(A) -->

| token | weight |
|---|---|
| The | 0.20<!-- = A[2, 0] --> |

Elhage et al. (2021) name it in section 3.1; dropout is 0.1<!-- given: Vaswani et al. 2017, 5.4 -->.

!!! note "A box"

    ```python
    A[1].round(decimals=2).tolist()
    ```

    ```output
    [0.75, 0.25, 0.0]
    ```

```python
print("before")
pattern(S, torch.ones(2, 2, dtype=torch.bool))
```

```output
before
ShapeError
```

```bash
pip install tinyattn==0.1.0
```
"""
PAGE = PAGE.replace(
    "tokens = [",
    'class Drawing:\n    def __init__(self, A):\n        self.svg = f"<svg>{A.sum():.2f}</svg>"\n\n'
    "tokens = [",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of one true page, as redraw leaves it."""
    root = tmp_path_factory.mktemp("project").resolve()
    for name, text in {"docs/a/page.md": PAGE, "docs/bibliography.md": BIBLIOGRAPHY}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    (root / "tests").mkdir()
    redraw(Project.at(root).documents(), Project.at(root))
    return Project.at(root)


@pytest.fixture(scope="module")
def page(project: Project) -> Path:
    return project.root / "docs/a/page.md"


def errors(text: str, project: Project, name: str = "docs/x.md") -> list[tuple[int, str]]:
    """What is wrong with a text besides what it has not locked yet."""
    path = project.root / name
    truths = run(parse(text, path, project))
    page = parse(text, path, locked(text, path, project, truths))
    return [(fault.line, fault.message) for fault in check(page, truths)]


def locked(text: str, path: Path, project: Project, truths: list[Truth] | None = None) -> Project:
    """The project with this text's own sources locked, as after a redraw."""
    page = parse(text, path, project)
    lock = {**project.lock, page.name: said(page, truths or run(page))}
    return replace(project, lock=lock)


def example(code: str, output: str = "", fence: str = "```python") -> str:
    """A page of one example, which uses tinyattn."""
    text = f"{fence}\nfrom tinyattn import causal_mask\n\nmask = causal_mask(2)\n{code}\n```\n"
    return text + (f"\n```output\n{output}\n```\n" if output else "")


def test_the_true_page_is_true(project: Project, page: Path) -> None:
    assert faults(page.read_text("utf-8"), page, project) == []
    assert (project.root / "docs/img/a.svg").read_text("utf-8") == "<svg>3.00</svg>\n"


FALSEHOODS = {
    "number": ("0.75<!--", "0.76<!--", "the page says 0.76, the code gives 0.75"),
    "number one less": ("0.75<!--", "0.74<!--", "the page says 0.74, the code gives 0.75"),
    "percentage": ("25%<!--", "26%<!--", "the page says 26%"),
    "percentage in percent": ("25 %<!--", "24 %<!--", "the page says 24 %"),
    "shape": ("(3, 3)<!--", "(3, 4)<!--", "the page says (3, 4), the code gives [3, 3]"),
    "rank": ("(3, 3)<!--", "(3, 3, 1)<!--", "the page says (3, 3, 1)"),
    "torch.Size": ("Size([3, 3])`<!--", "Size([2, 3])`<!--", "the page says `torch.Size([2, 3])`"),
    "formula": (r"3 \times 3", r"3 \times 2", "the page says $3"),
    "list": ("0.50, 0.30]<!--", "0.51, 0.30]<!--", "the page says [0.20, 0.51, 0.30]"),
    "list in words": ("2, 5 and 3<!--", "2, 6 and 3<!--", "the page says 2, 6 and 3"),
    "count": ("three<!--", "four<!--", "the page says four, the code gives 3"),
    "thousands": ("1,024", "1,025", "the page says **1,025**"),
    "text": ('"sat"<!--', '"mat"<!--', "the page says \"mat\", the code gives 'sat'"),
    "sign": ("−3.1<!--", "3.1<!--", "the page says 3.1, the code gives -3.1"),
    "truth": ("True<!--", "False<!--", "the page says False, the code gives True"),
    "small number": ("1e-3<!--", "2e-3<!--", "the page says 2e-3"),
    "bound": ("0.01<!-- >", "0.01<!-- <", "the page says 0.01 < the code's"),
    "digit of a bound": ("0.01<!-- >", "0.02<!-- >", "not as locked"),
    "table": ("| 0.20<!--", "| 0.21<!--", "the page says 0.21"),
    "operator in a pin": ("= A[1, 0] -->", "= -A[1, 0] -->", "the code gives -0.75"),
    "name in a pin": ("= A[2] -->", "= B[2] -->", "NameError: name 'B' is not defined"),
    "output": ("cat  0.75", "cat  0.74", "the output differs"),
    "layout of an output": ("cat  0.75", "cat   0.75", "the output differs"),
    "word in an output": ("\nsat  0.20", "\nmat  0.20", "the output differs"),
    "message of an error": ("ShapeError: pattern", "ShapeError: patterns", "the output differs"),
    "printed before an error": ("```output\nbefore", "```output\nafter", "the output differs"),
    "digit in a message": ("bool[2, 2]", "bool[2, 3]", "the output differs"),
    "picture": ("= Drawing(A)", "= Drawing(2 * A)", "a.svg is not what Drawing(2 * A) draws"),
    "no such picture": ("a.svg", "b.svg", "b.svg is missing"),
    "no description": ("![Three rows, three columns]", "![]", "without a description"),
    "picture without a pin": ("<!-- = Drawing(A) -->", "", "pin the picture"),
    "source": (
        "0.1<!-- given: V",
        "0.2<!-- given: V",
        "0.2 (given: Vaswani et al. 2017, 5.4): not as",
    ),
    "year": ("(2021)", "(2022)", "not in docs/bibliography.md"),
    "section": ("section 3.1", "section 3.2", "section 3.2 (section): not as locked"),
    "code in a sentence": ("`causal_mask(3)`", "`causal_mask(7)`", "no fence on this page says so"),
    "other code in a sentence": ("`causal_mask(3)`", "`A[1]`", "`A[1]` (code): not as locked"),
    "version in a bash fence": ("==0.1.0", "==0.2.0", "not as locked"),
    "number without a pin": ("Its scores", "Its 3 scores", "3: pin it"),
    "number in a heading": ("# Reading", "# 3 ways of reading", "3: pin it"),
    "number in a box's title": ('"A box"', '"Box 2"', "2: pin it"),
    "number in a fence's title": ('title="One head"', 'title="1 head"', "1: pin it"),
    "number in the header": ("tests\n---", "2 tests\n---", "2: pin it"),
    "number in math": ("$x_0$", "$x_0^2$", "2: pin it"),
    "number in a description": ("![Three rows", "![3 rows", "write it as a word"),
    "stray comment": ("spends 0.75<!--", "spends 0.75 <!--", "this comment pins nothing"),
    "misspelt comment": ("<!-- given: V", "<!-- giben: V", "this comment pins nothing"),
    "given without colon": ("<!-- given: V", "<!-- given V", "this comment pins nothing"),
    "fence name": ("    ```python\n    A[1]", "    ```pycon\n    A[1]", "not ```pycon"),
    "unknown language": ("```bash", "```bahs", "unknown language bahs"),
    "no language": ("```bash", "```", "a fence without a language"),
    "unclosed fence": ("tinyattn==0.1.0\n```", "tinyattn==0.1.0", "never closed"),
    "no output": ("    ```output\n    [0.75, 0.25, 0.0]\n    ```\n", "", "but no ```output fence"),
    "no code": (
        "    ```python\n    A[1].round(decimals=2).tolist()\n    ```\n",
        "",
        "no python fence directly above",
    ),
    "number in code": ("[3.0, 1.0, 1.0]", "[4.0, 1.0, 1.0]", "the code says 4.0, tests/given.toml"),
    "code": ("causal_mask(3))", "causal_mask(3).T)", "the output differs"),
    "code without tinyattn": (
        "    A[1].round(decimals=2).tolist()",
        "    [0.75, 0.25, 0.0]",
        "does not use tinyattn",
    ),
}

# Where the fault is seen, in lines from where the text was changed.
ELSEWHERE = {
    "printed before an error": 1,
    "unclosed fence": -1,
    "no output": -3,
    "no code": 1,
    "code": 6,
    "code without tinyattn": -1,
}


@pytest.mark.parametrize("name", FALSEHOODS)
def test_a_falsehood_is_red_at_its_line(name: str, project: Project, page: Path) -> None:
    old, new, message = FALSEHOODS[name]
    true = page.read_text("utf-8")
    assert true.count(old) == 1
    found = faults(true.replace(old, new), page, project)
    seen = [fault for fault in found if message in fault.message]
    assert seen, found
    line = true[: true.index(old.lstrip("\n"))].count("\n") + 1
    assert seen[0].line == line + ELSEWHERE.get(name, 0)


def test_every_shown_digit_is_watched(project: Project, page: Path) -> None:
    parsed = parse(page.read_text("utf-8"), page, project)
    assert len(shown_digits(parsed)) > 80
    assert survivors(parsed, run(parsed)) == []


def test_a_digit_of_code_that_nothing_depends_on_is_told(project: Project) -> None:
    path = project.root / "docs/x.md"
    text = "```python\nfrom tinyattn import causal_mask\n\nmask = causal_mask(3)\n```\n"
    path.write_text(text, "utf-8")
    assert list(code_survivors(path, project)) == [
        "docs/x.md:4: mask = causal_mask([3->4]",
        "docs/x.md:4: mask = causal_mask([3->2]",
    ]
    path.unlink()


FREE = r"""```python
from tinyattn import causal_mask

seed, rate = 47, 1.5e-3
mask = causal_mask(2)
word = "a 3" + f"{rate:8.4f} {seed} \n5"
assert (mask.sum() - 3).abs() < 0.001
```

No number here, and none below.

```python
heads = (mask, 0x1F, 1_000, .5)
```
"""


def test_every_number_of_code_is_locked(project: Project) -> None:
    """Also a seed, a tolerance, a format: whatever no output depends on."""
    path = project.root / "docs/x.md"
    held = parse(FREE, path, locked(FREE, path, project))
    assert held.said.code == ("47 1.5e-3 2 3 8.4f 5 3 0.001", "0x1F 1_000 .5")
    places = [at for at in range(len(FREE)) if FREE[at].isdigit()]
    assert check(held, run(held)) == []
    assert len(places) == 22
    for at in places:
        for digit in neighbours(FREE[at]):
            text = edited(FREE, [(at, digit)])
            [fault] = parse(text, path, held.project).faults
            assert fault.line == held.line(at)
            assert fault.message.startswith("the code says ")
            assert fault.message.endswith(": run make redraw if you meant it")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("47", "48", 4, "the code says 48, tests/given.toml has 47: run"),
        (" < 0.001", " == 0", 7, "the code says 0, tests/given.toml has 0.001: run"),
        (", .5", "", 13, "the code says no more, tests/given.toml has .5: run"),
        (", .5", ", .5, 6", 13, "the code says 6, tests/given.toml has no more: run"),
        ("No number", "```python\nmask[0]\n```\n", 11, "the code says 0, tests/given.toml has no"),
        ("```python\nheads = (mask, 0x1F, 1_000, .5)\n```\n", "", 1, "code gone from here"),
    ],
)
def test_where_code_and_lock_part(
    old: str, new: str, line: int, message: str, project: Project
) -> None:
    path = project.root / "docs/x.md"
    assert FREE.count(old) == 1
    [fault] = parse(FREE.replace(old, new), path, locked(FREE, path, project)).faults
    assert (fault.line, fault.message[: len(message)]) == (line, message)


def test_code_that_no_lock_knows_is_red(project: Project) -> None:
    lines = [fault.line for fault in parse(FREE, project.root / "docs/x.md", project).faults]
    assert lines == [4, 13]


def test_the_tool_that_changes_code_looks_past_the_lock(project: Project) -> None:
    path = project.root / "docs/x.md"
    text = "```python\nfrom tinyattn import causal_mask\n\nmask = causal_mask(3)\n```\n"
    path.write_text(text, "utf-8")
    assert len(list(code_survivors(path, locked(text, path, project)))) == 2
    path.unlink()


def table(
    *values: float, show: str = "print(show(torch.tensor(values, dtype=torch.float64)))"
) -> str:
    """A page that shows these values in one row, under their indices."""
    first = f"import torch\nfrom tinyattn import show\n\nvalues = {list(values)}\n{show}"
    return f"```python\n{first}\n```\n\n```output\nx\n```\n"


def written(text: str, path: Path, project: Project) -> str:
    page = parse(text, path, project)
    return redrawn(page, run(page))[0]


def test_what_another_processor_rounds_the_other_way(project: Project) -> None:
    """The value decides, not the code's digit; and only as the lock has it."""
    path = project.root / "docs/x.md"
    here = written(table(0.12499999, 0.3), path, project)
    there = here.replace("0.12  0.30", "0.13  0.30")
    assert there != here
    for text in (here, there):
        page = parse(text, path, locked(text, path, project))
        assert check(page, run(page)) == []
        assert survivors(page, run(page)) == []
        assert overlooked(page, run(page)) == []
        assert redrawn(page, run(page)) == (text, [])
        other = here if text == there else there
        [fault] = faults(other, path, page.project)
        assert fault.line == 11
        assert "a tie in '0.1" in fault.message
    assert locked(there, path, project).lock["docs/x.md"].ties == ("0.13 0.30",)


@pytest.mark.parametrize(
    ("value", "here", "there"),
    [
        (0.1249, "0.12", "0.13"),
        (0.1249985, "0.12", "0.13"),
        (0.12499999, "0.12", "0.14"),
        (0.12499999, "0.12", "0.11"),
        (-0.12499999, "-0.12", " 0.12"),
    ],
)
def test_and_nothing_else(value: float, here: str, there: str, project: Project) -> None:
    path = project.root / "docs/x.md"
    text = written(table(value, 55.5), path, project)
    assert text.count(here + "  55.50") == 1
    wrong = text.replace(here + "  55.50", there + "  55.50")
    [fault] = faults(wrong, path, locked(wrong, path, project))
    assert fault.line == 11
    assert fault.message.startswith("the output differs")


def test_what_show_did_not_print_is_compared_to_the_letter(project: Project) -> None:
    path = project.root / "docs/x.md"
    text = table(0.12499999, show='print(show(torch.ones(1)), f"{values[0]:.2f}")')
    wrong = written(text, path, project).replace("1.00 0.12", "1.00 0.13")
    [fault] = faults(wrong, path, locked(wrong, path, project))
    assert fault.message.startswith("the output differs")


ROWS = [
    ("a   9.99 x", "a  10.00 x", {"10.00": [9.995]}, "tie"),
    ("a  10.00 x", "a   9.99 x", {"9.99": [9.995]}, "tie"),
    ("a  9.99 x", "a  10.00 x", {"10.00": [9.995]}, "differs"),
    ("a  10.00 x", "b  10.00 x", {}, "differs"),
    ("0.12  0.34", "0.12  0.34", {"0.12": [0.125], "0.34": [0.34]}, "tie"),
    ("0.12  0.34", "0.12  0.34", {"0.12": [0.1200001, 0.1249985]}, "near"),
    ("0.12", "0.12  0.34", {}, "differs"),
    ("0.13", "0.12", {"0.12": [0.12, 0.12499999]}, "tie"),
    ("0.13", "0.12", {"0.13": [0.13]}, "differs"),
    ("-0.01", " 0.00", {"0.00": [-0.005]}, "tie"),
    ("0.00", "0.00", {"0.00": [-0.0001]}, "same"),
    ("3", "4", {"4": [4.0]}, "differs"),
]


@pytest.mark.parametrize(("said", "row", "shown", "verdict"), ROWS)
def test_rows(said: str, row: str, shown: dict[str, list[float]], verdict: str) -> None:
    assert agree_in_row(said, row, shown) == verdict


def test_a_table_made_above_is_known_below(project: Project) -> None:
    path = project.root / "docs/x.md"
    text = table(0.12499999, show="text = show(torch.tensor(values, dtype=torch.float64))")
    text = text.replace("x\n```\n", "x\n```\n").replace(
        "```\n\n```output", "```\n\n```python\nprint(text)\n```\n\n```output"
    )
    there = written(text, path, project).replace("0.12\n", "0.13\n")
    assert faults(there, path, locked(there, path, project)) == []


def test_c6_a_millionth_more_or_less(project: Project) -> None:
    """What the lock does not cover is told; what it covers, and what is far from a tie, is not."""
    path = project.root / "docs/x.md"
    pins = "\nIt is 0.12<!-- = values[0] --> or 13%<!-- = values[0] -->.\n"
    free = written(table(0.3, 0.7) + "\nIt is 0.3<!-- = values[0] -->.\n", path, project)
    near = written(table(0.1249999, 0.1249985) + pins.replace("13%", "12%"), path, project)
    for text, count in ((free, 0), (near, 2)):
        covered = locked(text, path, project)
        page = parse(text, path, covered)
        assert nudged(page, run(page)) == []
        lock = replace(covered.lock["docs/x.md"], ties=())
        page = parse(text, path, replace(covered, lock={**covered.lock, "docs/x.md": lock}))
        assert len({fault.line for fault in nudged(page, run(page))}) == count


def test_watching_what_is_rounded_leaves_no_trace(project: Project, page: Path) -> None:
    module = importlib.import_module("tinyattn.show")
    before = module.number
    run(parse(page.read_text("utf-8"), page, project))
    assert module.number is before


def test_both_ways_of_changing_digits_see_what_is_not_watched(project: Project) -> None:
    """A page whose lock does not watch code: every digit of it survives, both ways."""
    path = project.root / "docs/x.md"
    held = locked(FREE, path, project)
    lock = replace(held.lock["docs/x.md"], code=None)
    page = parse(FREE, path, replace(held, lock={**held.lock, "docs/x.md": lock}))
    truths = run(page)
    assert check(page, truths) == []
    assert {line.split(":")[1] for line in survivors(page, truths)} == {"4", "5", "6", "7", "13"}
    assert len(overlooked(page, truths)) == 2  # one in each example


@pytest.mark.parametrize(("output", "code"), [("2", 0), ("3", 1)])
def test_the_command_says_what_it_does(
    output: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "page.md"
    text = "```python\nfrom tinyattn import causal_mask\n\nlen(causal_mask(True + True))\n```\n"
    path.write_text(text + f"\n```output\n{output}\n```\n", "utf-8")
    monkeypatch.setattr(sys, "argv", ["checker", "--check", str(path)])
    assert main() == code
    said, wrong = capsys.readouterr()
    last = "1 fault" if code else "all true"
    assert said.splitlines() == [f"check {path}", last]
    assert wrong.startswith(f"{path}:8: the output differs") == bool(code)


RUNS = {
    "plain": "```python",
    "title": '```python title="x"',
    "lines": '```python hl_lines="1"',
    "numbers": '```python linenums="1"',
    "trailing space": "```python  ",
    "space before the tag": "``` python",
    "braces after": "```python {.wide}",
    "four ticks": "````python",
    "tildes": "~~~python",
}


@pytest.mark.parametrize("fence", RUNS.values(), ids=RUNS.keys())
def test_c3_every_spelling_runs(fence: str, project: Project) -> None:
    ticks = fence.split("p")[0].strip()
    text = example("1 / 0", fence=fence).replace("\n```\n", f"\n{ticks}\n")
    assert errors(text, project) == [(5, "raises ZeroDivisionError: division by zero")]


@pytest.mark.parametrize("info", ["py", "python3", "Python", "pycon", "{.python .x}", "ipython"])
def test_c3_no_other_spelling_is_let_through(info: str, project: Project) -> None:
    [(line, message)] = errors(f"Text.\n\n```{info}\n1 / 0\n```\n", project)
    assert line == 3
    assert message == f"write ```python, not ```{info}: only that runs"


@pytest.mark.parametrize(
    "opening", ["!!! note\n\n    ", '=== "Tab"\n\n    ', "- item\n\n    ", "- ", "1. ", "> "]
)
def test_c3_fences_run_wherever_they_stand(opening: str, project: Project) -> None:
    head, _, prefix = opening.rpartition("\n")
    rest = "> " if prefix == "> " else " " * len(prefix)
    body = textwrap.indent(example("if True:\n    1 / 0"), rest, lambda line: True)
    text = (head + "\n" if head else "") + prefix + body[len(rest) :]
    [(line, message)] = errors(text, project)
    assert message == "raises ZeroDivisionError: division by zero"
    assert text.split("\n")[line - 1].endswith("1 / 0")


def test_a_fence_inside_a_fence_is_text(project: Project) -> None:
    assert errors(f"````markdown\n{example('1 / 0')}````\n", project) == []


def test_a_fence_in_a_comment_is_refused(project: Project) -> None:
    found = errors(f"<!--\n{example('1 / 0')}-->\n", project)
    assert (2, "a fence inside a comment: no reader sees it") in found


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import warnings; warnings.warn('old')", "warns: UserWarning: old"),
        ("import sys; print('x', file=sys.stderr)", "writes to stderr: x"),
        ("import torch; noise = torch.randn(2)", "draws from the global generator"),
        ("raise SystemExit", "raises SystemExit"),
        ("this is no code", "raises SyntaxError: invalid syntax"),
        ("rows = mask  # [2, 3]", "2 in a comment of code: nothing checks it"),
        ("print('x')", "shows 'x', but no ```output fence follows"),
        ("mask.shape", "shows 'torch.Size([2, 2])', but no ```output fence follows"),
    ],
)
def test_an_example_that_is_not_clean(code: str, message: str, project: Project) -> None:
    line, said = errors(example(code), project)[0]
    assert line == (5 if "#" in code or "raise" in code or "no code" in code else 2)
    assert said.startswith(message)


def test_a_seeded_page_may_draw(project: Project) -> None:
    assert (
        errors(example("import torch; torch.manual_seed(1); noise = torch.randn(2)"), project) == []
    )


def test_c27_one_failure_and_the_rest_not_run(project: Project) -> None:
    text = example("1 / 0") + "\nThere are 2<!-- = len(mask) -->.\n\n```python\nmask.sum()\n```\n"
    assert errors(text, project) == [
        (5, "raises ZeroDivisionError: division by zero"),
        (8, "not run: line 5 failed"),
        (11, "not run: line 5 failed"),
    ]


def test_an_error_on_purpose_lets_the_page_go_on(project: Project) -> None:
    text = example("print('x')\n1 / 0", "x\nZeroDivisionError: division by zero")
    assert errors(text + "\nThere are 2<!-- = len(mask) -->.\n", project) == []


def test_another_error_than_meant_is_red(project: Project) -> None:
    text = example("[][2]", "ZeroDivisionError: division by zero")
    assert errors(text, project) == [(5, "raises IndexError: list index out of range")]


def test_pins_see_what_stands_above_them_and_change_nothing(project: Project) -> None:
    above = "A mask of 2<!-- = len(mask) --> rows.\n\n" + example("")
    assert errors(above, project) == [
        (1, "cannot compute len(mask)\n  NameError: name 'mask' is not defined")
    ]
    for change in ("mask.logical_not_().sum()", "rows.append(1) or 1"):
        text = example("rows = []") + f"\nOne 1<!-- = {change} -->.\n"
        assert errors(text, project) == [(8, "a pin may not change what the page has made")]
    text = example("") + "\nOne 1<!-- = (mask := 1) -->, then 2<!-- = len(mask) -->.\n"
    assert errors(text, project) == []


def test_a_readers_interpreter(project: Project) -> None:
    """Dataclasses, source code and error names are as in a session of the reader's own."""
    code = """
import inspect
from dataclasses import dataclass

@dataclass
class Size:
    rows: "int"

class Wrong(Exception):
    pass

def twice(x):
    return 2 * x

print(inspect.getsource(twice).strip(), __name__)
Size(len(mask)), Size"""
    shown = "def twice(x):\n    return 2 * x __main__\n(Size(rows=2), <class '__main__.Size'>)"
    text = (
        example(code, shown)
        + "\n```python\nraise Wrong(len(mask))\n```\n\n```output\nWrong: 2\n```\n"
    )
    main = sys.modules["__main__"]
    assert errors(text, project) == []
    assert sys.modules["__main__"] is main


def test_c7_what_ran_before_does_not_matter(project: Project, page: Path) -> None:
    text = page.read_text("utf-8") + example(
        "import torch\nprint(torch.tensor([1 / 3, 2 / 3]), torch.ones(1).requires_grad_().mul(2))",
        "tensor([0.3333, 0.6667]) tensor([2.], grad_fn=<MulBackward0>)",
    )
    project = locked(text, page, project)
    state = random.getstate()
    try:
        torch.set_printoptions(precision=2, sci_mode=True)
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(999)
        with torch.no_grad():
            assert faults(text, page, project) == []
            assert torch.get_default_dtype() == torch.float64
            assert not torch.is_grad_enabled()
            assert str(torch.tensor(0.5)) == "tensor(5.00e-01)"
            drawn = torch.rand(1)
            torch.manual_seed(999)
            assert torch.equal(torch.rand(1), drawn)
        assert random.getstate() == state
    finally:
        torch.set_printoptions(profile="default", sci_mode=None)
        torch.set_default_dtype(torch.float32)


def test_a_page_leaves_no_trace() -> None:
    with clean_slate():
        torch.set_default_dtype(torch.float64)
        torch.set_printoptions(precision=1)
    assert torch.get_default_dtype() == torch.float32
    assert str(torch.tensor(0.25)) == "tensor(0.2500)"


TIES = [
    ("0.62", 0.6221, "same"),
    ("0.622", 0.6221, "same"),
    ("0.6222", 0.6221, "differs"),
    ("0.6221", 0.62214, "same"),
    ("0.6221", 0.62216, "differs"),
    ("0.12", 0.124999, "tie"),
    ("0.13", 0.124999, "tie"),
    ("0.12", 0.1249985, "near"),
    ("0.13", 0.1249985, "differs"),
    ("0.12", 0.125, "tie"),
    ("0.13", 0.125, "tie"),
    ("0.14", 0.125, "differs"),
    ("3", 3, "same"),
    ("3", 4, "differs"),
    ("3.0", 3, "same"),
    ("-0.00", 0.0, "differs"),
    ("0.5", float("nan"), "differs"),
    ("1.5e-3", 0.00151, "same"),
    ("1.5e-3", 0.00156, "differs"),
    ("12345.67", 12345.68, "differs"),
]


@pytest.mark.parametrize(("written", "value", "verdict"), TIES)
def test_half_a_unit_and_no_more(written: str, value: float, verdict: str) -> None:
    assert agree(written, value) == verdict


@pytest.mark.parametrize("digits", range(1, 9))
def test_a_changed_digit_is_never_the_same(digits: int) -> None:
    """Whatever the value: of two neighbours, at most one agrees without being a tie."""
    for number in (0.123456789, 7.77777777, 123.4567891, 99999.99999, 0.000012345):
        written = f"{number:.{digits}f}"
        for step in (1, -1):
            changed = f"{float(written) + step * 10.0**-digits:.{digits}f}"
            assert agree(changed, number) in ("tie", "differs"), (written, changed)


LITERALS = [
    ("62%", 0.6221, False, "same"),
    ("62%", 62.21, False, "differs"),
    ("62%", 62.21, True, "same"),
    ("Twelve", 12, False, "same"),
    ("Twelve", 11.999999, False, "same"),
    ("Twelve", 11.9999, False, "differs"),
    ("Twelve", 13, False, "differs"),
    ("`True`", True, False, "same"),
    ("1", True, False, "differs"),
    ("**sat**", "sat", False, "same"),
    ("` the`", " the", False, "same"),
    ("` the`", "the", False, "differs"),
    ("3", "3", False, "same"),
    ("float32", "float32", False, "same"),
    ("[[1, 0], [0.5, 0.5]]", [[1.0, 0.0], [0.5, 0.5]], False, "same"),
    ("[[1, 0], [0.5, 0.5]]", [1.0, 0.0, 0.5, 0.5], False, "differs"),
    ("(4,)", [4], False, "same"),
    ("0.5", [[0.5]], False, "same"),
    ("0.5", [0.5, 0.5], False, "differs"),
    ("$0.5$", 0.5, False, "same"),
    (r"$\frac{1}{2} - 3$", [1, 2, 3], False, "same"),
    ("$-0.5 + 2$", [-0.5, 2], False, "same"),
    ("$x = - 0.5$", [-0.5], False, "same"),
    ("$x = - 0.5$", [0.5], False, "differs"),
    ("$2 - 0.5$", [2, 0.5], False, "same"),
    ("$2 -0.5 = x$", [2, -0.5], False, "differs"),
    ("$x = -{0.5}$", [0.5], False, "differs"),
    (r"$x \approx -5$", [-5], False, "same"),
    (r"$x \approx -5$", [5], False, "differs"),
    (r"$x \le -0.5$", [-0.5], False, "same"),
    ("$|x| - 5$", [5], False, "same"),
    ("$f' - 5$", [5], False, "same"),
    ("4 × 8", [4, 8], False, "same"),
    ("3 and 1", [3.0, 1.0], False, "same"),
]


@pytest.mark.parametrize(("literal", "value", "in_percent", "verdict"), LITERALS)
def test_literals(literal: str, value: object, in_percent: bool, verdict: str) -> None:
    assert compare(literal, value, in_percent) == verdict


HALF, THREE = "<!-- = 1 / 2 -->", "<!-- = 6 / 2 -->"


@pytest.mark.parametrize(
    "said",
    [
        *(f"It is {sign}0.5{HALF}." for sign in "–‑－﹣➖±√"),
        *(f"It is {sign}0.5{HALF}." for sign in ("&minus;", "&#8722;", "minus ", "so: − ")),
        *(f"It is −{mark}0.5{mark}{HALF}." for mark in ("**", "`", "$")),
        *(f"It is 0.5{HALF}{unit}." for unit in ("%", " %", "‰", " percent", " per cent", "k")),
        *(f"It is 3{THREE}{unit}." for unit in ("e5", "rd", " hundred", " dozen")),
        f"There are twenty three{THREE}.",
        f"It is three{THREE} quarters.",
    ],
)
def test_what_stands_beside_a_pin_belongs_to_it(said: str, project: Project) -> None:
    [(line, message)] = [found for found in errors(said, project) if "no fence" not in found[1]]
    assert line == 1
    assert "stands beside" in message
    assert "is not checked: write it into the number" in message


@pytest.mark.parametrize(
    "said",
    [
        f"- 0.5{HALF} is a half.",
        f"It is 3{THREE} ± 0.5{HALF}, and 3{THREE} minus 0.5{HALF}.",
        f"From 0.5{HALF}–3{THREE}, or 0.5{HALF} − 3{THREE}.",
        f"All – 0.5{HALF} – of them.",
        f"A 3{THREE}-layer model, *0.5{HALF}*, (3{THREE}).",
        "It is −0.5<!-- = -1 / 2 --> or 50%<!-- = 1 / 2 -->.",
    ],
)
def test_and_what_does_not(said: str, project: Project) -> None:
    assert errors(said, project) == []


@pytest.mark.parametrize(
    ("pin", "right"),
    [
        ("75%<!-- = round(100 * 0.75) -->", True),
        ("75%<!-- = 0.75 * 100 -->", True),
        ("75%<!-- = (100.0 * 0.75) -->", True),
        ("25%<!-- = 100 - 100 * 0.75 -->", True),
        ("75%<!-- = 0.75 -->", True),
        ("75%<!-- = 1 - 0.25 -->", True),
        ("1%<!-- = round(100 * 0.0075) / 100 -->", True),
        ("50%<!-- = 100 * 2 / 4 -->", True),
        ("50%<!-- = 100 / 2 -->", True),
        ("50%<!-- = max(100 * 0.5, 0) -->", True),
        ("50%<!-- = 1 - 100 * 0.005 -->", True),
        ("0.5%<!-- = 1 - 100 * 0.005 -->", False),
        ("7500%<!-- = round(100 * 0.75) -->", False),
        ("0.75%<!-- = 0.75 -->", False),
        ("-inf<!-- = -float('inf') -->", True),
        ("−∞<!-- = -float('inf') -->", True),
        ("∞<!-- = float('inf') -->", True),
        ("-inf<!-- = float('inf') -->", False),
        ("−inf<!-- = float('inf') -->", False),
        ("inf<!-- = -float('inf') -->", False),
        ("∞<!-- = 10**9 -->", False),
    ],
)
def test_percents_and_infinities(pin: str, right: bool, project: Project) -> None:
    assert bool(errors(f"It is {pin}.", project)) != right


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("---\ndescription: >\n  It has 5 heads.\n---\n", 3, "5: pin it"),
        ('---\n"title": 5 heads\n---\n', 2, "5: pin it"),
        ("```text title='5 heads'\n.\n```\n", 1, "5: pin it"),
        ('One.\n\n![A](a.svg "A title")', 3, "pin the picture"),
        ("One.\n\n![A](a.SVG)", 3, "pin the picture"),
        ("One.\n\n![A](a.svg#x)", 3, "pin the picture"),
        ('One.\n\n<img alt="A" src="a.svg">', 3, "a picture in a tag"),
        ("One.\n\n<pre>1 + 1</pre>", 3, "code in a tag: nobody runs it"),
    ],
)
def test_what_is_shown_is_read(text: str, line: int, message: str, project: Project) -> None:
    assert any(at == line and message in said for at, said in errors(text, project))


@pytest.mark.parametrize(
    ("code", "whose"),
    [
        ("g = torch.Generator().manual_seed(1); noise = torch.randn(2)", "torch"),
        ("torch.randn(2)  # torch.manual_seed(1)\nprint()", "torch"),
        ("torch.manual_seed(1); noise = np.random.rand(2)", "numpy"),
        ("torch.manual_seed(1); noise = random.randint(2, 9)", "random"),
    ],
)
def test_a_seed_serves_its_own_generator(code: str, whose: str, project: Project) -> None:
    found = errors(example(f"import random, torch, numpy as np\n{code}"), project)
    assert any(said.startswith(f"draws from the global generator of {whose},") for _, said in found)


@pytest.mark.parametrize(
    ("lab", "message"),
    [
        ("# %% [md]\n# It has 9 heads.\n", "a [md] cell is shown and not checked"),
        ("# %% [raw]\n# It has 9 heads.\n", "a [raw] cell is shown and not checked"),
        ("# %%\n# There are 8 heads\n", "a cell of comments only"),
        ("# There are 8 heads\n# %% [markdown]\n# A.\n", "a cell of comments only"),
    ],
)
def test_no_cell_of_a_lab_is_passed_over(lab: str, message: str, project: Project) -> None:
    assert any(message in said for _, said in errors(lab, project, "docs/labs/x.py"))


@pytest.mark.parametrize(
    ("literal", "value", "new"),
    [
        ("0.75", 0.5, "0.50"),
        ("**1,024**", 2048, "**2,048**"),
        ("−3.1", -2.04, "−2.0"),
        ("−3.1", 0.01, "0.0"),
        ("62 %", 0.5, "50 %"),
        ("Three", 4, "Four"),
        ("(3, 4)", [2, 5], "(2, 5)"),
        ("(3, 4)", [2, 5, 6], "(2, 5, 6)"),
        (r"$3 \times 4$", [2, 5], r"$2 \times 5$"),
        ("[0.1, 0.2]", [0.25, 0.75], "[0.2, 0.8]"),
        ("`sat`", "mat", "`mat`"),
        ("sat", "mat", None),
        ("many", 3, None),
        ("0.75", "sat", None),
        ("three", 40, None),
    ],
)
def test_redraw_writes_as_precisely_as_before(literal: str, value: object, new: str | None) -> None:
    assert rewrite(literal, value) == new


def test_a_tie_must_be_locked(project: Project) -> None:
    text = example("") + "\nIt is 0.12<!-- = len(mask) / 16 -->.\n"
    path = project.root / "docs/x.md"
    [_, fault] = faults(text, path, project)
    assert fault.line == 8
    assert "a tie" in fault.message
    project = locked(text, path, project)
    assert faults(text, path, project) == []
    [fault] = faults(text.replace("0.12<", "0.13<"), path, project)
    assert fault.line == 8


def test_redraw_repairs_and_is_idempotent(tmp_path: Path) -> None:
    path = tmp_path / "docs/page.md"
    (tmp_path / "tests").mkdir()
    path.parent.mkdir()
    wrong = PAGE.replace("0.75<!--", "0.11<!--").replace("cat  0.75", "cat  9.99")
    wrong = wrong.replace("    ```output\n    [0.75, 0.25, 0.0]\n    ```\n\n", "")
    wrong = wrong.replace("three<!--", "nine<!--").replace("../img", "img")
    path.write_text(wrong, "utf-8")
    (tmp_path / "docs/bibliography.md").write_text(BIBLIOGRAPHY, "utf-8")
    changes = redraw([path], Project.at(tmp_path))
    assert (
        f"docs/page.md:{PAGE[: PAGE.index('*cat*')].count(chr(10)) + 1}: '0.11' -> '0.75'"
        in changes
    )
    assert faults(path.read_text("utf-8"), path, Project.at(tmp_path)) == []
    right = PAGE.replace("../img", "img")
    error = next(t.error for t in run(parse(right, path, Project.at(tmp_path))) if t.error)
    assert path.read_text("utf-8") == right.replace("\nShapeError\n", f"\n{error}\n")
    assert redraw([path], Project.at(tmp_path)) == []


def test_redraw_never_writes_an_accident_down(project: Project) -> None:
    path = project.root / "docs/x.md"
    for text in (example("1 / 0"), example("1 / 0", "0.5"), "Say many<!-- = 3 -->.\n"):
        page = parse(text, path, project)
        assert redrawn(page, run(page)) == (text, [])
        assert errors(text, project) != []


def test_the_lock_survives_writing(project: Project) -> None:
    assert read_lock(write_lock(project.lock)) == project.lock


def test_citations() -> None:
    assert citations(BIBLIOGRAPHY) == {"Elhage et al. 2021", "Vaswani et al. 2017"}


@pytest.mark.parametrize(
    ("sentence", "right"),
    [
        ("See Vaswani et al. 2017, section 3.2.", True),
        ("See [Elhage et al. (2021)](b.md#x9), sections 3 and 4.", True),
        ("See section 3 of Elhage et al. 2021.", True),
        ("Elhage et\nal. 2021 say so in equation 2, and in figure 3.", True),
        ("See (Vaswani et al., 2017).", True),
        ("See Vaswani et al. 2017. So does section 3.", False),
        ("See section 3.", False),
        ("See Olsson et al. 2022.", False),
    ],
)
def test_what_counts_as_cited(sentence: str, right: bool, project: Project) -> None:
    assert (errors(sentence + "\n", project) == []) == right


def test_a_wrapped_citation_is_red_where_its_year_stands(project: Project) -> None:
    path = project.root / "docs/x.md"
    text = "As Elhage et\nal. 2021 say.\n"
    found = faults(text.replace("1", "2"), path, locked(text, path, project))
    assert [fault.line for fault in found if "2022 (not in" in fault.message] == [2]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("GPT-2, W_1, x_0, d2l, float32, L0H3, `W_2`, $W_1 x_{12}$", []),
        ("[link](page2.md#part-3) and <https://x.org/4> and https://y.org/5", []),
        ("1. first\n2. second\n\n![x](y.png){ width=3 }\n\n[^4] &#160;", []),
        ("top-5, 2D, x², 3rd, $x^2$, ½, 7.", ["5", "2", "²", "3", "2", "½", "7"]),
        ("It was in\n1. Then", ["1."]),
        ("## 3 ways", ["3"]),
        ("`A[2, 0]`", ["`A[2, 0]`"]),
        ("| 0.5 | −3 |", ["0.5", "3"]),
        ("[4 heads](x.md)", ["4"]),
        ("about 1,024.5 or 1e-3", ["1,024.5", "1e-3"]),
        ("٣, ３, Ⅳ, ③, ⅛ and &#51;", ["٣", "３", "Ⅳ", "③", "⅛", "&#51;"]),
    ],
)
def test_what_a_number_is(text: str, numbers: list[str], project: Project) -> None:
    assert [message.split(": ")[0] for _, message in errors(text + "\n", project)] == numbers


@pytest.mark.parametrize(
    "text",
    [
        '[x](y.md "3 heads")',
        '<span title="3 heads">x</span>',
        "<img alt='a 3' src=x>",
        "x{: title='3 heads' }",
        "<i aria-label=3>x</i>",
    ],
)
def test_a_number_in_a_title_is_seen(text: str, project: Project) -> None:
    message = "3 in a title or description: write it as a word"
    assert errors(text + "\n", project) == [(1, message)]
    assert errors(text.replace("3", "three") + "\n", project) == []


LAB = """\
# %% [markdown]
# # A lab
# A number 3 without a pin.

# %%
from tinyattn import causal_mask

mask = causal_mask(3)
mask.shape

# %% [markdown]
# The mask has 3<!-- = len(mask) --> rows and 4<!-- = len(mask) --> columns.
#
# ```python
# len(mask)
# ```

# %% tags=["last"]
1 / 0
"""


def test_labs_go_through_the_same_doors(project: Project) -> None:
    assert errors(LAB, project, "docs/labs/lab.py") == [
        (3, "3: pin it, <!-- = expression -->, or name its <!-- given: source -->"),
        (12, "the page says 4, the code gives 3\n  expression: len(mask)"),
        (15, "shows '3', but no ```output fence follows"),
        (19, "this code does not use tinyattn, nor a value made with it above"),
        (19, "raises ZeroDivisionError: division by zero"),
    ]


MODULE = '''\
"""A module.

>>> causal_mask(2).tolist()
[[True, False], [True, False]]
"""


def twice(x):
    """Double it.

    Examples:
        >>> import torch
        >>> mix.__name__, torch.tensor(2).item()
        ('mix', 2)
        >>> 1 / 0
        Traceback (most recent call last):
            ...
        ZeroDivisionError: division by zero
        >>> Tensor
        >>> 2  # doctest: +SKIP
        3
    """


class Other:
    """Names are not shared.

    >>> torch
    """
'''


def test_docstrings_go_through_the_same_doors() -> None:
    project = Project(ROOT)
    found = faults(MODULE, ROOT / "src/tinyattn/attention.py", project)
    lines = [(fault.line, fault.message.split("\n")[-1].strip()) for fault in found]
    assert lines == [
        (4, "+[[True, False], [True, True]]"),
        (19, "raises NameError: name 'Tensor' is not defined"),
        (20, "no doctest options: say what the code gives"),
        (20, "not run: line 19 failed"),
        (28, "raises NameError: name 'torch' is not defined"),
    ]


def test_a_module_that_cannot_be_imported_is_one_failure() -> None:
    text = '"""A module.\n\n>>> 1\n1\n>>> 2\n2\n"""\n'
    found = faults(text, ROOT / "src/tinyattn/no_such_module.py", Project(ROOT))
    assert [(fault.line, fault.message) for fault in found] == [
        (3, "raises ModuleNotFoundError: No module named 'tinyattn.no_such_module'"),
        (5, "not run: line 3 failed"),
    ]


def test_redraw_of_labs(project: Project) -> None:
    """What is written into a script's markdown cell stays a comment."""
    path = project.root / "docs/labs/lab.py"
    page = parse(LAB.replace("4<!--", "3<!--"), path, project)
    text, _ = redrawn(page, run(page))
    cell = "# len(mask)\n# ```\n"
    assert text == page.text.replace(cell, cell + "#\n# ```output\n# 3\n# ```\n")
    again = parse(text.replace("# 3\n", "# 5\n"), path, project)
    assert redrawn(again, run(again))[0] == text


def test_redraw_of_docstrings() -> None:
    path = ROOT / "src/tinyattn/attention.py"
    page = parse(MODULE, path, Project(ROOT))
    text, _ = redrawn(page, run(page))
    assert text == MODULE.replace("[True, False]]\n", "[True, True]]\n")


def test_sybil_reports_one_failed_example_with_file_and_line(project: Project, page: Path) -> None:
    """C27: also where an example raises from its top frame, nothing but a failure comes out."""
    collection = sybils(project.root)
    [sybil] = [one for one in collection if one.should_parse(page)]
    document = sybil.parse(page)
    parsed = parse(page.read_text("utf-8"), page, project)
    assert len(list(document.examples())) == len(parsed.items)
    broken = project.root / "docs/a/broken.md"
    broken.write_text("Text.\n\n" + example("1 / 0"), "utf-8")
    failing, _ = sybil.parse(broken).examples()  # the other: its numbers are not locked
    with pytest.raises(AssertionError, match=r"docs/a/broken\.md:7: raises ZeroDivisionError"):
        failing.evaluate()
    broken.unlink()


# fmt: off
PIECES = [
    "```python\n", "```\n", "~~~", "`", "<!--", "-->", " = ", "given: ", "(", "[", "](", ")", "]",
    "$", "**", "*", '"', "![", "\n", "\n\n", "> ", "- ", "1. ", "# %%\n", "3", "1,0", "%", " × ",
    " and ", "Elhage et al. 2021", "section 3", "x", "é", "\u2028", "\t", "---\n", "{", "}",
]
# fmt: on


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(PIECES), max_size=60), st.sampled_from(["docs/x.md", "docs/labs/x.py"])
)
def test_whatever_is_typed_is_read(pieces: list[str], name: str) -> None:
    text = "".join(pieces)
    page = parse(text, ROOT / name, Project(ROOT))
    lines = text.count("\n") + 1
    assert all(1 <= fault.line <= lines for fault in page.faults)
    assert all(text[item.at :].startswith(item.literal) for item in page.items if is_plain(item))


def is_plain(item: object) -> TypeGuard[Pin]:
    """A pin whose literal stands in the file as it is, not over two lines of a script."""
    return isinstance(item, Pin) and "\n" not in item.literal


def test_orphans(project: Project) -> None:
    assert orphans(project) == []
    orphan = project.root / "docs/img/orphan.svg"
    orphan.write_text("<svg/>", "utf-8")
    assert orphans(project) == ["docs/img/orphan.svg: no page draws this picture"]
    orphan.unlink()


def test_the_text_of_a_page_is_checked_without_running_it_again(
    project: Project, page: Path
) -> None:
    parsed = parse(page.read_text("utf-8"), page, project)
    truths = run(parsed)
    changed = parse(parsed.text.replace("0.75<!--", "0.76<!--"), page, project)
    assert [fault.message.split(",")[0] for fault in check(changed, truths)] == [
        "the page says 0.76"
    ]
    assert sum(isinstance(item, Code) for item in parsed.items) == 3
