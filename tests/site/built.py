"""The site as a visitor meets it: built strictly, served below a sub-path."""

import functools
import http.server
import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).parents[2]
BELOW = "book"  # a project's pages rarely stand at the root of their host


@dataclass(frozen=True)
class Site:
    folder: Path
    url: str
    seconds: float  # of processor, which the build took

    @property
    def pages(self) -> list[str]:
        """Every page, as its address below ``url``."""
        found = (path.parent.relative_to(self.folder) for path in self.folder.rglob("index.html"))
        return sorted("" if str(page) == "." else f"{page.as_posix()}/" for page in found)

    def html(self, page: str) -> str:
        return (self.folder / page / "index.html").read_text(encoding="utf-8")


def build(project: Path, into: Path, url: str = "") -> "subprocess.CompletedProcess[str]":
    """The project's own build, with warnings as errors."""
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "OMP_WAIT_POLICY": "passive",
        "PYTHONPATH": str(ROOT / "src"),
        **({"SITE_URL": url} if url else {}),
    }
    environment.pop("OFFLINE", None)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(into)]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, encoding="utf-8"
    )


def spent() -> float:
    """Seconds of processor which child processes have taken: a busy machine adds none."""
    times = os.times()
    return times.children_user + times.children_system


class Quiet(http.server.SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=600")  # as the usual hosts of pages do
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[Site]:
    """The project's site, built into ``folder`` and served from there."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        url = f"http://127.0.0.1:{server.server_port}/{BELOW}/"
        before = spent()
        done = build(ROOT, folder / BELOW, url)
        seconds = spent() - before
        assert done.returncode == 0, done.stderr
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(folder / BELOW, url, seconds)
        server.shutdown()


class Page(HTMLParser):
    """What the tests ask of a page's HTML: ids, links, and the text a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []  # text nodes outside code
        self.code: list[str] = []  # text nodes inside code
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        for name in ("href", "src", "xlink:href"):
            if given.get(name) is not None:
                self.links.append(str(given[name]))
        if tag in ("code", "script", "style", "pre"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._open[-1]:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not self._open:
            self.text.append(data)
        elif self._open[-1] in ("code", "pre"):
            self.code.append(data)


def broken_links(folder: Path) -> list[tuple[str, str, str]]:
    """The links and anchors of all pages which lead nowhere, labs and raw HTML included."""
    read = {
        path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.html")
    }
    broken = []
    for page, html in read.items():
        for link in html.links:
            if outside(link):
                continue
            address = urlsplit(urljoin(f"/{BELOW}/{page}", link))
            within = PurePosixPath(unquote(address.path)).relative_to(f"/{BELOW}").as_posix()
            file = folder / within
            if file.is_dir():
                if not address.path.endswith("/"):
                    broken.append((page, link, "a folder without its slash"))
                file = file / "index.html"
            if not file.is_file():
                broken.append((page, link, "no such file"))
            there = read.get(file.relative_to(folder).as_posix())
            if there and address.fragment and unquote(address.fragment) not in there.ids:
                broken.append((page, link, "no such anchor"))
    return broken


def outside(link: str) -> bool:
    return re.match(r"[a-z][a-z+.-]*:|//", link) is not None


def hook(name: str) -> Any:
    """A hook of the build, as a module."""
    where = ROOT / "hooks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, where)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(where.parent))
    spec.loader.exec_module(module)
    sys.path.remove(str(where.parent))
    return module
