"""Faults that people met in other projects, each with its smallest input and the right result.

Named after the case; the docstring says what went wrong there.
"""

import math
import subprocess
import sys
import warnings

import pytest
import torch
from draws import normal
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from tinyattn import (
    Head,
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

KEEP = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def test_a1_a_row_that_may_look_at_nothing():
    """It became NaN, or attended evenly to what was blocked."""
    q, k = normal(0, 3, 2), normal(1, 3, 2)
    with pytest.raises(ValueError, match=r"queries \[1\] may see none of the 3 keys"):
        pattern(scores(q, k), KEEP)


def test_a1_a_row_of_minus_infinity_without_a_mask():
    with pytest.raises(ValueError, match=r"queries \[0\] may see none"):
        pattern(torch.tensor([[-math.inf, -math.inf], [0.0, 0.0]]))


def test_a1_in_a_batch_the_row_is_named_once():
    with pytest.raises(ValueError, match=r"queries \[1\]"):
        pattern(torch.zeros(2, 4, 3, 3), KEEP)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a3_the_mask_is_lower_than_every_score(dtype):
    """-1e4 lost against scores of -2e5, and the model saw the future."""
    low = torch.finfo(dtype).min / 2
    S = torch.zeros(3, 3, dtype=dtype).masked_fill(causal_mask(3), low)
    expected = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3], dtype=dtype)
    assert_close(pattern(S, causal_mask(3)), expected)
    assert (pattern(S, causal_mask(3))[~causal_mask(3)] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a4_every_float_dtype_can_hold_the_mask(dtype):
    """-1e9 does not fit into float16."""
    A = pattern(normal(0, 4, 4).to(dtype), causal_mask(4))
    assert A.dtype == dtype
    assert (A[~causal_mask(4)] == 0).all()
    tolerance = 1e-2 if dtype.itemsize == 2 else 1e-6
    assert (A.sum(dim=-1) - 1).abs().max() < tolerance


def test_a4_half_precision_does_not_overflow_early():
    q = torch.full((2, 64), 60.0, dtype=torch.float16)
    assert scores(q, q).isfinite().all()
    with pytest.raises(
        ValueError, match=r"\+inf in float16\[2, 2\]: compute the scores in float32"
    ):
        pattern(scores(q * 20, q * 20))


def test_a5_both_polarities():
    """True = keep in one torch function and True = block in another."""
    x, mask = torch.eye(3), causal_mask(3)
    eye = torch.eye(3)
    ours = pattern(scores(x, x), mask)
    theirs = functional.scaled_dot_product_attention(x, x, eye, attn_mask=mask)
    assert ours[0].tolist() == theirs[0].tolist() == [1, 0, 0]
    layer = nn.MultiheadAttention(3, 1, bias=False, batch_first=True)
    _, weights = layer(x[None], x[None], x[None], attn_mask=~mask)
    assert weights[0, 0].tolist() == [1, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8])
def test_a6_a_mask_of_zeros_and_ones_is_refused(dtype):
    """It was added to the scores, and the future stayed visible."""
    with pytest.raises(TypeError, match=r"mask is \w+\[3, 3\], but must be bool"):
        pattern(torch.zeros(3, 3, dtype=torch.float32), torch.ones(3, 3).tril().to(dtype))


def test_a7_fewer_queries_than_keys_are_the_last_ones():
    """Anchored at the other corner, one new query saw key 0 alone."""
    assert causal_mask(2, 5).sum(dim=-1).tolist() == [4, 5]
    with pytest.raises(ValueError, match="5 queries cannot be the last of 2 keys"):
        causal_mask(5, 2)


def test_a9_merging_swaps_the_axes_back():
    z = torch.arange(1.0, 9).view(1, 2, 2, 2)
    assert merge_heads(z).tolist() == [[[1, 2, 5, 6], [3, 4, 7, 8]]]


@pytest.mark.parametrize("shape", [(2, 3, 12), (3, 20), (5, 2, 1, 8), (1, 4)])
def test_a9_merge_undoes_split(shape):
    x = normal(0, *shape)
    assert torch.equal(merge_heads(split_heads(x, 4)), x)


def test_a10_splitting_cuts_before_it_swaps():
    x = torch.arange(8.0).view(1, 2, 4)
    assert split_heads(x, 2).tolist() == [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]


def test_a11_a_mask_per_sample_reaches_all_its_heads():
    """Folded in one order and repeated in another, it reached the other sample."""
    keep = torch.tensor([[True, False, False], [True, True, True]])
    A = pattern(torch.zeros(2, 2, 3, 3), keep[:, None, None, :].expand(2, 1, 3, 3))
    assert (A[0] == torch.tensor([1.0, 0, 0])).all()
    assert_close(A[1], torch.full((2, 3, 3), 1 / 3))


def test_a12_the_root_is_of_the_head_not_of_the_model():
    q = split_heads(torch.ones(1, 8), 4)
    assert scores(q, q).flatten().tolist() == pytest.approx([2 / math.sqrt(2)] * 4)


def test_a14_each_query_divides_its_attention_among_keys():
    S = normal(0, 1, 3, 2, 5)
    assert_close(pattern(S).sum(dim=-1), torch.ones(1, 3, 2, dtype=S.dtype))
    assert pattern(S[0, 0]).shape == (2, 5)
    assert_close(pattern(S[0, 0]).sum(dim=-1), torch.ones(2, dtype=S.dtype))


def test_a16_nothing_is_changed_in_place():
    shared = torch.tensor([[0.0], [1.0]]).expand(2, 4)
    kept, mask = shared.clone(), causal_mask(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(mask_scores(shared, mask), mask_scores(kept, mask))
        assert torch.equal(pattern(shared, mask), pattern(kept, mask))
        assert torch.equal(mix(pattern(shared), shared.T), mix(pattern(kept), kept.T))
    assert torch.equal(shared, kept)
    assert torch.equal(mask, causal_mask(2, 4))


def test_a16_attending_changes_no_argument():
    x = normal(0, 3, 4)
    weights = [normal(seed, 4, 4) for seed in range(4)]
    kept = [t.clone() for t in (x, *weights)]
    attend(x, Head(*weights), causal_mask(3))
    assert all(torch.equal(a, b) for a, b in zip(kept, (x, *weights), strict=True))


@pytest.mark.parametrize("scores_shape", [(2, 2, 3, 3), (3, 2, 3, 3), (4, 2, 2, 3, 3)])
def test_a17_mask_per_sample(scores_shape):
    """Three axes against four were silently taken per head."""
    mask = torch.stack([causal_mask(3), torch.ones(3, 3, dtype=torch.bool)])
    with pytest.raises(ValueError, match=r"unclear which axis is which: give mask \d axes"):
        pattern(torch.zeros(scores_shape), mask)


def test_a17_mask_per_sample_said_plainly():
    mask = torch.stack([causal_mask(3), torch.ones(3, 3, dtype=torch.bool)])
    A = pattern(torch.zeros(2, 2, 3, 3), mask.reshape(2, 1, 3, 3))
    assert A[0, 1, 0].tolist() == [1, 0, 0]
    assert_close(A[1, 0, 0], torch.full((3,), 1 / 3))


def test_a17_a_leading_axis_that_does_not_fit():
    with pytest.raises(ValueError, match="axis 0 of the mask is 3, but must be 1 or 2"):
        pattern(torch.zeros(2, 3, 3), causal_mask(3).expand(3, 3, 3))


@pytest.mark.parametrize("n_ctx", [1, 2, 4])
def test_a19_a_stored_mask_of_another_size_is_refused(n_ctx):
    """A 1 × 1 buffer broadcast to "all visible"."""
    with pytest.raises(ValueError, match=rf"mask is bool\[{n_ctx}, {n_ctx}\].*query = 3"):
        pattern(torch.zeros(3, 3), causal_mask(n_ctx))


def test_a23_nan_in_a_hidden_value():
    """0 × NaN is NaN: a hidden value still reached every row."""
    v = torch.tensor([[1.0], [2.0], [math.nan]])
    z = mix(pattern(torch.zeros(3, 3), causal_mask(3)), v)
    assert z[:2].tolist() == [[1.0], [1.5]]
    assert z[2].isnan().all()


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf])
def test_a23_any_wild_number_in_a_hidden_key(wild):
    q, k = torch.ones(3, 2), torch.ones(3, 2)
    k[2] = wild
    A = pattern(scores(q, k)[:2], causal_mask(3)[:2])
    assert A.tolist() == [[1, 0, 0], [0.5, 0.5, 0]]


def test_a23_a_nan_that_is_seen_stays_in_its_row():
    k = torch.ones(3, 2)
    k[2] = math.nan
    A = pattern(scores(torch.ones(3, 2), k), causal_mask(3))
    assert A[:2].isfinite().all()


def test_a25_the_numbers_are_in_the_message():
    with pytest.raises(ValueError, match=r"d_model = 1600.*n_heads = 48"):
        split_heads(torch.zeros(2, 1600), 48)
    with pytest.raises(ValueError, match="n_heads = 0"):
        split_heads(torch.zeros(2, 8), 0)


def test_a25_errors_survive_python_dash_o():
    script = (
        "import torch, tinyattn\n"
        "try: tinyattn.split_heads(torch.zeros(2, 1600), 48)\n"
        "except ValueError as error: print(error)\n"
        "try: tinyattn.scores(torch.zeros(2, 3), torch.zeros(2, 4))\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True)
    assert "1600" in done.stdout
    assert "d_head = 3" in done.stdout


def test_a27_masks_are_made_where_the_data_is():
    assert causal_mask(3, device="meta").is_meta
    with torch.device("meta"):
        assert causal_mask(3).is_meta
    with pytest.raises(ValueError, match=r"scores is on meta and mask on cpu: move one"):
        pattern(torch.zeros(3, 3, device="meta"), causal_mask(3))


def test_a29_permuted_views_and_copies_agree():
    """One backend read permuted queries and keys wrongly."""
    q, k, v = normal(0, 3, 84, 3, 3, 64, dtype=torch.float32).transpose(-3, -2)
    views = mix(pattern(scores(q, k), causal_mask(3)), v)
    q, k, v = (t.contiguous() for t in (q, k, v))
    copies = mix(pattern(scores(q, k), causal_mask(3)), v)
    assert (views - copies).abs().max() < 1e-5


def test_a31_the_last_token_changes_nothing_before_it():
    x = normal(0, 6, 8, dtype=torch.float32)
    W_Q, W_K, W_V = normal(1, 3, 8, 4, dtype=torch.float32)
    head = Head(W_Q, W_K, W_V, W_O=normal(2, 4, 8, dtype=torch.float32))
    edited = x.clone()
    edited[5] += 1
    before, after = (attend(t, head, causal_mask(6)).out for t in (x, edited))
    assert torch.equal(before[:5], after[:5])
    assert not torch.equal(before[5], after[5])
    q, k, v = x @ head.W_Q, x @ head.W_K, x @ head.W_V
    theirs = functional.scaled_dot_product_attention(q, k, v, is_causal=True) @ head.W_O
    assert (before - theirs).abs().max() < 1e-5


def test_b31_each_weight_does_its_own_work():
    """Values were made with the key weights; the shapes fit."""
    x, weights = normal(0, 3, 8), dict(zip(["W_Q", "W_K", "W_V"], normal(1, 3, 8, 8), strict=True))
    weights["W_O"] = normal(2, 8, 8)
    step = attend(x, Head(**weights))
    changed = {name: attend(x, Head(**weights | {name: W + 1})) for name, W in weights.items()}
    same = {
        name: {part for part in vars(step) if torch.equal(vars(step)[part], vars(other)[part])}
        for name, other in changed.items()
    }
    assert same["W_Q"] == {"k", "v"}
    assert same["W_K"] == {"q", "v"}
    assert same["W_V"] == {"q", "k", "scores", "pattern"}
    assert same["W_O"] == {"q", "k", "v", "scores", "pattern", "z"}


def test_s8_row_by_row_and_not_the_whole_matrix():
    S = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    assert_close(pattern(S).sum(dim=-1), torch.ones(2))
    whole = S.flatten().softmax(dim=0).view(2, 2).sum(dim=-1)
    assert whole.tolist() == pytest.approx([0.119, 0.881], abs=5e-4)


def test_a5_true_is_no_number():
    """True passed for 1, or broke inside torch."""
    for call in (lambda: causal_mask(True), lambda: split_heads(torch.ones(2, 4), True)):
        with pytest.raises(TypeError, match="is True, but must be a number"):
            call()


def test_a16_a_past_of_another_head_is_refused():
    """Keys of float32 were converted to float64; a past of another batch failed inside torch."""
    x = normal(0, 3, 4)
    past = attend(x, Head(*normal(1, 4, 4, 4)))
    narrow = Head(*normal(2, 3, 4, 2), normal(3, 2, 4))
    with pytest.raises(ValueError, match=r"past\.k is float64\[3, 4\].* new k is float64\[1, 2\]"):
        attend(x[:1], narrow, past=past)
    with pytest.raises(ValueError, match=r"the same head and batch"):
        attend(normal(4, 2, 1, 4), Head(*normal(1, 4, 4, 4)), past=past)
    with pytest.raises(ValueError, match=r"past\.k is float64\[3, 4\].* new k is float32"):
        attend(x[:1].float(), Head(*normal(1, 4, 4, 4).float()), past=past)


def test_a23_a_hidden_nan_stays_hidden_when_compiled_and_under_vmap():
    """Where values could not be looked at, 0 × NaN came back."""
    A, v = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[1.0], [math.nan]])
    torch._dynamo.reset()
    compiled = torch.compile(mix, fullgraph=True, backend="eager")
    for z in (compiled(A, v), torch.func.vmap(mix)(A[None], v[None])[0]):
        assert z[0].tolist() == [1.0]
        assert z[1].isnan().all()


def test_a27_vmap_agrees_with_a_loop():
    """Looking for an unseen row is data-dependent, which vmap refuses."""
    x, head = normal(0, 2, 3, 4), Head(*normal(1, 4, 4, 4))

    def loss(x):
        return attend(x, head, causal_mask(3)).out.square().sum()

    each = torch.func.vmap(torch.func.grad(loss))(x)
    assert_close(each, torch.stack([torch.func.grad(loss)(sample) for sample in x]))


def test_autocast_may_mix_dtypes():
    """The write refused its own half-precision input."""
    x, head = normal(0, 3, 4, dtype=torch.float32), Head(*normal(1, 4, 4, 4, dtype=torch.float32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attend(x, head, causal_mask(3)).out
    assert out.dtype == torch.bfloat16
    assert_close(out.float(), attend(x, head, causal_mask(3)).out, atol=0.1, rtol=0.1)
    with pytest.raises(TypeError, match="convert one"):
        attend(x.double(), head)


def test_a25_a_missing_argument_names_the_function():
    with pytest.raises(TypeError, match=r"scores: missing a required argument: 'k'; it takes q, k"):
        scores(torch.ones(2, 3))


def test_a25_a_sparse_tensor_is_refused():
    with pytest.raises(TypeError, match=r"scores is torch.sparse_coo.*scores\.to_dense\(\)"):
        pattern(torch.eye(2).to_sparse())


def test_a25_a_large_argument_is_not_printed_whole():
    with pytest.raises(TypeError, match=r"past is float32\[3, 4\], but must be") as caught:
        attend(torch.ones(3, 4), Head(*torch.ones(4, 4, 4)), past=torch.ones(3, 4))
    assert "\n" not in str(caught.value)


def test_b7_a_ledger_whose_names_and_writes_differ_in_number_is_refused():
    """A name without a write was dropped, and a sum was silently short."""
    for names, writes in ((("a", "b"), (torch.ones(1, 2),)), ((), ())):
        with pytest.raises(ValueError, match=rf"Stream: {len(names)} writers and {len(writes)}"):
            Stream(names, writes)


def test_b7_a_ledger_goes_by_its_names():
    ledger = Stream.start(torch.ones(1, 2)).write(torch.ones(1, 2), by="head 0")
    assert list(ledger) == ["embed", "head 0"]
    assert "head 0" in ledger
    assert 0 not in ledger
    with pytest.raises(ValueError, match=r"direction is float32.2. on meta, but the stream"):
        ledger.along(torch.ones(2, device="meta"))
