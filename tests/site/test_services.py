"""The site's services: what it weighs on the way to a reader, and what it finds for one."""

import contextlib
import functools
import gzip
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from built import BELOW, ROOT, Site, hook
from built import Page as BuiltPage
from playwright.sync_api import Browser, BrowserContext, Page, TimeoutError
from test_browser import same

TEXT = (".html", ".css", ".js", ".json", ".xml", ".svg", ".txt", ".md")


class Zipped(http.server.SimpleHTTPRequestHandler):
    """Files as the usual hosts of pages send them: zipped, and with a 404 page of the site."""

    sent: dict[str, int]

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.is_dir():
            path = path / "index.html"
        found = path.is_file()
        if not found:
            path = Path(self.directory, BELOW, "404.html")
        body = path.read_bytes()
        self.send_response(200 if found else 404)
        if path.suffix in TEXT:
            body = gzip.compress(body, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=600")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a page left before its last file came
            self.wfile.write(body)
        self.sent[self.path.partition("?")[0]] = len(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def host(site: Site) -> Iterator[tuple[str, dict[str, int]]]:
    """The built site at an address of its own, and the bytes sent for each of its files."""
    sent = dict[str, int]()
    served = type("Noted", (Zipped,), {"sent": sent})
    handler = functools.partial(served, directory=str(site.folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{BELOW}/", sent
        server.shutdown()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


def visit(page: Page, url: str) -> None:
    page.goto(url, wait_until="networkidle")
    # Fonts that stand further down are asked for when they are seen.
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.wait_for_load_state("networkidle")


def test_a_first_visit_and_a_further_chapter_are_light(
    context: BrowserContext, host: tuple[str, dict[str, int]], site: Site
) -> None:
    url, sent = host
    chapters = [page for page in site.pages if page and not page.startswith("reference/")]
    font = (site.folder / "assets/fonts/math.woff2").stat().st_size

    def weight(page: str) -> int:
        html = site.html(page)
        return len(gzip.compress(html.encode(), 6)) + font * ("<math" in html)

    heaviest = max(chapters, key=weight)
    plain = next(page for page in chapters if "<math" not in site.html(page))
    page = context.new_page()
    # A first visit to a light page, then the heaviest one with all that the first had no use for.
    visit(page, url + plain)
    assert f"/{BELOW}/search/search_index.json" not in sent
    before = sum(sent.values())
    sent.clear()
    visit(page, url + heaviest)
    assert sum(sent.values()) <= 40_000, sent
    assert f"/{BELOW}/{heaviest}" in sent
    assert before + sum(sent.values()) <= 200_000


def a_page(source: str, **meta: Any) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=source), meta=meta)


def test_chapters_say_what_to_read_first(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    html = site.html("circuits/composition/")
    assert re.search(
        r'</h1>\s*<p class="about"[^>]*>About \d+ minutes. Read before it: '
        r'<a href="../../stream/who-wrote-what/">Who wrote what</a> and '
        r'<a href="../low-rank/">Low rank</a>.',
        html,
    )
    chapters = hook("chapters")
    first, last = a_page("a.md"), a_page("b.md", needs=["a.md"])
    chapters.on_nav(SimpleNamespace(pages=[first, last]), None, None)
    assert chapters.needed(last) == [first]
    for wrong in ("b.md", "c.md"):
        assert not chapters.needed(a_page("a.md", needs=[wrong]))
        assert f"a.md needs {wrong}, which is no earlier page" in caplog.text


def test_a_page_read_to_its_end_is_marked_until_forgotten(
    context: BrowserContext, site: Site
) -> None:
    page = context.new_page()
    page.goto(site.url + "attention/order/")
    marks = page.locator(".md-nav--primary a.read")
    button = page.get_by_role("button", name="Forget which pages I have read")
    assert marks.count() == 0
    assert not button.is_visible()
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    marks.first.wait_for(state="attached")
    assert marks.first.get_attribute("href") in ("./", "#", site.url + "attention/order/")
    page.reload()
    assert marks.count()
    button.click()
    assert marks.count() == 0
    assert page.evaluate("localStorage.getItem('tinyattn.read')") is None
    # Whatever else lies there, the page bears it.
    faults = list[str]()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.evaluate("localStorage.setItem('tinyattn.read', '{}')")
    page.reload()
    assert button.is_hidden()
    assert not faults


RUN = """
import contextlib, io, json, runpy, sys
sys.path[:0] = sys.argv[1:]
import paste, tinyattn
assert tinyattn.__file__.startswith(sys.argv[1]), tinyattn.__file__
for line in sys.stdin:
    cells, script = json.loads(line)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(script, run_name="__main__")
    print(json.dumps([paste.paste(cells), out.getvalue()]))
"""


def test_f9_a_page_taken_along_runs(site: Site, tmp_path: Path) -> None:
    """As a notebook and as a script, in an empty folder, by the package that lies on the site."""
    [wheel] = site.folder.glob("tinyattn-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "package")
    line = f'pip install "tinyattn @ {site.url}{wheel.name}"'
    taken, given = [], ""
    for page in ("stream/whiteboard", "labs/three-tokens"):
        beside = site.folder / page / PurePosixPath(page).name
        notebook = json.loads(beside.with_suffix(".ipynb").read_text(encoding="utf-8"))
        first, *code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert "".join(first["source"]).endswith(f"\n%{line}")
        script = beside.with_suffix(".py")
        assert script.read_text(encoding="utf-8").startswith(f"# {line}\n")
        taken.append(code)
        given += json.dumps([["".join(cell["source"]) for cell in code], str(script)]) + "\n"

    where = [str(tmp_path / "package"), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUN, *where],
        cwd=tmp_path,
        input=given,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    for code, answer in zip(taken, done.stdout.splitlines(), strict=True):
        shown = ["".join(output["text"] for output in cell["outputs"]) for cell in code]
        by_notebook, by_script = json.loads(answer)
        for cell, said, text in zip(code, shown, by_notebook, strict=True):
            drawn = text.startswith("<Picture: ")
            assert cell["source"][-1].startswith("draw_") if drawn else same(said.rstrip(), text)
        assert same("".join(shown).rstrip(), by_script.rstrip())
    assert (tmp_path / "whiteboard-1.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_page_is_copied_as_a_script(context: BrowserContext, site: Site) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    page = context.new_page()
    page.goto(site.url + "stream/whiteboard/")
    button = page.get_by_role("button", name="Copy page as script")

    def copied() -> str:
        page.evaluate("navigator.clipboard.writeText('')")
        button.click()
        page.wait_for_function("navigator.clipboard.readText().then(text => text)")
        return str(page.evaluate("navigator.clipboard.readText()"))

    script = site.folder / "stream/whiteboard/whiteboard.py"
    with page.expect_response("**/whiteboard.py") as answer:
        whole = copied()
    assert answer.value.ok
    page.get_by_text("Copied to clipboard").wait_for()
    assert whole == script.read_text(encoding="utf-8")
    # If the file cannot be had, the snippets of the page; what fails on purpose is caught.
    page.route("**/whiteboard.py", lambda route: route.abort())
    snippets = copied()
    compile(snippets, "copied", "exec")
    assert "try:\n    side_by_side" in snippets
    assert len(snippets) < len(whole)


def test_rules_for_what_no_page_has_are_left_out() -> None:
    sheets = hook("sheet")
    known = sheets.known(['<p class="here">'], ["make('made'); name = `begun-${one}`;"])
    sheet = """
        @charset "x"; .here,.gone a, .here>.gone { content: "}{,"; }
        @media print { .gone { color: red } .made:is(.gone, .made) { color: blue } }
        @media print { #gone { color: red } }
        @font-face { src: url("a;b") } p:not(.gone) { color: red } .begun-it {margin:0}"""
    assert sheets.pruned(sheet, known).splitlines() == [
        '@charset "x";',
        '.here{content: "}{,";}',
        "@media print{.made:is(.gone, .made){color: blue}}",
        '@font-face{src: url("a;b")}',
        "p:not(.gone){color: red}",
        ".begun-it{margin:0}",
    ]
    with pytest.raises(ValueError, match=r"not closed: \.open"):
        sheets.pruned(".open { color: red", known)


def test_pages_lie_beside_themselves_as_markdown(site: Site) -> None:
    contents = (site.folder / "llms.txt").read_text(encoding="utf-8")
    sections = re.findall("^## .*", contents, re.MULTILINE)
    assert len(sections) == len(set(sections)) > 5
    listed = re.findall(r"\]\(([^)]+)\)", contents)
    texts = [site.folder / link.removeprefix(site.url) for link in listed]
    assert sorted(texts) == sorted(site.folder / page / "index.md" for page in site.pages)
    whole = (site.folder / "llms-full.txt").read_text(encoding="utf-8")
    for text in texts:
        said = text.read_text(encoding="utf-8")
        assert said.startswith("# "), text
        if "reference/" in text.as_posix():
            assert "```python\n" in said or text.parent.name == "reference", text
            continue
        assert said.rstrip() in whole, text
        assert not re.search(r"<!--|\?\?\?|^=== |\]\(\.|[\ue000-\uf8ff]", said, re.M), text
    masks = (site.folder / "attention/masks/index.md").read_text(encoding="utf-8")
    assert f"]({site.url}attention/parallel-or-sequential/)" in masks


def test_the_whole_book_is_one_page(site: Site) -> None:
    whole = (site.folder / "book.html").read_text(encoding="utf-8")
    ids = BuiltPage(whole).ids
    assert len(ids) == len(set(ids))
    chapters = [page for page in site.pages if not page.startswith("reference/")]
    assert whole.count("<section ") == len(chapters)
    assert "<script" not in whole
    assert "<input" not in whole
    assert not re.search(r"<details(?! open)[^>]* class=", whole)
    for page in ("attention/masks/", "stream/whiteboard/"):
        assert (
            whole.count("tabbed-block") >= site.html(page).count('<div class="tabbed-block">') > 0
        )


def test_changes_are_a_feed(site: Site) -> None:
    feed = ElementTree.parse(site.folder / "feed.xml").getroot()
    atom = "{http://www.w3.org/2005/Atom}"
    entries = feed.findall(f"{atom}entry")
    assert len(entries) == site.html("changelog/").count("<h2")
    assert feed.findtext(f"{atom}updated") == entries[0].findtext(f"{atom}updated")
    for entry in entries:
        assert all(entry.findtext(atom + part) for part in ("id", "title", "updated", "content"))
    assert 'type="application/atom+xml" title="Changes" href="../feed.xml"' in site.html("worklog/")


def test_a_page_says_what_it_is_to_others(site: Site) -> None:
    html = site.html("attention/masks/")
    assert f'<link rel="canonical" href="{site.url}attention/masks/">' in html
    assert f'<meta property="og:image" content="{site.url}assets/card.png">' in html
    assert '<meta property="og:title" content="Masks">' in html
    card = (site.folder / "assets/card.png").read_bytes()
    assert card[16:24] == (1200).to_bytes(4, "big") + (630).to_bytes(4, "big")
    assert len(card) < 100_000


def test_an_address_without_a_page_leads_home(site: Site) -> None:
    html = (site.folder / "404.html").read_text(encoding="utf-8")
    below = f"/{BELOW}/"
    links = [link for link in BuiltPage(html).links if not re.match("https?:|#", link)]
    assert f"{below}stream/whiteboard/" in links
    for link in links:
        # From any depth: nothing is written relative to the address that was missed.
        assert link.startswith(below), link
        assert (site.folder / link.removeprefix(below)).exists(), link


def test_a_moved_page_leads_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    published = hook("published")
    (tmp_path / "b/new").mkdir(parents=True)
    (tmp_path / "b/new/index.html").write_text("here", encoding="utf-8")
    moves = {"a/old.md": "b/new.md", "b/new.md": "b/new.md", "c.md": "nowhere.md"}
    config = SimpleNamespace(
        extra={"moved": moves},
        docs_dir="docs",
        site_dir=str(tmp_path),
        use_directory_urls=True,
        site_url="https://example.org/book/",
    )
    published.moved(config, tmp_path)
    old = (tmp_path / "a/old/index.html").read_text(encoding="utf-8")
    assert '<link rel="canonical" href="https://example.org/book/b/new/">' in old
    assert 'content="0; url=../../b/new/"' in old
    assert (tmp_path / "b/new/index.html").read_text(encoding="utf-8") == "here"
    assert "there is a page at b/new.md" in caplog.text
    assert "c.md is said to be at nowhere.md, where no page is" in caplog.text


def test_words_lead_to_the_glossary_where_they_are_used_first(site: Site) -> None:
    """That the anchors exist is the link test's part."""
    terms = hook("terms")
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms.entries[:] = terms.read(glossary)
    found = {
        page: re.findall(r'<a class="term" href="[^"#]*glossary/#([\w-]+)">', site.html(page))
        for page in site.pages
    }
    for page, anchors in found.items():
        assert len(anchors) == len(set(anchors)), page
        own = f"{page.rstrip('/')}.md"
        explained = {entry.anchor for entry in terms.entries if own in entry.explained}
        assert not explained & set(anchors), page
    assert {"term-head", "term-scores"} <= set(found["attention/reading-a-pattern/"])
    assert not found["glossary/"] + found["reference/attention/"]
    known = tuple(terms.entries)
    page = "<h2>A head</h2><p>a <code>head</code>, forehead, <b>Heads</b>, the head, ledger</p>"
    assert terms.linked(page, "x.md", "g/", known, ()) == (
        "<h2>A head</h2><p>a <code>head</code>, forehead, "
        '<b><a class="term" href="g/#term-head">Heads</a></b>, the head, '
        '<a class="term" href="g/#term-ledger">ledger</a></p>'
    )
    page = "<p>Divide in your\nhead. A head</p>"
    assert terms.linked(page, "x.md", "g/", known, ("in your head",)) == (
        '<p>Divide in your\nhead. A <a class="term" href="g/#term-head">head</a></p>'
    )
    page = "<p>A <strong>ledger</strong>. The ledger</p>"
    assert "<a" not in terms.linked(page, "x.md", "g/", known, ())


# What readers type, and the page that each must find first. No two neighbours share a page, so
# that no answer passes for the next one.
QUERIES = {
    "attention": "attention/one-head/",
    "color": "conventions/",
    "huggingface": "model/coming-from/",
    "W_OV": "circuits/a-times-w-ov/",
    "W_O": "attention/why-w-o/",
    "W_QK": "circuits/two-matrices/",
    "logit lens": "model/reading-the-logits/",
    "QK circuit": "circuits/two-matrices/",
    "tensor product": "circuits/a-times-w-ov/",
    "residual stream": "stream/whiteboard/",
    "causal mask": "attention/masks/",
    "causal_mask": "reference/attention/",
    "scaled dot-product attention": "attention/one-head/",
    "multi-head attention": "attention/many-heads/",
    "sqrt d_head": "attention/why-the-root/",
    "induction head": "circuits/induction-by-hand/",
    "skip-trigram": "circuits/paths/",
    "attention sink": "trained/the-start-token/",
    "layer norm": "model/norm/",
    "positional encoding": "model/positions/",
    "GPT-2": "model/real-weights/",
    "KV cache": "attention/parallel-or-sequential/",
    "copying score": "circuits/what-a-head-copies/",
    "ablation": "model/interventions/",
    "draw_pattern": "reference/draw/",
    "fold_norm": "reference/norm/",
    "LowRank": "reference/lowrank/",
    "reading a pattern": "attention/reading-a-pattern/",
    "worklog": "worklog/",
    "conventions": "conventions/",
    "three tokens many scores": "labs/three-tokens/",
}
FIRST = """
    () => document.querySelector(".md-search-result__item a")?.href.replace(/[?#].*/, "")
"""


def test_c16_the_page_meant_is_found_first(context: BrowserContext, site: Site) -> None:
    page = context.new_page()
    page.goto(site.url)
    box = page.locator(".md-search__input")
    box.click()
    faults = {}
    for query, wanted in QUERIES.items():
        box.fill(query)
        box.dispatch_event("keyup")
        try:
            page.wait_for_function(f"want => ({FIRST})() === want", arg=site.url + wanted)
        except TimeoutError:
            faults[query] = page.evaluate(FIRST)
        page.set_default_timeout(5_000)  # the first one waits for the index
    assert not faults


def test_from_a_folder_pages_and_search_work(browser: Browser, tmp_path: Path) -> None:
    """The offline build, of two pages: nothing is asked of any host."""
    for part in ("docs/assets", "docs/img", ".cache/fonts"):
        if (ROOT / part).is_dir():  # no fonts are kept before the first build
            shutil.copytree(ROOT / part, tmp_path / part)
    (tmp_path / "docs/attention").mkdir()
    shutil.copy(ROOT / "docs/attention/masks.md", tmp_path / "docs/attention")
    (tmp_path / "docs/index.md").write_text("# Home\n\nOne head.\n", encoding="utf-8")
    hooks = [path for path in (ROOT / "hooks").glob("*.py") if path.stem not in ("labs", "taken")]
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": "docs",
        "theme": {"custom_dir": str(ROOT / "overrides")},
        "nav": ["index.md", "attention/masks.md"],
        "hooks": sorted(map(str, hooks)),
        "plugins": [{"search": {}}, {"offline": {"enabled": True}}],
        "watch": [],
    }
    (tmp_path / "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-d", "site"],
        cwd=tmp_path,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    context = browser.new_context()
    page, faults = context.new_page(), list[str]()
    page.on("console", lambda said: faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda asked: faults.append(asked.url) if outside(asked.url) else None)
    page.goto((tmp_path / "site/attention/masks.html").as_uri())
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").press_sequentially("padding")
    first = page.locator(".md-search-result__item a").first
    first.wait_for(state="attached")
    assert "/attention/masks.html" in (first.get_attribute("href") or "")
    context.close()
    assert not faults


def outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:", "about:"))
