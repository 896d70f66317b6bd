"""Circuits of one head and of two: in dense matrices, by chance, and at their worst."""

import math

import pytest
import torch
from draws import batches, heads, normal, sizes, tensors
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from tinyattn import Heads, attend
from tinyattn.circuits import (
    composition,
    compositions,
    copying,
    full_ov,
    full_qk,
    head_write,
    ov_circuit,
    qk_circuit,
    random_composition,
    random_copying,
    svd_tokens,
)
from tinyattn.lowrank import LowRank
from tinyattn.shapes import ShapeError

KINDS = ["Q", "K", "V"]
matrix_norm = torch.linalg.matrix_norm


def drawn(seed: int, *leading: int, d_model: int, rank: int) -> LowRank:
    left, right = normal(seed, *leading, d_model, rank), normal(seed + 1, *leading, rank, d_model)
    return LowRank(left, right)


@given(st.data(), sizes, sizes)
def test_scores_are_x_W_QK_x_with_the_reader_on_the_left(data, pos, d_model):
    x, head = data.draw(tensors(pos, d_model)), data.draw(heads(d_model))
    qk = qk_circuit(head.W_Q, head.W_K)
    bilinear = torch.stack([(token @ qk) @ x.T for token in x])
    assert_close(bilinear / math.sqrt(head.d_head), attend(x, head).scores)


@given(st.data(), sizes, sizes)
def test_a_head_is_A_x_W_OV(data, pos, d_model):
    x, head = data.draw(tensors(pos, d_model)), data.draw(heads(d_model))
    step, ov = attend(x, head), ov_circuit(head.W_V, head.W_O)
    assert_close(head_write(step.pattern, x, ov), step.out)
    assert_close(head_write(step.pattern, x, ov), step.pattern @ x @ ov.dense())
    assert_close((step.pattern @ x @ ov).dense(), step.out)


@given(st.data(), batches, sizes, sizes)
def test_the_write_is_linear_in_the_stream_while_the_pattern_is_frozen(data, batch, pos, d_model):
    ov = ov_circuit(data.draw(tensors(d_model, 2)), data.draw(tensors(2, d_model)))
    A = data.draw(tensors(*batch, pos, pos))
    x, y = (data.draw(tensors(*batch, pos, d_model)) for _ in range(2))
    together = head_write(A, 2 * x + y, ov)
    assert_close(together, 2 * head_write(A, x, ov) + head_write(A, y, ov))


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_d7_heads_that_share_keys_and_values(batch, n_kv_heads):
    """Grouped-query circuits crashed, or read the wrong head's keys."""
    W_Q, W_O = normal(0, 4, 8, 2), normal(3, 4, 2, 8)
    W_K, W_V = normal(1, n_kv_heads, 8, 2), normal(2, n_kv_heads, 8, 2)
    layer, x = Heads(W_Q, W_K, W_V, W_O), normal(4, *batch, 5, 8)
    step = attend(x, layer)
    qk, ov = qk_circuit(W_Q, W_K), ov_circuit(W_V, W_O)
    assert qk.shape == ov.shape == (4, 8, 8)
    assert_close(head_write(step.pattern, x, ov), step.out)
    assert_close(x[..., None, :, :] @ qk.dense() @ x[..., None, :, :].mT / 2**0.5, step.scores)
    for number in range(4):
        head = layer[number]
        assert_close(qk[number].dense(), qk_circuit(head.W_Q, head.W_K).dense())
        assert_close(ov[number].dense(), ov_circuit(head.W_V, head.W_O).dense())


@given(st.data(), sizes, sizes)
def test_W_QK_is_the_same_in_both_conventions_and_W_OV_is_transposed(data, d_model, d_head):
    rows = [data.draw(tensors(d_model, d_head)) for _ in range(3)] + [
        data.draw(tensors(d_head, d_model))
    ]
    W_Q, W_K, W_V, W_O = (nn.functional.linear(torch.eye(W.shape[1]).to(W), W) for W in rows)
    # linear(eye, W) is W.T, the column form of each weight.
    assert_close(qk_circuit(*rows[:2]).dense(), W_Q.T @ W_K)
    assert_close(ov_circuit(*rows[2:]).dense(), (W_O @ W_V).T)


def test_changing_both_factors_changes_no_circuit():
    W_Q, W_K, M = normal(0, 8, 3), normal(1, 8, 3), normal(2, 3, 3)
    changed = qk_circuit(W_Q @ M, torch.linalg.solve(M, W_K.T).T)
    assert_close(changed.dense(), qk_circuit(W_Q, W_K).dense())


@given(st.data(), sizes, sizes, sizes)
def test_token_circuits_are_the_dense_ones_and_stay_thin(data, d_vocab, d_model, d_head):
    W_E, W_U = data.draw(tensors(d_vocab, d_model)), data.draw(tensors(d_model, d_vocab))
    m = LowRank(data.draw(tensors(2, d_model, d_head)), data.draw(tensors(2, d_head, d_model)))
    by_tokens = full_qk(W_E, m), full_ov(W_E, m, W_U)
    assert_close(by_tokens[0].dense(), W_E @ m.dense() @ W_E.T)
    assert_close(by_tokens[1].dense(), W_E @ m.dense() @ W_U)
    assert all(circuit.rank == d_head for circuit in by_tokens)


@given(st.data(), sizes, st.sampled_from(KINDS))
def test_composition_is_the_ratio_of_dense_norms(data, d_model, kind):
    first, second = (
        LowRank(data.draw(tensors(d_model, rank)), data.draw(tensors(rank, d_model)))
        for rank in (data.draw(sizes), data.draw(sizes))
    )
    score = composition(first, second, kind)
    M = second.dense().T if kind == "K" else second.dense()
    expected = matrix_norm(first.dense() @ M) / matrix_norm(first.dense()) / matrix_norm(M)
    assert_close(score, expected)
    assert 0 <= score <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_all_pairs_of_a_model_are_the_single_ones(kind):
    ov = drawn(0, 3, 2, d_model=8, rank=3)
    other = drawn(2, 3, 2, d_model=8, rank=4)
    found = compositions(ov, other, kind)
    assert found.shape == (3, 2, 3, 2)
    for i, g, j, h in torch.cartesian_prod(*map(torch.arange, found.shape)).tolist():
        if i < j:
            pair = composition(ov[i, g], other[j, h], kind, layers=(i, j))
            assert_close(found[i, g, j, h], pair)
        else:
            assert found[i, g, j, h] == 0


LARGE = {"d_model": 300, "rank": 16}  # more rows than are held at a time


def each_pair(first: LowRank, second: LowRank) -> torch.Tensor:
    """What ``compositions`` says for V, in float64 and from dense matrices."""
    ov, read = (m.left.double() @ m.right.double() for m in (first, second))
    norms = matrix_norm(ov[:, :, None, None] @ read)
    shares = norms / matrix_norm(ov)[:, :, None, None] / matrix_norm(read)
    layers = torch.arange(len(ov))
    return shares * (layers[:, None] < layers)[:, None, :, None]


def single(*circuits: LowRank) -> list[LowRank]:
    return [LowRank(m.left.float(), m.right.float()) for m in circuits]


@given(st.data(), st.integers(1, 3), st.integers(1, 3), sizes)
def test_all_pairs_are_those_of_dense_matrices(data, layers, heads, d_model):
    first, second = (
        LowRank(
            data.draw(tensors(layers, heads, d_model, rank)),
            data.draw(tensors(layers, heads, rank, d_model)),
        )
        for rank in (data.draw(sizes), data.draw(sizes))
    )
    assert_close(compositions(first, second, "V"), each_pair(first, second))
    first, second = single(first, second)
    expected = each_pair(first, second).float()
    assert_close(compositions(first, second, "V"), expected, atol=1e-6, rtol=3e-5)


def test_all_pairs_of_wide_circuits_are_those_of_dense_matrices():
    first, second = drawn(0, 3, 2, **LARGE), drawn(2, 3, 2, **LARGE)
    assert_close(compositions(first, second, "V"), each_pair(first, second))
    first, second = single(first, second)
    expected = each_pair(first, second).float()
    assert_close(compositions(first, second, "V"), expected, atol=0, rtol=1e-6)


def test_a_score_of_a_millionth_is_found_in_float32():
    """Summed over squares it is lost: they cancel to 1e-10 at best, whose root is 1e-5."""
    ov, reads = drawn(0, 2, 6, **LARGE), drawn(2, 2, 6, **LARGE)
    Q = torch.linalg.qr(ov.right[0, 0].T).Q
    seen = Q @ (Q.T @ reads.left)
    first, second = single(ov, LowRank(reads.left - seen + 1.7e-5 * seen, reads.right))
    found, expected = (
        t[0, 0, 1] for t in (compositions(first, second, "V"), each_pair(first, second))
    )
    assert_close(expected, torch.full_like(expected, 1e-6), atol=1e-7, rtol=0)
    assert_close(found.double(), expected, atol=2e-8, rtol=0)


def test_neither_huge_nor_tiny_circuits_disturb_the_scores_of_others():
    """In float32 the norms, and the turned factors before them, went to infinity or to 0."""
    size = torch.tensor([[1e-15, 1e15], [1e18, 1e-18]])[..., None, None]
    first, second = single(drawn(0, 2, 2, **LARGE), drawn(2, 2, 2, **LARGE))
    expected = compositions(first, second, "V")
    wild = [LowRank(m.left * size, m.right * size) for m in (first, second)]
    assert_close(compositions(*wild, "V"), expected)


def test_gradients_of_all_pairs_are_those_of_single_ones():
    factors = [normal(seed, 2, 1, *size) for seed, size in enumerate([(8, 4), (4, 8)] * 2)]

    def slopes(score):
        leaves = [t.clone().requires_grad_() for t in factors]
        return torch.autograd.grad(score(LowRank(*leaves[:2]), LowRank(*leaves[2:])), leaves)

    together = slopes(lambda ov, qk: compositions(ov, qk, "Q").sum())
    assert_close(together, slopes(lambda ov, qk: composition(ov[0, 0], qk[1, 0], "Q")))


def test_composition_reads_the_write_where_its_name_says():
    """One earlier head writes direction 2; each later head reads it in one place only."""
    e = torch.eye(4)
    write_2 = LowRank(e[:, :1], e[2:3])
    asks, offers, carries = (
        qk_circuit(e[:, 2:3], e[:, 3:]),
        qk_circuit(e[:, 3:], e[:, 2:3]),
        ov_circuit(e[:, 2:3], e[3:]),
    )
    assert [composition(write_2, asks, kind).item() for kind in ("Q", "K")] == [1, 0]
    assert [composition(write_2, offers, kind).item() for kind in ("Q", "K")] == [0, 1]
    assert composition(write_2, carries, "V").item() == 1
    assert composition(carries, write_2, "V").item() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_turning_the_stream_changes_no_composition(kind):
    first, second = drawn(0, d_model=8, rank=3), drawn(2, d_model=8, rank=3)
    turn = torch.linalg.qr(normal(4, 8, 8)).Q
    one, other = (turn.T @ circuit @ turn for circuit in (first, second))
    assert_close(composition(one, other, kind), composition(first, second, kind))


def test_b26_random_pairs_compose_by_chance():
    """There was no definition and no baseline, so readers compared raw numbers."""
    first, second = (drawn(seed, 200, d_model=64, rank=8) for seed in (0, 2))
    found = composition(first, second, "V")
    chance = random_composition(64, 8)
    assert found.mean().item() == pytest.approx(0.123, abs=0.002)
    assert chance.score == 0.125
    assert chance.spread == pytest.approx(found.std().item(), rel=0.1)


def test_b26_identical_projections_reach_one_over_the_root_of_the_rank():
    U = torch.linalg.qr(normal(0, 64, 8)).Q
    projection = LowRank(U, U.T)
    for kind in ("Q", "K", "V"):
        assert composition(projection, projection, kind).item() == pytest.approx(1 / math.sqrt(8))


def test_b26_orthogonal_subspaces_do_not_compose():
    Q = torch.linalg.qr(normal(0, 64, 16)).Q
    first, second = (LowRank(U, U.T) for U in (Q[:, :8], Q[:, 8:]))
    assert composition(first, second, "V").item() < 1e-15


@pytest.mark.parametrize(("d_model", "d_head"), [(64, 8), (64, 32), (128, 16)])
def test_the_baselines_are_what_random_heads_show(d_model, d_head):
    """Within three standard errors of what 400 draws can tell, and of what the formula leaves out.

    The squared composition score is exact; the spreads are of first order in d_head / d_model.
    """
    first, second = (drawn(seed, 400, d_model=d_model, rank=d_head) for seed in (10, 12))
    found, chance = composition(first, second, "K"), random_composition(d_model, d_head)
    doubt = found.square().std().item() / math.sqrt(400)
    assert abs(found.square().mean().item() - chance.score**2) < 3 * doubt
    doubt = 1 / math.sqrt(2 * 400)
    assert abs(found.std().item() / chance.spread - 1) < 3 * doubt
    copied, chance = copying(first), random_copying(d_head)
    assert abs(copied.mean().item()) < 3 * chance.spread / math.sqrt(400)
    assert abs(copied.std().item() / chance.spread - 1) < 3 * doubt + d_head / d_model / 4


def test_the_mean_squared_score_is_one_over_d_model_whatever_the_circuits():
    """Exact for any spectrum: here two very uneven ones, averaged over turns."""
    uneven = torch.diag(torch.tensor([8.0, 1, 0.1, 0.1, 0, 0], dtype=torch.float64))
    turns = torch.linalg.qr(normal(0, 4000, 6, 6)).Q
    # QR leaves signs that depend on the draw; normal columns of random sign are even.
    turns = turns * normal(1, 4000, 1, 6).sign()
    found = composition(LowRank(uneven.expand_as(turns), turns), LowRank(uneven, uneven), "V")
    doubt = found.square().std().item() / math.sqrt(4000)
    assert abs(found.square().mean().item() - 1 / 6) < 3 * doubt
    assert doubt < 0.01


def test_a_circuit_that_is_zero_composes_with_nothing_and_copies_nothing():
    zero, other = LowRank(torch.zeros(4, 2), torch.zeros(2, 4)), LowRank(torch.eye(4), torch.eye(4))
    for kind in ("Q", "K", "V"):
        assert composition(zero, other, kind).item() == 0
        assert composition(other, zero, kind).item() == 0
    stack = LowRank(torch.zeros(2, 1, 4, 2), torch.zeros(2, 1, 2, 4))
    assert (compositions(stack, stack, "Q") == 0).all()
    assert copying(zero).item() == 0


@given(st.data(), batches, sizes, sizes)
def test_copying_is_between_minus_one_and_one(data, batch, d_model, rank):
    m = LowRank(
        data.draw(tensors(*batch, d_model, rank)), data.draw(tensors(*batch, rank, d_model))
    )
    score, values = copying(m), torch.linalg.eigvals(m.dense())
    assert (score.abs() <= 1).all()
    assert_close(score, values.real.sum(dim=-1) / values.abs().sum(dim=-1))


def test_b27_copying_at_its_ends_and_where_it_is_blind():
    eye, turn = torch.eye(4), torch.tensor([[0.0, 1], [-1, 0]])
    assert copying(LowRank(eye, eye)).item() == 1
    assert copying(LowRank(eye, -eye)).item() == -1
    assert copying(LowRank(turn, turn.T @ turn)).item() == 0, "a pair of imaginary eigenvalues"
    shift = torch.diag(torch.ones(3), 1)
    assert copying(LowRank(eye, shift)).item() == 0, "every token raises its neighbour"


def test_copying_over_tokens_needs_no_token_sized_matrix():
    W_E, W_U, ov = normal(0, 40, 8), normal(1, 8, 40), drawn(2, 3, d_model=8, rank=2)
    by_tokens = full_ov(W_E, ov, W_U)
    short = ov @ (W_U @ W_E)
    assert short.shape == (3, 8, 8)
    assert_close(by_tokens.eigenvalues(), short.eigenvalues())
    assert_close(copying(by_tokens), copying(short))
    dense = torch.linalg.eigvals(by_tokens.dense())
    assert_close(dense.sum(dim=-1).real, by_tokens.eigenvalues().sum(dim=-1).real)


def planted(strength: dict[tuple[int, int], float], d_vocab: int = 8, sign: int = 1) -> LowRank:
    """An OV circuit over tokens that reads one token and writes another, for each pair given."""
    e, pairs = torch.eye(d_vocab), list(strength)
    W_V = sign * torch.stack([e[read] for read, _ in pairs], dim=1)
    W_O = sign * torch.stack([size * e[wrote] for (_, wrote), size in strength.items()])
    return full_ov(e, ov_circuit(W_V, W_O), e)


@pytest.mark.parametrize("sign", [1, -1])
def test_f13_the_first_direction_reads_3_and_writes_5(sign):
    """Arbitrary signs made home-made versions name the wrong end."""
    (first,) = svd_tokens(planted({(3, 5): 2.0}, sign=sign), 1)
    assert first.strength == 2
    assert first.reads == ([3], [])
    assert first.writes == ([5], [])
    assert not first.tied


def test_f13_suppression_shows_at_opposite_ends():
    """Reading 3 lowers 5: whichever end 3 is at, 5 is at the other."""
    (first,) = svd_tokens(planted({(3, 5): -2.0}), 1)
    assert (first.reads.low, first.writes.high) == ([3], [5])
    assert first.reads.high == first.writes.low == []


def test_f13_both_ends_with_words():
    e = torch.eye(4)
    W_V = (3 * e[:, 0] - e[:, 1])[:, None]
    W_O = (2 * e[2] - e[3])[None]
    words = ["a", "b", "c", "d"]
    (first,) = svd_tokens(full_ov(e, ov_circuit(W_V, W_O), e), 1, words)
    assert first.reads == (["a"], ["b"])
    assert first.writes == (["c"], ["d"])
    assert first.strength == pytest.approx(math.sqrt(50))


def test_f13_the_kth_direction_and_a_tie_is_said():
    found = svd_tokens(planted({(3, 5): 4.0, (1, 2): 3.0, (0, 7): 1.0, (6, 4): 1.0}), 4, top=2)
    assert [direction.strength for direction in found] == [4, 3, 1, 1]
    assert [direction.reads.high for direction in found[:2]] == [[3], [1]]
    assert [direction.writes.high for direction in found[:2]] == [[5], [2]]
    assert [direction.tied for direction in found] == [False, False, True, True]


def test_f13_the_directions_rebuild_the_circuit():
    full = full_ov(normal(0, 12, 6), drawn(1, d_model=6, rank=3), normal(3, 6, 12))
    U, S, Vh = full.svd()
    found = svd_tokens(full, 3, top=3)
    for index, direction in enumerate(found):
        assert direction.strength == S[index].item()
        assert direction.reads.high == U[:, index].argsort(descending=True)[:3].tolist()
        assert direction.writes.low == Vh[index].argsort()[:3].tolist()


def test_circuits_of_different_widths_are_refused():
    narrow, wide = drawn(0, d_model=4, rank=2), drawn(0, d_model=6, rank=2)
    said = (
        r"first is LowRank\(float64\[4, 4\], rank 2\) and second is LowRank\(float64\[6, 6\], ran"
    )
    with pytest.raises(ShapeError, match=f"composition: {said}.*second must be 4 × 4"):
        composition(narrow, wide, "V")
    one, other = (drawn(0, 2, 1, d_model=d_model, rank=2) for d_model in (4, 6))
    with pytest.raises(ShapeError, match=r"compositions: .*second must be 4 × 4"):
        compositions(one, other, "V")
    with pytest.raises(ShapeError, match=r"x is float64\[3, 4\] and ov is .* must be 4 × 4"):
        head_write(normal(0, 3, 3), normal(1, 3, 4), wide)
    with pytest.raises(ShapeError, match=r"W_E is float64\[9, 4\] and qk .* must be 4 × 4"):
        full_qk(normal(0, 9, 4), wide)
    with pytest.raises(ShapeError, match=r"W_E is float64\[9, 4\] and ov .* must be 4 × 4"):
        full_ov(normal(0, 9, 4), wide, normal(1, 4, 9))
    with pytest.raises(ShapeError, match=r"W_K is .* with d_model = 4"):
        qk_circuit(normal(0, 4, 2), normal(1, 6, 2))


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"W_O is float64\[3, 4\].* d_value = 2, as W_V is"):
        ov_circuit(normal(0, 4, 2), normal(1, 3, 4))
    with pytest.raises(
        ValueError, match=r"W_V is float64\[3, 4, 2\] and W_O .*or a multiple of it"
    ):
        ov_circuit(normal(0, 3, 4, 2), normal(1, 4, 2, 4))
    with pytest.raises(ValueError, match=r"W_K is .* counts heads"):
        qk_circuit(normal(0, 2, 4, 2), normal(1, 4, 2))
    with pytest.raises(ShapeError, match=r"full_ov: W_U is .* d_vocab = 9"):
        full_ov(normal(0, 9, 4), drawn(0, d_model=4, rank=2), normal(1, 4, 8))
    with pytest.raises(ShapeError, match="but the dtypes differ: convert one"):
        head_write(torch.ones(3, 3), torch.ones(3, 4), drawn(0, d_model=4, rank=2))
    with pytest.raises(ShapeError, match=r"A is float64\[5, 3, 3\].*must be \[2\]"):
        head_write(normal(0, 5, 3, 3), normal(1, 3, 4), drawn(0, 2, d_model=4, rank=2))


@pytest.mark.parametrize("layers", [(1, 0), (1, 1)])
def test_layers_in_the_wrong_order_are_refused(layers):
    m = drawn(0, d_model=4, rank=2)
    with pytest.raises(
        ValueError, match=r"first is of layer 1 and second of layer \d.*the smaller"
    ):
        composition(m, m, "K", layers=layers)


def test_arguments_that_mean_nothing_are_refused():
    m = drawn(0, d_model=4, rank=2)
    with pytest.raises(ShapeError, match=r"kind is 'k', but must be .*'Q', 'K', 'V'"):
        composition(m, m, "k")
    with pytest.raises(ShapeError, match=r"both need leading axes \[layer, head\]"):
        compositions(m, m, "K")
    with pytest.raises(ShapeError, match="only a square one has eigenvalues"):
        copying(LowRank(normal(0, 4, 2), normal(1, 2, 5)))
    with pytest.raises(ValueError, match="d_head = 5 ≤ d_model = 4"):
        random_composition(4, 5)
    with pytest.raises(ValueError, match="d_head is 0"):
        random_copying(0)
    with pytest.raises(ShapeError, match=r"must be one head's: pick one, full\[0\]"):
        svd_tokens(drawn(0, 2, d_model=4, rank=2), 1)
    for k in (0, 3):
        with pytest.raises(ValueError, match=rf"k is {k} .* full has 2 directions that are not 0"):
            svd_tokens(m, k)
    for vocabulary in (["a", "b"], "abcd"):
        with pytest.raises(
            ValueError, match=r"vocabulary is a (list|str) of \d .* a list with one"
        ):
            svd_tokens(m, 1, vocabulary)


def test_a_wild_number_does_not_become_a_score():
    wild = LowRank(torch.full((4, 2), torch.nan), torch.ones(2, 4))
    fine = LowRank(torch.ones(4, 2), torch.ones(2, 4))
    for pair in ((wild, fine), (fine, wild)):
        with pytest.raises(ValueError, match=r"\[0, 0\] is nan"):
            composition(*pair, "Q")
    with pytest.raises(ValueError, match=r"left\[0, 0\] is nan"):
        copying(wild)


def test_nothing_is_changed():
    ov, qk = drawn(0, 2, 2, d_model=6, rank=2), drawn(2, 2, 2, d_model=6, rank=2)
    factors = [ov.left, ov.right, qk.left, qk.right]
    kept = [t.clone() for t in factors]
    compositions(ov, qk, "K"), copying(ov), svd_tokens(ov[0, 0], 2), composition(ov, qk, "Q")
    assert all(map(torch.equal, factors, kept))


def test_copying_of_a_circuit_whose_product_does_not_fit_its_dtype():
    """An overflowing norm made the score 0."""
    for size, dtype in ((1e30, torch.float32), (1e-30, torch.float32), (200.0, torch.float16)):
        assert copying(LowRank(*[size * torch.eye(2, dtype=dtype)] * 2)) == 1
        assert copying(LowRank(size * torch.eye(2, dtype=dtype), -torch.eye(2, dtype=dtype))) == -1


def test_a23_a_hidden_nan_is_not_written():
    x = torch.tensor([[1.0, 2.0], [math.nan, 0.0]])
    out = head_write(torch.eye(2), x, LowRank(torch.eye(2), torch.eye(2)))
    assert out[0].tolist() == [1, 2]
    assert out[1].isnan().all()
