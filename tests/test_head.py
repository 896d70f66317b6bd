"""Heads of a layer: each by itself or all at once, shared keys, another stream, a past."""

import pytest
import torch
from draws import batches, normal, sizes, tensors
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from tinyattn import Heads, attend, causal_mask, merge_heads, split_heads


def layers(data, d_model: int, biases: bool = True) -> Heads:
    """A layer of up to three groups of up to three heads."""
    n_kv, group, d_head, d_value = (data.draw(st.integers(1, 3)) for _ in range(4))
    n_heads = n_kv * group

    def draw(*shape: int) -> Tensor:
        return data.draw(tensors(*shape))

    return Heads(
        W_Q=draw(n_heads, d_model, d_head),
        W_K=draw(n_kv, d_model, d_head),
        W_V=draw(n_kv, d_model, d_value),
        W_O=draw(n_heads, d_value, d_model),
        b_Q=draw(n_heads, d_head) if biases else None,
        b_K=draw(n_kv, d_head) if biases else None,
        b_V=draw(n_kv, d_value) if biases else None,
    )


@given(st.data(), batches, sizes, sizes, st.booleans())
def test_all_at_once_is_one_by_one(data, batch, pos, d_model, biases):
    x, heads = data.draw(tensors(*batch, pos, d_model)), layers(data, d_model, biases)
    together = attend(x, heads, causal_mask(pos))
    for number in range(len(heads)):
        alone = attend(x, heads[number], causal_mask(pos))
        for name, step in vars(alone).items():
            assert_close(getattr(together, name).select(-3, number), step)


@given(st.data(), sizes, sizes)
def test_neighbours_share_keys_and_values(data, pos, d_model):
    """Query head h reads key and value head h // group, as ``enable_gqa`` has it."""
    x, heads = data.draw(tensors(pos, d_model)), layers(data, d_model, biases=False)
    q, k, v = (torch.stack([x @ W for W in stack]) for stack in (heads.W_Q, heads.W_K, heads.W_V))
    theirs = functional.scaled_dot_product_attention(
        q[None], k[None], v[None], is_causal=True, enable_gqa=True
    )
    assert_close(attend(x, heads, causal_mask(pos)).z, theirs[0])


@given(st.data(), sizes, sizes, sizes)
def test_another_stream_can_be_read(data, pos, others, d_model):
    """Cross-attention: queries from one stream, keys and values from another."""
    n_heads = data.draw(st.integers(1, 3))
    theirs = nn.MultiheadAttention(d_model * n_heads, n_heads, bias=False).double()
    width = d_model * n_heads
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(data.draw(tensors(*parameter.shape)))
    x, source = data.draw(tensors(pos, width)), data.draw(tensors(others, width))
    W_Q, W_K, W_V = (split_heads(W.detach().T, n_heads) for W in theirs.in_proj_weight.chunk(3))
    W_O = theirs.out_proj.weight.detach().T.unflatten(0, (n_heads, d_model))
    out, weights = theirs(x, source, source, average_attn_weights=False)
    step = attend(x, Heads(W_Q, W_K, W_V, W_O), source=source)
    assert_close(step.pattern, weights)
    assert_close(step.out.sum(dim=-3), out)


@given(st.data(), batches, st.integers(2, 5), sizes)
def test_token_by_token_with_a_past_is_all_at_once(data, batch, pos, d_model):
    x, heads = data.draw(tensors(*batch, pos, d_model)), layers(data, d_model)
    whole = attend(x, heads, causal_mask(pos))
    past, rows = None, []
    for t in range(pos):
        past = attend(x[..., t : t + 1, :], heads, past=past)
        rows.append(past.out)
    assert_close(torch.cat(rows, dim=-2), whole.out)
    assert_close(past.k, whole.k)


@given(st.data(), st.integers(2, 6), sizes)
def test_several_new_tokens_with_a_past_are_all_at_once(data, pos, d_model):
    x, heads = data.draw(tensors(pos, d_model)), layers(data, d_model)
    cut = data.draw(st.integers(1, pos - 1))
    past = attend(x[:cut], heads, causal_mask(cut))
    late = attend(x[cut:], heads, causal_mask(pos - cut, pos), past=past)
    assert_close(late.out, attend(x, heads, causal_mask(pos)).out[..., cut:, :])


def test_the_wide_form_and_the_stacked_form_agree():
    x, W = normal(0, 3, 8), normal(1, 4, 8, 8)
    W_Q, W_K, W_V = (split_heads(weight, 2) for weight in W[:3])
    step = attend(x, Heads(W_Q, W_K, W_V, W[3].unflatten(0, (2, 4))))
    assert_close(merge_heads(step.q), x @ W[0])
    assert_close(merge_heads(step.z) @ W[3], step.out.sum(dim=-3))


def test_a_head_that_is_not_there_is_named():
    heads = Heads(*normal(0, 3, 4, 8, 2), normal(1, 4, 2, 8))
    assert torch.equal(heads[-1].W_Q, heads.W_Q[3])
    with pytest.raises(IndexError, match="no head 4 among n_heads = 4"):
        heads[4]
    with pytest.raises(ValueError, match="4 query heads cannot be divided among 3"):
        Heads(heads.W_Q, heads.W_K[:3], heads.W_V[:3], heads.W_O)
