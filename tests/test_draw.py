"""A picture shows its matrix, says which axis reads, and stands alone as text."""

import json
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tinyattn
from tinyattn import ShapeError, causal_mask, pattern
from tinyattn.draw import draw_matrix, draw_pattern
from tinyattn.grid import LABELLED, LEGIBLE, is_dark, shade
from tinyattn.svg import Picture

SVG = "{http://www.w3.org/2000/svg}"
STYLES = Path(__file__).parent.parent / "docs" / "assets"
TOKENS = ["The", "cat", "sat"]
PATTERN = torch.tensor([[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.2, 0.5, 0.3]])


def random_pattern(query: int, key: int | None = None, *, causal: bool = True) -> torch.Tensor:
    key = query if key is None else key
    scores = 2 * torch.randn(query, key, generator=torch.Generator().manual_seed(query))
    return pattern(scores, causal_mask(query, key) if causal else None)


def parsed(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg)


def texts(picture: Picture) -> list[str]:
    return ["".join(text.itertext()) for text in parsed(picture).iter(f"{SVG}text")]


def cells(picture: Picture) -> dict[tuple[int, int], dict[str, float]]:
    """Each shaded cell by its row and column: where it is and how opaque."""
    found = {}
    for rect in parsed(picture).iter(f"{SVG}rect"):
        if "data-row" in rect.attrib:
            place = (int(rect.attrib["data-row"]), int(rect.attrib["data-column"]))
            numbers = ("x", "y", "width", "height", "fill-opacity")
            found[place] = {name: float(rect.attrib[name]) for name in numbers}
    return found


def metadata(picture: Picture) -> dict:
    return json.loads(parsed(picture).findtext(f"{SVG}metadata", ""))


# what it shows


def test_a_picture_says_which_axis_reads_in_marks_and_in_words():
    picture = draw_pattern(PATTERN, TOKENS)
    assert {"reads ↓", "is read →", "A row reads, a column is read."} <= set(texts(picture))
    assert parsed(picture).findtext(f"{SVG}title") == "Attention pattern of The cat sat"
    assert parsed(picture).findtext(f"{SVG}desc") == (
        "The reads most from The (1.00); cat reads most from The (0.75); "
        "sat reads most from cat (0.50)."
    )


def test_ties_and_blind_rows_are_described_as_they_are():
    A = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0], [0.3, 0.3, 0.4]])
    said = parsed(draw_pattern(A, TOKENS)).findtext(f"{SVG}desc", "")
    assert "The reads equally from The and cat (0.50); cat reads nothing;" in said
    long = parsed(draw_pattern(torch.eye(30), ["a"] * 30)).findtext(f"{SVG}desc", "")
    assert long.startswith("The largest weights: a reads a (1.00)")


def test_numbers_stand_in_the_cells_and_blocked_cells_are_empty():
    picture = draw_pattern(PATTERN, TOKENS)
    assert [text for text in texts(picture) if re.fullmatch(r"\d\.\d\d", text)] == (
        ["0.25", "0.20", "0.30", "1.00", "0.75", "0.50"]
    )
    assert set(cells(picture)) == {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}
    assert "Empty: weight exactly 0." in texts(picture)


def test_a_small_weight_is_not_drawn_like_a_blocked_one():
    picture = draw_pattern(torch.tensor([[0.999, 0.001], [1.0, 0.0]]), ["a", "b"])
    assert cells(picture)[0, 1]["fill-opacity"] == 0.03
    assert (1, 1) not in cells(picture)
    assert "0.00" in texts(picture)


def test_e12_query_0_is_on_top():
    """Two plotting calls put row 0 at opposite ends."""
    drawn = cells(draw_pattern(torch.ones(3, 3).tril(), TOKENS))
    assert drawn[0, 0]["y"] < drawn[1, 0]["y"] < drawn[2, 0]["y"]
    assert (0, 2) not in drawn
    assert (2, 0) in drawn


@pytest.mark.parametrize("size", [(2, 3), (30, 50)])
def test_e13_rows_go_down_and_columns_to_the_right(size):
    """Width and height were swapped, and the picture was the transpose."""
    hot = torch.zeros(size)
    hot[0, 2] = 1.0
    readers, read = [f"q{i}" for i in range(size[0])], [f"k{j}" for j in range(size[1])]
    picture = draw_pattern(hot, readers, read)
    if size[0] <= LEGIBLE:
        (cell,) = cells(picture).values()
        labels = {text.text: text.attrib for text in parsed(picture).iter(f"{SVG}text")}
        assert abs(float(labels["k2"]["x"]) - cell["x"] - cell["width"] / 2) < 0.01
        assert cell["y"] < float(labels["q0"]["y"]) < cell["y"] + cell["height"]
    else:
        assert 'd="M2 0h1"' in picture.svg
    assert texts(picture).index("q0") < texts(picture).index("k0")


def test_d2_the_picture_is_of_the_matrix_it_was_given():
    """A figure of cross-attention showed self-attention; its causal shape betrayed it."""
    for causal in (True, False):
        A = random_pattern(5, causal=causal)
        picture = draw_pattern(A, list("abcde"))
        assert all(j <= i for i, j in cells(picture)) == causal
        told = metadata(picture)
        assert told["rows"] == told["columns"] == list("abcde")
        assert told["reads"] == "rows read columns"
        torch.testing.assert_close(torch.tensor(told["values"]), A, atol=0.005, rtol=0)


def test_metadata_tells_a_blocked_weight_from_a_small_one():
    told = draw_pattern(torch.tensor([[0.999, 0.001], [1.0, 0.0]]), ["a", "b"]).svg
    assert "[[1.0, 0.0], [1.0, 0]]" in told


def test_the_same_position_has_the_same_colour_as_row_and_as_column():
    picture = draw_pattern(random_pattern(9), list("abcdefghi"))
    chips = re.findall(r"--picture-token-(\d),#\w+\)\" d=\"([^\"]+)\"", picture.svg)
    assert [colour for colour, _ in chips] == list("01234567")
    assert [path.count("M") for _, path in chips] == [4, 2, 2, 2, 2, 2, 2, 2]


def test_queries_that_are_the_last_keys_keep_their_colours():
    picture = draw_pattern(random_pattern(1, 3), ["sat"], TOKENS)
    colour = re.search(r"token-2,#\w+\)\" d=\"([^\"]+)\"", picture.svg)
    assert colour
    assert colour[1].count("M") == 2


def test_rows_that_do_not_sum_to_one_are_drawn_and_named():
    picture = draw_pattern(torch.tensor([[1.0, 0.0], [0.3, 0.2]]), ["The", "cat"])
    assert "Row cat sums to 0.50." in texts(picture)
    many = draw_pattern(torch.full((3, 3), 0.1), TOKENS)
    assert "3 rows do not sum to 1." in texts(many)
    for dtype in (torch.float16, torch.bfloat16):
        half = draw_pattern(random_pattern(50).to(dtype), ["a"] * 50)
        assert not any("sum" in text for text in texts(half))


def test_a_title_is_seen_and_is_the_name():
    picture = draw_pattern(PATTERN, TOKENS, title="Head <3>")
    assert picture.title == "Head <3>"
    assert texts(picture)[0] == "Head <3>"
    assert repr(picture) == "<Picture: Head <3>>"


def test_a_matrix_has_two_hues_and_says_how_dark_the_darkest_is():
    scores = torch.tensor([[2.0, -1.0, 0.0], [-4.0, -torch.inf, 0.4]])
    picture = draw_matrix(scores, ["a", "b"], TOKENS, axes=("reads ↓", "is read →"))
    assert {"Darkest: 4.00 from zero.", "above zero", "below zero", "-inf", "-4.00"} <= set(
        texts(picture)
    )
    assert set(cells(picture)) == {(0, 0), (0, 1), (1, 0), (1, 2)}
    assert cells(picture)[1, 0]["fill-opacity"] == 1
    assert metadata(picture)["values"] == [[2.0, -1.0, 0.0], [-4.0, "-inf", 0.4]]
    assert texts(draw_matrix(torch.zeros(1, 1))).count("0.00") == 1


# what it is


def test_e1_a_picture_asks_for_nothing():
    """Scripts from a public network left it blank behind a firewall."""
    svg = draw_pattern(PATTERN, TOKENS, title="A").svg.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|<script|@import|url\(|<image|href", svg)


def test_e2_a_notebook_gets_an_svg_and_a_word_and_no_script():
    """Pictures that need a script loader were blank in all but one front end."""
    from IPython.core.formatters import DisplayFormatter

    picture = draw_pattern(PATTERN, TOKENS)
    bundle, _ = DisplayFormatter().format(picture)
    assert bundle == {"image/svg+xml": picture.svg, "text/plain": repr(picture)}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("count", [128, 512])
def test_e3_long_inputs_stay_small_and_their_labels_apart(count, causal):
    """Five hundred tokens froze the browser."""
    A = random_pattern(count, causal=causal)
    start = time.process_time()
    picture = draw_pattern(A, [f"t{i}" for i in range(count)])
    assert time.process_time() - start < 5
    assert len(picture.svg.encode()) < 2_000_000
    assert_labels_apart(picture)


def test_e3_the_worst_matrix_of_512_is_still_small():
    noise = torch.rand(512, 512, generator=torch.Generator().manual_seed(0))
    picture = draw_pattern(noise, ["a"] * 512)
    assert len(picture.svg.encode()) < 2_000_000
    assert any(text.startswith("Empty too: below 0.5") for text in texts(picture))


@pytest.mark.parametrize("count", [1, 2, 7, 8, 20, 21, 64, 65, 100])
def test_labels_are_apart_at_every_size(count):
    picture = draw_pattern(random_pattern(count), [f"t{i}" for i in range(count)])
    labels = [text for text in texts(picture) if re.fullmatch(r"t\d+", text)]
    assert (len(labels) == 2 * count) == (count <= LABELLED)
    assert_labels_apart(picture)


def assert_labels_apart(picture: Picture) -> None:
    """Neighbouring row labels, and column labels across their slant, differ by a font height."""
    (group,) = (g for g in parsed(picture).iter(f"{SVG}g") if "bidi" in g.attrib.get("style", ""))
    font = float(group.attrib["font-size"])
    down = [float(label.attrib["y"]) for label in group[0]]
    across = [float(label.attrib["x"]) for label in group[1]]
    assert all(b - a >= font - 0.01 for a, b in pairwise(down))
    if group[1].attrib["text-anchor"] == "start":
        assert all((b - a) * 0.7072 >= font - 0.01 for a, b in pairwise(across))
    else:
        longest = max(len(label.text or "") for label in group[1])
        assert all(b - a > 0.6 * font * longest for a, b in pairwise(across))


def test_everything_lies_on_the_paper():
    tokens = ["a", "b" * 40, "猫" * 20, "d", "e", "f", "g", "h" * 12]
    for picture in (
        draw_pattern(random_pattern(8), tokens),
        draw_pattern(random_pattern(1), ["a"]),
    ):
        wide, tall = map(float, parsed(picture).attrib["viewBox"].split()[2:])
        for element in parsed(picture).iter():
            x, y = element.attrib.get("x"), element.attrib.get("y")
            assert x is None or 0 <= float(x) <= wide
            assert y is None or 0 <= float(y) <= tall


def test_a_picture_of_three_tokens_is_small():
    assert len(draw_pattern(PATTERN, TOKENS).svg.encode()) <= 3500


def test_a_picture_is_the_same_text_every_time():
    picture = draw_pattern(PATTERN, TOKENS)
    assert picture == draw_pattern(PATTERN.clone(), tuple(TOKENS))
    assert picture == draw_pattern(PATTERN.double() * (1 - 1e-7), TOKENS)
    assert picture.svg.endswith("</svg>\n")
    numbers = re.findall(r"\d+\.\d+", re.sub(r"scale\([^)]*\)", "", picture.svg))
    assert all(len(number.partition(".")[2]) <= 2 for number in numbers)


def test_names_and_ids_belong_to_the_picture():
    one, other = (parsed(draw_pattern(A, TOKENS)) for A in (PATTERN, PATTERN.flip(0)))
    named = one.attrib["aria-labelledby"].split()
    assert one.attrib["role"] == "img"
    assert [element.attrib["id"] for element in one if "id" in element.attrib] == named
    assert one.attrib["aria-labelledby"] != other.attrib["aria-labelledby"]


def test_drawing_leaves_its_arguments_alone():
    A, tokens = PATTERN.clone().requires_grad_(), list(TOKENS)
    draw_pattern(A, tokens)
    draw_matrix(A, tokens)
    assert torch.equal(A, PATTERN)
    assert tokens == TOKENS


def test_f3_a_plain_script_saves_a_picture(tmp_path):
    """Servers have no display and no notebook."""
    script = (
        "import sys, torch; from tinyattn.draw import draw_pattern;"
        "draw_pattern(torch.eye(2), ['The', 'cat']).save(sys.argv[1]);"
        "assert 'matplotlib' not in sys.modules and 'IPython' not in sys.modules"
    )
    path = tmp_path / "eye.svg"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(path)],
        capture_output=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert path.read_bytes() == draw_pattern(torch.eye(2), ["The", "cat"]).svg.encode()


def test_e17_one_import_is_enough():
    """Each picture's sub-module had to be imported by hand."""
    assert tinyattn.draw_pattern is draw_pattern
    assert {"Picture", "draw_pattern", "draw_matrix", "show"} <= set(tinyattn.__all__)


def test_another_file_type_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.svg"):
        draw_pattern(PATTERN, TOKENS).save(tmp_path / "eye.png")


# labels


HARD = ["\u0120the", "\u2581the", "\u010a", " the", "the", "", "\n", "\t"]


def test_e7_labels_show_what_is_in_a_token():
    """Vocabulary signs stood before words, and line breaks broke lines."""
    assert metadata(draw_pattern(random_pattern(8), HARD))["rows"] == (
        ["␣the", "␣the", "⏎", "␣the", "the", "∅", "⏎", "⇥"]
    )


def test_e9_labels_are_literal():
    """A dollar sign in a token was read as mathematics."""
    tokens = ["$$", "$5", "a$b$c", "\\", "_", "^", "%", "{", "<b>", "&amp;", '"', "'"]
    drawn = texts(draw_pattern(random_pattern(12), tokens))
    assert all(drawn.count(token) == 2 for token in tokens)


def test_e11_right_to_left_labels_are_drawn_once_and_as_they_are():
    """Shaping the label before the renderer shapes it reverses it twice."""
    picture = draw_pattern(random_pattern(2), ["שלום", "world"])
    assert texts(picture).count("שלום") == 2
    assert "unicode-bidi:isolate" in picture.svg


def test_a_long_label_is_shortened_and_kept_whole_in_its_title():
    long = "supercalifragilistic"
    picture = draw_pattern(random_pattern(2), [long, "a"])
    titles = [title.text for title in parsed(picture).iter(f"{SVG}title")]
    assert titles.count(long) == 2
    assert f"{long}supercalifr…" in texts(picture)


@settings(deadline=None)  # the first call of a checked function is slow
@given(st.lists(st.text(), min_size=1, max_size=5), st.text())
@example(["\x00", "\ufffe", "\ud800"], "\x1f<&]]>")
def test_any_tokens_give_well_formed_pictures_that_name_them(tokens, title):
    A = random_pattern(len(tokens))
    picture = draw_pattern(A, tokens, title=title)
    assert picture == draw_pattern(A, tokens, title=title)
    told = metadata(picture)
    assert len(told["rows"]) == len(tokens)
    drawn = " ".join(texts(picture))
    assert all(label in drawn for label in told["rows"])
    assert parsed(draw_matrix(A, tokens, axes=(title, title), title=title)).tag == f"{SVG}svg"


# colours


def luminance(colour: tuple[float, ...]) -> float:
    def linear(part: float) -> float:
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(part / 255) for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The ratio of WCAG 2.2: 4.5 or more for text, 3 or more for marks."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def palettes() -> dict[str, dict[str, tuple[float, ...]]]:
    """The colours a picture has alone, and those the site's two schemes give it."""
    svg = draw_matrix(torch.tensor([[1.0, -1.0]])).svg + draw_pattern(torch.eye(8), HARD).svg
    alone = dict(re.findall(r"var\((--picture-[\w-]+),(#\w{6})\)", svg))
    found = {"alone": alone}
    css = "\n".join(path.read_text() for path in sorted(STYLES.glob("*.css")))
    for scheme in ("default", "slate"):
        blocks = re.findall(rf'\[data-md-color-scheme="{scheme}"\]\s*{{([^}}]*)}}', css)
        names = dict(re.findall(r"(--[\w-]+):\s*([^;]+);", "".join(blocks)))
        found[scheme] = {
            name: names.get(value[4:-1], value) if value.startswith("var(") else value
            for name, value in {**alone, **names}.items()
            if name.startswith("--picture-")
        }
    return {
        scheme: {
            name.removeprefix("--picture-"): tuple(bytes.fromhex(value.strip().lstrip("#")))
            for name, value in colours.items()
        }
        for scheme, colours in found.items()
    }


@pytest.mark.parametrize("scheme", ["alone", "default", "slate"])
def test_e15_every_text_can_be_read_on_its_cell(scheme):
    """Axis text was dark on dark, or the picture a white slab."""
    colours = palettes()[scheme]
    paper, ink, light = colours["paper"], colours["ink"], colours["on-cell"]
    assert len(colours) == 15
    assert min(contrast(ink, paper), contrast(colours["muted"], paper)) >= 4.5
    assert min(contrast(colours[f"token-{i}"], paper) for i in range(8)) >= 3
    for hue in ("cell", "negative"):
        for weight in range(1, 1001):
            share, ends = weight / 1000, zip(paper, colours[hue], strict=True)
            cell = tuple(p + (c - p) * shade(share) for p, c in ends)
            assert contrast(light if is_dark(share) else ink, cell) >= 4.5, (hue, share)


def test_the_shade_grows_with_the_weight():
    shades = [shade(weight / 100) for weight in range(101)]
    assert shades == sorted(shades)
    assert (shades[0], shades[25], shades[100]) == (0, 0.25, 1)


# what does not fit


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: draw_pattern(torch.full((5, 5), 0.2), ["a"] * 4),
            ValueError,
            "draw_pattern: tokens has 4 labels for 5 queries (rows): give one for each "
            "(does one of the two lack the start token?)",
        ),
        (
            lambda: draw_pattern(torch.full((2, 3), 0.3), ["a"] * 2),
            ValueError,
            "2 queries and 3 keys: name the keys as well",
        ),
        (
            lambda: draw_pattern(torch.full((2, 3), 0.3), ["a"] * 3),
            ValueError,
            "tokens has 3 labels for 2 queries (rows)",
        ),
        (
            lambda: draw_pattern(torch.full((2, 3), 0.3), ["a"] * 2, ["a"] * 2),
            ValueError,
            "keys has 2 labels for 3 keys (columns)",
        ),
        (lambda: draw_pattern(torch.eye(3)[None], TOKENS), ShapeError, "exactly 2 axes, not 3"),
        (lambda: draw_pattern(torch.eye(3).long(), TOKENS), ShapeError, "be floating point"),
        (lambda: draw_pattern(torch.eye(3), "The"), TypeError, "tokens is one string, 'The'"),
        (
            lambda: draw_pattern(PATTERN.log() * 0, TOKENS),
            ValueError,
            "pattern[0, 1] is NaN",
        ),
        (
            lambda: draw_pattern(PATTERN * 2, TOKENS),
            ValueError,
            "pattern[0, 0] is 2 (The reads The), but a weight lies between 0 and 1",
        ),
        (lambda: draw_pattern(PATTERN - 1, TOKENS), ValueError, "pattern[0, 1] is -1"),
        (lambda: draw_pattern(PATTERN.to("meta"), TOKENS), ValueError, "has no values to draw"),
        (lambda: draw_pattern(torch.zeros(0, 0), []), ValueError, "float32[0, 0]: there is noth"),
        (lambda: draw_matrix(torch.tensor([[0.0, torch.inf]])), ValueError, "matrix[0, 1] is inf"),
        (lambda: draw_matrix(torch.tensor([[torch.nan]])), ValueError, "matrix[0, 0] is NaN"),
        (lambda: draw_matrix(PATTERN, ["a"]), ValueError, "rows has 1 label for 3 rows"),
    ],
)
def test_what_does_not_fit_is_named(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_odd_words_beside_the_axes_can_be_saved(tmp_path):
    """Half a surrogate pair in the metadata stopped the picture from being written."""
    picture = draw_matrix(torch.eye(2), axes=("<a>\x00\uffff", "&\ud800"))
    picture.save(tmp_path / "odd.svg")
    ElementTree.parse(tmp_path / "odd.svg")


def test_negative_digits_are_named():
    with pytest.raises(ValueError, match="draw_matrix: digits is -1, but must be 0 or more"):
        draw_matrix(torch.eye(2), digits=-1)
