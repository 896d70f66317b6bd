"""Heads written by hand do what their docstrings say, and their weights are where they say."""

import math

import pytest
import torch
from draws import normal, sizes
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tinyattn import (
    ShapeError,
    attend,
    attend_smeared,
    causal_mask,
    composition,
    copy_head,
    copying,
    full_ov,
    induction_head,
    induction_model,
    ov_circuit,
    paths,
    previous_token_head,
    qk_circuit,
    score_paths,
)

START = 0


def repeated(rows: int, block: int, d_vocab: int, *, start: bool, seed: int = 0) -> Tensor:
    """A block of distinct tokens, none of them the start token, twice; after it, if wanted."""
    dice = torch.Generator().manual_seed(seed)
    once = torch.stack(
        [torch.randperm(d_vocab - 1, generator=dice)[:block] + 1 for _ in range(rows)]
    )
    twice = torch.cat([once, once], dim=1)
    return torch.cat([torch.full((rows, 1), START), twice], dim=1) if start else twice


def guessed(logits: Tensor, tokens: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Where the right token of the second copy is the only best one, and where it is a best one."""
    asked = logits[:, -block:-1]
    right = asked.gather(-1, tokens[:, -block + 1 :, None])
    others_below = (asked >= right).sum(dim=-1) == 1
    return others_below, (asked <= right).all(dim=-1)


# copying and looking back


@given(st.data(), sizes, sizes)
def test_a_copy_head_writes_the_mean_of_what_it_may_see(data, pos, width):
    x = normal(data.draw(st.integers(0, 1000)), pos, 2 * width, dtype=torch.float32)
    head = copy_head(2 * width, range(width), range(width, 2 * width))
    step = attend(x, head, causal_mask(pos))
    mean = x.cumsum(dim=0) / torch.arange(1, pos + 1)[:, None]
    assert_close(step.out[:, width:], mean[:, :width])
    assert (step.out[:, :width] == 0).all()


def test_a_copy_head_onto_itself_copies():
    head = copy_head(5, [0, 2, 4], [0, 2, 4])
    assert copying(ov_circuit(head.W_V, head.W_O)).item() == 1
    shifted = copy_head(6, [0, 1, 2], [3, 4, 5])
    assert copying(ov_circuit(shifted.W_V, shifted.W_O)).item() == 0


@given(st.integers(1, 12), st.integers(1, 4), st.floats(20, 250))
def test_a_previous_token_head_moves_each_row_one_down(pos, width, sharpness):
    places, reads = range(pos), range(pos, pos + width)
    writes = range(pos + width, pos + 2 * width)
    d_model = pos + 2 * width
    head = previous_token_head(d_model, places, reads, writes, sharpness=sharpness)
    x = torch.zeros(pos, d_model)
    x[:, :pos] = torch.eye(pos)
    x[:, pos : pos + width] = normal(0, pos, width, dtype=torch.float32)
    step = attend(x, head, causal_mask(pos))
    shift = torch.eye(pos).roll(1, dims=0)
    shift[0] = torch.eye(pos)[0]  # position 0 has only itself
    assert_close(step.pattern, shift, atol=1e-6, rtol=0)
    assert_close(step.out[:, -width:], shift @ x[:, pos : pos + width], atol=1e-5, rtol=0)


def test_sharpness_is_the_score_of_a_match():
    head = previous_token_head(6, [0, 1, 2, 3], [4], [5], sharpness=7)
    S = attend(torch.eye(4, 6), head).scores
    assert_close(S, 7 * torch.eye(4).roll(1, dims=0) * (torch.arange(4) > 0)[:, None])


# induction


@pytest.mark.parametrize("start", [None, START])
def test_every_weight_of_the_model_is_where_it_is_said_to_be(start):
    V, n = 4, 6
    model = induction_model(V, n, start=start, sharpness=10)
    here, before, guess, places = (
        slice(0, V),
        slice(V, 2 * V),
        slice(2 * V, 3 * V),
        slice(3 * V, None),
    )
    root = model.config.d_head**0.5
    assert model.config.d_model == 3 * V + n
    assert_close(model.W_E.detach(), torch.eye(V, 3 * V + n))
    assert_close(model.W_U.detach()[guess], torch.eye(V))
    assert model.W_U.count_nonzero() == V
    assert model.W_pos is not None
    assert_close(model.W_pos.detach()[:, places], torch.eye(n))
    assert model.W_pos.count_nonzero() == n
    one, two = model.heads(0)[0], model.heads(1)[0]
    qk = qk_circuit(one.W_Q, one.W_K).dense().detach() / root
    assert_close(qk[places, places], 10 * torch.eye(n).roll(-1, 1).tril(-1))
    assert qk.count_nonzero() == n - 1
    ov = ov_circuit(one.W_V, one.W_O).dense().detach()
    assert_close(ov[here, before], torch.eye(V))
    assert ov.count_nonzero() == V
    qk = qk_circuit(two.W_Q, two.W_K).dense().detach() / root
    found = 10 * torch.eye(V)
    if start is not None:
        found[start, start] = 0
        found[:, start] = 0
        assert_close(qk[here, start], torch.full((V,), 5.0))
    assert_close(qk[here, before], found)
    assert qk.count_nonzero() == (V if start is None else V - 1 + V)
    ov = ov_circuit(two.W_V, two.W_O).dense().detach()
    carried = torch.eye(V)
    if start is not None:
        carried[start] = 0
    assert_close(ov[here, guess], carried)
    assert ov.count_nonzero() == carried.count_nonzero()


@pytest.mark.parametrize("start", [None, START])
@pytest.mark.parametrize("block", [2, 6, 26])
def test_with_a_start_token_every_repeated_token_is_guessed(block, start):
    tokens = repeated(100, block, 64, start=True)
    alone, _ = guessed(induction_model(64, 64, start=start)(tokens), tokens, block)
    assert alone.all()


def test_without_a_start_token_the_first_guess_of_each_row_is_a_tie():
    """Position 0 sees only itself and says that its token follows itself: two places match."""
    tokens = repeated(500, 6, 64, start=False)
    model = induction_model(64, 64)
    run = model.run(tokens)
    alone, best = guessed(run.logits, tokens, 6)
    assert alone.numel() == 2500
    assert alone.sum() == 2000
    assert not alone[:, 0].any()
    assert alone[:, 1:].all()
    assert best.all()
    assert_close(run.pattern(1)[:, 0, 6, :2], torch.full((500, 2), 0.5))
    # argmax takes the smaller number of the two: half of the ties are lost, by luck.
    picked = (run.logits[:, 6:11].argmax(dim=-1) == tokens[:, 7:]).sum()
    assert picked == 2000 + (tokens[:, 1] < tokens[:, 0]).sum()


def test_a_token_never_seen_before_rests_on_the_start_token_and_guesses_nothing():
    tokens = torch.tensor([START, 3, 1, 2])
    run = induction_model(5, 8, start=START).run(tokens)
    assert_close(run.pattern(1)[0], torch.tensor([1.0, 0, 0, 0]).expand(4, 4))
    assert (run.logits == 0).all()
    even = induction_model(5, 8).run(tokens)
    assert_close(even.pattern(1)[0, 3], torch.full((4,), 0.25))


def test_only_the_last_head_speaks_and_it_speaks_of_the_token_it_reads():
    run = induction_model(5, 8, start=START).run([START, 3, 1, 2, 3])
    terms = paths(run)
    assert_close(terms["1.0"], run.logits)
    assert terms.names == ("embed", "0.0", "1.0", "0.0 → 1.0")
    for name in ("embed", "0.0", "0.0 → 1.0"):
        assert (terms[name] == 0).all()


@pytest.mark.parametrize("start", [None, START])
def test_the_stripe_comes_through_the_earlier_head_on_the_key_side(start):
    tokens = torch.tensor([START, 3, 1, 2, 4, 3, 1, 2, 4])
    run = induction_model(5, 9, start=start).run(tokens)
    terms = score_paths(run, 1, 0)
    stripe = torch.zeros(9, 9)
    for i, token in enumerate(tokens):
        for j in range(1, 9):
            stripe[i, j] = 250 * (tokens[j - 1] == token)
    if start is None:
        stripe[0, 0] = 250  # position 0 follows itself
    else:
        stripe[tokens == START] = 0
    assert_close(terms["embed", "0.0"].dense(), stripe)
    assert stripe[5, 2] == stripe[8, 5] == 250
    for query in terms.queries:
        for key in terms.keys:
            resting = start is not None and (query, key) == ("embed", "embed")
            if (query, key) != ("embed", "0.0"):
                assert (terms[query, key].dense() == 0).all() == (not resting)
    rest = terms["embed", "embed"].dense()
    assert_close(rest[:, 0], torch.full((9,), 0.0 if start is None else 125.0))
    assert (rest[:, 1:] == 0).all()


def test_its_keys_compose_as_much_as_flat_circuits_can():
    """All 8 directions are shared and equally strong: the score is 1/√8, and not 1."""
    model = induction_model(8, 12)
    one, two = model.heads(0)[0], model.heads(1)[0]
    first = ov_circuit(one.W_V, one.W_O)
    assert_close(composition(first, qk_circuit(two.W_Q, two.W_K), "K").item(), 8**-0.5)
    assert composition(first, qk_circuit(two.W_Q, two.W_K), "Q").item() == 0
    assert composition(first, ov_circuit(two.W_V, two.W_O), "V").item() == 0
    full = full_ov(model.W_E, ov_circuit(two.W_V, two.W_O), model.W_U)
    assert_close(full.dense(), torch.eye(8), check_dtype=True)


def test_without_the_earlier_head_nothing_is_guessed():
    tokens = repeated(100, 6, 64, start=True)
    model = induction_model(64, 64, start=START)
    run = model.run(tokens).with_({"0.head 0": torch.zeros_like})
    alone, _ = guessed(run.logits, tokens, 6)
    assert not alone.any()


# one layer


def one_layer(tokens: Tensor, d_vocab: int, share: float) -> Tensor:
    """The logits of a single head that looks for its own token."""
    x = torch.zeros(*tokens.shape, 2 * d_vocab).scatter(-1, tokens[..., None], 1.0)
    here, guess = range(d_vocab), range(d_vocab, 2 * d_vocab)
    head = induction_head(2 * d_vocab, here, here, guess)
    return attend_smeared(x, head, share=share).out[..., d_vocab:]


@pytest.mark.parametrize("start", [False, True])
def test_one_layer_with_smeared_keys_guesses_every_repeated_token(start):
    tokens = repeated(500, 6, 64, start=start)
    assert guessed(one_layer(tokens, 64, 1.0), tokens, 6)[0].all()


def test_one_layer_with_plain_keys_guesses_none():
    """It finds the same token, and what came next is not in its key."""
    tokens = repeated(500, 6, 64, start=False)
    assert not guessed(one_layer(tokens, 64, 0.0), tokens, 6)[0].any()


@given(st.integers(1, 5), st.integers(0, 1000), st.floats(0, 1))
def test_smeared_keys_are_mixed_with_the_ones_before(pos, seed, share):
    x = normal(seed, 2, pos, 4, dtype=torch.float32)
    head = induction_head(4, [0, 1], [2, 3], [0, 1], sharpness=1)
    plain, smeared = attend(x, head, causal_mask(pos)), attend_smeared(x, head, share=share)
    assert_close(smeared.k[:, 0], (1 - share) * plain.k[:, 0])
    assert_close(smeared.k[:, 1:], (1 - share) * plain.k[:, 1:] + share * plain.k[:, :-1])
    for name in ("q", "v"):
        assert_close(getattr(smeared, name), getattr(plain, name))
    for name in vars(plain):
        assert_close(getattr(attend_smeared(x, head, share=0), name), getattr(plain, name))
    later = x.clone()
    later[:, -1] += 1
    assert torch.equal(attend_smeared(later, head, share=share).out[:, :-1], smeared.out[:, :-1])


# bad input


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: copy_head(4, [0, 1], [2]), "reads has 2, writes has 1"),
        (lambda: copy_head(4, [], []), "at least one"),
        (lambda: copy_head(4, [0, 4], [1, 2]), "reads has coordinate 4, but d_model = 4"),
        (lambda: copy_head(4, [0, 1], [2, -1]), "writes has coordinate -1"),
        (lambda: copy_head(4, [0, 0], [1, 2]), "reads names a coordinate twice"),
        (lambda: previous_token_head(4, [], [0], [1]), "places has 0"),
        (lambda: previous_token_head(4, [0, 0], [1], [2]), "places names a coordinate twice"),
        (lambda: previous_token_head(4, [0, 1], [2], [3, 1]), "reads has 1, writes has 2"),
        (lambda: induction_head(6, [0, 1], [2], [3, 4]), "here has 2, before has 1, writes has 2"),
        (lambda: induction_head(6, [0, 1], [2, 3], [4, 5], start=2), "start = 2: .* tokens 0 to 1"),
        (lambda: induction_model(5, 8, start=-1), "start = -1"),
        (lambda: induction_model(0, 8), "d_vocab = 0"),
        (lambda: induction_model(5, 0), "n_ctx = 0"),
        (
            lambda: attend_smeared(torch.ones(2, 4), copy_head(4, [0], [1]), share=1.5),
            "share = 1.5",
        ),
    ],
)
def test_bad_input_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_stream_that_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="d_model = 5"):
        attend_smeared(torch.ones(2, 5), copy_head(4, [0], [1]))


def test_more_tokens_than_positions_are_refused():
    with pytest.raises(ValueError, match="9 positions, but the model has n_ctx = 8"):
        induction_model(5, 8)(torch.ones(9, dtype=torch.long))


@pytest.mark.parametrize("sharpness", [-1.0, math.nan, math.inf, 1e38])
def test_a_sharpness_that_no_softmax_can_take_is_refused(sharpness):
    """Infinite scores came out of the fused attention as zeros."""
    with pytest.raises(ValueError, match=r"head: sharpness = .* from 0 to 1e6"):
        induction_model(4, 6, sharpness=sharpness)
