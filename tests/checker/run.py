"""Run a page once and keep what came out, so that any text of that page can be held against it."""

import ast
import contextlib
import copy
import functools
import importlib
import io
import linecache
import math
import random
import re
import sys
import traceback
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from checker.compare import RELATIVE, plain
from checker.document import Code, Page, Picture


@dataclass(frozen=True)
class Truth:
    """What one item came to: shown text and error of code, value of a pin, SVG of a picture."""

    text: str = ""
    value: Any = None
    error: str = ""  # as Python prints it under a traceback
    line: int = 0  # where it was raised
    complaint: str = ""  # wrong whatever the page says
    not_run: str = ""
    shown: Mapping[str, Sequence[float]] = field(default_factory=dict)  # text and what it rounds


@contextlib.contextmanager
def clean_slate() -> Iterator[None]:
    """Torch, numpy and random as a fresh interpreter has them, and put back afterwards."""
    printing = torch._tensor_str.PRINT_OPTS
    saved = (
        copy.copy(vars(printing)),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
    )
    dice = torch.get_rng_state(), random.getstate(), np.random.get_state()
    numpy_printing = np.get_printoptions()
    try:
        torch.set_printoptions(profile="default", sci_mode=None)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.set_grad_enabled(True)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        np.set_printoptions(
            precision=8,
            threshold=1000,
            edgeitems=3,
            linewidth=75,
            suppress=False,
            floatmode="maxprec",
        )
        yield
    finally:
        vars(printing).update(saved[0])
        torch.set_default_dtype(saved[1])
        torch.set_default_device(None)
        torch.set_grad_enabled(saved[2])
        torch.set_num_threads(saved[3])
        torch.set_rng_state(dice[0])
        random.setstate(dice[1])
        np.random.set_state(dice[2])
        np.set_printoptions(**numpy_printing)


_done: dict[tuple[str, str], list[Truth]] = {}


def run_once(page: Page) -> list[Truth]:
    """As ``run``, but a text that has run in this process is not run again."""
    key = page.name, page.text
    if key not in _done:
        _done[key] = run(page)
    return _done[key]


class _Rounded:
    """``tinyattn.show.number`` for a while, so that what it rounds is known unrounded.

    With ``nudge`` each value moves by a millionth of itself, as another processor might have it,
    to the side where it would be written otherwise.
    """

    def __init__(self, nudge: bool) -> None:
        self.nudge = nudge
        self.show: Any = importlib.import_module("tinyattn.show")
        self.earlier: dict[str, list[float]] = {}
        self.now: dict[str, list[float]] = {}

    def __enter__(self) -> "_Rounded":
        self.number = number = self.show.number

        @functools.wraps(number)
        def watched(entry: Any, digits: int = 2) -> str:
            text: str = number(entry, digits)
            if isinstance(entry, float) and math.isfinite(entry):
                if self.nudge:
                    moved = max(nudges(entry), key=lambda value: number(value, digits) != text)
                    entry, text = moved, number(moved, digits)
                self.now.setdefault(text, []).append(entry)
            return text

        self.show.number = watched
        return self

    def __exit__(self, *_: object) -> None:
        self.show.number = self.number

    def taken(self) -> dict[str, list[float]]:
        """What the last example rounded; for a table made above, what was rounded there."""
        both = {**self.earlier, **self.now}
        self.earlier, self.now = both, {}
        return both


def nudges(value: float) -> tuple[float, float]:
    return value * (1 - RELATIVE), value * (1 + RELATIVE)


def run(page: Page, nudge: bool = False) -> list[Truth]:
    """One truth for each item of the page, in order."""
    truths: list[Truth] = []
    module, scope, stopped, seeded = _module(page), 0, "", set[str]()
    with clean_slate(), _as_main() as enter, _Rounded(nudge) as rounded:
        enter(module)
        for item in page.items:
            if isinstance(item, Code):
                if item.scope != scope:
                    module, scope, stopped, seeded = _module(page), item.scope, "", set()
                    enter(module)
                seeded |= _seeds(item.source)
            if stopped:
                truths.append(Truth(not_run=stopped))
            elif isinstance(item, Code):
                dice = _dice()
                truth = replace(_execute(item, module), shown=rounded.taken())
                drawn = {name for name, state in _dice().items() if state != dice[name]}
                drawn |= {"random"} if DRAWS.search(_code(item.source)) else set()
                if drawn - seeded:
                    name = min(drawn - seeded)
                    truth = Truth(
                        complaint=f"draws from the global generator of {name}, "
                        "that this page never seeded"
                    )
                truths.append(truth)
                if truth.error and not (item.output and same_error(truth.error, item.output.text)):
                    stopped = f"not run: line {truth.line} failed"
            else:
                truths.append(_evaluate(item.expression, module, isinstance(item, Picture)))
    return truths


def _module(page: Page) -> types.ModuleType:
    """What the page's names live in: ``__main__``, as for a reader who pastes them.

    Its source is the page without its prose, so that ``inspect.getsource`` finds functions.
    """
    module = types.ModuleType("__main__")
    module.__file__ = f"<{page.name}>"
    lines = [""] * page.text.count("\n")
    for item in page.items:
        if isinstance(item, Code):
            rows = item.source.splitlines()
            lines[item.line - 1 : item.line - 1 + len(rows)] = rows
    source = [line + "\n" for line in lines]
    linecache.cache[module.__file__] = (sum(map(len, source)), None, source, module.__file__)
    return module


@contextlib.contextmanager
def _as_main() -> Iterator[Any]:
    main = sys.modules["__main__"]
    try:
        yield lambda module: sys.modules.__setitem__("__main__", module)
    finally:
        sys.modules["__main__"] = main


SEEDS = {
    "torch": re.compile(r"\btorch\.(?:random\.)?manual_seed\("),
    "numpy": re.compile(r"\b(?:np|numpy)\.random\.seed\("),
    "random": re.compile(r"(?<![\w.])random\.seed\("),
}


# The states of torch's and numpy's say whether they were drawn from. The third's does not:
# beartype draws from it at each call.
DRAWS = re.compile(r"(?<![\w.])random\.(?!seed\b|Random\b)[a-z]\w*\(")


def _code(source: str) -> str:
    return re.sub(r"#.*", "", source)


def _seeds(source: str) -> set[str]:
    """Whose global generators the code seeds."""
    return {name for name, call in SEEDS.items() if call.search(_code(source))}


def _dice() -> dict[str, object]:
    _, keys, place, *_ = np.random.get_state()
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (np.asarray(keys).tobytes(), place),
    }


def _execute(item: Code, module: types.ModuleType) -> Truth:
    """Run an example as a notebook cell: what it prints, then what its last line shows."""
    shown, complaints = io.StringIO(), io.StringIO()
    name, error, line, complaint = str(module.__file__), "", item.line, ""
    with (
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(complaints),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            if item.module:
                _define(item.module, vars(module))
            tree = ast.parse(item.source, name)
            ast.increment_lineno(tree, item.line - 1)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec", dont_inherit=True), vars(module))
            if isinstance(last, ast.Expr):
                code = compile(ast.Expression(last.value), name, "eval", dont_inherit=True)
                value = eval(code, vars(module))
                if value is not None:
                    print(repr(value))
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # an example may raise anything, SystemExit too
            error = error_text(raised)
            shown.write(error + "\n")
            for frame, number in traceback.walk_tb(raised.__traceback__):
                line = number if frame.f_code.co_filename == name else line
            if isinstance(raised, SyntaxError) and raised.filename == name:
                line = item.line + (raised.lineno or 1) - 1
    if caught:
        complaint = f"warns: {caught[0].category.__name__}: {caught[0].message}"
    elif complaints.getvalue():
        complaint = f"writes to stderr: {complaints.getvalue().strip()}"
    text = "\n".join(row.rstrip() for row in shown.getvalue().rstrip("\n").split("\n"))
    return Truth(text, error=error, line=line, complaint=complaint)


def _define(name: str, names: dict[str, Any]) -> None:
    """Let a docstring know what its module defines; what that imports, it imports itself."""
    for key, value in vars(importlib.import_module(name)).items():
        if getattr(value, "__module__", "") == name:
            names.setdefault(key, value)


def error_text(error: BaseException) -> str:
    """The end of a traceback: the error's name, its message and its notes."""
    lines = "".join(traceback.format_exception_only(error)).rstrip("\n").split("\n")
    if isinstance(error, SyntaxError):
        while lines[0].startswith(" "):
            del lines[0]
    return "\n".join(lines)


def same_error(error: str, said: str) -> bool:
    """Whether a page means this kind of error: a line of its output begins with the name."""
    name = error.partition(":")[0].rpartition(".")[2]
    return re.search(rf"^(?:[\w.]+\.)?{re.escape(name)}\b", said, re.M) is not None


def _evaluate(expression: str, module: types.ModuleType, picture: bool) -> Truth:
    before = _contents(module)
    dice = torch.get_rng_state()
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")
            code = compile(expression.strip(), "<pin>", "eval", dont_inherit=True)
            value = eval(code, dict(vars(module)))
            if picture:
                value = str(value.svg).rstrip("\n") + "\n"
            value = plain(value)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        return Truth(error=error_text(raised))
    finally:
        torch.set_rng_state(dice)
    if _contents(module) != before:
        return Truth(complaint="a pin may not change what the page has made")
    return Truth(value=value)


def _contents(module: types.ModuleType) -> dict[str, Any]:
    """Enough of each name's value to notice a change in place."""
    return {
        name: (
            id(value),
            getattr(value, "_version", None),
            repr(value) if isinstance(value, list | dict | set) and len(value) < 100 else None,
        )
        for name, value in vars(module).items()
        if name != "__builtins__"
    }
