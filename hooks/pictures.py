"""Pictures: an SVG of ours is put into the page, where it can see the theme.

Under it stands the same data as a table, read from the picture's own metadata. A page whose front
matter has ``live: [a, b]`` loads ``assets/live/a.js`` and ``b.js``, which move what stands there.
"""

import html
import json
import logging
import posixpath
import re
from itertools import count
from pathlib import Path
from typing import Any

from mkdocs.utils import get_relative_url

log = logging.getLogger("mkdocs.hooks.pictures")

IMAGE = re.compile(r'<p>\s*<img alt="(?P<alt>[^"]*)" src="(?P<src>[^"]+\.svg)"[^>]*>\s*</p>')
LAB = re.compile(r'<div class="lab-picture">(?P<svg><svg.*?</svg>)</div>', re.DOTALL)
METADATA = re.compile(r"\s*<metadata[^>]*>(.*?)</metadata>", re.DOTALL)
TITLE = re.compile(r"\s*<title[^>]*>(.*?)</title>", re.DOTALL)
DESC = re.compile(r'<desc[^>]*\bid="([^"]+)"')


def figure(svg: str, alt: str, number: int, file: str) -> str:
    """One picture of a page: ids its own, ``alt`` its name, its numbers as a table.

    Scripts ask what kind of picture it is, and under which name to save it: ``file``.
    """
    svg = re.sub(r"<\?xml.*?\?>\s*", "", svg).strip()
    data = METADATA.search(svg)
    svg = METADATA.sub("", svg, count=1)
    # The first title is the whole picture's: left in, it would follow the pointer about.
    title = TITLE.search(svg)
    svg = TITLE.sub("", svg, count=1)
    if not alt and title:
        alt = title[1].replace('"', "&quot;")
    for name in set(re.findall(r'\bid="([^"]+)"', svg)):
        own = f"p{number}-{name}"
        svg = svg.replace(f'id="{name}"', f'id="{own}"')
        svg = svg.replace(f"url(#{name})", f"url(#{own})")
        svg = svg.replace(f'href="#{name}"', f'href="#{own}"')
    described = DESC.search(svg)
    svg = re.sub(r'\s+aria-labelledby="[^"]*"|\s+aria-describedby="[^"]*"', "", svg, count=2)
    name = f'<svg aria-label="{alt}"'
    if described:
        name += f' aria-describedby="{described[1]}"'
    svg = svg.replace("<svg", name, 1)
    told = json.loads(html.unescape(data[1])) if data else {}
    said = f'data-search-exclude="true" data-kind="{told.get("kind", "")}" data-file="{file}"'
    return f'<figure class="picture" {said}>\n{svg}\n{as_table(told)}</figure>'


def as_table(data: dict[str, Any]) -> str:
    if "values" not in data:
        return ""
    head = "".join(f'<th scope="col">{html.escape(str(c))}</th>' for c in data["columns"])
    body = "".join(
        f'<tr><th scope="row">{html.escape(str(name))}</th>'
        + "".join(f"<td>{html.escape(str(value))}</td>" for value in row)
        + "</tr>"
        for name, row in zip(data["rows"], data["values"], strict=True)
    )
    said = html.escape(data.get("reads", ""))
    return (
        "<details><summary>The same as a table</summary>"
        f'<div class="scroll"><table class="numbers"><caption>{said}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div></details>\n"
    )


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    number = count(1)

    def image(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.url), match["src"]))
        source = Path(config.docs_dir, path)
        if not source.is_file():
            return match[0]  # MkDocs has already warned of this link
        return figure(source.read_text(encoding="utf-8"), match["alt"], next(number), source.stem)

    def drawn(match: re.Match[str]) -> str:
        here = next(number)
        return figure(match["svg"], "", here, f"{Path(page.file.src_uri).stem}-{here}")

    content = IMAGE.sub(image, content)
    content = LAB.sub(drawn, content)
    if re.search(r'<img [^>]*src="[^"]+\.svg"', content):
        log.warning("%s: a picture must stand in a paragraph of its own", page.file.src_uri)
    for script in page.meta.get("live", []):
        source = get_relative_url(f"assets/live/{script}.js", page.url)
        content += f'\n<script src="{source}" defer></script>'
    return content
