"""Many heads in one picture, and a training as a line."""

import json
from xml.etree import ElementTree

import pytest
import torch
from draws import normal
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import ShapeError, causal_mask, draw_curve, draw_heads, pattern
from tinyattn.svg import Picture

SVG = "{http://www.w3.org/2000/svg}"
LOSSES = {"two layers": [4.7, 3.2, 0.5, 0.25], "one layer": [4.7, 3.2, 3.25, 3.0]}


def heads(*shape: int) -> torch.Tensor:
    return pattern(normal(0, *shape), causal_mask(shape[-1]))


def parsed(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg)


def panels(picture: Picture) -> list[ElementTree.Element]:
    return [g for g in parsed(picture).iter(f"{SVG}g") if g.get("class") == "head"]


def texts(picture: Picture) -> list[str]:
    return ["".join(text.itertext()) for text in parsed(picture).iter(f"{SVG}text")]


def data(picture: Picture) -> dict:
    return json.loads(parsed(picture).findtext(f"{SVG}metadata", ""))


def lines(panel: ElementTree.Element) -> list[str]:
    return [path.get("d", "") for path in panel.iter(f"{SVG}path")]


@pytest.mark.parametrize(("layers", "count"), [(8, 8), (12, 12), (1, 3)])
def test_there_is_a_panel_for_each_head_and_its_title_counts_from_0(layers, count):
    picture = draw_heads(heads(layers, count, 6, 6))
    assert len(panels(picture)) == layers * count
    names = [f"{layer}.{head}" for layer in range(layers) for head in range(count)]
    assert [text for text in texts(picture) if text in names] == names
    assert f"{layers - 1}.0 is head 0 of layer {layers - 1}." in texts(picture)


def test_heads_of_one_layer_are_numbered_alone():
    picture = draw_heads(heads(4, 5, 5))
    assert len(panels(picture)) == 4
    assert [text for text in texts(picture) if text.isdigit()] == ["0", "1", "2", "3"]


def test_a_panel_shows_its_own_head_row_by_row():
    A = torch.stack([torch.eye(3), torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]])])
    first, second = panels(draw_heads(A, ["The", "cat", "sat"]))
    assert lines(first) == ["M0 0h1M1 1h1M2 2h1"]
    assert lines(second) == ["M0 0h1M0 1h1M1 2h1"]
    assert second.findtext(f"{SVG}title") == "head 1: sat (2) reads cat (1) at 1.00"


def test_a_mark_frames_a_head_and_names_it():
    picture = draw_heads(heads(2, 2, 4, 4), marks={"1.0": "induction"})
    assert "1.0 induction" in texts(picture)
    assert data(picture)["marks"] == {"1.0": "induction"}
    assert "1.0 (induction):" in parsed(picture).findtext(f"{SVG}desc", "")
    with pytest.raises(ValueError, match=r"no head '2\.0': heads are '0\.0' to '1\.1'"):
        draw_heads(heads(2, 2, 4, 4), marks={"2.0": "induction"})


def test_a_stripe_stays_whole_where_weights_share_a_cell():
    A = torch.eye(128).roll(-1, dims=-1).tril().expand(1, 128, 128)
    picture = draw_heads(A)
    assert "Each cell is the largest of 3 × 3 weights." in texts(picture)
    (drawn,) = lines(panels(picture)[0])
    assert all(f" {row}h" in drawn for row in range(43))


def test_twelve_heads_of_128_tokens_are_light():
    assert len(draw_heads(heads(12, 128, 128)).svg.encode()) < 2_000_000


@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.text(max_size=6))
def test_any_heads_and_words_make_a_picture_that_is_well_formed_and_stable(layer, head, pos, word):
    A, tokens = heads(layer, head, pos, pos), [word] * pos
    picture = draw_heads(A, tokens, title=word, marks={"0.0": word})
    assert len(panels(picture)) == layer * head
    assert draw_heads(A, tokens, title=word, marks={"0.0": word}).svg == picture.svg


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ShapeError, match="draw_pattern for one head"):
        draw_heads(torch.eye(3))
    with pytest.raises(ShapeError, match="one row of a batch"):
        draw_heads(torch.ones(2, 2, 2, 3, 3))
    with pytest.raises(ValueError, match="softmax of scores"):
        draw_heads(torch.full((2, 3, 3), -1.0))
    with pytest.raises(ValueError, match="nan"):
        draw_heads(torch.full((2, 3, 3), torch.nan))
    with pytest.raises(ValueError, match="tokens"):
        draw_heads(heads(2, 3, 3), ["The", "cat"])


def test_a_curve_runs_through_its_values():
    picture = draw_curve([0, 100, 200, 400], LOSSES, mark=(100, 200))
    curves = [p for p in parsed(picture).iter(f"{SVG}path") if p.get("stroke-width") == "2"]
    first, second = (
        [tuple(map(float, point.split())) for point in curve.get("d", "")[1:].split("L")]
        for curve in curves
    )
    assert [x for x, _ in first] == [x for x, _ in second] == [52, 192, 332, 612]
    scale = (first[1][1] - first[0][1]) / (4.7 - 3.2)  # pixels for a nat
    for (_, y), (_, z), a, b in zip(first, second, *LOSSES.values(), strict=True):
        assert y - z == pytest.approx(scale * (b - a), abs=0.02)
    assert curves[0].get("stroke-dasharray") != curves[1].get("stroke-dasharray")


def test_a_curve_marks_the_phase_change_and_says_so():
    picture = draw_curve([0, 100, 200, 400], LOSSES, mark=(100, 200))
    assert "Shaded: step 100 to 200." in texts(picture)
    (band,) = [r for r in parsed(picture).iter(f"{SVG}rect") if r.get("fill-opacity") == "0.14"]
    assert (band.get("x"), band.get("width")) == ("192", "140")
    assert data(picture)["values"][2] == [0.5, 3.25]
    assert "two layers: 4.70 at first, 0.25 at last" in texts(picture)


def test_the_ticks_of_a_curve_are_told_apart_and_small_values_are_not_0():
    for steps, seen in [
        (range(3), ["0", "1", "2"]),
        ([0.5, 1.0, 2.5], ["0.5", "1.0", "1.5", "2.0", "2.5"]),
    ]:
        said = texts(draw_curve(steps, {"a": torch.tensor([1.0, 0.0, -0.001])}))
        assert said[said.index("nats") - len(seen) : said.index("nats")] == seen
        assert said[-1] == "a: 1.00 at first, -0.001 at last"
    assert "a: 0.00 at first, 0.00 at last" in texts(draw_curve([0, 1], {"a": [-0.0, 0.0]}))
    level = texts(draw_curve([0, 1], {"a": [1.0, 1.0]}))
    assert level[:2] == ["1.00", "1.02"]


def test_curves_that_cannot_be_drawn_are_refused():
    for steps, values, mark, message in [
        ([0], {"a": [1.0]}, None, "two or more"),
        ([0, 0], {"a": [1.0, 2.0]}, None, "rising"),
        ([0, torch.nan], {"a": [1.0, 2.0]}, None, "rising"),
        ([0, torch.inf], {"a": [1.0, 2.0]}, None, "rising"),
        ([0, 1], {}, None, "0 lines"),
        ([0, 1], {"a": [1.0]}, None, "1 values for 2 steps"),
        ([0, 1], {"a": [1.0, torch.nan]}, None, "not finite at step 1"),
        ([0, 1], {"a": [1.0, 2.0]}, (1, 3), "no stretch"),
    ]:
        with pytest.raises(ValueError, match=message):
            draw_curve(steps, values, mark=mark)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6),
    st.text(max_size=5),
)
def test_any_values_make_a_curve(series, name):
    picture = draw_curve(range(len(series)), {name: series}, title=name)
    assert parsed(picture).tag == f"{SVG}svg"
