"""The playground, opened from a file as a reader would who has the site on a disk.

Its numbers are held against those which the package computes during the same run.
"""

import ast
import base64
import contextlib
import gzip
import io
import math
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from built import ROOT
from playwright.sync_api import Browser, Page

from tinyattn import (
    Run,
    ablate,
    induction_score,
    load,
    load_vocabulary,
    logit_attribution,
    paths,
    previous_token_score,
)
from tinyattn.detect import followers

PATTERNS, LOGITS = 0.00001, 0.0001  # how far the browser's numbers may be off
KILOBYTES = 900  # for the page with all it needs, packed as a server packs it

SETTINGS = """
INHERIT: {root}/mkdocs.yml
docs_dir: docs
use_directory_urls: false
nav: [playground.md]
theme: {{custom_dir: {root}/overrides}}
hooks: [{hooks}]
plugins: []
watch: []
validation: {{links: {{not_found: ignore}}}}
"""
# All of the project's but those that need the other pages, or the plugins.
WHOLE = {"labs", "terms", "chapters", "downloads", "published", "uses", "offline", "kept"}


def hooks() -> list[str]:
    listed = re.search(r"^hooks:\n((?:  - .*\n)+)", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert listed is not None
    names = re.findall(r"hooks/(\w+)\.py", listed[1])
    assert set(names) >= WHOLE
    return [name for name in names if name not in WHOLE]


class Reader:
    """A page that notes errors and every address it asks for."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.address = address
        self.context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.faults, self.asked = list[str](), set[str]()
        self.page.on("request", lambda request: self.asked.add(request.url))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.open()

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(text)

    def open(self, state: str = "") -> None:
        self.page.goto("about:blank")
        self.page.goto(self.address + state)
        if not state:
            assert self.page.locator("#playground figure.picture svg").is_visible()
            self.page.keyboard.press("Shift")  # any sign of a reader starts it
        self.page.wait_for_selector("#playground[data-live=yes]")

    def type(self, text: str) -> str:
        """Put a text in, and give the sentence that is said of it."""
        self.page.locator("#pg-text").fill(text)
        self.page.wait_for_timeout(120)
        return self.said("#pg-status")

    def said(self, where: str) -> str:
        return self.page.locator(where).inner_text()

    @property
    def tokens(self) -> list[str]:
        return self.page.locator(".pg-tokens button").all_inner_texts()

    def chances(self) -> dict[str, str]:
        rows = self.page.locator(".pg-chances button").all()
        return {
            row.locator(".token").inner_text(): row.locator(".pg-number").first.inner_text()
            for row in rows
        }


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one page, built by the project's own settings for reading from a disk."""
    project = tmp_path_factory.mktemp("playground")
    docs = ROOT / "docs"
    shutil.copytree(docs / "assets", project / "docs" / "assets")
    (project / "docs" / "img").mkdir()
    shutil.copy(docs / "playground.md", project / "docs")
    shutil.copy(docs / "img" / "playground-heads.svg", project / "docs" / "img")
    fonts = ROOT / ".cache" / "fonts"
    if fonts.is_dir():
        shutil.copytree(fonts, project / ".cache" / "fonts")
    models = Path("src", "tinyattn", "models")
    shutil.copytree(ROOT / models, project / models)
    listed = ", ".join(f"{ROOT.as_posix()}/hooks/{name}.py" for name in hooks())
    settings = SETTINGS.format(root=ROOT.as_posix(), hooks=listed)
    (project / "mkdocs.yml").write_text(settings, encoding="utf-8")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "SITE_URL": ""}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q"],
        cwd=project,
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return project / "site" / "playground.html"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """On matrices this small, threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def reader(browser: Browser, file: Path) -> Iterator[Reader]:
    reader = Reader(browser, file.as_uri())
    yield reader
    reader.context.close()


# Numbers come as base64 of their bytes: as lists they would take seconds to pass on.
RUN = """([name, tokens, off, at, token]) => {
    function packed(...parts) {
        let text = "";
        for (const numbers of parts) {
            const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
            for (let n = 0; n < bytes.length; n += 4096) {
                text += String.fromCharCode.apply(null, bytes.subarray(n, n + 4096));
            }
        }
        return btoa(text);
    }
    const T = tinyattn, model = T.unpack(T.packed[name]), run = T.run(model, tokens, off);
    const heads = run.layers.flat();
    return {
        weights: off.length ? "" : packed(new Float32Array(model.W_E.data.buffer)),
        logits: packed(run.logits.data),
        patterns: packed(...heads.map(head => head.pattern.data)),
        induction: heads.map(head => T.inductionScore(head.pattern, tokens)),
        previous: heads.map(head => T.previousTokenScore(head.pattern, tokens)),
        known: T.known(tokens),
        loss: T.loss(run, T.known(tokens)),
        writers: T.writers(run, at, token).map(term => [term.name, term.value]),
        paths: T.paths(run, at, token).map(term => [term.name, term.value]),
        again: packed(T.run(model, tokens).logits.data),
    };
}"""


def unpacked(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32)


def known(tokens: torch.Tensor) -> torch.Tensor:
    return (followers(tokens)[:-1] & (tokens == tokens[1:, None])).any(dim=-1)


def loss(run: Run) -> float:
    said = run.logits[:-1].log_softmax(dim=-1)
    right = said.gather(-1, run.tokens[1:, None])[:, 0]
    return -right[known(run.tokens)].mean().item()


def test_numbers_are_those_of_the_package(reader: Reader) -> None:
    """Weights, patterns, logits, scores, losses, writers and paths, with heads on and off."""
    reader.page.get_by_label("repeats").check()
    reader.page.wait_for_function("tinyattn.packed['induction-2l']")
    draw = torch.Generator().manual_seed(0)
    for name, most, off in (("text-2l", 64, ["0.2", "1.6"]), ("induction-2l", 48, ["0.1"])):
        model = load(name)
        block = torch.randint(1, model.config.d_vocab, (most // 2,), generator=draw)
        tokens = torch.cat([torch.zeros(1, dtype=torch.int64), block, block[:-1]])
        run = model.run(tokens)
        at, token = most - 3, int(tokens[-2])
        unedited = None
        for heads in ([], off):
            now = ablate(run, [f"{head[0]}.head {head[2]}" for head in heads])
            given = [name, tokens.tolist(), heads, at, token]
            found = reader.page.evaluate(RUN, given)
            patterns = torch.stack([now.pattern(0), now.pattern(1)])
            assert (unpacked(found["patterns"]) - patterns.flatten()).abs().max() < PATTERNS
            assert (unpacked(found["logits"]) - now.logits.flatten()).abs().max() < LOGITS
            scores = torch.tensor([found["induction"], found["previous"]]).unflatten(1, (2, -1))
            wanted = [induction_score(patterns, tokens), previous_token_score(patterns)]
            assert (scores - torch.stack(wanted)).abs().max() < PATTERNS
            assert found["known"] == known(tokens).nonzero()[:, 0].tolist()
            assert abs(found["loss"] - loss(now)) < LOGITS

            shares = logit_attribution(now, token, heads=True)
            names = [writer.replace("head ", "") for writer in shares.names]
            assert [writer for writer, _ in found["writers"]] == names
            for (_, value), share in zip(found["writers"], shares.values[:, at], strict=True):
                assert abs(value - float(share)) < LOGITS
            total = sum(value for _, value in found["paths"])
            assert abs(total - float(now.logits[at, token])) < LOGITS
            if not heads:
                terms = paths(now).logit(token)
                assert [path for path, _ in found["paths"]] == list(terms)
                for path, value in found["paths"]:
                    assert abs(value - float(terms[path][at])) < LOGITS
                assert torch.equal(unpacked(found["weights"]), weights(model))
                unedited = found["logits"]
            else:
                # Switched on again, the numbers are the old ones, to the last bit.
                assert found["again"] == unedited
                assert found["logits"] != unedited
                assert not any(set(path.split(" → ")) & set(heads) for path, _ in found["paths"])
    assert not reader.faults


def weights(model: torch.nn.Module) -> torch.Tensor:
    """All weights one behind the other, as they lie in the file."""
    named = dict(model.named_parameters())
    ends = ["W_E", "W_pos", "W_U"]
    inner = [f"blocks.{layer}.{name}" for layer in (0, 1) for name in ("W_Q", "W_K", "W_V", "W_O")]
    assert set(named) == {*ends, *inner}
    return torch.cat([named[name].detach().flatten() for name in (*ends, *inner)])


ODD = [
    "",
    " ",
    "  \n\n  two  spaces ",
    "don't; 'tis, (so)!?",
    "X-ray",
    "emoji 🙂",
    "👩‍👩‍👧",
    "שלום",
    "مرحبا بك",
    "tab\there",
    "no\xa0break",
    "\x1c\x85\ufeff",
    "\u202eright to left",
    "<b>&amp;</b>",
    "$5",
    "zzzz" * 700,
    "And God said, Let there be light. " * 300,
]


def test_tokens_are_those_of_the_package(reader: Reader) -> None:
    """The merges find the same tokens, and the same first sign that has none."""
    words = load_vocabulary()
    chooser = random.Random(0)
    letters = [token for token in words.tokens[1:] if len(token) == 1]
    texts = [*ODD, *("".join(chooser.choices(words.tokens[1:], k=20)) for _ in range(50))]
    texts += ["".join(chooser.choices(letters, k=40)) for _ in range(50)]

    def encoded(text: str) -> dict[str, Any]:
        try:
            return {"numbers": words.encode(text)}
        except ValueError as error:
            sign = re.match(r"Vocabulary: (.+?) in ", str(error))
            assert sign is not None
            return {"unknown": ast.literal_eval(sign[1])}  # the message holds its repr

    found = reader.page.evaluate(
        """texts => {
            const packed = tinyattn.packed["text-2l"];
            const words = tinyattn.vocabulary(packed.characters, packed.merges);
            return texts.map(text => tinyattn.encode(words, text));
        }""",
        texts,
    )
    assert found == [encoded(text) for text in texts]
    assert max(map(len, texts)) > 10_000


def test_odd_input_gives_a_sentence(reader: Reader) -> None:
    reader.open()
    before = reader.tokens
    for text in ODD:
        said = reader.type(text)
        if set(text) <= set("".join(load_vocabulary().tokens[1:])) and text:
            assert bool(said) == (len(load_vocabulary().encode(text)) > 63), text
            before = reader.tokens
        else:
            assert "no token" in said or "no text" in said, text
            assert reader.tokens == before, text
        assert 2 <= len(reader.tokens) <= 64
        assert reader.page.locator(".pg-large .pg-cells path").count()
        assert not re.search("NaN|undefined|Infinity", reader.said("#playground")), text
    assert "U+05E9" in reader.type("שלום")
    reader.page.get_by_label("repeats").check()
    assert "U+0020" in reader.type("A B")
    assert reader.type("ABC") == ""
    assert reader.tokens == ["start", "A", "B", "C"]
    assert "no induction stripe" in reader.said(".pg-columns")
    # An address may be odd too.
    reader.open("#model=text-2l&text=%D7%A9&at=999&logit=-3&off=9.9&head=x&tokens=5.x")
    assert "no token" in reader.said("#pg-status")
    assert len(reader.tokens) > 10
    # Every object has a toString; no model and no head is called so.
    reader.open("#model=toString&head=toString&off=constructor")
    assert len(reader.tokens) > 10
    code = reader.page.evaluate("document.querySelector('.pg-code code').textContent")
    assert "constructor" not in code
    assert not reader.faults


def test_of_two_models_asked_for_at_once_the_last_is_shown(reader: Reader) -> None:
    """The first still has to load when the second is there already."""
    reader.open()
    reader.page.evaluate(
        """() => ["induction-2l", "text-2l"].forEach(name =>
            document.querySelector(`[name=playground-model][value=${name}]`).click())"""
    )
    reader.page.wait_for_function("tinyattn.packed['induction-2l']")
    reader.page.wait_for_timeout(50)
    assert reader.page.get_by_label("text", exact=True).first.is_checked()
    assert "Z" in reader.tokens
    reader.page.get_by_text("The same in Python").click()
    copy = reader.page.get_by_role("button", name="Copy the code")
    button = copy.element_handle()
    button.click()
    reader.page.wait_for_function("button => button.textContent !== 'Copy the code'", arg=button)
    button.click()  # the words on it are those of the moment now
    reader.page.wait_for_function("button => button.textContent === 'Copy the code'", arg=button)
    assert not reader.faults


def test_a_head_is_switched_off_and_on_by_the_keyboard(reader: Reader) -> None:
    """What is said changes, and comes back; the address brings it all back, and so does Python."""
    reader.open()
    page, shown = reader.page, reader.page.locator(".pg-columns")
    before, html = reader.chances(), shown.inner_html()
    switch = page.get_by_label("Head 0.2 writes")
    switch.focus()
    page.keyboard.press("Space")
    after, kept = reader.chances(), page.url
    assert before.keys() != after.keys()
    words = load_vocabulary()
    run = load("text-2l").run([0, *words.encode(page.locator("#pg-text").input_value())])
    without = ablate(run, "0.head 2")
    for said, now in ((before, run), (after, without)):
        best = now.logits[-1].softmax(dim=-1).topk(10)
        named = [words.tokens[number].replace(" ", "␣") for number in best.indices.tolist()]
        assert list(said)[:10] == named
        for chance, value in zip(said.values(), best.values.tolist(), strict=False):
            assert abs(float(chance.removesuffix("%")) - 100 * value) < 0.051
    losses = re.findall(r"(\d\.\d\d)", page.locator(".pg-columns [role=status]").last.inner_text())
    assert [float(nats) for nats in losses] == [round(loss(without), 2), round(loss(run), 2)]

    code = page.locator(".pg-code code").text_content()
    assert code is not None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    first = float(re.findall(r"0\.\d+", out.getvalue())[0])
    assert abs(first - max(without.logits[-1].softmax(dim=-1).tolist())) < 0.0001

    page.keyboard.press("Space")
    assert shown.inner_html() == html
    reader.open("#" + urlsplit(kept).fragment)
    assert reader.chances() == after
    assert not page.get_by_label("Head 0.2 writes").is_checked()
    page.get_by_role("button", name="All heads on").click()
    assert reader.chances() == before
    assert not reader.faults


def test_tokens_and_cells_are_walked_with_arrows(reader: Reader) -> None:
    reader.open()
    page = reader.page
    words = load_vocabulary()
    run = load("text-2l").run([0, *words.encode(page.locator("#pg-text").input_value())])
    page.locator(".pg-tokens [aria-pressed=true]").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    chosen = page.locator(".pg-tokens [aria-pressed=true]")
    assert chosen.inner_text() == "or"
    assert chosen.evaluate("chip => chip === document.activeElement")
    assert chosen.evaluate("chip => getComputedStyle(chip).outlineStyle") == "solid"
    page.get_by_role("button", name="Head 1.6").focus()
    page.keyboard.press("Enter")
    page.locator(".pg-large").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    said = re.fullmatch(
        r"(\S+) \((\d+)\) reads (\S+) \((\d+)\): (\d\.\d\d)", reader.said("#pg-cell")
    )
    assert said is not None
    i, j = int(said[2]), int(said[4])
    assert (i, said[1]) == (4, "ab")
    assert math.isclose(float(said[5]), float(run.pattern(1)[6, i, j]), abs_tol=0.0051)
    page.locator(".pg-large").scroll_into_view_if_needed()
    box = page.locator(".pg-large .pg-frame").bounding_box()
    assert box is not None
    n = len(reader.tokens)
    page.mouse.move(box["x"] + box["width"] * 5.5 / n, box["y"] + box["height"] * 20.5 / n)
    assert reader.said("#pg-cell") == f"ab (20) reads el (5): {run.pattern(1)[6, 20, 5]:.2f}"
    # Tokens can be picked, too, and the text follows.
    page.get_by_text("Pick a token instead of typing").click()
    page.get_by_label("A token of the vocabulary").select_option("␣God")
    page.get_by_role("button", name="Put it behind").click()
    assert reader.tokens[3] == "␣God"
    assert page.locator("#pg-text").input_value().startswith("Zor Godobabel")
    assert not reader.faults


def test_from_a_disk_and_light_enough(reader: Reader, file: Path) -> None:
    """Nothing is asked of any host, and all files of a first visit together are small."""
    reader.asked.clear()
    reader.open()
    hosts = {
        url for url in reader.asked if not url.startswith(("file:", "data:", "about:", "blob:"))
    }
    assert not hosts
    files = [
        Path(url2pathname(unquote(urlsplit(u).path))) for u in reader.asked if u[:5] == "file:"
    ]
    assert any(name.name == "text-2l.js" for name in files)
    size = sum(packed(name) for name in files)
    assert size <= KILOBYTES * 1000


def packed(file: Path) -> int:
    """What a server sends: fonts as they are, all else compressed."""
    stored = file.read_bytes()
    return len(stored if file.suffix == ".woff2" else gzip.compress(stored, 6))


def test_axe_finds_nothing_in_the_live_page(reader: Reader) -> None:
    reader.open("#model=text-2l&text=wood+river+wood+river&off=0.2")
    assert reader.page.evaluate("document.documentElement.scrollWidth") == 1280
    for colours, only in (("default", None), ("slate", ["color-contrast"])):
        reader.page.evaluate(f"document.body.dataset.mdColorScheme = '{colours}'")
        reader.page.wait_for_timeout(300)
        options = {"runOnly": only} if only else {}
        found = Axe().run(reader.page, "#playground", options).response["violations"]
        assert not [(v["id"], [n["target"] for n in v["nodes"]][:4]) for v in found]
    reader.page.set_viewport_size({"width": 360, "height": 800})
    assert reader.page.evaluate("document.documentElement.scrollWidth") == 360
    reader.page.set_viewport_size({"width": 1280, "height": 900})


def test_without_javascript_the_page_is_whole(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    picture = page.locator("#playground figure.picture svg")
    assert picture.is_visible()
    assert "Without JavaScript" in page.locator("#playground").inner_text()
    for heading in ("What there is to see", "A head switched off", "What carries a logit"):
        assert page.get_by_role("heading", name=heading).is_visible()
    assert page.locator("article .language-output").count() >= 5
    context.close()
