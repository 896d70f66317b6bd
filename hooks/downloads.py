"""What a reader can take along: each page as notebook, script and Markdown, and the package.

Beside each page lie its notebook, its script, its Markdown and, as written, its source. The
package lies at the top of the site as a wheel, so that a notebook installs the version which
its page was made with. ``llms.txt`` lists the Markdown, ``llms-full.txt`` holds all of it.
"""

import base64
import functools
import hashlib
import html
import io
import zipfile
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urljoin

import taken
from mkdocs.utils import get_relative_url
from remembered import remembered

addresses: dict[str, str] = {}  # each page's address below the site's
ordered: list[Any] = []  # the pages, those of the navigation first and in its order


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    pages = [file.page for file in files.documentation_pages()]
    addresses.clear()
    addresses.update({page.file.src_uri: page.url for page in pages})
    ordered[:] = [*nav.pages, *(page for page in pages if page not in nav.pages)]
    return nav


def wheel_name() -> str:
    return f"tinyattn-{distribution('tinyattn').version}-py3-none-any.whl"


def install(config: Any) -> str:
    """The line that installs the package: said once, in mkdocs.yml."""
    line: str = config.extra["install"]
    return line.format(wheel=urljoin(config.site_url, wheel_name()))


def beside(page: Any, ending: str) -> str:
    """The place of a file that belongs to a page, as an address below the site's."""
    made = PurePosixPath(page.file.dest_uri)
    source = PurePosixPath(page.file.src_uri)
    if ending == ".md":
        return made.with_suffix(".md").as_posix()
    name = "home" if source.stem == "index" else source.stem
    return (made.parent / f"{name}{ending}").as_posix()


@remembered
def forms(
    markdown: str, source: str, stem: str, line: str, site: str, known: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    """A page in each form, by the ending of its file; ``line`` installs the package."""
    parts = taken.cells(markdown, taken.full_links(source, site, dict(known)))
    made = {".md": taken.as_markdown(parts)}
    if not source.startswith("reference/") and any(cell.kind == "code" for cell in parts):
        made[".ipynb"] = taken.as_notebook(parts, line)
        made[".py"] = taken.as_script(parts, line, stem)
    return made


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """A line that offers the files, under the title; on the home page, at the end."""
    if 'class="language-python' not in page.content or "doc-heading" in page.content:
        return context

    def link(ending: str, words: str, how: str = "") -> str:
        return f'<a href="{get_relative_url(beside(page, ending), page.url)}"{how}>{words}</a>'

    notebook = link(".ipynb", "notebook", " download")
    script = link(".py", "script", ' class="script" download')
    text, source = link(".md", "Markdown"), link(".txt", "source")
    line = f"This page as a {notebook}, a {script}, {text}; its {source}."
    if page.is_homepage:
        line += f" The package: <code>{html.escape(install(config))}</code>."
        line += ' The whole book <a href="book.html">on one page</a>, to print.'
        page.content += f'<p class="about" data-search-exclude="true">{line}</p>'
    else:
        head, opening, rest = page.content.partition('<p class="about"')
        said, closing, rest = rest.partition("</p>")
        page.content = f"{head}{opening}{said}<br>{line}{closing}{rest}"
    return context


def on_post_build(config: Any) -> None:
    site = Path(config.site_dir)
    ground = install(config), config.site_url, tuple(addresses.items())
    whole = []
    for page in ordered:
        markdown, source = page.markdown, page.file.src_uri
        of_package = source.startswith("reference/")
        if of_package:
            markdown = as_source(markdown, config)
        made = forms(markdown, source, PurePosixPath(beside(page, "")).name, *ground)
        for ending, text in made.items():
            write(site / beside(page, ending), text)
        if not of_package:
            whole.append(made[".md"])
        if ".ipynb" in made:
            written = Path(page.file.abs_src_path).read_text(encoding="utf-8")
            write(site / beside(page, ".txt"), written)
    write(site / "llms.txt", contents(config))
    write(site / "llms-full.txt", "\n\n".join(whole))
    package(site / wheel_name())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def as_source(markdown: str, config: Any) -> str:
    """A page of the reference for who reads no HTML: the module itself."""
    title, _, module = markdown.partition("\n::: tinyattn.")
    file = Path(config.config_file_path).parent / "src/tinyattn" / f"{module.strip()}.py"
    if not file.is_file():
        return markdown
    return f"{title}\n{taken.fenced('python', file.read_text(encoding='utf-8'))}\n"


def contents(config: Any) -> str:
    """The list of pages in the form of llmstxt.org, section by section."""
    sections: dict[str, list[str]] = {}
    for page in ordered:
        over = page.parent.title if page.parent else "More pages"
        if page.is_homepage:
            over = "Start"
        parts = sections.setdefault("Optional" if over == "Reference" else over, [])
        address = urljoin(config.site_url, beside(page, ".md"))
        said = page.meta.get("description")
        parts.append(f"- [{page.title}]({address})" + (f": {said}" if said else ""))
    lists = [f"\n## {name}\n\n" + "\n".join(pages) + "\n" for name, pages in sections.items()]
    return f"# {config.site_name}\n\n> {config.site_description}\n" + "".join(lists)


def package(path: Path) -> None:
    """The package as a wheel, the same to the bit whenever the same package is packed."""
    found = find_spec("tinyattn")
    assert found is not None
    assert found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0])
    installed = distribution("tinyattn")
    meta = f"tinyattn-{installed.version}.dist-info"
    files = {
        f"tinyattn/{file.relative_to(folder).as_posix()}": file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    kind = "Wheel-Version: 1.0\nGenerator: tinyattn\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{meta}/METADATA"] = (installed.read_text("METADATA") or "").encode()
    files[f"{meta}/WHEEL"] = kind.encode()
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{meta}/RECORD"] = f"{record}{meta}/RECORD,,\n".encode()
    path.write_bytes(packed(tuple(files.items())))


@functools.lru_cache(maxsize=1)
def packed(files: tuple[tuple[str, bytes], ...]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files:
            wheel.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
