"""What the site offers beside its pages: a feed of changes, the whole book on one page to
print, and a way on from the old addresses of pages that have moved.

``extra.moved`` in mkdocs.yml holds those: ``attention/old.md: attention/new.md``.
"""

import html
import logging
import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import markdown as converter
import taken
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

log = logging.getLogger("mkdocs.hooks.published")

ENTRY = re.compile(
    r"^## \*(\d{4}-\d\d-\d\d)\*(?:<!--.*?-->)?, (.*)\n((?:(?!## ).*\n?)*)", re.MULTILINE
)
TABS = re.compile(
    r'<input [^>]*name="__tabbed_[^>]*>|(?P<labels><div class="tabbed-labels">.*?</div>)'
    r'|(?P<block><div class="tabbed-block">)',
    re.DOTALL,
)
chapters: list[Any] = []
templates: Any = None


def on_files(files: Any, config: Any) -> Any:
    changes = files.get_file_from_path("changelog.md")
    config.extra["feed"] = "feed.xml" if changes else ""
    if changes:
        files.append(File.generated(config, "feed.xml", content=feed(changes, files, config)))
    return files


def feed(changes: Any, files: Any, config: Any) -> str:
    """The changes in the form of Atom, read from their page."""

    known = {file.src_uri: file.url for file in files}
    full = taken.full_links(changes.src_uri, config.site_url, known)
    here = urljoin(config.site_url, changes.url)
    text = changes.content_string
    entries, found = [], ENTRY.findall(text)
    for day, title, body in found:
        told = converter.markdown(taken.plain(body, [], full))
        entries.append(
            f"<entry><id>{here}#{day}</id><title>{html.escape(title)}</title>"
            f"<updated>{day}T00:00:00Z</updated>"
            f'<link href="{here}"/><content type="html">{html.escape(told)}</content></entry>'
        )
    if len(entries) != len(re.findall("^## ", text, re.MULTILINE)):
        log.warning("%s: an entry begins with ## *year-month-day*, title", changes.src_uri)
    days = [day for day, _, _ in found]
    if days != sorted(days, reverse=True):
        log.warning("%s: the newest entry comes first", changes.src_uri)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<id>{config.site_url}</id><title>{html.escape(config.site_name)}</title>"
        f"<author><name>{html.escape(config.site_name)}</name></author>"
        f"<updated>{max(days, default='1970-01-01')}T00:00:00Z</updated>"
        f'<link href="{here}"/><link rel="self" href="{urljoin(config.site_url, "feed.xml")}"/>'
        f"{''.join(entries)}</feed>\n"
    )


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    chapters[:] = [page for page in nav.pages if not page.file.src_uri.startswith("reference/")]
    return nav


def on_env(env: Any, config: Any, files: Any) -> Any:
    global templates
    templates = env
    return env


def on_post_build(config: Any) -> None:
    site = Path(config.site_dir)
    inside = {page.url: name(page.url) for page in chapters}
    parts = [(page.title, inside[page.url], bound(page, inside)) for page in chapters]
    whole = templates.get_template("book.html").render(
        config=config, parts=parts, page=None, base_url="."
    )
    (site / "book.html").write_text(whole, encoding="utf-8", newline="\n")
    moved(config, site)


def name(url: str) -> str:
    return re.sub(r"\W+", "-", url).strip("-") or "home"


def bound(page: Any, inside: dict[str, str]) -> str:
    """A page as a chapter of the one long page: names its own, answers and tabs all open."""
    own = inside[page.url]

    def there(match: re.Match[str]) -> str:
        link = match[1]
        if re.match(r"[a-z]+:", link):
            return match[0]
        path, mark, anchor = link.partition("#")
        folder = page.url if page.url.endswith("/") else posixpath.dirname(page.url)
        target = posixpath.normpath(posixpath.join(folder, path)) if path else page.url
        target = "" if target == "." else target + "/" * (path.endswith("/") or path == "..")
        if target in inside:
            return f'href="#{inside[target]}{"--" + anchor if mark else ""}"'
        return f'href="{target}{mark}{anchor}"'

    labels: list[str] = []

    def opened(part: re.Match[str]) -> str:
        if part["labels"]:
            labels[:] = re.findall(r"<label[^>]*>(.*?)</label>", part[0], re.DOTALL)
        return f"{part[0]}<p><strong>{labels.pop(0)}</strong></p>" if part["block"] else ""

    left_out = r'<p class="about".*?</p>|<script\b.*?</script>'
    content = re.sub(left_out, "", page.content, flags=re.DOTALL)
    content = TABS.sub(opened, content)
    content = re.sub(r' (id|aria-describedby|for)="([^"]*)"', rf' \1="{own}--\2"', content)
    content = re.sub(r"url\(#([^)]*)\)", rf"url(#{own}--\1)", content)
    content = re.sub(r'href="([^"]*)"', there, content)
    content = re.sub(r'(<span class="(?:pin|given)") title="[^"]*"', r"\1", content)
    content = re.sub(r'<a class="headerlink".*?</a>', "", content)
    return content.replace("<details class=", "<details open class=")


MOVED = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Moved</title>
<meta name="robots" content="noindex">
<link rel="canonical" href="{full}">
<meta http-equiv="refresh" content="0; url={near}">
<script>location.replace("{near}" + location.hash)</script>
</head>
<body><p>This page has moved to <a href="{near}">{full}</a>.</p></body>
</html>
"""


def moved(config: Any, site: Path) -> None:
    """A page at each old address that leads on, with its anchor, to the new one."""
    for old, new in (config.extra.get("moved") or {}).items():
        before, after = (
            File(source, config.docs_dir, config.site_dir, config.use_directory_urls)
            for source in (old, new)
        )
        if not (site / after.dest_uri).is_file():
            log.warning("moved: %s is said to be at %s, where no page is", old, new)
        elif (site / before.dest_uri).is_file():
            log.warning("moved: there is a page at %s, from where %s has moved", old, new)
        else:
            full = urljoin(config.site_url, after.url)
            near = get_relative_url(after.url, before.url)
            (site / before.dest_uri).parent.mkdir(parents=True, exist_ok=True)
            text = MOVED.format(full=full, near=near)
            (site / before.dest_uri).write_text(text, encoding="utf-8", newline="\n")
