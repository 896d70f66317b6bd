"""What holds for every input, not for the examples alone."""

import math

import pytest
import torch
from draws import batches, causal_scenes, heads, masks, normal, sizes, tensors
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.testing import assert_close

from tinyattn import (
    Stream,
    attend,
    causal_mask,
    mask_scores,
    merge_heads,
    mix,
    pattern,
    scores,
    split_heads,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@given(st.data(), batches, sizes, sizes)
def test_rows_of_a_pattern_sum_to_one(data, batch, query, key):
    S = data.draw(tensors(*batch, query, key)) * 10
    A = pattern(S, data.draw(masks(query, key)))
    assert_close(A.sum(dim=-1), torch.ones(*batch, query, dtype=A.dtype))
    assert (A >= 0).all()


@given(st.data(), sizes, sizes)
def test_a_blocked_key_weighs_exactly_nothing(data, query, key):
    mask = data.draw(masks(query, key))
    A = pattern(data.draw(tensors(query, key)) * 1e6, mask)
    assert (A[~mask] == 0).all()


@given(causal_scenes(), st.data())
def test_the_past_ignores_the_future(scene, data):
    x, head, mask = scene
    cut = data.draw(st.integers(1, x.shape[-2] - 1))
    edited = x.clone()
    edited[..., cut:, :] = data.draw(tensors(*x.shape))[..., cut:, :]
    before, after = attend(x, head, mask), attend(edited, head, mask)
    assert (before.out[..., :cut, :] == after.out[..., :cut, :]).all()
    assert (before.pattern[..., :cut, :] == after.pattern[..., :cut, :]).all()


@given(causal_scenes(), st.data())
def test_the_future_listens_to_the_past(scene, data):
    """The law above could be kept by a head that reads nothing. This one does read."""
    x, head, mask = scene
    edited = x.clone()
    edited[..., 0, :] += 1 + data.draw(tensors(x.shape[-1])).abs()
    assume((edited @ head.W_V - x @ head.W_V).abs().max() > 1e-3)
    assert not torch.equal(attend(x, head, mask).z, attend(edited, head, mask).z)


@given(st.data(), batches, sizes, sizes)
def test_a_row_depends_on_its_scores_only_up_to_a_constant(data, batch, query, key):
    S = data.draw(tensors(*batch, query, key))
    constant = data.draw(tensors(*batch, query, 1)) * 10
    assert_close(pattern(S + constant), pattern(S))


@given(st.data(), batches, sizes)
def test_splitting_and_merging_are_inverse(data, batch, pos):
    n_heads, d_head = data.draw(sizes), data.draw(sizes)
    x = data.draw(tensors(*batch, pos, n_heads * d_head))
    split = split_heads(x, n_heads)
    assert split.shape == (*batch, n_heads, pos, d_head)
    assert torch.equal(merge_heads(split), x)
    for head in range(n_heads):
        assert torch.equal(split[..., head, :, :], x[..., head * d_head : (head + 1) * d_head])


@given(st.data(), batches, sizes)
def test_concatenation_times_W_O_is_the_sum_over_heads(data, batch, pos):
    n_heads, d_head, d_model = (data.draw(sizes) for _ in range(3))
    z = data.draw(tensors(*batch, n_heads, pos, d_head))
    W_O = data.draw(tensors(n_heads * d_head, d_model))
    per_head = W_O.view(n_heads, d_head, d_model)
    assert_close(merge_heads(z) @ W_O, (z @ per_head).sum(dim=-3))


@given(causal_scenes())
def test_a_head_is_pattern_x_W_OV(scene):
    x, head, mask = scene
    step = attend(x, head, mask)
    assert_close(step.out, step.pattern @ x @ (head.W_V @ head.W_O))


@given(st.data(), sizes, sizes)
def test_queries_and_keys_matter_only_through_their_product(data, pos, d_model):
    x, head = data.draw(tensors(pos, d_model)), data.draw(heads(d_model))
    step = attend(x, head)
    bilinear = x @ (head.W_Q @ head.W_K.T) @ x.T / math.sqrt(head.d_head)
    assert_close(step.scores, bilinear)


@given(st.data(), sizes, sizes)
def test_the_value_may_have_a_width_of_its_own(data, pos, d_model):
    x, head = data.draw(tensors(pos, d_model)), data.draw(heads(d_model))
    step = attend(x, head)
    assert step.v.shape == step.z.shape == (pos, head.d_value)
    assert step.out.shape == x.shape


@given(st.data(), sizes, sizes)
def test_batch_entries_do_not_see_each_other(data, pos, d_model):
    x, head = data.draw(tensors(3, pos, d_model)), data.draw(heads(d_model))
    together = attend(x, head, causal_mask(pos)).out
    alone = torch.stack([attend(entry, head, causal_mask(pos)).out for entry in x])
    assert_close(together, alone)


@given(st.data(), batches, sizes, sizes)
def test_the_ledger_sums_to_the_stream(data, batch, pos, d_model):
    writes = [data.draw(tensors(*batch, pos, d_model)) for _ in range(data.draw(sizes))]
    stream = Stream.start(writes[0], by="embed")
    for number, delta in enumerate(writes[1:]):
        stream = stream.write(delta, by=f"writer {number}")
    assert_close(stream.now, torch.stack(writes).sum(dim=0))
    direction = data.draw(tensors(d_model))
    assert_close(stream.along(direction).sum(dim=0), stream.now @ direction)
    assert all(
        torch.equal(stream[name], write) for name, write in zip(stream.writers, writes, strict=True)
    )


def test_writing_leaves_the_old_ledger_as_it_was():
    x = normal(0, 3, 4)
    old = Stream.start(x)
    new = old.write(x, by="again")
    assert old.writers == ("embed",)
    assert_close(old.now, x)
    assert_close(new.now, 2 * x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_that_goes_in_comes_out(dtype):
    x = normal(0, 2, 4, 8, dtype=torch.float32).to(dtype)
    head = _head(dtype)
    for step in vars(attend(x, head, causal_mask(4))).values():
        assert step.dtype == dtype
        assert not step.isnan().any()


def test_it_compiles_in_one_piece():
    x, head, mask = normal(0, 4, 8, dtype=torch.float32), _head(), causal_mask(4)
    compiled = torch.compile(attend, fullgraph=True, backend="eager")
    assert_close(compiled(x, head, mask).out, attend(x, head, mask).out)


def test_compiled_a_blind_query_weighs_nothing():
    mask = torch.tensor([[True, False], [False, False]])
    compiled = torch.compile(pattern, fullgraph=True, backend="eager")
    S = torch.zeros(2, 2, requires_grad=True)
    A = compiled(S, mask)
    assert A.tolist() == [[1, 0], [0, 0]]
    A.sum().backward()
    assert S.grad is not None
    assert S.grad.isfinite().all()


def test_it_runs_on_meta_and_stays_there():
    with torch.device("meta"):
        x, mask = torch.empty(2, 3, 8), causal_mask(3)
    assert mask.is_meta
    step = attend(x, _head(device="meta"), mask)
    assert all(t.is_meta for t in vars(step).values())
    assert step.pattern.shape == (2, 3, 3)
    assert step.out.shape == (2, 3, 8)


def test_gradients_are_right():
    W = [normal(seed, 3, 2).requires_grad_() for seed in range(3)]
    W_O, x = normal(3, 2, 3).requires_grad_(), normal(4, 3, 3).requires_grad_()

    def out(x, W_Q, W_K, W_V, W_O):
        return mix(pattern(scores(x @ W_Q, x @ W_K), causal_mask(3)), x @ W_V) @ W_O

    assert torch.autograd.gradcheck(out, (x, *W, W_O))


def test_gradients_are_finite_where_a_mask_bites():
    S = (normal(0, 4, 4) * 1e4).requires_grad_()
    mix(pattern(S, causal_mask(4)), normal(1, 4, 2)).sum().backward()
    assert S.grad is not None
    assert S.grad.isfinite().all()
    assert (S.grad[~causal_mask(4)] == 0).all()


def test_masking_first_or_scaling_first_is_the_same():
    S = normal(0, 4, 4)
    assert torch.equal(mask_scores(S, causal_mask(4)) / 2, mask_scores(S / 2, causal_mask(4)))


def test_a_trained_layout_does_not_matter():
    """Permuted views and contiguous copies give the same numbers."""
    q, k, v = normal(0, 3, 2, 3, 5, 8).transpose(-3, -2)
    whole = mix(pattern(scores(q, k)), v)
    q, k, v = (t.contiguous() for t in (q, k, v))
    assert_close(whole, mix(pattern(scores(q, k)), v))


def _head(dtype=torch.float32, device="cpu"):
    from tinyattn import Head

    W_Q, W_K, W_V = normal(1, 3, 8, 4, dtype=torch.float32).to(dtype).to(device)
    return Head(W_Q, W_K, W_V, normal(2, 4, 8, dtype=torch.float32).to(dtype).to(device))
