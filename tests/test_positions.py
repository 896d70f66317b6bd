"""Positions: added waves, and turned queries and keys."""

import math
from typing import Any

import pytest
import torch
from draws import batches, normal, sizes, tensors
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tinyattn import ShapeError, rotary, sinusoidal

layouts = st.sampled_from(["halves", "interleaved"])


def test_sinusoidal_entry_by_entry():
    waves = sinusoidal(7, 6)
    for pos in range(7):
        for i in range(3):
            angle = pos / 10_000 ** (2 * i / 6)
            assert waves[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert waves[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoidal_of_a_later_start_is_the_end_of_an_earlier_one():
    assert torch.equal(sinusoidal(3, 4, start=2), sinusoidal(5, 4)[2:])


@given(st.data(), batches, sizes, sizes, layouts)
def test_rotary_keeps_lengths(data, batch, pos, half, layout):
    t = data.draw(tensors(*batch, pos, 2 * half))
    assert_close(rotary(t, 100.0, layout).norm(dim=-1), t.norm(dim=-1))


@given(st.data(), sizes, layouts, st.integers(0, 50))
def test_a_turned_product_knows_only_the_distance(data, half, layout, start):
    q, k = data.draw(tensors(4, 2 * half)), data.draw(tensors(4, 2 * half))
    here = rotary(q, 100.0, layout) @ rotary(k, 100.0, layout).T
    there = rotary(q, 100.0, layout, start=start) @ rotary(k, 100.0, layout, start=start).T
    assert_close(here, there)


def test_a_turned_product_does_know_the_distance():
    q, k = normal(0, 1, 4).expand(4, 4), normal(1, 1, 4).expand(4, 4)
    S = rotary(q) @ rotary(k).T
    assert (S[0, 0] - S[1, 0]).abs() > 1e-3
    assert_close(S[0, 0], S[3, 3])
    assert_close(S[1, 0], S[3, 2])


@given(st.data(), sizes, layouts)
def test_position_zero_is_not_turned(data, half, layout):
    t = data.draw(tensors(3, 2 * half))
    assert_close(rotary(t, 100.0, layout)[0], t[0])


def test_the_two_layouts_are_one_after_a_permutation():
    t = normal(0, 5, 6)
    order = torch.tensor([0, 2, 4, 1, 3, 5])  # pairs (0,1), (2,3), (4,5) to halves
    assert_close(rotary(t, layout="interleaved")[:, order], rotary(t[:, order], layout="halves"))
    assert (rotary(t, layout="interleaved") - rotary(t, layout="halves")).abs().max() > 0.1


def test_rotary_as_complex_numbers():
    """The paper's own form: each pair is a complex number, turned by e^(i m θ)."""
    t = normal(0, 5, 6)
    pairs = torch.view_as_complex(t.reshape(5, 3, 2))
    speeds = 10_000.0 ** (-torch.arange(3, dtype=torch.float64) / 3)
    turn = torch.polar(torch.ones(5, 3, dtype=torch.float64), torch.arange(5.0)[:, None] * speeds)
    theirs = torch.view_as_real(pairs * turn).flatten(-2)
    assert_close(rotary(t, layout="interleaved"), theirs)


def test_places_are_taken_as_they_are_given():
    t = normal(0, 2, 4)
    apart = rotary(t, places=torch.tensor([0, 7]))
    assert_close(apart[1:], rotary(t[1:], start=7))


@pytest.mark.parametrize("wrong", [lambda: rotary(torch.ones(2, 3)), lambda: sinusoidal(2, 3)])
def test_odd_widths_have_no_pairs(wrong):
    with pytest.raises(ValueError, match=r"= 3, but .* (even|pairs)"):
        wrong()


def test_an_unknown_layout_is_refused():
    layout: Any = "split"
    with pytest.raises(ShapeError, match="halves"):
        rotary(torch.ones(2, 4), layout=layout)


def test_a17_places_per_sample_are_not_taken_per_head():
    """[batch, pos] against [batch, head, pos, d_head] was silently taken per head."""
    t, places = torch.ones(2, 2, 3, 4), torch.tensor([[0, 1, 2], [5, 6, 7]])
    with pytest.raises(ShapeError, match=r"places is int64\[2, 3\] and t is .* axes \[2, 2\]"):
        rotary(t, places=places)
    turned = rotary(t, places=places[:, None])
    assert torch.equal(turned[1, 0], rotary(t[1, 0], start=5))
    assert torch.equal(turned[0], rotary(t[0]))


@pytest.mark.parametrize("theta", [math.nan, math.inf])
def test_a_theta_that_is_no_number_is_refused(theta):
    with pytest.raises(ValueError, match=f"rotary: theta = {theta}"):
        rotary(torch.ones(2, 2), theta)
