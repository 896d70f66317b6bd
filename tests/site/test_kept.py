"""A page that did not change is not rendered again; one that did, or must warn again, is."""

import logging
import pickle
import shutil
from pathlib import Path
from typing import Any

import mkdocs.structure.pages
import pytest
from built import ROOT
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.config_options import Hooks

SETTINGS = """
site_name: Small
theme: {{name: material, font: false}}
plugins:
  - search
  - mkdocstrings: {{handlers: {{python: {{paths: [code]}}}}}}
hooks: [{hooks}]
"""
PAGES = {
    "docs/index.md": "# Home\n\nTo [the other](other.md#end), to [`f`][pack.f].\n",
    "docs/other.md": "# Other\n\nOne.\n\n## End\n\nTwo.\n",
    "docs/pack.md": "# Pack\n\n::: pack\n",
    "code/pack.py": '"""A package."""\n\n\ndef f():\n    """Once."""\n',
}


class Project:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.write("mkdocs.yml", SETTINGS.format(hooks=ROOT / "hooks" / "kept.py"))
        for name, text in PAGES.items():
            self.write(name, text)
        self.rendered = list[str]()
        render = mkdocs.structure.pages.Page.render

        def counted(page: Any, config: Any, files: Any) -> None:
            self.rendered.append(page.file.src_uri)
            render(page, config, files)

        monkeypatch.setattr(mkdocs.structure.pages.Page, "render", counted)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def build(self) -> tuple[list[str], dict[str, str]]:
        """Which pages are rendered, and the pages and what search knows of them."""
        self.rendered.clear()
        config = load_config(config_file=str(self.folder / "mkdocs.yml"))
        build(config)
        site = self.folder / "site"
        made = [*site.rglob("*.html"), site / "search" / "search_index.json"]
        read = {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in made}
        return sorted(self.rendered), read


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    return Project(tmp_path, monkeypatch)


def test_what_did_not_change_is_kept_to_the_letter(project: Project) -> None:
    first, site = project.build()
    assert first == ["index.md", "other.md", "pack.md"]
    assert '"location":"other/#end"' in site["search/search_index.json"]
    assert 'href="pack/#pack.f"' in site["index.html"]
    assert project.build() == ([], site)

    project.write("docs/other.md", PAGES["docs/other.md"] + "\nThree.\n")
    second, changed = project.build()
    assert second == ["other.md"]
    assert "Three." in changed["other/index.html"]
    assert "Three." in changed["search/search_index.json"]
    assert changed["pack/index.html"] == site["pack/index.html"]
    project.write("docs/other.md", "---\ntags: [another]\n---\n\n" + PAGES["docs/other.md"])
    assert '"tags":["another"]' in project.build()[1]["search/search_index.json"]
    project.write("docs/other.md", PAGES["docs/other.md"])
    assert project.build()[1] == site


def test_the_reference_follows_the_package(project: Project) -> None:
    project.build()
    project.write("code/pack.py", PAGES["code/pack.py"].replace("Once", "Twice"))
    again, site = project.build()
    assert again == ["pack.md"]
    assert "Twice." in site["pack/index.html"]


def test_a_warning_comes_back(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    """And so does that of an anchor which another page no longer has."""
    project.write("docs/other.md", "# Other\n\nTo [nowhere](nowhere.md).\n")
    for rendered in (["index.md", "other.md", "pack.md"], ["other.md"]):
        caplog.clear()
        with caplog.at_level(logging.INFO, "mkdocs"):
            assert project.build()[0] == rendered
        assert "nowhere.md" in caplog.text
        assert "does not contain an anchor '#end'" in caplog.text


def test_a_new_page_can_be_linked_to(project: Project) -> None:
    project.build()
    project.write("docs/new.md", "# New\n")
    assert project.build()[0] == ["index.md", "new.md", "other.md", "pack.md"]


def test_the_reference_is_known_by_any_of_its_forms(project: Project) -> None:
    for form in ("## ::: pack", ":::pack"):
        project.write("docs/pack.md", f"# Pack\n\n{form}\n")
        project.write("code/pack.py", PAGES["code/pack.py"])
        project.build()
        project.write("code/pack.py", PAGES["code/pack.py"].replace("Once", "Twice"))
        assert project.build()[0] == ["pack.md"], form


MARK = """
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

class Last(Postprocessor):
    def run(self, text):
        return text + "<p>MARK.</p>"

class Mark(Extension):
    def extendMarkdown(self, md):
        md.postprocessors.register(Last(md), "mark", 0)

def on_config(config):
    config.markdown_extensions.append(Mark())
    return config
"""


def test_a_hook_that_changes_while_it_runs_spoils_nothing(project: Project) -> None:
    """A process loads a hook once. What the old one made is not taken for the new one's."""
    for name in ("kept", "store"):
        project.write(f"hooks/{name}.py", (ROOT / "hooks" / f"{name}.py").read_text("utf-8"))
    project.write("mkdocs.yml", SETTINGS.format(hooks="hooks/mark.py, hooks/kept.py"))

    def started() -> None:
        Hooks._load_hook.cache_clear()

    started()
    project.write("hooks/mark.py", MARK.replace("MARK", "Before"))
    assert "Before." in project.build()[1]["index.html"]
    project.write("hooks/mark.py", MARK.replace("MARK", "After"))
    assert "Before." in project.build()[1]["index.html"]
    started()
    assert "After." in project.build()[1]["index.html"]
    started()


def test_what_cannot_be_read_or_kept_is_made_again(project: Project) -> None:
    first, site = project.build()
    cache = project.folder / ".cache"

    def kept() -> list[Path]:
        found = (path for path in (cache / "pages").iterdir() if path.suffix != ".cache")
        return sorted(found, key=lambda path: path.suffix)

    assert len(kept()) == 2 * len(first)
    for at, path in enumerate(kept()):
        data = path.read_bytes()
        cut, changed = data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1])
        path.write_bytes((cut, changed, pickle.dumps(None))[at % 3])
    assert project.build() == (first, site)
    assert project.build() == ([], site)
    for path in kept():
        path.unlink()
        path.mkdir()
    assert project.build() == (first, site)
    assert len(kept()) == 2 * len(first), "half a file stays"
    shutil.rmtree(cache)
    cache.write_text("")
    assert project.build() == (first, site)
