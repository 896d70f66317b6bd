"""The package is a house: a module imports from the floors below, and from earlier on its own."""

import ast
from pathlib import Path

import pytest

import tinyattn

PACKAGE = Path(tinyattn.__file__).parent
FLOORS = [
    "shapes weights progress bpe corpus",
    "attention lowrank pairs circuits norm mlp positions dependence show svg grid draw diagrams "
    "flow tracks panels detect batches",
    "head stream config",
    "block edits run model",
    "reading checkpoint folding interventions hub interop twins paths score_paths handmade "
    "learning facts trained training tokens",
    "__init__",
]
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py"))


def place(module: str) -> tuple[int, int]:
    """Floor of a module, and its place on that floor."""
    for number, names in enumerate(line.split() for line in FLOORS):
        if module in names:
            return number, names.index(module)
    raise AssertionError(f"{module} has no floor: give it its place in FLOORS")


def imported(module: str) -> set[str]:
    """Modules of ours that a module imports, wherever in the file it does so.

    What stands under TYPE_CHECKING is never imported: it only names a type.
    """
    found = set()
    tree = ast.parse((PACKAGE / f"{module}.py").read_text())
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
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
        assert place(other) < place(module), (
            f"{module} {place(module)} imports {other} {place(other)}"
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
