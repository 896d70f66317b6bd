"""What a head does, told by where it looks: scores of a pattern between 0 and 1.

A detector says which keys each query should read. A head's score is how much weight it puts there,
averaged over the queries that have such a key at all. The first position after a start token has
no previous copy, so it is left out of the average; it is not counted as a miss.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tinyattn.shapes import ShapeError, describe, inspectable, typed


@typed
def detect(
    pattern: Float[Tensor, "*whole query key"], wanted: Bool[Tensor, "*batch query key"]
) -> Float[Tensor, "*shared"]:
    """How much of its attention a head spends where it is wanted: 1 is all of it, 0 is none.

    Args:
        pattern: Of one head; of many, [*batch head query key]; or of all layers,
            [layer *batch head query key].
        wanted: True where a key is wanted. With batch axes, if rows differ.

    Returns:
        One number for one head, [head] for many, [layer head] for all layers. It is the mean over
        the queries that want a key, in all rows of the batch.

    Raises:
        ShapeError: If the leading axes do not fit.
        ValueError: If no query wants a key, or the pattern holds no weights between 0 and 1.

    Examples:
        >>> import torch
        >>> from tinyattn import detect
        >>> A = torch.tensor([[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.2, 0.5, 0.3]])
        >>> first = torch.zeros(3, 3, dtype=torch.bool)
        >>> first[1:, 0] = True
        >>> round(detect(A, first).item(), 3)
        0.475
    """
    leading, batch = pattern.shape[:-2], wanted.shape[:-2]
    layers = len(leading) - len(batch) - 1  # axes before those of the batch
    if layers > 1 or leading[max(0, layers) :][: len(batch)] != batch:
        raise ShapeError(
            f"detect: pattern is {describe(pattern)} and wanted is {describe(wanted)}: the axes of "
            f"pattern are [layer *batch head query key], with layer and head left out if there is "
            f"one, and those of wanted [*batch query key]"
        )
    if inspectable(pattern):
        _check(pattern, wanted)
    asking = wanted.any(dim=-1)
    if layers >= 0:  # there is an axis of heads
        wanted = wanted.unsqueeze(-3)
    weight = pattern.masked_fill(~wanted, 0.0).sum(dim=-1)
    axes = [axis + max(0, layers) for axis in range(len(batch))]
    return weight.sum(dim=[*axes, -1]) / asking.sum()


@typed
def previous_token_score(pattern: Float[Tensor, "*whole query key"]) -> Float[Tensor, "*shared"]:
    """Score how much position i reads of position i − 1, for i from 1 on.

    Args:
        pattern: [query key], [head query key] or [layer head query key]. Rows of a batch go
            through :func:`detect` with :func:`previous_tokens`.

    Raises:
        ValueError: If there is one position only, or the pattern holds no weights.

    Examples:
        >>> import torch
        >>> from tinyattn import previous_token_score
        >>> previous_token_score(torch.eye(4).roll(-1, dims=-1))
        tensor(1.)

    Source: Elhage et al. (2021), "Two-Layer Attention-Only Transformers".
    """
    if pattern.shape[-1] < 2:
        raise ValueError(
            f"previous_token_score: pattern is {describe(pattern)}, and a single position has none "
            f"before it: give two or more"
        )
    return detect(pattern, previous_tokens(pattern.shape[-1], pattern.device))


@typed
def duplicate_token_score(
    pattern: Float[Tensor, "*whole query key"], tokens: Int[Tensor, "*batch key"]
) -> Float[Tensor, "*shared"]:
    """Score how much a token reads of its own earlier occurrences, where it has any.

    Raises:
        ValueError: If no token occurs twice, or the pattern holds no weights.

    Examples:
        >>> import torch
        >>> from tinyattn import duplicate_token_score
        >>> A = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.75, 0.0, 0.25]])
        >>> duplicate_token_score(A, torch.tensor([4, 2, 4]))
        tensor(0.7500)

    Source: Wang et al. (2022), section 3 (duplicate token heads).
    """
    return detect(pattern, duplicates(tokens))


@typed
def induction_score(
    pattern: Float[Tensor, "*whole query key"], tokens: Int[Tensor, "*batch key"]
) -> Float[Tensor, "*shared"]:
    """Score how much a token reads of what followed its earlier occurrences, where it has any.

    In a block of p tokens that is repeated once, the one such key of query i is i − p + 1.

    Args:
        pattern: [query key], or [*batch head query key], or [layer *batch head query key].
        tokens: What the pattern is of. Measure on rows that repeat with lengths a model could not
            have learnt: a head that always looks as far back has an induction score of 1 where
            every block is as long.

    Raises:
        ValueError: If no token occurs twice, or the pattern holds no weights.

    Examples:
        >>> import torch
        >>> from tinyattn import induction_score
        >>> tokens = torch.tensor([0, 5, 6, 5, 6])
        >>> A = torch.zeros(5, 5)
        >>> A[3, 2] = A[4, 3] = 1.0
        >>> induction_score(A, tokens)
        tensor(1.)

    Source: Olsson et al. (2022), "Definition of Induction Heads" (prefix matching score).
    """
    return detect(pattern, followers(tokens))


def previous_tokens(pos: int, device: torch.device | None = None) -> Bool[Tensor, "query key"]:
    """True where a key is the position before its query."""
    return torch.ones(pos, pos, dtype=torch.bool, device=device).tril(-1).triu(-1)


@typed
def duplicates(tokens: Int[Tensor, "*batch key"]) -> Bool[Tensor, "*batch key key"]:
    """True where a key is an earlier occurrence of its query's token: a detector for wanting it."""
    same = tokens.unsqueeze(-1) == tokens.unsqueeze(-2)
    return same.tril(-1)


@typed
def followers(tokens: Int[Tensor, "*batch key"]) -> Bool[Tensor, "*batch key key"]:
    """True where a key follows an earlier occurrence of its query's token, and is not the query.

    Examples:
        >>> import torch
        >>> from tinyattn.detect import followers
        >>> followers(torch.tensor([5, 6, 5, 6])).nonzero().tolist()
        [[2, 1], [3, 2]]
    """
    wanted = torch.zeros_like(duplicates(tokens))
    wanted[..., 1:] = duplicates(tokens)[..., :-1]
    return wanted.tril(-1)


def _check(pattern: Tensor, wanted: Tensor) -> None:
    if not wanted.any():
        raise ValueError(
            f"detect: no query of wanted, {describe(wanted)}, wants a key: with tokens, give some "
            f"that occur twice"
        )
    if not pattern.numel():
        raise ValueError(f"detect: pattern is {describe(pattern)} and holds no head: give one")
    least, most = pattern.aminmax()
    if not (least >= -1e-4 and most <= 1 + 1e-4):
        raise ValueError(
            f"detect: entries of pattern lie between {least:g} and {most:g}, but a weight lies "
            f"between 0 and 1: give the pattern, which is the softmax of the scores"
        )
