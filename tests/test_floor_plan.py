"""The package is a house: a module imports only from the floors below it."""

import ast
from pathlib import Path

import pytest

import tinyattn

PACKAGE = Path(tinyattn.__file__).parent
FLOORS = [
    {"shapes"},
    {"attention", "circuits", "lowrank", "norm", "mlp", "positions", "dependence"}
    | {"show", "svg", "grid", "draw", "diagrams", "flow"},
    {"head", "stream"},
    {"model"},
    {"handmade", "paths", "detect", "interventions", "training", "interop"},
    {"__init__"},
]
NEIGHBOURS = {("circuits", "lowrank"), ("head", "stream"), ("diagrams", "dependence")} | {
    (picture, part)
    for picture, parts in {
        "svg": ["show"],
        "grid": ["show", "svg"],
        "draw": ["show", "svg", "grid"],
        "diagrams": ["show", "svg", "grid"],
        "flow": ["show", "svg"],
    }.items()
    for part in parts
}
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py"))


def floor(module: str) -> int:
    return next(number for number, names in enumerate(FLOORS) if module in names)


def imported(module: str) -> set[str]:
    """Modules of ours that a module imports, wherever in the file it does so."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            package, _, name = node.module.partition(".")
            if package == "tinyattn":
                found |= {name} if name else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                a.name.partition(".")[2] for a in node.names if a.name.startswith("tinyattn.")
            }
        assert not (isinstance(node, ast.ImportFrom) and node.level), (
            f"{module}: import by full name"
        )
    return found


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module):
    for other in imported(module):
        assert floor(other) < floor(module) or (module, other) in NEIGHBOURS, (
            f"{module} (floor {floor(module)}) imports {other} (floor {floor(other)})"
        )


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_read_in_one_sitting(module):
    source = (PACKAGE / f"{module}.py").read_text()
    assert len(source.splitlines()) <= 450, f"{module} is too long for one sitting"
    assert ast.get_docstring(ast.parse(source)), f"{module} does not say what it is"


def test_the_package_imports_no_more_than_it_needs():
    """torch, jaxtyping, beartype, numpy and the standard library: nothing else at import time."""
    import subprocess
    import sys

    script = (
        "import sys, torch, jaxtyping, beartype; before = set(sys.modules); import tinyattn; "
        "print({m.partition('.')[0] for m in set(sys.modules) - before} "
        "- set(sys.stdlib_module_names) - {'tinyattn', 'torch', 'jaxtyping', 'beartype', 'numpy'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
