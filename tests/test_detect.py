"""Scores of a pattern, to the index: which offset, which queries, which denominator."""

import pytest
import torch
from draws import normal
from hypothesis import given
from hypothesis import strategies as st

from tinyattn import (
    ShapeError,
    causal_mask,
    detect,
    duplicate_token_score,
    induction_score,
    pattern,
    previous_token_score,
)
from tinyattn.detect import duplicates, followers, previous_tokens

TWICE = torch.tensor([0, 5, 6, 7, 8, 5, 6, 7, 8])  # a start and four tokens, twice


def ones_at(*places: tuple[int, int], pos: int = 9) -> torch.Tensor:
    A = torch.zeros(pos, pos)
    for place in places:
        A[place] = 1.0
    return A


INDUCTION = ones_at((5, 2), (6, 3), (7, 4), (8, 5))
DUPLICATE = ones_at((5, 1), (6, 2), (7, 3), (8, 4))
PREVIOUS = ones_at(*((i, i - 1) for i in range(1, 9)))


@pytest.mark.parametrize(
    ("A", "scores"),
    [(INDUCTION, (1, 0, 0)), (DUPLICATE, (0, 1, 0)), (PREVIOUS, (0, 0, 1))],
    ids=["induction", "duplicate", "previous"],
)
def test_each_score_is_one_for_its_own_head_and_zero_for_the_others(A, scores):
    found = (
        induction_score(A, TWICE),
        duplicate_token_score(A, TWICE),
        previous_token_score(A),
    )
    assert [float(score) for score in found] == list(scores)


def test_offsets_to_the_index():
    """The queries are 5 to 8; the key that followed an earlier occurrence is 3 back."""
    assert followers(TWICE).nonzero().tolist() == [[5, 2], [6, 3], [7, 4], [8, 5]]
    assert duplicates(TWICE).nonzero().tolist() == [[5, 1], [6, 2], [7, 3], [8, 4]]
    assert previous_tokens(4).nonzero().tolist() == [[1, 0], [2, 1], [3, 2]]


def test_three_copies_offer_two_keys_and_both_count():
    tokens = torch.tensor([0, 5, 6, 5, 6, 5, 6])
    assert followers(tokens)[6].nonzero().flatten().tolist() == [3, 5]
    A = torch.zeros(7, 7)
    A[3, 2], A[4, 3], A[5, 2], A[5, 4], A[6, 3], A[6, 5] = 1.0, 1.0, 0.25, 0.75, 0.5, 0.5
    assert float(induction_score(A, tokens)) == 1.0


def test_a_token_is_not_its_own_follower():
    """In "a a" what followed the first a is the second itself: looking there shows nothing."""
    assert not followers(torch.tensor([3, 3])).any()
    with pytest.raises(ValueError, match="wants a key"):
        induction_score(torch.eye(2), torch.tensor([3, 3]))


def test_the_whole_diagonal_is_the_wrong_denominator():
    """Cases: six cells lie three back, four of them in the second copy."""
    assert round(float(INDUCTION.diagonal(-3).mean()), 3) == 0.667
    assert float(induction_score(INDUCTION, TWICE)) == 1.0


def test_all_heads_of_all_layers_at_once():
    A = pattern(normal(0, 3, 2, 4, 9, 9), causal_mask(9))  # layer batch head query key
    tokens = torch.stack([TWICE, TWICE + 1])
    scores = induction_score(A, tokens)
    assert scores.shape == (3, 4)
    for layer in range(3):
        for head in range(4):
            rows = [induction_score(A[layer, row, head], tokens[row]) for row in range(2)]
            torch.testing.assert_close(scores[layer, head], sum(rows) / 2)
    assert previous_token_score(A[:, 0]).shape == (3, 4)
    assert induction_score(A[0, 0], TWICE).shape == (4,)
    assert induction_score(A[0, :, 0], tokens).shape == ()


def test_rows_with_more_queries_weigh_more():
    tokens = torch.tensor([[0, 5, 6, 7, 5, 6], [0, 1, 2, 3, 4, 1]])
    A = torch.zeros(2, 6, 6)
    A[0, 4, 2] = A[0, 5, 3] = 1.0
    torch.testing.assert_close(induction_score(A, tokens), torch.tensor(2 / 3))


@given(st.integers(2, 7), st.integers(0, 100))
def test_a_score_is_the_mean_of_what_is_wanted(pos, seed):
    A = pattern(normal(seed, pos, pos), causal_mask(pos))
    wanted = normal(seed + 1, pos, pos) > 0
    wanted[-1, 0] = True
    rows = [A[i][wanted[i]].sum() for i in range(pos) if wanted[i].any()]
    torch.testing.assert_close(detect(A, wanted), torch.stack(rows).mean())


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match="give the pattern"):
        induction_score(torch.full((9, 9), -2.0), TWICE)
    with pytest.raises(ValueError, match="between nan and nan"):
        previous_token_score(torch.full((3, 3), torch.nan))
    with pytest.raises(ValueError, match="occur twice"):
        induction_score(torch.eye(3), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="give two or more"):
        previous_token_score(torch.ones(1, 1))
    with pytest.raises(ShapeError, match=r"with key = 3"):
        induction_score(torch.eye(3), TWICE)
    with pytest.raises(ShapeError, match="layer"):
        detect(torch.zeros(2, 4, 9, 9), duplicates(torch.stack([TWICE] * 3)))


def test_the_pattern_is_left_alone():
    A = INDUCTION.clone()
    induction_score(A, TWICE)
    assert (A == INDUCTION).all()
