"""The two circuits of a head, and how the circuits of two heads meet.

The QK circuit says who looks at whom: ``x @ W_QK @ x.T`` are the scores before scaling, the
reader on the left. The OV circuit says what is carried: with its pattern A, a head writes
``A @ x @ W_OV``. Each is one [d_model, d_model] matrix of rank d_head, kept here as
:class:`LowRank` and never multiplied out.

Every vector is a row. In the column convention W_QK is the same matrix and W_OV is transposed.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.attention import mix
from tinyattn.lowrank import LowRank
from tinyattn.pairs import shares_of_later
from tinyattn.shapes import ShapeError, describe, inspectable, typed


class Baseline(NamedTuple):
    """What a score would be by chance: its typical value, and how far it strays from there."""

    score: float
    spread: float


class Ends(NamedTuple):
    """The two ends of a direction: the tokens furthest along it, and those furthest against it."""

    high: list[str] | list[int]
    low: list[str] | list[int]


class Direction(NamedTuple):
    """One singular direction of a token circuit: which tokens it reads, and which it writes.

    A token at the high end of ``reads`` raises the high end of ``writes`` and lowers its low end;
    a token at the low end of ``reads`` does the opposite. Which end is called high is arbitrary,
    but it is the same for both. ``tied`` says that a neighbour is equally strong: then only the
    two together mean something, and each alone is an arbitrary mixture.
    """

    strength: float
    reads: Ends
    writes: Ends
    tied: bool


@typed
def qk_circuit(
    W_Q: Float[Tensor, "*batch d_model d_head"], W_K: Float[Tensor, "*shared d_model d_head"]
) -> LowRank:
    """Who looks at whom: the bilinear form whose left side is the reader, ``W_Q @ W_K.T``.

    ``x @ W_QK @ x.T / math.sqrt(d_head)`` are the head's scores. Where groups of heads share
    their keys, ``W_K`` has fewer heads than ``W_Q``, and head ``h`` uses number ``h // group``.

    Raises:
        ShapeError: If the weights differ in ``d_model``, ``d_head``, dtype or device.
        ValueError: If the heads cannot be divided evenly among the keys.

    Examples:
        >>> import torch
        >>> W_Q, W_K = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [2.0]])
        >>> qk_circuit(W_Q, W_K).dense().tolist()
        [[0.0, 2.0], [0.0, 0.0]]

    Source: Elhage et al. (2021), "Splitting Attention Head terms into Circuits".
    """
    return LowRank(W_Q, _for_each_head("qk_circuit", "W_K", W_K, "W_Q", W_Q).mT)


@typed
def ov_circuit(
    W_V: Float[Tensor, "*shared d_model d_value"], W_O: Float[Tensor, "*batch d_value d_model"]
) -> LowRank:
    """What is carried: the map from what is read to what is written, ``W_V @ W_O``.

    Where groups of heads share their values, ``W_V`` has fewer heads, as in :func:`qk_circuit`.

    Raises:
        ShapeError: If the weights differ in ``d_model``, ``d_value``, dtype or device.
        ValueError: If the heads cannot be divided evenly among the values.

    Examples:
        >>> import torch
        >>> ov_circuit(torch.ones(8, 2), torch.ones(2, 8))
        LowRank(float32[8, 8], rank 2)
        >>> ov_circuit(torch.ones(2, 8, 2), torch.ones(4, 2, 8))
        LowRank(float32[4, 8, 8], rank 2)

    Source: Elhage et al. (2021), "Splitting Attention Head terms into Circuits"; Ainslie et al.
    (2023), section 2.2.
    """
    return LowRank(_for_each_head("ov_circuit", "W_V", W_V, "W_O", W_O), W_O)


@typed
def full_qk(W_E: Float[Tensor, "d_vocab d_model"], qk: LowRank) -> LowRank:
    """Which token looks for which, seen through the embedding: ``W_E @ W_QK @ W_E.T``.

    Entry [a, b] is how well token a, reading, matches token b: no position, norm or bias in it.

    Raises:
        ShapeError: If embedding and circuit differ in ``d_model``, dtype or device.

    Examples:
        >>> import torch
        >>> qk = qk_circuit(torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [2.0]]))
        >>> full_qk(torch.eye(2), qk)[0].tolist()
        [0.0, 2.0]

    Source: Elhage et al. (2021), "Splitting Attention Head terms into Circuits".
    """
    _same_stream("full_qk", "W_E", W_E, "qk", qk)
    return W_E @ qk @ W_E.mT


@typed
def full_ov(
    W_E: Float[Tensor, "d_vocab d_model"], ov: LowRank, W_U: Float[Tensor, "d_model d_vocab"]
) -> LowRank:
    """What reading a token does to every logit: ``W_E @ W_OV @ W_U``.

    Entry [a, b] is what is added to the logit of token b for each unit of attention paid to
    token a. Positions, norms and biases are left out.

    Raises:
        ShapeError: If embedding, circuit and unembedding differ in ``d_model``, in ``d_vocab``,
            dtype or device.

    Examples:
        >>> import torch
        >>> ov = ov_circuit(torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0, 3.0]]))
        >>> full_ov(torch.eye(2), ov, torch.eye(2))[0].tolist()
        [0.0, 3.0]

    Source: Elhage et al. (2021), "Splitting Attention Head terms into Circuits".
    """
    _same_stream("full_ov", "W_E", W_E, "ov", ov)
    return W_E @ ov @ W_U


@typed
def head_write(
    A: Float[Tensor, "*batch query key"], x: Float[Tensor, "*shared key d_model"], ov: LowRank
) -> Float[Tensor, "*batch query d_model"]:
    """Everything a head does once its pattern is known: ``A @ x @ W_OV``, linear in ``x``.

    The pattern moves between positions and the circuit moves between directions; neither knows
    of the other, so the order of the two does not matter. The circuit is never formed.

    Args:
        A: ``A[i, j]``: position i reads, position j is read. Its leading axes are those of ``x``
            followed by those of ``ov``, which may hold several heads.
        x: The stream before the head.
        ov: What :func:`ov_circuit` returns.

    Raises:
        ShapeError: If the three do not fit.

    Examples:
        >>> import torch
        >>> ov = ov_circuit(torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0, 3.0]]))
        >>> A, x = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[2.0, 0.0], [4.0, 1.0]])
        >>> head_write(A, x, ov).tolist()
        [[0.0, 6.0], [0.0, 9.0]]

    Source: Elhage et al. (2021), "Attention Heads as Information Movement".
    """
    _same_stream("head_write", "x", x, "ov", ov)
    heads = ov.shape[:-2]
    if A.shape[:-2] != x.shape[:-2] + heads:
        raise ShapeError(
            f"head_write: A is {describe(A)}, but x is {describe(x)} and ov {ov}: its leading "
            f"axes must be {[*x.shape[:-2], *heads]}, a pattern for each entry of x and each head"
        )
    beside_heads = x.reshape(*x.shape[:-2], *[1] * len(heads), *x.shape[-2:])
    return mix(A, beside_heads @ ov.left) @ ov.right


@typed
def composition(
    first: LowRank,
    second: LowRank,
    kind: Literal["Q", "K", "V"],
    *,
    layers: tuple[int, int] | None = None,
) -> Float[Tensor, "*batch"]:
    """How much of what an earlier head writes a later head reads, from 0 to 1.

    It is ‖first · M‖ / (‖first‖ ‖M‖) in Frobenius norms. An earlier head writes ``x @ W_OV``, so
    its OV circuit always stands on the left. Three things can read it:

    - Q: the later head's queries, so what it looks for; M is its ``W_QK``.
    - K: the later head's keys, so by what it is found; M is its ``W_QK.T``.
    - V: the later head's values, so what it carries on; M is its ``W_OV``.

    Chance alone gives about 1/√d_model, see :func:`random_composition`. The score is 1 only for
    rank 1: two heads that share all of r equally strong directions reach 1/√r. It sees the
    weights alone: no norm, no pattern, no data. A circuit that is 0 composes with nothing: 0.

    Args:
        first: The earlier head's OV circuit.
        second: The later head's QK circuit for Q and K, its OV circuit for V.
        kind: Which of the three.
        layers: The layers of the two heads, if the order shall be checked.

    Raises:
        ShapeError: If the circuits differ in width, dtype or device.
        TypeError: If a layer is no number.
        ValueError: If the layer of ``first`` does not come before that of ``second``.

    Examples:
        >>> import torch
        >>> both = ov_circuit(torch.eye(4), torch.eye(4))
        >>> composition(both, both, "V").item()
        0.5

    Source: Elhage et al. (2021), "Three Kinds of Composition", in the row convention.
    """
    if layers is not None and any(isinstance(layer, bool) for layer in layers):
        raise TypeError(f"composition: layers is {layers}: give two whole numbers")
    if layers is not None and not layers[0] < layers[1]:
        raise ValueError(
            f"composition: first is of layer {layers[0]} and second of layer {layers[1]}, but a "
            f"head reads only what earlier layers wrote: the first layer must be the smaller"
        )
    _same_stream("composition", "first", first, "second", second)
    read = (second.T if kind == "K" else second).levelled()
    wrote = first.levelled()
    share = _share((wrote @ read).norm(), wrote.norm(), read.norm())
    return share.to(first.left.dtype)


@typed
def compositions(
    first: LowRank, second: LowRank, kind: Literal["Q", "K", "V"]
) -> Float[Tensor, "layer head layer head"]:
    """All composition scores of a model: ``[i, g, j, h]`` is head g of layer i into head h of j.

    Only a later layer can read an earlier one, so every entry with j ≤ i is 0.

    Both take leading axes [layer, head]; which circuits they are is as in :func:`composition`.

    Raises:
        ShapeError: If the circuits differ in width, in layers or heads, in dtype or device.

    Examples:
        >>> import torch
        >>> ov = ov_circuit(torch.eye(4).expand(2, 1, 4, 4), torch.eye(4).expand(2, 1, 4, 4))
        >>> compositions(ov, ov, "V")[:, 0, :, 0].tolist()
        [[0.0, 0.5], [0.0, 0.0]]

    Source: Elhage et al. (2021), "Three Kinds of Composition".
    """
    if len(first.shape) != 4 or first.shape[:2] != second.shape[:2]:
        raise ShapeError(
            f"compositions: first is {first} and second {second}: both need leading axes "
            f"[layer, head], and the same number of each"
        )
    _same_stream("compositions", "first", first, "second", second)
    return shares_of_later(first, second.T if kind == "K" else second)


@typed
def random_composition(d_model: int, d_head: int) -> Baseline:
    """The composition score of two heads with independent normal weights, and its spread.

    Turn one circuit at random against the other, and the mean of the squared score is exactly
    1/d_model, whatever the two are. For two flat circuits of rank r the variance of the squared
    score is 2 (1/r − 1/d)² / ((d − 1)(d + 2)), and a product of two normal factors is as uneven
    as 1/r = 1/d_head + 2/d_model. To first order the score's spread is then
    (1/d_head + 1/d_model) / √(2 d_model), for d_head at most half of d_model.

    Raises:
        ValueError: If ``d_head`` is not between 1 and ``d_model``.

    Examples:
        >>> chance = random_composition(d_model=768, d_head=64)
        >>> round(chance.score, 4), round(chance.spread, 4)
        (0.0361, 0.0004)

    Source: derived, by averaging over rotations; the test compares it with drawn heads.
    """
    if not 1 <= d_head <= d_model:
        raise ValueError(
            f"random_composition: 1 ≤ d_head = {d_head} ≤ d_model = {d_model} must hold"
        )
    return Baseline(d_model**-0.5, (1 / d_head + 1 / d_model) / math.sqrt(2 * d_model))


@typed
def copying(circuit: LowRank) -> Float[Tensor, "*batch"]:
    """Does a circuit give back what it reads? 1 if it raises it, −1 if it lowers it.

    It is the sum of the eigenvalues over the sum of their magnitudes. Complex eigenvalues come in
    pairs, so the sum is real; it is the trace. A circuit without eigenvalues other than 0 does
    neither: 0. Only what comes back to the same place counts: raising one token for another is
    invisible here.

    Over tokens, the circuit is :func:`full_ov`. Its eigenvalues are also those of
    ``ov @ (W_U @ W_E)``, which is only [d_model, d_model] and does for all heads at once.

    Raises:
        ShapeError: If the circuit is not square.
        ValueError: If an entry is NaN or infinite.

    Examples:
        >>> import torch
        >>> copying(ov_circuit(torch.eye(2), torch.eye(2))).item()
        1.0
        >>> copying(ov_circuit(torch.eye(2), torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))).item()
        0.0

    Source: Elhage et al. (2021), "Summarizing OV/QK Matrices".
    """
    wide = circuit.levelled()
    values = wide.eigenvalues()
    total = values.abs().sum(dim=-1)
    floor = torch.finfo(torch.promote_types(circuit.left.dtype, torch.float32)).eps * circuit.rank
    nothing = total <= floor * wide.norm()
    score = values.real.sum(dim=-1) / total.masked_fill(nothing, 1.0)
    return score.masked_fill(nothing, 0.0).clamp(-1, 1).to(circuit.left.dtype)


@typed
def random_copying(d_head: int) -> Baseline:
    """The copying score of a head with independent normal weights, and its spread.

    With d_head well below d_model the eigenvalues fill a disc evenly. Their mean distance from 0
    is two thirds of its radius, and their sum strays by the radius, so the score strays by
    1.5/d_head around 0. Near d_head = d_model it comes closer to 2/d_head.

    Raises:
        ValueError: If ``d_head`` is less than 1.

    Examples:
        >>> random_copying(64).score, round(random_copying(64).spread, 3)
        (0.0, 0.023)

    Source: the circular law (Ginibre 1965); the test compares it with drawn heads.
    """
    if d_head < 1:
        raise ValueError(f"random_copying: d_head is {d_head}, but must be 1 or more")
    return Baseline(0.0, 1.5 / d_head)


@typed
def svd_tokens(
    full: LowRank, k: int, vocabulary: Sequence[str] | None = None, *, top: int = 5
) -> list[Direction]:
    """The strongest things a head does, in tokens: which it reads and which it then writes.

    Args:
        full: One head's :func:`full_ov` circuit, tokens read × tokens written.
        k: How many directions, strongest first.
        vocabulary: The token of each number; numbers are given, if left out.
        top: At most how many tokens at each end. A token the direction does not touch is left
            out, so an end may be shorter, or empty.

    Raises:
        ShapeError: If the circuit has leading axes.
        ValueError: If there are fewer directions than ``k``, or the vocabulary does not fit.

    Examples:
        >>> import torch
        >>> ov = ov_circuit(torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0, 3.0]]))
        >>> first = svd_tokens(full_ov(torch.eye(2), ov, torch.eye(2)), 1, ["cat", "dog"])[0]
        >>> first.strength, first.reads.high, first.writes.high, first.writes.low
        (3.0, ['cat'], ['dog'], [])

    Source: Millidge and Black (2022), "The Singular Value Decompositions of Transformer Weight
    Matrices are Highly Interpretable".
    """
    if len(full.shape) != 2:
        raise ShapeError(f"svd_tokens: full is {full}, but must be one head's: pick one, full[0]")
    if not inspectable(full.left):
        raise ValueError(f"svd_tokens: full is {full} on {full.left.device} and has no values")
    misfit = vocabulary is not None and {len(vocabulary)} != set(full.shape)
    if misfit or isinstance(vocabulary, str):
        raise ValueError(
            f"svd_tokens: vocabulary is a {type(vocabulary).__name__} of {len(vocabulary or ())} "
            f"and full is {full}: give a list with one token for each row and each column"
        )
    U, S, Vh = full.svd()
    eps = torch.finfo(S.dtype).eps
    strengths = S[S[:1] * eps * max(full.shape) < S].tolist()
    if not 0 < k <= len(strengths) or top < 1:
        raise ValueError(
            f"svd_tokens: k is {k} and top is {top}, but full has {len(strengths)} directions "
            f"that are not 0: use 1 ≤ k ≤ {len(strengths)} and top ≥ 1"
        )
    found = []
    for index in range(k):
        beside = strengths[max(index - 1, 0) : index] + strengths[index + 1 : index + 2]
        tied = any(abs(other - strengths[index]) <= 1000 * eps * strengths[0] for other in beside)
        reads, writes = (_ends(side, top, vocabulary) for side in (U[:, index], Vh[index]))
        found.append(Direction(strengths[index], reads, writes, tied))
    return found


def _ends(direction: Tensor, top: int, vocabulary: Sequence[str] | None) -> Ends:
    """The tokens furthest along a unit vector and against it, without those it does not touch."""
    found: list[Any] = []
    for side in (direction, -direction):
        weights, tokens = (t[:top] for t in side.sort(descending=True, stable=True))
        numbers = tokens[weights > 10 * torch.finfo(direction.dtype).eps].tolist()
        found.append(numbers if vocabulary is None else [vocabulary[n] for n in numbers])
    return Ends(*found)


def _share(product: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """A norm as a share of the most it could be, and 0 where there is nothing to share."""
    nothing = (first == 0) | (second == 0)
    first, second = (norm.masked_fill(nothing, 1.0) for norm in (first, second))
    return (product / first / second).clamp(max=1.0)


def _same_stream(function: str, name: str, one: Tensor | LowRank, of: str, other: LowRank) -> None:
    """Check that two things live in one stream: same width, dtype and device."""
    thing, said = (one, describe(one)) if isinstance(one, Tensor) else (one.left, repr(one))
    width, are = one.shape[-1], f"{function}: {name} is {said} and {of} is {other}"
    if other.shape[-2:] != (width, width):
        raise ShapeError(f"{are}: both share one d_model, so {of} must be {width} × {width}")
    if thing.device != other.left.device:
        raise ShapeError(f"{are}, on {thing.device} and {other.left.device}: move one")
    if thing.dtype != other.left.dtype:
        raise ShapeError(f"{are}, but the dtypes differ: convert one")


def _for_each_head(function: str, name: str, few: Tensor, of: str, many: Tensor) -> Tensor:
    """Give each head the weight of its group."""
    if few.shape[:-2] == many.shape[:-2]:
        return few
    fits = few.ndim == many.ndim > 2 and few.shape[:-3] == many.shape[:-3] and few.shape[-3] > 0
    if not fits or many.shape[-3] % few.shape[-3]:
        raise ValueError(
            f"{function}: {name} is {describe(few)} and {of} is {describe(many)}: the axis "
            f"before the last two counts heads, and {of}'s must be {name}'s or a multiple of it"
        )
    return few.repeat_interleave(many.shape[-3] // few.shape[-3], dim=-3)
