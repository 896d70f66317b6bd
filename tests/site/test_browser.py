"""The built site in a real browser: what a reader sees, copies, types and follows."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import pytest
from axe_playwright_python.sync_playwright import Axe
from built import BELOW, ROOT, Site
from checker.compare import agree
from checker.document import Code, parse
from checker.project import Project
from paste import fresh, misread, paste
from playwright.sync_api import Browser, BrowserContext, Page, Request, Response

LOOK = Path(__file__).with_name("look.js").read_text(encoding="utf-8")
RAW = re.compile(r"\$[^$\n]+\$|\\\(|\\\[|\\[a-z]{2,}")
DIGITS = re.compile(r"\d+(?:\.\d+)?")


class Reader:
    """A page of the browser which notices what goes wrong; no other host can be reached."""

    def __init__(self, context: BrowserContext, site: Site) -> None:
        self.site, self.faults = site, list[str]()
        self.page: Page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("request", self._asked)
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.site.url, "data:", "blob:")):
            self.faults.append(f"asks another host: {request.url}")

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(text)

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a page left before its last request
            self.faults.append(f"{request.failure} {request.url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.status} {response.url}")

    def open(self, page: str) -> None:
        self.page.goto(self.site.url + page, wait_until="load")

    def follow(self, page: str) -> None:
        """By a link, as most readers come to a page: the theme puts it in place of the old one."""
        title = re.search(r"<title>(.*?)</title>", self.site.html(page))
        assert title is not None
        self.page.evaluate(FOLLOW, self.site.url + page)
        self.page.wait_for_function(
            "([url, title]) => location.href.split('#')[0] === url && document.title === title",
            arg=[self.site.url + page, html.unescape(title[1])],
        )

    def settled(self) -> None:
        """What a page does when it has time is done: its buttons are there, its pictures live."""
        self.page.wait_for_function(SETTLED)


@pytest.fixture(scope="module")
def reader(browser: Browser, site: Site) -> Iterator[Reader]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    yield Reader(context, site)
    context.close()


FOLLOW = """url => {
    const link = document.querySelector("article").appendChild(document.createElement("a"));
    link.href = url;
    link.click();
}"""
SETTLED = """() => !document.querySelector("figure.picture:not(.live)")
    && [...document.querySelectorAll("article .highlight:not(.language-output, .doc-signature)")]
        .every(block => block.querySelector(".md-code__button"))"""


def scheme(page: Page, name: str) -> None:
    page.evaluate(f"document.body.dataset.mdColorScheme = '{name}'")


def test_colours_follow_the_system(reader: Reader) -> None:
    reader.open("")
    shown = "document.body.dataset.mdColorScheme === '{}'"
    reader.page.emulate_media(color_scheme="dark")
    reader.page.wait_for_function(shown.format("slate"))
    reader.page.emulate_media(color_scheme="light")
    reader.page.wait_for_function(shown.format("default"))


def test_colours_are_chosen_and_kept(browser: Browser, site: Site) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()

    def shown() -> tuple[str, str, str]:
        return (
            page.evaluate("document.body.dataset.mdColorScheme"),
            page.locator("meta[name=color-scheme]").get_attribute("content") or "",
            page.locator("[data-colours]:visible").get_attribute("title") or "",
        )

    page.goto(site.url)
    assert shown() == ("slate", "dark", "Colours: as the system, press for light")
    page.locator("[data-colours]:visible").focus()
    edge = page.locator("meta[name=theme-color]")
    assert edge.get_attribute("content") == "rgb(25, 25, 24)"
    page.keyboard.press("Enter")
    assert shown() == ("default", "light", "Colours: light, press for dark")
    assert edge.get_attribute("content") == "rgb(252, 250, 245)"
    # Come to by a link, which loads no page anew, and then loaded anew.
    page.wait_for_load_state("networkidle")
    page.locator("article a[href$='worklog/']").first.click()
    page.locator("h1", has_text="The worklog, checked").wait_for()
    assert shown()[0] == "default"
    page.reload()
    assert shown() == ("default", "light", "Colours: light, press for dark")
    page.emulate_media(color_scheme="light")
    page.locator("[data-colours]:visible").focus()
    page.keyboard.press("Enter")
    assert shown()[0] == "slate"
    assert page.locator("[data-colours]:visible").evaluate("one => one === document.activeElement")
    page.keyboard.press("Enter")
    assert shown() == ("default", "light", "Colours: as the system, press for light")
    page.evaluate(f"localStorage.setItem('/{BELOW}/.__palette', '{{\"index\": 9}}')")
    page.reload()
    assert shown() == ("default", "light", "Colours: as the system, press for light")
    for rubbish in ("-1", "null", "'item'", "({})", "[]", "undefined"):
        page.evaluate(f"colours(2), colours({rubbish})")
        assert shown() == ("default", "light", "Colours: as the system, press for light"), rubbish
    context.close()


def test_colours_are_chosen_where_nothing_can_be_kept(browser: Browser, site: Site) -> None:
    """As in a browser that refuses a site's storage: to ask for it is an error."""
    context = browser.new_context(color_scheme="dark")
    page, faults = context.new_page(), list[str]()
    page.add_init_script(
        """Object.defineProperty(window, "localStorage", {get() {
            throw new DOMException("Access is denied for this document.", "SecurityError");
        }});"""
    )
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(site.url + "worklog/")
    page.locator("[data-colours]:visible").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.body.dataset.mdColorScheme") == "default"
    edge = page.locator("meta[name=theme-color]")
    assert edge.get_attribute("content") == "rgb(252, 250, 245)"
    page.wait_for_function(SETTLED)
    assert not faults
    context.close()


def test_without_scripts_the_keys_are_followed_and_nothing_missing_is_spoken_of(
    browser: Browser, site: Site
) -> None:
    """The theme hides where the keys are until its script has judged."""
    context = browser.new_context(java_script_enabled=False)
    page, seen = context.new_page(), set[str]()
    focused = "[document.activeElement.tagName, getComputedStyle(document.activeElement).outline]"
    page.goto(site.url + "attention/one-head/")
    page.locator("article a").first.focus()
    for _ in range(25):
        page.keyboard.press("Tab")
        kind, style = page.evaluate(focused)
        if kind != "BODY":
            seen.add(kind)
            assert "solid 2px" in style, (kind, style)
    assert {"A", "SUMMARY", "CODE"} <= seen
    page.goto(site.url + "404.html")
    assert page.get_by_text("Nothing stands at this address").is_visible()
    assert not page.get_by_text("The search at the top").is_visible()
    context.close()


@dataclass(frozen=True)
class Visit:
    """What one look at a page finds: its picture of itself, in both schemes, and what it copies."""

    light: dict[str, Any]
    dark: dict[str, Any]
    snippets: list[dict[str, str]]
    narrow: int  # how wide it is on a screen of 360 pixels


@pytest.fixture(scope="module")
def visits(reader: Reader) -> dict[str, Visit]:
    """Every page, come to by a link from the one before, so that none is loaded anew.

    On a phone, where a page that is too wide would show, and a look costs half as much.
    """
    page, found = reader.page, dict[str, Visit]()
    page.set_viewport_size({"width": 360, "height": 800})
    reader.open("")
    page.wait_for_load_state("networkidle")  # the theme knows by now what pages there are
    page.evaluate("window.stayed = true")
    for name in reader.site.pages:
        reader.follow(name)
        reader.settled()
        light = dark = page.evaluate(LOOK)
        if light["pictures"]:  # nothing else of a look depends on the colours
            scheme(page, "slate")
            dark = page.evaluate(LOOK)
            scheme(page, "default")
        wide = page.evaluate("document.documentElement.scrollWidth")
        found[name] = Visit(light, dark, snippets=page.evaluate(COPY_ALL), narrow=wide)
    assert page.evaluate("window.stayed") is True, "a page was loaded anew"
    page.set_viewport_size({"width": 1280, "height": 900})
    assert not reader.faults
    return found


def test_every_page_opens(visits: dict[str, Visit]) -> None:
    """E1, E15, C26: no error, no other host; pictures and formulas there, legible, in bounds."""
    faults = list[tuple[Any, ...]]()
    for name, visit in visits.items():
        for colours, seen in (("light", visit.light), ("dark", visit.dark)):
            faults += [(name, image) for image in seen["images"] if not image["drawn"]]
            for picture in seen["pictures"]:
                drawn = picture["width"] > 40 and picture["height"] > 40
                if not (drawn and picture["name"] and picture["worst"] >= 4.5):
                    faults.append((name, colours, picture))
        for formula in visit.light["formulas"]:
            if not (formula["width"] > 3 and formula["height"] > 3):
                faults.append((name, formula))
        faults += [(name, raw) for raw in RAW.findall(visit.light["prose"])]
        if visit.narrow > 360:
            faults.append((name, f"{visit.narrow} px wide on a screen of 360"))
    assert not faults


def test_what_is_laid_out_later_keeps_its_height(reader: Reader) -> None:
    """Else a page would move under its reader, and links to its sections miss them."""
    reader.open("worklog/")
    reader.settled()
    blocks = reader.page.evaluate(
        """() => {
            const blocks = [...document.querySelectorAll("article :is(.highlight, svg)[style]")];
            return blocks.map(block => {
                const late = !block.querySelector("code, text").checkVisibility(
                    {contentVisibilityAuto: true});
                const before = block.getBoundingClientRect().height;
                block.style.contentVisibility = "visible";
                return [late, before, block.getBoundingClientRect().height];
            });
        }"""
    )
    assert [late for late, _, _ in blocks].count(True) > 20
    assert not [(before, after) for _, before, after in blocks if abs(before - after) > 0.5]


def test_the_sheet_is_loaded_once(reader: Reader) -> None:
    """The theme writes to the addresses of sheets, and compares those of two pages."""
    page, asked = reader.page, list[str]()
    reader.open("glossary/")
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("window.sheet = document.querySelector('link[rel=stylesheet]')")
    page.wait_for_load_state("networkidle")
    page.evaluate("document.querySelector('.md-nav--primary a[href$=\"worklog/\"]').click()")
    page.locator("h1", has_text="The worklog, checked").wait_for()
    page.wait_for_load_state("networkidle")
    assert page.evaluate(
        "[...document.querySelectorAll('head link[rel=stylesheet]')].map(one => one === sheet)"
    ) == [True]
    assert not [url for url in asked if url.endswith(".css")]
    assert [url for url in asked if url.endswith("worklog/")]


def test_pictures_and_formulas_are_found(reader: Reader) -> None:
    """The test above would pass on pages without any."""
    reader.open("attention/reading-a-pattern/")
    seen = reader.page.evaluate(LOOK)
    assert seen["pictures"]
    assert reader.page.locator("figure.picture details table").count() == len(seen["pictures"])
    assert reader.page.locator(".pin").count()
    reader.open("labs/three-tokens/")
    assert reader.page.evaluate(LOOK)["formulas"]


def test_c11_formulas_survive_navigation(reader: Reader, visits: dict[str, Visit]) -> None:
    there = {name: reader.site.html(name).count("<math") for name in visits}
    assert sum(map(bool, there.values())) > 20
    assert {name: len(visit.light["formulas"]) for name, visit in visits.items()} == there
    name = max(there, key=lambda name: there[name])
    reader.open(name)
    reader.page.wait_for_load_state("networkidle")
    reader.follow("")
    assert reader.page.locator("article math").count() == there[""]
    reader.page.go_back()
    reader.page.wait_for_function(
        "count => document.querySelectorAll('article math').length === count", arg=there[name]
    )
    assert not reader.faults


# A copy button hands its text to the page's own copy event: the clipboard takes it from there.
COPY_ALL = """() => {
    document.querySelectorAll("article details").forEach(box => { box.open = true; });
    document.querySelectorAll("article .tabbed-block").forEach(tab => {
        tab.style.display = "block";
    });
    const blocks = [...document.querySelectorAll("article .highlight")];
    for (const block of blocks) block.style.contentVisibility = "visible";  // laid out at once
    let copied = null;
    const hear = event => { copied = event.target.value; };
    document.addEventListener("copy", hear, true);
    const found = [];
    for (const block of blocks) {
        const button = block.querySelector("button.md-code__button[data-md-type=copy]");
        if (!button || !button.checkVisibility({visibilityProperty: true})) continue;
        copied = "nothing copied";
        button.click();
        const below = block.nextElementSibling;
        found.push({
            language: (block.className.match(/language-(\\w+)/) || [])[1],
            code: copied,
            shown: below?.matches(".language-output")
                ? below.querySelector("code").textContent.trimEnd() : "",
        });
    }
    document.removeEventListener("copy", hear, true);
    return found;
}"""


def test_the_clipboard_holds_what_was_copied(reader: Reader, visits: dict[str, Visit]) -> None:
    name = "attention/reading-a-pattern/"
    reader.open(name)
    reader.settled()
    reader.page.bring_to_front()
    buttons = reader.page.locator("article .language-python button[data-md-type=copy]")
    snippets = [s for s in visits[name].snippets if s["language"] == "python"]
    assert buttons.count() == len(snippets)
    for at in (0, 1):
        buttons.nth(at).click()
        copied = reader.page.evaluate("navigator.clipboard.readText()")
        assert copied == snippets[at]["code"]


def same(shown: str, printed: str) -> bool:
    """Equal text, numbers by the checker's rule."""
    if DIGITS.sub("0", shown) != DIGITS.sub("0", printed):
        return False
    pairs = zip(DIGITS.findall(shown), DIGITS.findall(printed), strict=True)
    return all(a == b or agree(a, float(b)) != "differs" for a, b in pairs)


PASTED = ["", "attention/one-head/", "model/interventions/", "trained/one-layer/"]


def test_snippets_pasted_give_what_is_shown(visits: dict[str, Visit]) -> None:
    """In interpreters that have seen nothing else. Of all pages, the next test."""
    pages = {
        page: [snippet for snippet in visits[page].snippets if snippet["language"] == "python"]
        for page in PASTED
    }
    with fresh() as interpreters:
        codes = [[snippet["code"] for snippet in found] for found in pages.values()]
        printed = interpreters.map(paste, codes, chunksize=1)
    faults = [
        (page, snippet["code"], snippet["shown"], text)
        for (page, found), texts in zip(pages.items(), printed, strict=True)
        for snippet, text in zip(found, texts, strict=True)
        if not same(snippet["shown"], text)
    ]
    assert not faults


def test_what_is_copied_is_what_was_tested(visits: dict[str, Visit], site: Site) -> None:
    """Sybil runs the fences of a page, and a reader gets the same code over the same output."""
    project, found = Project(ROOT), 0
    for name, visit in visits.items():
        source = ROOT / "docs" / f"{name.removesuffix('/') or 'index'}.md"
        if not source.is_file() or name.startswith("reference/"):
            continue
        page = parse(source.read_text(encoding="utf-8"), source, project)
        tested = [
            (item.source.rstrip("\n"), item.output.text.rstrip() if item.output else "")
            for item in page.items
            if isinstance(item, Code)
        ]
        copied = [
            (snippet["code"].rstrip("\n"), snippet["shown"])
            for snippet in visit.snippets
            if snippet["language"] == "python"
        ]
        assert copied == tested, name
        assert len(copied) == site.html(name).count('class="language-python highlight"'), name
        found += len(copied)
    assert found > 100


def test_what_is_copied_from_a_lab_is_what_was_run(visits: dict[str, Visit]) -> None:
    """The build ran these cells in this order in a fresh kernel; what they show came of that."""
    labs = sorted((ROOT / "docs" / "labs").glob("*.py"))
    assert labs
    for lab in labs:
        cells = [cell.source for cell in jupytext.read(lab).cells if cell.cell_type == "code"]
        snippets = visits[f"labs/{lab.stem}/"].snippets
        copied = [s["code"].rstrip("\n") for s in snippets if s["language"] == "python"]
        assert copied == cells


def test_c10_copied_code_compiles(visits: dict[str, Visit]) -> None:
    snippets = [
        (page, snippet["language"], snippet["code"])
        for page, visit in visits.items()
        for snippet in visit.snippets
        if snippet["language"] in ("python", "pycon")
    ]
    assert {"python", "pycon"} <= {language for _, language, _ in snippets}
    for page, _, code in snippets:
        assert ">>>" not in code, (page, code)
        assert code.strip(), page
        compile(code, page or "home", "exec")
        assert not misread(code), (page, code)


def test_a_block_ends_at_an_empty_line_only() -> None:
    """Else the test above could not fail."""
    block = "for i in range(2):\n    x = i"
    assert not misread(f"{block}\n")
    assert not misread(f"{block}\n\nprint(x)")
    assert not misread("if x:\n    y = 1\nelse:\n    y = 2\n\ny")
    assert misread(f"{block}\nprint(x)")
    assert misread("def f(x):\n    y = x\n\n    return y")


def test_c24_the_header_stays_on_top(reader: Reader) -> None:
    reader.open("attention/reading-a-pattern/")
    covered = reader.page.evaluate(
        """() => [...document.querySelectorAll("article :is(.highlight, .scroll)")].map(block => {
            window.scrollTo(0, block.getBoundingClientRect().top + scrollY - 10);
            const head = document.querySelector("header.md-header").getBoundingClientRect();
            return [0.1, 0.5, 0.9].every(part => document
                .elementFromPoint(head.left + head.width * part, head.top + head.height / 2)
                .closest("header.md-header"));
        })"""
    )
    assert covered
    assert all(covered)


def test_c16_a_function_is_found_at_its_place(reader: Reader) -> None:
    """Typed letter by letter. Which page is found first for what, tests/site/test_services.py."""
    page, found = reader.page, reader.site.url + "reference/attention/"
    reader.open("")
    box = page.locator(".md-search__input")
    box.click()
    box.press_sequentially("causal_mask")
    hits = page.locator(".md-search-result__item").first.locator("a")
    hits.first.wait_for(state="attached")
    page.wait_for_timeout(100)
    links = hits.evaluate_all("links => links.map(link => link.href.replace(/[?][^#]*/, ''))")
    # The first hit is a page; the sections that match are listed in it.
    assert links[0] == found
    assert found + "#tinyattn.attention.causal_mask" in links
    assert not reader.faults


@pytest.mark.parametrize("name", ["", "attention/reading-a-pattern/", "reference/shapes/"])
def test_axe_finds_nothing(reader: Reader, name: str) -> None:
    reader.open(name)
    reader.settled()
    for colours, only in (("default", None), ("slate", ["color-contrast"])):
        scheme(reader.page, colours)
        reader.page.wait_for_timeout(300)
        options = {"runOnly": only} if only else {}
        found = Axe().run(reader.page, options=options).response["violations"]
        assert not [(v["id"], [n["target"] for n in v["nodes"]][:4]) for v in found]
