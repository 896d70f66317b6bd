"""Live figures in a real browser: cells read aloud, numbers moved, steps stepped through."""

import csv
import html
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from built import ROOT, Site
from paste import paste
from playwright.sync_api import Browser, Locator, Page

from tinyattn import causal_mask, earliest, generation

SVG = "{http://www.w3.org/2000/svg}"


@contextmanager
def opened(browser: Browser, site: Site, page: str, **given: Any) -> Iterator[Page]:
    """A page in a window of its own, which must end without an error or another host asked."""
    faults = list[str]()
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **given)
    context.set_default_timeout(30_000)
    context.on("request", lambda asked: faults.extend(away(asked.url, site)))
    shown = context.new_page()
    shown.on("pageerror", lambda error: faults.append(str(error)))
    shown.on("console", lambda said: faults.extend(bad(said.type, said.text)))
    shown.goto(site.url + page, wait_until="load")
    yield shown
    context.close()
    assert not faults


def bad(kind: str, text: str) -> list[str]:
    return [text] if kind in ("error", "warning") else []


def away(url: str, site: Site) -> list[str]:
    return [] if url.startswith((site.url, "data:", "blob:")) else [url]


@pytest.fixture(scope="module")
def home(browser: Browser, site: Site) -> Iterator[Page]:
    with opened(browser, site, "", permissions=["clipboard-read", "clipboard-write"]) as page:
        yield page


def picture(page: Page, file: str = "home-pattern") -> Locator:
    figure = page.locator(f'figure.picture.live[data-file="{file}"]')
    figure.scroll_into_view_if_needed()
    return figure


def middle(cell: Locator) -> tuple[float, float, float]:
    """The middle of a square cell, and its side."""
    box = cell.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, box["width"]


# By hand: the keys of the first page weigh 1, 4 and 2.
READ = f"sat reads cat: {4 / 7:.2f}"


def test_a_cell_is_read_under_the_mouse(home: Page) -> None:
    figure = picture(home)
    readout = figure.locator(".readout")
    invitation = readout.inner_text()
    x, y, side = middle(figure.locator('[data-row="2"][data-column="1"]'))
    home.mouse.move(x, y)
    assert readout.inner_text() == READ
    assert readout.get_attribute("role") == "status"
    assert figure.locator(".mark rect").count() == 2  # the row and the cell
    # The two tokens light up in the picture, as row and as column, and in the text.
    lit = home.eval_on_selector_all(
        ".lit:not(.mf)", "found => found.map(one => [one.tagName.toLowerCase(), one.textContent])"
    )
    assert sorted(set(map(tuple, lit))) == [
        ("em", "cat"), ("em", "sat"), ("text", "cat"), ("text", "sat"),
    ]  # fmt: skip
    # An empty cell has no element, and is read all the same; labels read a row or a column.
    home.mouse.move(x + side, y - 2 * side)
    assert readout.inner_text() == "The reads sat: 0"
    home.mouse.move(*middle(figure.locator("text", has_text="sat").first)[:2])
    home.mouse.move(*middle(figure.locator("text", has_text="cat").last)[:2])
    assert readout.inner_text() == f"cat is read by cat {4 / 5:.2f}, sat {4 / 7:.2f}"
    home.mouse.move(1, 1)
    assert readout.inner_text() == invitation
    assert not home.locator(".lit:not(.mf), .mark rect").count()


def test_the_arrow_keys_read_the_cells(home: Page) -> None:
    figure = picture(home)
    readout, svg = figure.locator(".readout"), figure.locator("svg")
    assert not svg.locator("[tabindex]").count()
    home.locator(".knobs input").last.focus()
    home.keyboard.press("Tab")
    assert svg.evaluate("svg => svg === document.activeElement")
    assert svg.evaluate("svg => getComputedStyle(svg).outlineStyle") == "solid"
    said = [readout.inner_text()]
    for key in ("Down", "Down", "Right", "Left", "Left"):
        home.keyboard.press(f"Arrow{key}")
        said.append(readout.inner_text())
    for key in ("Home", "End", "ArrowUp"):
        home.keyboard.press(key)
        said.append(readout.inner_text())
    assert said == [
        "The reads The: 1.00",
        "cat reads The: 0.20",
        "sat reads The: 0.14",
        READ,
        "sat reads The: 0.14",
        "sat reads cat 0.57, sat 0.29, The 0.14",
        "sat reads The: 0.14",
        "sat reads sat: 0.29",
        "cat reads sat: 0",
    ]
    home.keyboard.press("Escape")
    assert not svg.evaluate("svg => svg === document.activeElement")
    assert not figure.locator(".mark rect").count()


def test_a_word_of_the_text_lights_up_its_column_of_the_stream(
    browser: Browser, site: Site
) -> None:
    with opened(browser, site, "stream/who-wrote-what/") as page:
        figure = picture(page, "who-wrote-down")
        page.locator("article em", has_text=re.compile("^cat$")).first.hover()
        assert figure.locator("text.lit").all_text_contents() == ["cat"]
        band, head = figure.locator("rect.lit"), figure.locator("text.lit")
        assert abs(middle(band)[0] - middle(head)[0]) < 1
        page.mouse.move(1, 1)
        assert not page.locator(".lit").count()


def test_a_tap_reads_a_cell(browser: Browser, site: Site) -> None:
    with opened(browser, site, "", has_touch=True, is_mobile=True) as page:
        figure = picture(page)
        page.touchscreen.tap(*middle(figure.locator('[data-row="2"][data-column="1"]'))[:2])
        assert figure.locator(".readout").inner_text() == READ


def test_the_table_is_opened_and_copied(home: Page) -> None:
    figure = picture(home)
    table, button = figure.locator("table"), figure.get_by_role("button", name="Table")
    assert not table.is_visible()
    button.click()
    assert table.is_visible()
    assert button.get_attribute("aria-expanded") == "true"
    button.click()
    assert not table.is_visible()

    source = (ROOT / "docs/img/home-pattern.svg").read_text("utf-8")
    data = json.loads(html.unescape(source.partition("<metadata>")[2].partition("</metadata>")[0]))
    odd = 'a, "b"\n=c'
    first = figure.locator("thead th").first
    first.evaluate("(head, odd) => { head.textContent = odd; }", odd)
    figure.get_by_role("button", name="Copy as CSV").click()
    home.wait_for_function(
        "f => f.querySelector('.readout').textContent.startsWith('Copied')",
        arg=figure.element_handle(),
    )
    lines = list(csv.reader(io.StringIO(home.evaluate("navigator.clipboard.readText()"))))
    assert lines[0] == ["", odd, *data["columns"][1:]]
    assert [line[0] for line in lines[1:]] == data["rows"]
    assert [[float(value) for value in line[1:]] for line in lines[1:]] == data["values"]
    first.evaluate("(head, name) => { head.textContent = name; }", data["columns"][0])


def test_the_downloaded_picture_stands_alone(home: Page) -> None:
    figure = picture(home)
    x, y, _ = middle(figure.locator('[data-row="2"][data-column="1"]'))
    home.mouse.move(x, y)  # what is lit on the page is not in the file
    with home.expect_download() as waiting:
        figure.get_by_role("button", name="Download SVG").evaluate("button => button.click()")
    assert waiting.value.suggested_filename == "home-pattern.svg"
    text = Path(waiting.value.path()).read_text("utf-8")
    drawn, source = (
        ElementTree.fromstring(svg)
        for svg in (text, (ROOT / "docs/img/home-pattern.svg").read_text("utf-8"))
    )
    for tag in ("rect", "text", "path"):
        assert [one.attrib for one in drawn.iter(SVG + tag)] == [
            one.attrib for one in source.iter(SVG + tag)
        ]
    assert drawn.findtext(SVG + "title")
    assert not re.search(r"href|<script|class=|url\(|var\(--[\w-]+\)", text)


LIVE = ".highlight:has(> .filename)"
TEXTS = """() => {
    const blocks = [...document.querySelectorAll("article .highlight")];
    const found = blocks.slice(blocks.findIndex(block => block.querySelector(".filename")));
    const text = block => block.querySelector("code").textContent.trimEnd();
    return found.slice(0, location.pathname.endsWith("worklog/") ? 2 : 4).map(text);
}"""
CELLS = """figure => [...figure.querySelectorAll("tbody tr")].map(
    line => [...line.querySelectorAll("td")].map(cell => Number(cell.textContent)))"""


def moved(page: Page, choice: str, value: str) -> list[str]:
    page.locator(".knobs select").select_option(label=choice)
    page.locator(".knobs [type=number]").fill(value)
    texts: list[str] = page.evaluate(TEXTS)
    return texts


@pytest.mark.parametrize(
    ("name", "moves", "changed"),
    [
        ("", {"W_K of cat": "0.7", "W_Q of sat": "-1.5"}, "[[1.0], [0.7], [2.0]]"),
        ("worklog/", {"score: sat reads cat": "2.25", "factor of the weights": "0.35"}, "2.25"),
    ],
)
def test_the_live_snippet_gives_what_is_seen(
    browser: Browser, site: Site, name: str, moves: dict[str, str], changed: str
) -> None:
    """The cat sat, live. The worklog is come to by a link, which loads no page anew."""
    with opened(browser, site, "") as page:
        if name:
            page.wait_for_load_state("networkidle")  # the theme knows by now what pages there are
            page.evaluate("window.stayed = true")
            page.locator(f'article a[href$="{name}"]').first.click()
            page.locator("h1", has_text="The worklog, checked").wait_for()
            assert page.evaluate("window.stayed")
        page.locator(".knobs").wait_for()
        figure = picture(page, "worklog-live-pattern" if name else "home-pattern")
        first, cells = page.evaluate(TEXTS), figure.evaluate(CELLS)
        for choice, value in moves.items():
            texts = moved(page, choice, value)
        assert changed in texts[0]
        assert [a == b for a, b in zip(first, texts, strict=True)] == [
            False, False, *([] if name else [True, False]),
        ]  # fmt: skip
        assert texts[1::2] == paste(texts[::2])
        # The picture shows what is printed.
        pattern = texts[1].splitlines()[-3:] if not name else texts[1].splitlines()[7:10]
        printed = [[float(entry) for entry in line.split()[1:]] for line in pattern]
        assert figure.evaluate(CELLS) == printed != cells
        shades = figure.locator("[data-row]").evaluate_all(
            "cells => cells.map(cell => [cell.dataset.row, cell.dataset.column].map(Number))"
        )
        assert sorted(shades) == [[i, j] for i in range(3) for j in range(i + 1)]

        page.locator(".knobs [type=checkbox]").uncheck()
        texts = page.evaluate(TEXTS)
        assert texts[1::2] == paste(texts[::2])
        assert texts[-1].splitlines()[-3:] != first[-1].splitlines()[-3:]

        odd = moved(page, next(iter(moves)), "99")
        assert "write a number from" in page.locator(".knobs .readout").inner_text()
        assert odd == texts
        page.get_by_role("button", name="Reset").click()
        assert page.evaluate(TEXTS) == first
        assert figure.evaluate(CELLS) == cells


STEPS = """boxed => [true, false].map(cached => {
    const [slider, cache] = ["[type=range]", "[type=checkbox]"]
        .map(query => document.querySelector(".stepper " + query));
    if (cache.checked !== cached) cache.click();
    return Array.from({length: Number(slider.max) + 1}, (_, step) => {
        slider.value = step;
        slider.dispatchEvent(new Event("input"));
        return [...document.querySelectorAll(".side svg")].map(svg => ["now", "later"].map(name =>
            [...svg.querySelectorAll(`circle.${name}`)]
                .map(node => [node.dataset.row, node.dataset.column].map(Number))));
    });
})"""


def places(found: torch.Tensor) -> list[list[int]]:
    listed: list[list[int]] = found.nonzero().tolist()
    return listed


def test_the_steps_are_the_packages(browser: Browser, site: Site) -> None:
    edges = [causal_mask(3), torch.eye(3).bool()] * 2
    given, made = earliest(edges), earliest(edges, generation(3))
    with opened(
        browser, site, "attention/parallel-or-sequential/", reduced_motion="reduce"
    ) as page:
        page.locator(".stepper").wait_for()
        assert not page.locator(".side circle.later").count()  # at first the picture is whole
        cached, anew = page.evaluate(STEPS)
        assert len(cached) == len(anew) == int(made.max()) + 1
        for step, (with_cache, without) in enumerate(zip(cached, anew, strict=True)):
            now = made == step
            again = now.any(dim=1, keepdim=True) & (made <= step)
            for found, writes in ((with_cache, now), (without, again)):
                assert found[0] == [places(given == step), places(given > step)]
                assert found[1] == [places(writes), places(made > step)]

        said = page.locator(".stepper .readout")
        assert said.inner_text().startswith(
            "Step 14 of 14. Reading: done. Writing: MLP: The cat sat"
        )
        page.get_by_role("button", name="Previous").click()
        assert said.inner_text().startswith("Step 13 of 14")
        page.get_by_role("button", name="Next").click()
        assert page.get_by_role("button", name="Next").is_disabled()
        # A reader who wants no motion gets none; others may let it run.
        assert not page.get_by_role("button", name="Play").count()
        page.emulate_media(reduced_motion="no-preference")
        page.get_by_role("button", name="Play").click()
        assert said.inner_text().startswith("Step 0 of 14")
        said.filter(has_text="Step 1 of 14").wait_for()
        page.get_by_role("button", name="Pause").click()


def test_without_javascript_nothing_is_missing(browser: Browser, site: Site) -> None:
    with opened(
        browser, site, "attention/parallel-or-sequential/", java_script_enabled=False
    ) as page:
        assert not page.locator(".stepper, .readout, .tools").count()
        for summary in page.locator("figure.picture summary").all():
            assert summary.is_visible()
        assert page.locator("figure.picture svg circle").count() == 30
        assert "14    -" in (page.locator(LIVE + " + .language-output").text_content() or "")
        page.goto(site.url)
        assert page.locator("figure.picture svg text", has_text="0.57").is_visible()
        assert "1.29" in (page.locator(".language-output").last.text_content() or "")
        page.locator("figure.picture summary").click()
        assert page.locator("figure.picture table").is_visible()
