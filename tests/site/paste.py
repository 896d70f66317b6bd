"""A learner's notebook: each snippet pasted in turn, and what it shows."""

import ast
import code
import contextlib
import io
import multiprocessing
import os
import sys
import traceback
from types import CodeType
from typing import Any


def fresh() -> Any:
    """Interpreters that have loaded torch and nothing else, one for each page."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    kind = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(kind)
    if kind == "forkserver":
        context.set_forkserver_preload(["torch"])
    return context.Pool(2, maxtasksperchild=1)


def paste(snippets: list[str]) -> list[str]:
    """What each snippet shows: its prints, its last expression, the end of its error."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_shown(snippet, names) for snippet in snippets]


def _shown(snippet: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            tree = ast.parse(snippet)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<pasted>", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "<pasted>", "eval"), names)
                if value is not None:
                    print(repr(value))
        except Exception as error:
            print("".join(traceback.format_exception_only(error)).rstrip())
    return out.getvalue().rstrip("\n")


def misread(snippet: str) -> list[str]:
    """What Python up to 3.12 finds wrong when the snippet is pasted after its prompt.

    It reads line by line. A block ends at an empty line and nowhere else.
    """
    prompt = Prompt()
    for line in f"{snippet}\n\n".split("\n"):
        prompt.push(line)
    return prompt.faults


class Prompt(code.InteractiveConsole):
    """Reads and runs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = list[str]()

    def runcode(self, code: CodeType) -> None:
        pass

    def showsyntaxerror(self, *given: Any, **named: Any) -> None:
        self.faults.append(str(sys.exc_info()[1]))
