"""Kept: a page that did not change is not rendered again, nor read again for search.

What a page was rendered to lies in ``.cache/pages`` and counts as long as all that decides it is
the same: its Markdown, the addresses of the other pages, the hooks, the settings, what is
installed, and, for the reference, the package. A page that gave a warning is not kept, so that
the warning comes back.
"""

import hashlib
import logging
import pickle
import sys
from pathlib import Path
from types import MethodType
from typing import Any

import store
from jinja2 import FileSystemBytecodeCache

READ = ("content", "toc", "_title_from_render", "present_anchor_ids")

log = logging.getLogger("mkdocs")
ground = ""  # short for what decides every page
reference = ""  # and for the package, which decides the pages made of it
folder = Path()


class Warnings(logging.Handler):
    """Counts them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def short(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def sources(*places: Path) -> list[bytes]:
    found = [path for place in places for path in sorted(place.rglob("*.py"))]
    return [path.read_bytes() for path in found]


def code() -> list[bytes]:
    here = Path(__file__).parents[1]
    return sources(here / "hooks", here / "tests" / "checker")


# As this process loaded them: while a site is served, the files may change and these do not.
LOADED = code()
INSTALLED = sorted(found.name for place in sys.path for found in Path(place).glob("*.dist-info"))


def on_files(files: Any, config: Any) -> Any:
    global ground, reference, folder
    project = Path(config.config_file_path).parent
    folder = project / ".cache" / "pages"
    if code() != LOADED:
        log.info("The hooks changed. This process still runs the old ones: start it again")
    names = [
        name if isinstance(name, str) else repr(type(name)) for name in config.markdown_extensions
    ]
    settings = {name: config.mdx_configs[name] for name in names if name in config.mdx_configs}
    addresses = [(file.src_uri, file.url) for file in files]
    ground = short(sys.version, INSTALLED, names, settings, config.validation, addresses, LOADED)
    if "mkdocstrings" in config.plugins:
        handlers = config.plugins["mkdocstrings"].config.handlers
        packages = [project / path for path in handlers["python"]["paths"]]
        reference = short(handlers, sources(*packages))
    return files


def on_pre_page(page: Any, config: Any, files: Any) -> Any:
    page.render = MethodType(rendered, page)
    return page


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    search = config.plugins.get("material/search")
    if search and search.config.enabled:
        search.search_index.add_entry_from_context = MethodType(indexed, search.search_index)
    return nav


def on_env(env: Any, config: Any, files: Any) -> Any:
    """Templates are compiled once, too."""
    if store.usable(folder):
        env.bytecode_cache = FileSystemBytecodeCache(str(folder))
    return env


def place(page: Any, kind: str) -> Path:
    return folder / f"{short(page.file.src_uri)}.{kind}"


def recall(page: Any, kind: str, key: str) -> Any:
    """What was kept of a page under this key, or None."""
    found = store.recall(place(page, kind))
    of, value = pickle.loads(found) if found else (None, None)
    return value if of == key else None


def keep(page: Any, kind: str, key: str, value: Any) -> None:
    store.keep(place(page, kind), pickle.dumps((key, value)))


def rendered(page: Any, config: Any, files: Any) -> None:
    """In place of the page's own ``render``."""
    autorefs = config.plugins.get("autorefs")
    made_of = reference if ":::" in page.markdown else ""
    key = short(ground, made_of, page.file.src_uri, page.markdown)
    kept = recall(page, "html", key)
    if kept is None:
        kept = anew(page, config, files, autorefs)
        if kept is not None:
            keep(page, "html", key, kept)
        return
    read, links, anchors = kept
    vars(page).update(read)
    page.links_to_anchors = {files.get_file_from_path(to): found for to, found in links.items()}
    for given, named in anchors:
        autorefs.register_anchor(page, *given, **named)
    if made_of:
        config.plugins["mkdocstrings"].get_handler("python")  # whose styles the site needs


def anew(page: Any, config: Any, files: Any, autorefs: Any) -> Any:
    """Render the page, and say what came of it; None if that is not to be kept."""
    warnings, anchors = Warnings(), list[Any]()

    def heard(of: Any, *given: Any, **named: Any) -> None:
        anchors.append((given, named))
        type(autorefs).register_anchor(autorefs, of, *given, **named)

    log.addHandler(warnings)
    if autorefs:
        autorefs.register_anchor = heard
    try:
        type(page).render(page, config, files)
    finally:
        log.removeHandler(warnings)
        if autorefs:
            del autorefs.register_anchor
    if warnings.count:
        return None
    links = {to.src_uri: found for to, found in (page.links_to_anchors or {}).items()}
    return {name: getattr(page, name) for name in READ}, links, anchors


def indexed(index: Any, page: Any) -> None:
    """In place of the search index's own ``add_entry_from_context``."""
    key = short(ground, page.content, page.url, page.title, page.meta)
    entries = recall(page, "search", key)
    if entries is None:
        before = len(index.entries)
        type(index).add_entry_from_context(index, page)
        keep(page, "search", key, index.entries[before:])
    else:
        index.entries += entries
