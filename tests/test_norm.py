"""Norms: what they do, what is linear in them, and what can be folded away."""

import math

import pytest
import torch
from draws import batches, normal, sizes, tensors
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from tinyattn import ShapeError, centre, fold_norm, layer_norm, norm_scale, rms_norm


@given(st.data(), batches, sizes, st.integers(2, 5))
def test_layer_norm_is_torchs(data, batch, pos, d_model):
    x = data.draw(tensors(*batch, pos, d_model))
    theirs = nn.LayerNorm(d_model).double()
    theirs.weight.data, theirs.bias.data = data.draw(tensors(d_model)), data.draw(tensors(d_model))
    assert_close(layer_norm(x, theirs.weight, theirs.bias), theirs(x))


@given(st.data(), batches, sizes, sizes)
def test_rms_norm_is_torchs(data, batch, pos, d_model):
    x, gain = data.draw(tensors(*batch, pos, d_model)), data.draw(tensors(d_model))
    theirs = nn.RMSNorm(d_model, eps=1e-5).double()
    theirs.weight.data = gain
    assert_close(rms_norm(x, gain), theirs(x))


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
@given(data=st.data(), pos=sizes, d_model=sizes)
def test_with_the_scale_of_the_whole_the_parts_sum_to_it(norm, data, pos, d_model):
    parts, gain = data.draw(tensors(3, pos, d_model)), data.draw(tensors(d_model))
    whole = parts.sum(dim=0)
    assert_close(norm(parts, gain, scale_of=whole).sum(dim=0), norm(whole, gain))


def test_with_scales_of_their_own_the_parts_do_not_sum():
    parts = normal(0, 2, 3, 16)
    parts[1] *= 20
    own = layer_norm(parts).sum(dim=0) - layer_norm(parts.sum(dim=0))
    assert own.abs().max() > 0.5


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
@given(data=st.data(), pos=sizes, d_model=sizes)
def test_its_own_scale_given_explicitly_changes_nothing(norm, data, pos, d_model):
    x = data.draw(tensors(pos, d_model))
    assert_close(norm(x, scale_of=x), norm(x))


@given(st.data(), batches, sizes, sizes)
def test_folding_changes_nothing_that_is_read(data, batch, d_model, column):
    x = data.draw(tensors(3, d_model))
    gain, bias = data.draw(tensors(d_model)), data.draw(tensors(d_model))
    W, b = data.draw(tensors(*batch, d_model, column)), data.draw(tensors(*batch, column))
    bare = layer_norm(x)
    folded_W, folded_b = fold_norm(W, b, gain=gain, bias=bias)
    before = layer_norm(x, gain, bias) @ W + b.unsqueeze(-2)
    assert_close(bare @ folded_W + folded_b.unsqueeze(-2), before)


def test_folding_leaves_its_arguments_alone():
    W, b, gain, bias = normal(0, 3, 2), normal(1, 2), normal(2, 3), normal(3, 3)
    kept = [t.clone() for t in (W, b, gain, bias)]
    fold_norm(W, b, gain=gain, bias=bias)
    assert all(torch.equal(old, new) for old, new in zip(kept, (W, b, gain, bias), strict=True))


@given(st.data(), sizes, sizes)
def test_a_centred_writer_is_invisible_to_layer_norm_and_to_the_mean(data, pos, d_model):
    x, write = data.draw(tensors(pos, d_model)), data.draw(tensors(pos, d_model))
    assert_close(layer_norm(x + write), layer_norm(x + centre(write)))
    assert centre(write).mean(dim=-1).abs().max() < 1e-12


def test_rms_norm_reads_the_mean_that_centring_takes_out():
    x = normal(0, 3, 4) + 2
    assert (rms_norm(x) - rms_norm(centre(x))).abs().max() > 0.1


def test_a_centred_unembedding_changes_no_probability():
    x, W_U = normal(0, 3, 4), normal(1, 4, 7)
    logits, centred = x @ W_U, x @ centre(W_U)
    assert_close(centred.log_softmax(dim=-1), logits.log_softmax(dim=-1))
    moved = logits - centred
    assert_close(moved, moved[:, :1].expand_as(moved))  # one constant for each position


def test_a_constant_vector_is_not_divided_by_zero():
    assert layer_norm(torch.ones(1, 4)).tolist() == [[0, 0, 0, 0]]
    assert rms_norm(torch.zeros(1, 4)).tolist() == [[0, 0, 0, 0]]


def test_the_deviation_is_the_biased_one_with_eps_under_the_root():
    x = torch.tensor([[1.0, 3.0]])
    assert norm_scale(x, eps=3.0).tolist() == [[2.0]]


def test_a_gain_of_another_width_is_named():
    with pytest.raises(ShapeError, match=r"gain is float64\[3\].*d_model = 4"):
        layer_norm(normal(0, 2, 4), normal(1, 3))


@pytest.mark.parametrize("eps", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("norm", [layer_norm, rms_norm, norm_scale])
def test_an_eps_that_ends_in_nan_is_refused(norm, eps):
    with pytest.raises(ValueError, match=rf"{norm.__name__}: eps = {eps}"):
        norm(torch.ones(1, 2), eps=eps)


def test_a_vector_without_entries_has_no_norm():
    with pytest.raises(ShapeError, match="d_model is 0"):
        norm_scale(torch.ones(2, 0))


def test_a4_the_scale_of_large_halves_is_finite():
    """The square overflowed, and the parts came out as 0."""
    x = torch.tensor([[6e4, -6e4]], dtype=torch.float16)
    assert norm_scale(x).item() == 6e4
    assert torch.equal(rms_norm(x, scale_of=x), rms_norm(x))
    assert layer_norm(x, scale_of=x).tolist() == [[1, -1]]


def test_the_scale_of_another_batch_is_refused():
    for batch in ((3,), (2, 2), (4, 2)):
        with pytest.raises(ShapeError, match=r"scale_of is .* leading axes must be \[2\]"):
            rms_norm(torch.ones(2, 5, 3), scale_of=torch.ones(*batch, 5, 3))
