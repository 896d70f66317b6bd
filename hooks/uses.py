"""Uses: each name of the reference leads back to the pages whose snippets use it.

The overview of the reference lists the modules, each with the first line of its docstring.
"""

import ast
import html
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.utils import get_relative_url
from remembered import remembered

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from checker import fences

used: dict[str, list[Any]] = {}  # the pages that use a name of the package, in their order
modules: list[Any] = []  # the pages of the reference

NAME = re.compile(r'<h2 id="tinyattn\.\w+\.(\w+)" class="doc doc-heading">.*?</p>', re.DOTALL)


@remembered
def names(source: str, script: bool) -> set[str]:
    """What a page imports from tinyattn and then uses."""
    if script:
        _, code = fences.cells(source, lambda at, said: None)
    else:
        found = fences.find(source, lambda at, said: None)
        code = [fence for fence in found if fence.language == "python"]
    imported, loaded = set[str](), set[str]()
    for fence in code:
        for node in ast.walk(ast.parse(fence.text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tinyattn"):
                imported.update(name.name for name in node.names)
            elif isinstance(node, ast.Name):
                loaded.add(node.id)
    return imported & loaded


@remembered
def purpose(module: str) -> str:
    """The first sentence of a module's docstring."""
    doc = ast.get_docstring(ast.parse(module)) or ""
    return doc.partition("\n\n")[0].replace("\n", " ")


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    used.clear()
    modules.clear()
    for page in nav.pages:
        source = page.file.src_uri
        if source.startswith("reference/"):
            modules.append(page)
            continue
        for name in names(Path(page.file.abs_src_path).read_text("utf-8"), source.endswith(".py")):
            used.setdefault(name, []).append(page)
    return nav


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """In a search, a chapter comes before the reference, unless a name itself is asked for."""
    if page in modules:
        page.meta.setdefault("search", {"boost": 0.5})
    return markdown


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    def link(other: Any, words: str) -> str:
        return f'<a href="{get_relative_url(other.url, page.url)}">{words}</a>'

    def back(match: re.Match[str]) -> str:
        links = [link(other, html.escape(other.title)) for other in used.get(match[1], [])]
        said = (
            f'<p class="used" data-search-exclude="true">Used in {", ".join(links)}.</p>'
            if links
            else ""
        )
        return match[0] + said

    if page.file.src_uri == "reference/index.md":
        page.content += overview(config, link)
    elif page in modules:
        page.content = NAME.sub(back, page.content)
    return context


def overview(config: Any, link: Any) -> str:
    lines = []
    for page in modules:
        name = Path(page.file.src_uri).stem
        file = Path(config.config_file_path).parent / "src/tinyattn" / f"{name}.py"
        if not file.is_file():
            continue
        first = html.escape(purpose(file.read_text(encoding="utf-8")))
        lines.append(f"<li>{link(page, f'<code>{name}</code>')} {first}</li>")
    return f"<ul>{''.join(lines)}</ul>"
