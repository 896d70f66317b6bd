"""What the law tests draw from: shapes, tensors and heads, small enough to fail readably."""

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from tinyattn import Head, causal_mask

# The first call of a checked function is slow, so a deadline would measure beartype.
settings.register_profile("laws", deadline=None, max_examples=40)
settings.load_profile("laws")

sizes = st.integers(min_value=1, max_value=5)
batches = st.lists(st.integers(min_value=1, max_value=3), max_size=2).map(tuple)


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal entries from a generator of their own."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@st.composite
def tensors(draw, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return normal(draw(st.integers(0, 2**31)), *shape, dtype=dtype)


@st.composite
def heads(draw, d_model: int, dtype: torch.dtype = torch.float64) -> Head:
    d_head, d_value = draw(sizes), draw(sizes)
    return Head(
        W_Q=draw(tensors(d_model, d_head, dtype=dtype)),
        W_K=draw(tensors(d_model, d_head, dtype=dtype)),
        W_V=draw(tensors(d_model, d_value, dtype=dtype)),
        W_O=draw(tensors(d_value, d_model, dtype=dtype)),
    )


@st.composite
def masks(draw, query: int, key: int) -> Tensor:
    """Any mask that leaves every query something to see."""
    cells = draw(st.lists(st.booleans(), min_size=query * key, max_size=query * key))
    mask = torch.tensor(cells).view(query, key)
    lifeline = draw(st.lists(st.integers(0, key - 1), min_size=query, max_size=query))
    mask[torch.arange(query), torch.tensor(lifeline)] = True
    return mask


@st.composite
def causal_scenes(draw) -> tuple[Tensor, Head, Tensor]:
    """A stream of at least two positions, a head that fits it, and the causal mask."""
    pos, d_model = draw(st.integers(2, 5)), draw(sizes)
    x = draw(tensors(*draw(batches), pos, d_model))
    return x, draw(heads(d_model)), causal_mask(pos)
