"""One word for one thing: the conventions page, the annotations and the public names agree."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import tinyattn
from tinyattn import Attended, Head

ROOT = Path(__file__).parent.parent
PACKAGE = Path(tinyattn.__file__).parent
CONVENTIONS = (ROOT / "docs" / "conventions.md").read_text()
SOURCES = {path.name: path.read_text() for path in sorted(PACKAGE.glob("*.py"))}
# What a function returns or warns with: its example stands there.
RESULTS = {"Attended", "Baseline", "Direction", "Ends", "NothingChanged", "SVD"}
PUBLIC = [name for name in tinyattn.__all__ if not name.endswith("Error")]

# Names that mean two things at once in other codebases, or nothing in particular.
STRANGERS = {"att", "attn_weights", "attn_scores", "wei", "n_embd", "n_head", "seqlen", "seq_len"}


def axes_in(source: str) -> set[str]:
    """Every word that stands in a shape annotation."""
    words: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in {"Float", "Bool", "Int"}:
            shape = node.slice.elts[1]
            words |= set(ast.literal_eval(shape).split())
    return words


def test_axes_have_one_spelling():
    sentence = re.search(r"Shapes are written with these words[^\n]*", CONVENTIONS)
    assert sentence
    known = {word for span in re.findall(r"`([^`]+)`", sentence[0]) for word in span.split()}
    used = set().union(*(axes_in(source) for source in SOURCES.values()))
    assert used, "no annotation was found"
    assert {word for word in used if not word.isdigit()} == known


def rows() -> list[tuple[str, str]]:
    """Name and shape of each row of the table of names."""
    found = []
    for line in CONVENTIONS.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        names = re.findall(r"`(\w+)`", cells[0]) if cells else []
        if names:
            found.append((names[0], cells[2]))
    return found


@pytest.mark.parametrize("kind", [Head, Attended])
def test_the_table_of_names_is_the_code(kind):
    table = dict(rows())
    for name, annotation in inspect.get_annotations(kind).items():
        if name in {"q", "k", "v"} or name.startswith("b_"):
            continue
        shape = annotation.dim_str.replace("*batch ", "")
        assert table[name] == shape, f"{kind.__name__}.{name}"


def test_the_table_names_nothing_that_is_not_there():
    known = set(inspect.get_annotations(Head)) | set(inspect.get_annotations(Attended))
    axes = set().union(*(axes_in(source) for source in SOURCES.values()))
    sizes = {"n_heads"}  # an argument of split_heads
    for name, _ in rows():
        assert name in known | axes | sizes | {"x"}, name


@pytest.mark.parametrize("module", SOURCES)
def test_no_stranger_names_a_variable(module):
    names = {node.id for node in ast.walk(ast.parse(SOURCES[module])) if isinstance(node, ast.Name)}
    assert not names & STRANGERS


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_says_what_it_means(name):
    thing = getattr(tinyattn, name)
    text = inspect.getdoc(thing) or ""
    assert re.match(r"[A-Z][^\n]*[.?:!]", text), "the first line is a sentence"
    if name not in RESULTS:
        assert "Examples:" in text


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_its_place_in_the_reference(name):
    module = getattr(tinyattn, name).__module__.removeprefix("tinyattn.")
    page = ROOT / "docs" / "reference" / f"{module}.md"
    assert f"::: tinyattn.{module}" in page.read_text()


def test_all_is_complete():
    imported = {
        alias.name
        for node in ast.walk(ast.parse(SOURCES["__init__.py"]))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(tinyattn.__all__) == imported
