"""A lab is run when what it is made of has changed, and at no other time."""

import importlib.util
from pathlib import Path
from typing import Any

import nbformat
import pytest
from built import hook

LAB = "# %%\n1 + 1\n"
OPTIONS = {"execute": True}


@pytest.fixture
def labs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The hook, with a package of one file."""
    module = hook("labs")
    package = tmp_path / "tinyattn"
    package.mkdir()
    (package / "__init__.py").write_text("a = 1\n")
    found = importlib.util.spec_from_file_location("tinyattn", package / "__init__.py")
    monkeypatch.setattr(module, "find_spec", lambda name: found)
    return module


def test_f10_a_lab_runs_again_only_if_it_or_the_package_changed(
    labs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = []

    def run(path: str, options: Any) -> Any:
        ran.append(path)
        cell = nbformat.v4.new_code_cell(
            f"run {len(ran)}", outputs=[nbformat.v4.new_output("stream", text="2\n")]
        )
        return nbformat.v4.new_notebook(cells=[cell])

    monkeypatch.setattr(labs, "executed", run)
    lab, cache = tmp_path / "lab.py", tmp_path / "cache"
    lab.write_text(LAB)

    def source() -> str:
        notebook = labs.kept_or_executed(lab, OPTIONS, cache)
        assert labs.as_markdown(notebook, "lab.py").endswith("```output\n2\n```")
        return str(notebook.cells[0].source)

    assert [source(), source()] == ["run 1", "run 1"]
    lab.write_text(LAB + "\n")
    assert [source(), source()] == ["run 2", "run 2"]
    (tmp_path / "tinyattn" / "__init__.py").write_text("a = 2\n")
    assert [source(), source()] == ["run 3", "run 3"]
    assert len(list(cache.iterdir())) == 1


def test_a_lab_that_fails_is_not_kept(
    labs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(path: str, options: Any) -> Any:
        raise ArithmeticError

    monkeypatch.setattr(labs, "executed", fail)
    lab, cache = tmp_path / "lab.py", tmp_path / "cache"
    lab.write_text(LAB)
    with pytest.raises(ArithmeticError):
        labs.kept_or_executed(lab, OPTIONS, cache)
    assert not cache.exists()
