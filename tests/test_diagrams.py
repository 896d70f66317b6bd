"""Diagrams show the numbers they were given, say what is what, and stand alone as text."""

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from draws import normal
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import (
    Head,
    Picture,
    ShapeError,
    Stream,
    attend,
    causal_mask,
    draw_dependencies,
    draw_shapes,
    draw_stream,
    generation,
)

SVG = "{http://www.w3.org/2000/svg}"
TOKENS = ["The", "cat", "sat"]
WRITES = torch.tensor([[1.0, 2.0, 0.5], [0.5, -2.0, 1.25], [0.0, 0.75, -3.0]])
WRITERS = ["embed", "head 0", "MLP 0"]
SMALL = torch.ones(3, 8)
STEPS = {"x": torch.ones(3, 8), "q": torch.ones(3, 4), "k": torch.ones(3, 4), "v": torch.ones(3, 2),
         "scores": torch.ones(3, 3), "z": torch.ones(3, 2)}  # fmt: skip
MADE = {"q": "x @ W_Q", "k": "x @ W_K", "v": "x @ W_V", "scores": "q @ k.T / √d_head",
        "z": "softmax(scores) @ v"}  # fmt: skip
AXES = {"x": "pos d_model", "scores": "query key"}
words = st.text(max_size=16)


def parsed(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg)


def texts(picture: Picture) -> list[str]:
    return ["".join(text.itertext()) for text in parsed(picture).iter(f"{SVG}text")]


def metadata(picture: Picture) -> dict:
    return json.loads(parsed(picture).findtext(f"{SVG}metadata", ""))


def said(picture: Picture) -> str:
    return parsed(picture).findtext(f"{SVG}desc", "")


def marked(picture: Picture, kind: str) -> dict[tuple[int, int], dict[str, str]]:
    """Each element that says which row and column it stands for."""
    return {
        (int(one.attrib["data-row"]), int(one.attrib["data-column"])): one.attrib
        for one in parsed(picture).iter(f"{SVG}{kind}")
        if "data-row" in one.attrib
    }


def numbers_inside(picture: Picture) -> None:
    """Every text begins inside the paper."""
    wide, tall = map(float, parsed(picture).attrib["viewBox"].split()[2:])
    for text in parsed(picture).iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) <= wide
        assert 0 <= float(text.attrib["y"]) <= tall


# draw_stream


def test_a_bar_begins_where_the_one_above_ended_and_the_last_is_the_sum():
    bars = marked(draw_stream(WRITES, WRITERS, TOKENS), "rect")
    spans = {
        place: (float(bar["x"]), float(bar["x"]) + float(bar["width"]))
        for place, bar in bars.items()
    }
    assert (2, 0) not in spans, "a write of 0 has no bar"
    for j in range(3):
        at: float | None = None
        zero = 0.0
        for i, entry in enumerate(WRITES[:, j].tolist()):
            if entry:
                start, end = spans[i, j] if entry > 0 else spans[i, j][::-1]
                assert at is None or abs(start - at) < 0.02
                zero = start if at is None else zero
                at = end
        start, end = spans[3, j] if WRITES[:, j].sum() > 0 else spans[3, j][::-1]
        assert abs(start - zero) < 0.02
        assert at is not None
        assert abs(end - at) < 0.02


def test_lengths_of_bars_are_in_proportion_on_all_boards():
    bars = marked(draw_stream(WRITES, WRITERS, TOKENS), "rect")
    units = [
        float(bars[i, j]["width"]) / abs(WRITES[i, j].item()) for i in range(3) for j in range(3)
        if WRITES[i, j]
    ]  # fmt: skip
    assert max(units) - min(units) < 0.05


def test_the_numbers_the_table_and_the_words_are_the_writes():
    picture = draw_stream(WRITES, WRITERS, TOKENS)
    assert {"1.00", "-2.00", "0.75", "-3.00", "1.50", "-1.25"} <= set(texts(picture))
    assert "0.00" not in texts(picture)
    data = metadata(picture)
    assert data["kind"] == "stream"
    assert data["rows"] == [*WRITERS, "sum"]
    assert data["columns"] == TOKENS
    assert data["values"] == [*WRITES.tolist(), [1.5, 0.75, -1.25]]
    assert "sat sums to -1.25: 0.50 by embed, 1.25 by head 0, -3.00 by MLP 0." in said(picture)


def test_the_legend_says_what_is_there_and_no_more():
    both = texts(draw_stream(WRITES, WRITERS, TOKENS))
    assert "a write below zero: it takes away" in both
    assert "Empty: a write of exactly 0." in both
    above = texts(draw_stream(WRITES.abs() + 1, WRITERS, TOKENS))
    assert "a write above zero" in above
    assert not {"a write below zero: it takes away", "Empty: a write of exactly 0."} & set(above)


def test_what_the_ledger_returns_is_drawn():
    stream = Stream.start(normal(0, 3, 4)).write(normal(1, 3, 4), by="head 0")
    along = stream.along(normal(2, 4))
    picture = draw_stream(along, stream.writers, TOKENS)
    totals = (stream.now @ normal(2, 4)).tolist()
    assert metadata(picture)["values"][-1] == [round(total, 2) for total in totals]


def test_writes_that_cancel_leave_an_empty_board():
    picture = draw_stream(torch.tensor([[0.5], [-0.5]]), ["a", "b"], ["x"])
    assert (2, 0) not in marked(picture, "rect")
    assert "0.00" in texts(picture)
    assert marked(draw_stream(torch.zeros(2, 2), ["a", "b"], ["x", "y"]), "rect") == {}


@pytest.mark.parametrize(("n_writer", "n_pos"), [(157, 30), (2, 512), (200, 3), (1, 1)])
def test_any_size_is_drawn(n_writer, n_pos):
    picture = draw_stream(
        normal(0, n_writer, n_pos), [f"w{i}" for i in range(n_writer)], ["token"] * n_pos
    )
    numbers_inside(picture)
    assert len(picture.svg) < 2_000_000
    assert ("values" in metadata(picture)) == ((n_writer + 1) * n_pos <= 1024)


def test_bad_writes_are_refused():
    with pytest.raises(ValueError, match="writers has 2 labels for 3 writes"):
        draw_stream(WRITES, ["a", "b"], TOKENS)
    with pytest.raises(ValueError, match=r"tokens has 2 labels for 3 positions.*start token"):
        draw_stream(WRITES, WRITERS, TOKENS[1:])
    with pytest.raises(ValueError, match=r"writes\[1, 2\] is nan"):
        draw_stream(WRITES.index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(torch.nan)),
                    WRITERS, TOKENS)  # fmt: skip
    with pytest.raises(ValueError, match=r"writes\[0, 0\] is -inf"):
        draw_stream(WRITES - torch.inf, WRITERS, TOKENS)
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_stream(torch.ones(0, 3), [], TOKENS)
    with pytest.raises(ValueError, match="has no values to draw"):
        draw_stream(torch.ones(3, 3, device="meta"), WRITERS, TOKENS)
    with pytest.raises(ShapeError, match="2 axes, not 3"):
        draw_stream(torch.ones(3, 1, 3), WRITERS, TOKENS)
    with pytest.raises(TypeError, match="tokens is one string"):
        draw_stream(WRITES, WRITERS, "abc")


# draw_shapes


def boxes(picture: Picture) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of each box, by its name."""
    found = {}
    rects = [
        tuple(float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        for rect in parsed(picture).iter(f"{SVG}rect")
        if rect.attrib.get("rx") == "5"
    ]
    for text in parsed(picture).iter(f"{SVG}text"):
        name = re.fullmatch(r"(.+) \[.*\]", "".join(text.itertext()))
        for x, y, wide, tall in rects:
            if (
                name
                and x < float(text.attrib["x"]) < x + wide
                and y < float(text.attrib["y"]) < y + tall
            ):
                found[name[1]] = (x, y, x + wide, y + tall)
    return found


def test_each_step_is_below_what_it_is_made_of_and_upon_no_other():
    placed = boxes(draw_shapes(STEPS, MADE, AXES))
    assert set(placed) == set(STEPS)
    for name, line in MADE.items():
        for word in re.findall(r"\w+", line):
            if word in STEPS:
                assert placed[name][1] > placed[word][3]
    for one, (left, top, right, bottom) in placed.items():
        for other, (x0, y0, x1, y1) in placed.items():
            assert one == other or right < x0 or x1 < left or bottom < y0 or y1 < top


def test_one_head_fits_a_narrow_screen():
    head = Head(torch.ones(8, 4), torch.ones(8, 4), torch.ones(8, 4), torch.ones(4, 8))
    step = attend(SMALL, head, causal_mask(3))
    made = MADE | {"pattern": "softmax(scores)", "z": "pattern @ v", "out": "z @ W_O"}
    picture = draw_shapes({"x": SMALL, **vars(step)}, made, AXES)
    assert float(parsed(picture).attrib["width"]) <= 390
    numbers_inside(picture)


def test_shapes_axes_and_operations_are_written():
    picture = draw_shapes(STEPS, MADE, AXES)
    assert {"x [3, 8]", "pos d_model", "q @ k.T / √d_head"} <= set(texts(picture))
    data = metadata(picture)
    assert data["rows"] == list(STEPS)
    assert data["values"][4] == ["[3, 3]", "query key", "q @ k.T / √d_head"]
    assert "q [3, 4] is x @ W_Q; " in said(picture)


def test_an_arrow_is_a_name_and_no_part_of_a_name():
    steps = {"x": SMALL, "x after": SMALL, "y": SMALL, "xs": SMALL}
    picture = draw_shapes(steps, {"x after": "x + 1", "y": "x after + 1", "xs": "y * x_scale"})
    assert picture.svg.count("h8l-4 7z") == 3


def test_weights_stand_above_what_reads_them_and_only_tokens_are_coloured():
    steps = [("x", SMALL), ("q", torch.ones(3, 4)), ("W", torch.ones(4, 8)), ("y", SMALL)]
    placed = boxes(draw_shapes(steps, {"q": "x @ W_Q", "y": "q @ W"}))
    assert placed["W"][1] == placed["q"][1]
    assert "--picture-token" not in draw_shapes(steps, {}).svg
    coloured = draw_shapes(steps, {}, {"x": "pos d_model"})
    assert [f"--picture-token-{i}" in coloured.svg for i in range(4)] == [True] * 3 + [False]


@pytest.mark.parametrize("shape", [(), (5,), (0, 4), (12, 768, 64), (50257, 768), (2, 3, 4, 5)])
def test_any_shape_is_drawn(shape):
    picture = draw_shapes({"t": torch.ones(shape, device="meta")}, {})
    assert f"t {list(shape)}" in texts(picture)
    numbers_inside(picture)


def test_steps_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="made has a line for 'Q', but the steps are x, q"):
        draw_shapes(STEPS, {"Q": "x @ W_Q"})
    with pytest.raises(ValueError, match="axes has a line for 'Q'"):
        draw_shapes(STEPS, MADE, {"Q": "query d_head"})
    with pytest.raises(ValueError, match=r"'pos', 1 names for 2 axes of \[3, 8\]"):
        draw_shapes(STEPS, MADE, {"x": "pos"})
    with pytest.raises(ValueError, match="'x' is made by 'x \\+ q', but 'x' is not there before"):
        draw_shapes(STEPS, {"x": "x + q"})
    with pytest.raises(ValueError, match="'x' is there twice"):
        draw_shapes([("x", SMALL), ("x", SMALL)], {})
    with pytest.raises(ValueError, match="steps is empty"):
        draw_shapes({}, {})
    numbers: Any = {"x": SMALL, "y": [1]}
    with pytest.raises(TypeError, match="step 'y' is a list"):
        draw_shapes(numbers, {})


# draw_dependencies


LEVELS = [causal_mask(3), torch.eye(3).bool()]
NAMES = ["embed", "attention", "MLP"]


def test_nodes_have_the_step_that_can_compute_them_first():
    data = metadata(draw_dependencies(LEVELS, NAMES, TOKENS))
    assert data["values"] == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    data = metadata(draw_dependencies(LEVELS, NAMES, TOKENS, feedback=generation(3)))
    assert data["values"] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_the_longest_chain_is_drawn_counted_and_told():
    picture = draw_dependencies(LEVELS, NAMES, TOKENS)
    assert "the longest chain: 2 steps, one after another" in texts(picture)
    assert said(picture) == (
        "The longest chain has 2 steps: embed of sat, attention of sat, MLP of sat."
    )
    assert metadata(picture)["path"] == [[0, 2], [1, 2], [2, 2]]
    dark = {at for at, node in marked(picture, "circle").items() if "-ink" in node["style"]}
    assert dark == {(0, 2), (1, 2), (2, 2)}
    one = draw_dependencies([torch.zeros(1, 1).bool()], ["a", "b"], ["x"])
    assert "the longest chain: 0 steps, one after another" in texts(one)


def test_each_edge_is_a_line_between_its_nodes():
    picture = draw_dependencies(LEVELS, NAMES, TOKENS)
    nodes = {at: (n["cx"], n["cy"]) for at, n in marked(picture, "circle").items()}
    drawn = set(re.findall(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", picture.svg))
    wanted = {
        (*nodes[level, source], *nodes[level + 1, to])
        for level, needs in enumerate(LEVELS)
        for to, source in needs.nonzero().tolist()
    }
    assert drawn == wanted
    assert len(nodes) == 9


def test_an_output_that_becomes_an_input_is_a_line_upwards():
    def curves(picture: Picture) -> int:
        return "".join(re.findall(r' d="([^"]*)"', picture.svg)).count("S")

    picture = draw_dependencies(LEVELS, NAMES, TOKENS)
    assert curves(picture) == 0
    assert "Upwards: an output becomes an input." not in texts(picture)
    picture = draw_dependencies(LEVELS, NAMES, TOKENS, feedback=generation(3))
    assert curves(picture) == 2
    assert "Upwards: an output becomes an input." in texts(picture)


def test_many_positions_are_drawn_until_lines_could_not_be_told_apart():
    picture = draw_dependencies([causal_mask(64)] * 12, [f"l{i}" for i in range(13)], ["t"] * 64)
    numbers_inside(picture)
    assert len(picture.svg) < 2_000_000
    with pytest.raises(ValueError, match="65 positions, whose lines could not be told apart"):
        draw_dependencies([causal_mask(65)], ["a", "b"], ["t"] * 65)


def test_edges_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="names has 2 labels for 3 levels"):
        draw_dependencies(LEVELS, NAMES[1:], TOKENS)
    with pytest.raises(ValueError, match="tokens has 2 labels for 3 positions"):
        draw_dependencies(LEVELS, NAMES, TOKENS[1:])
    with pytest.raises(ShapeError, match=r"edges\[0\] is float32"):
        draw_dependencies([torch.eye(3)], ["a", "b"], TOKENS)
    with pytest.raises(ValueError, match="waits for itself"):
        draw_dependencies([torch.ones(3, 3).bool()], ["a", "b"], TOKENS, feedback=generation(3))


# all of them


def drawn(tokens: list[str], names: list[str], title: str | None) -> list[Picture]:
    pos = len(tokens)
    steps = {name or "?": torch.ones(pos, i + 1) for i, name in enumerate(dict.fromkeys(names))}
    return [
        draw_stream(normal(pos, len(names), pos), names, tokens, title=title),
        draw_dependencies([causal_mask(pos)], (names * 2)[:2], tokens, title=title),
        draw_dependencies(
            [causal_mask(pos)], (names * 2)[:2], tokens, feedback=generation(pos), title=title
        ),
        draw_shapes(
            {"x": SMALL}, {"x": f"<{''.join(tokens)}\ufffe>".replace("x", "")}, title=title
        ),
        draw_shapes(steps, {}, title=title),
    ]


@settings(max_examples=25)
@given(
    st.lists(words, min_size=1, max_size=4),
    st.lists(words, min_size=1, max_size=4),
    st.none() | words,
)
def test_any_words_give_a_well_formed_picture_and_the_same_one_again(tokens, names, title):
    for picture, again in zip(
        drawn(tokens, names, title), drawn(tokens, names, title), strict=True
    ):
        assert parsed(picture).tag == f"{SVG}svg"
        assert picture.svg == again.svg
        assert picture.svg.endswith("</svg>\n")
        assert {"kind", "rows", "columns", "values", "reads"} <= set(metadata(picture))
        picture.svg.encode("utf-8")


@pytest.mark.parametrize("picture", drawn(TOKENS, WRITERS, "A title"), ids=lambda p: p.title)
def test_small_pictures_fit_a_narrow_screen_and_are_small(picture):
    assert float(parsed(picture).attrib["width"]) <= 390
    assert len(picture.svg.encode()) < 8_000
    numbers_inside(picture)
    assert "A title" in texts(picture)


@pytest.mark.parametrize("picture", drawn(TOKENS, WRITERS, None), ids=lambda p: p.title)
def test_a_picture_without_a_title_has_a_name_and_no_line_for_it(picture):
    assert parsed(picture).findtext(f"{SVG}title")
    assert "∅" not in texts(picture)
    assert picture.title not in texts(picture)
