"""The built site, read as files: links, anchors, search, weight, and what must not be in it."""

import gzip
import json
import re

import pytest
from built import ROOT, Page, Site, broken_links, outside


@pytest.fixture(scope="session")
def read(site: Site) -> dict[str, Page]:
    return {page: Page(site.html(page)) for page in site.pages}


def test_c20_the_build_takes_seconds(site: Site) -> None:
    """The whole book, reference and labs included, is built in a minute and a half at most."""
    assert site.seconds < 90


def test_every_source_is_a_page(site: Site) -> None:
    sources = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/labs/*.py")]
    names = [source.relative_to(ROOT / "docs").with_suffix("") for source in sources]
    made = [f"{name.as_posix()}/".removesuffix("index/") for name in names]
    assert sorted(made) == site.pages


def test_c13_ids_are_unique(read: dict[str, Page]) -> None:
    for page, html in read.items():
        assert len(html.ids) == len(set(html.ids)), (
            page,
            sorted(name for name in set(html.ids) if html.ids.count(name) > 1),
        )


def test_c15_links_and_anchors_lead_somewhere(site: Site) -> None:
    assert not broken_links(site.folder)


def test_no_source_shows_through(site: Site, read: dict[str, Page]) -> None:
    """C18, C22, C27: no mark of Markdown, warning, progress bar, path or comment."""
    for page, html in read.items():
        text, shown = "".join(html.text), "".join(html.text + html.code)
        for mark in ("!!!", "???", '=== "', "][", "[TOC]", "```", "$$"):
            assert mark not in text, (page, mark)
        for word in ("Warning", "/home/", "site-packages", "%|", "skip:"):
            assert word not in shown, (page, word)
        # Docstrings show errors as the interpreter does; pages and labs show their last line.
        assert page.startswith("reference/") or "Traceback" not in shown, page
        assert "<!--" not in site.html(page), page
        assert not re.search("[\ue000-\uf8ff]", site.html(page)), page


HEAVIEST = {"worklog/": 21_500}
"""The worklog holds all of its source's figures, and one of them alive."""


def test_a_page_is_light(site: Site) -> None:
    weights = {page: len(gzip.compress(site.html(page).encode())) for page in site.pages}
    heavy = {page: w for page, w in weights.items() if w > HEAVIEST.get(page, 20_000)}
    assert not heavy


def test_c16_the_search_index_is_small_and_clean(site: Site) -> None:
    index = (site.folder / "search" / "search_index.json").read_text(encoding="utf-8")
    assert len(index) < 1_000_000
    entries = json.loads(index)["docs"]
    for junk in ("In [", "Out[", "Copied!", "tensor([", "Traceback", "¶", "<svg", "<math"):
        assert not [entry["location"] for entry in entries if junk in entry["text"]], junk
        assert not [entry["location"] for entry in entries if junk in entry["title"]], junk


def test_the_way_from_page_to_page_asks_for_no_font(site: Site) -> None:
    """The head is renewed on that way, and a browser warns of what it fetched and did not use."""
    heads = {site.html(page).partition("</head>")[0] for page in site.pages}
    asked = {tuple(re.findall(r'rel="preload" href="[./]*([^"]+)"', head)) for head in heads}
    assert len(asked) == 1
    assert all(asked)


def test_c26_nothing_is_asked_of_another_host(site: Site, read: dict[str, Page]) -> None:
    """What a page loads by itself; the browser test watches the same thing happen."""
    for page in read:
        loads = re.findall(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"', site.html(page))
        loads += re.findall(
            r'<link\b[^>]*rel="(?:stylesheet|preload|icon)"[^>]*href="([^"]+)"', site.html(page)
        )
        assert loads
        assert not [load for load in loads if outside(load)], page
    for sheet in site.folder.rglob("*.css"):
        for target in re.findall(r"url\(\"?([^)\"]+)", sheet.read_text(encoding="utf-8")):
            assert target.startswith("data:") or not outside(target), (sheet.name, target)
