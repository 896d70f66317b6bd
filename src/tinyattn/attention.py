"""One attention head, in the order in which it happens.

Every vector is a row, so a weight acts from the right: ``x @ W``. Rows of a score or pattern
matrix are the positions that read, columns the positions that are read. A mask is boolean, and
True means "may look".

    project → scores → (mask_scores) → pattern → mix → write
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.shapes import describe, inspectable, typed


@typed
def project(
    x: Float[Tensor, "*batch pos d_model"],
    W: Float[Tensor, "d_model d_head"],
    b: Float[Tensor, " d_head"] | None = None,
) -> Float[Tensor, "*batch pos d_head"]:
    """Read the stream: what each position's vector looks like through one weight.

    The same function makes queries, keys and values; only the weight differs.

    Args:
        x: The stream, one row for each position.
        W: ``W_Q``, ``W_K`` or ``W_V`` of one head.
        b: Its bias, if the head has one.

    Raises:
        ShapeError: If the stream and the weight differ in ``d_model``, or in dtype or device.

    Examples:
        >>> import torch
        >>> from tinyattn import project
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> project(x, torch.tensor([[1.0], [10.0]])).tolist()
        [[21.0], [43.0]]

    Source: Vaswani et al. (2017), section 3.2.2.
    """
    read = x @ W
    return read if b is None else read + b


@typed
def scores(
    q: Float[Tensor, "*batch query d_head"], k: Float[Tensor, "*batch key d_head"]
) -> Float[Tensor, "*batch query key"]:
    """How well each query matches each key, in units of one standard deviation.

    Independent entries of mean 0 and variance 1 give a dot product of variance ``d_head``;
    dividing by its square root brings the spread back to 1 before the softmax. The query is
    divided, which is the same in exact arithmetic and overflows later in half precision.

    Raises:
        ShapeError: If queries and keys differ in width, batch axes, dtype or device.
        ValueError: If ``d_head`` is 0, since there is nothing to compare.

    Examples:
        >>> import torch
        >>> from tinyattn import scores
        >>> q, k = torch.ones(1, 4), torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
        >>> scores(q, k).tolist()
        [[2.0, 1.0]]

    Source: Vaswani et al. (2017), section 3.2.1.
    """
    d_head = q.shape[-1]
    if d_head == 0:
        raise ValueError(f"scores: q is {describe(q)}, so d_head is 0: give each vector an entry")
    return (q / math.sqrt(d_head)) @ k.mT


@typed
def causal_mask(
    query: int, key: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "query key"]:
    """Let each position look at itself and at everything before it. True means "may look".

    With fewer queries than keys, the queries are the last positions, so that a single new query
    sees all keys: the mask is anchored at the bottom right.

    Args:
        query: How many positions read.
        key: How many positions are read; as many as read, if left out.
        device: Where the mask will be used; pass ``scores.device``.

    Raises:
        ValueError: If there are more queries than keys, or a negative number of either.

    Examples:
        >>> from tinyattn import causal_mask
        >>> causal_mask(3).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
        >>> causal_mask(1, 3).int().tolist()
        [[1, 1, 1]]
    """
    key = query if key is None else key
    if not 0 <= query <= key:
        raise ValueError(
            f"causal_mask: {query} queries cannot be the last of {key} keys: "
            f"use 0 ≤ query ≤ key, or causal_mask({query}) for a square mask"
        )
    return torch.ones(query, key, dtype=torch.bool, device=device).tril(diagonal=key - query)


@typed
def mask_scores(
    scores: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*mask query key"]
) -> Float[Tensor, "*batch query key"]:
    """Put −∞ where a query may not look, so that the softmax gives it exactly nothing.

    −∞ is lower than every score in every dtype; a large negative number is not.

    Args:
        scores: As :func:`scores` returns them. They are left as they are.
        mask: True = may look (the polarity of ``F.scaled_dot_product_attention``; the masks of
            ``nn.MultiheadAttention`` mean the opposite, so hand over ``~mask`` there). Either
            [query, key] for all, or as many axes as the scores, each of size 1 or theirs.

    Raises:
        ShapeError: If the mask is not boolean.
        ValueError: If its axes could be meant in two ways, or do not fit.

    Examples:
        >>> import torch
        >>> from tinyattn import causal_mask, mask_scores
        >>> mask_scores(torch.zeros(2, 2), causal_mask(2)).tolist()
        [[0.0, -inf], [0.0, 0.0]]
    """
    wanted = scores.shape[:-2]
    given = mask.shape[:-2]
    if given and len(given) != len(wanted):
        axes = [*given, *[1] * (len(wanted) - len(given)), *mask.shape[-2:]]
        hint = f"reshape it, mask.reshape({axes})" if len(given) < len(wanted) else "drop axes"
        raise ValueError(
            f"mask_scores: mask is {describe(mask)} and scores are {describe(scores)}, so it is "
            f"unclear which axis is which: give mask {scores.ndim} axes ({hint} if its first "
            f"axis is the first of the scores), or [query, key] alone"
        )
    for axis, (size, room) in enumerate(zip(given, wanted, strict=False)):
        if size not in (1, room):
            raise ValueError(
                f"mask_scores: mask is {describe(mask)} and scores are {describe(scores)}: "
                f"axis {axis} of the mask is {size}, but must be 1 or {room}"
            )
    return scores.masked_fill(~mask, -math.inf)


@typed
def pattern(
    scores: Float[Tensor, "*batch query key"],
    mask: Bool[Tensor, "*mask query key"] | None = None,
) -> Float[Tensor, "*batch query key"]:
    """Turn each row of scores into weights that sum to one: how a query divides its attention.

    ``pattern[i, j]``: position i reads, position j is read. A key that may not be looked at
    weighs exactly 0, whatever its score, NaN included. A NaN that may be looked at makes its own
    row NaN and no other.

    Args:
        scores: As :func:`scores` returns them, already scaled.
        mask: True = may look, as :func:`mask_scores` takes it. None lets every query see every
            key.

    Raises:
        ValueError: If a query may see no key at all, or a score is +∞. Where values cannot be
            looked at (``torch.compile``, the meta device) such a row weighs 0 everywhere.

    Examples:
        >>> import torch
        >>> from tinyattn import pattern
        >>> odds = torch.tensor([[3.0, 1.0]])
        >>> [round(weight, 4) for weight in pattern(odds.log())[0].tolist()]
        [0.75, 0.25]

    Source: Vaswani et al. (2017), section 3.2.1.
    """
    seen = scores if mask is None else mask_scores(scores, mask)
    blind = seen.isneginf().all(dim=-1, keepdim=True)
    if inspectable(seen):
        _refuse(seen, blind)
    return seen.masked_fill(blind, 0.0).softmax(dim=-1).masked_fill(blind, 0.0)


@typed
def mix(
    pattern: Float[Tensor, "*batch query key"], v: Float[Tensor, "*batch key d_value"]
) -> Float[Tensor, "*batch query d_value"]:
    """Average the values under each query's weights: what each query takes in.

    A weight of exactly 0 reads nothing, not even NaN. No gradient flows through what does read it.

    Raises:
        ShapeError: If pattern and values differ in the number of keys, batch axes or dtype.

    Examples:
        >>> import torch
        >>> from tinyattn import mix
        >>> mix(torch.tensor([[0.75, 0.25]]), torch.tensor([[0.0, 4.0], [8.0, 0.0]])).tolist()
        [[2.0, 3.0]]
    """
    if inspectable(v) and v.isfinite().all():
        return pattern @ v
    wild = ~v.isfinite()
    reads_it = (pattern != 0).to(v.dtype) @ wild.to(v.dtype) > 0
    # Without a gradient: 0 times NaN would reach the scores of rows that do not read it.
    z = pattern.detach() @ v.detach()
    return torch.where(reads_it, z, pattern @ v.masked_fill(wild, 0.0))


@typed
def write(
    z: Float[Tensor, "*batch pos d_value"], W_O: Float[Tensor, "d_value d_model"]
) -> Float[Tensor, "*batch pos d_model"]:
    """Turn what a head took in into a vector of the stream: the head's write.

    It is the difference the head makes, to be added to the stream, never the stream itself.

    Raises:
        ShapeError: If ``z`` and ``W_O`` differ in ``d_value``, or in dtype or device.

    Examples:
        >>> import torch
        >>> from tinyattn import write
        >>> write(torch.tensor([[2.0]]), torch.tensor([[1.0, 0.0, -1.0]])).tolist()
        [[2.0, 0.0, -2.0]]

    Source: Elhage et al. (2021), "Attention Heads as Information Movement".
    """
    return z @ W_O


def _refuse(seen: Tensor, blind: Tensor) -> None:
    """Raise for rows that have no softmax: nothing to see, or an infinite score."""
    if seen.isposinf().any():
        *batch, query, key = seen.isposinf().nonzero()[0].tolist()
        where = f"query {query}, key {key}" + (f" of batch entry {batch}" if batch else "")
        wider = "float32" if seen.dtype.itemsize < 4 else "float64"
        raise ValueError(
            f"pattern: the score of {where} is +inf in {describe(seen)}: compute the scores in "
            f"{wider}, or make them finite"
        )
    if blind.any():
        rows = sorted({place[-1] for place in blind[..., 0].nonzero().tolist()})
        raise ValueError(
            f"pattern: queries {rows} may see none of the {seen.shape[-1]} keys: give each row of "
            f"the mask at least one True (a padded query may look at itself)"
        )
