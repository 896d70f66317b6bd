"""The same thing from the library everyone trusts, and the same numbers."""

import pytest
import torch
from draws import batches, masks, normal, sizes, tensors
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from tinyattn import (
    Head,
    attend,
    causal_mask,
    merge_heads,
    mix,
    pattern,
    scores,
    split_heads,
    write,
)


@given(st.data(), batches, sizes, sizes)
def test_scaled_dot_product_attention_unmasked(data, batch, query, key):
    q, k, v = _qkv(data, batch, query, key)
    assert_close(mix(pattern(scores(q, k)), v), functional.scaled_dot_product_attention(q, k, v))


@given(st.data(), batches, sizes, sizes)
def test_scaled_dot_product_attention_with_any_mask(data, batch, query, key):
    """True = may look there, as here: the mask is handed over as it is."""
    q, k, v = _qkv(data, batch, query, key)
    mask = data.draw(masks(query, key))
    theirs = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert_close(mix(pattern(scores(q, k), mask), v), theirs)


@given(st.data(), batches, sizes)
def test_scaled_dot_product_attention_causal(data, batch, pos):
    q, k, v = _qkv(data, batch, pos, pos)
    theirs = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(mix(pattern(scores(q, k), causal_mask(pos)), v), theirs)


@pytest.mark.parametrize("bias", [False, True])
@given(data=st.data(), n_heads=st.integers(1, 3), pos=sizes)
def test_multihead_attention(data, n_heads, pos, bias):
    """True = hidden there, the opposite: the mask is handed over as ~mask."""
    d_model, mask = 4 * n_heads, causal_mask(pos)
    theirs = nn.MultiheadAttention(d_model, n_heads, bias=bias, batch_first=True).double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(data.draw(tensors(*parameter.shape)))
    x = data.draw(tensors(2, pos, d_model))
    out, weights = theirs(x, x, x, attn_mask=~mask, average_attn_weights=False)

    W_Q, W_K, W_V = (W.T for W in theirs.in_proj_weight.detach().chunk(3))
    q, k, v = x @ W_Q, x @ W_K, x @ W_V
    if bias:
        b_Q, b_K, b_V = theirs.in_proj_bias.detach().chunk(3)
        q, k, v = q + b_Q, k + b_K, v + b_V
    q, k, v = (split_heads(t, n_heads) for t in (q, k, v))
    A = pattern(scores(q, k), mask)
    ours = write(merge_heads(mix(A, v)), theirs.out_proj.weight.detach().T)
    assert_close(A, weights)
    assert_close(ours + theirs.out_proj.bias if bias else ours, out)


def test_one_head_of_multihead_attention_with_biases():
    theirs = nn.MultiheadAttention(4, 1, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_bias.copy_(normal(0, 12))
    W_Q, W_K, W_V = (W.T for W in theirs.in_proj_weight.detach().chunk(3))
    b_Q, b_K, b_V = theirs.in_proj_bias.detach().chunk(3)
    head = Head(W_Q, W_K, W_V, theirs.out_proj.weight.detach().T, b_Q, b_K, b_V)
    x = normal(1, 3, 4)
    out, weights = theirs(x, x, x, attn_mask=~causal_mask(3))
    step = attend(x, head, causal_mask(3))
    assert_close(step.pattern, weights)
    assert_close(step.out + theirs.out_proj.bias, out)


def _qkv(data, batch, query, key):
    d_head, d_value = data.draw(sizes), data.draw(sizes)
    q = data.draw(tensors(*batch, query, d_head))
    k = data.draw(tensors(*batch, key, d_head))
    return q, k, data.draw(tensors(*batch, key, d_value))
