"""Heads: their weights, and everything that happens when they look at the stream."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.attention import mask_scores, mix, pattern, project, scores, write
from tinyattn.shapes import ShapeError, describe, typed


@typed
@dataclass(frozen=True, eq=False, repr=False)
class Head:
    """The weights of one head: what it asks, what it offers, what it carries, where it writes.

    Queries and keys share the width ``d_head``; values may have another, ``d_value``. Every
    weight acts from the right. A head has no output bias: ``b_O`` belongs to the layer.

    Raises:
        ShapeError: If two weights do not fit each other.

    Examples:
        >>> import torch
        >>> from tinyattn import Head
        >>> W = torch.ones(4, 2)
        >>> Head(W_Q=W, W_K=W, W_V=W, W_O=W.T)
        Head(d_model=4, d_head=2, d_value=2)

    Source: Elhage et al. (2021), "Attention Heads as Information Movement".
    """

    W_Q: Float[Tensor, "d_model d_head"]
    W_K: Float[Tensor, "d_model d_head"]
    W_V: Float[Tensor, "d_model d_value"]
    W_O: Float[Tensor, "d_value d_model"]
    b_Q: Float[Tensor, " d_head"] | None = None
    b_K: Float[Tensor, " d_head"] | None = None
    b_V: Float[Tensor, " d_value"] | None = None

    @property
    def d_model(self) -> int:
        """Width of the stream."""
        return self.W_Q.shape[0]

    @property
    def d_head(self) -> int:
        """Width of a query and of a key."""
        return self.W_Q.shape[1]

    @property
    def d_value(self) -> int:
        """Width of a value."""
        return self.W_V.shape[1]

    def __repr__(self) -> str:
        return f"Head(d_model={self.d_model}, d_head={self.d_head}, d_value={self.d_value})"


@typed
@dataclass(frozen=True, eq=False, repr=False)
class Heads:
    """The heads of one layer, side by side along an axis of their own.

    Each head has queries and an output weight of its own. Keys and values may be shared by groups
    of neighbouring heads: query head ``h`` reads key and value head ``h // group``. As many as
    there are heads is multi-head attention, fewer is grouped-query, one is multi-query attention.

    ``heads[i]`` is one :class:`Head`; negative numbers count from the end.

    Raises:
        ShapeError: If two weights do not fit each other.
        ValueError: If the heads cannot be divided evenly among the keys and values.

    Examples:
        >>> import torch
        >>> from tinyattn import Heads
        >>> W = torch.ones(4, 8, 2)
        >>> Heads(W_Q=W, W_K=W[:2], W_V=W[:2], W_O=W.mT)
        Heads(n_heads=4, n_kv_heads=2, d_model=8, d_head=2, d_value=2)

    Source: Vaswani et al. (2017), section 3.2.2; Ainslie et al. (2023), section 2.2.
    """

    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "kv_head d_model d_head"]
    W_V: Float[Tensor, "kv_head d_model d_value"]
    W_O: Float[Tensor, "head d_value d_model"]
    b_Q: Float[Tensor, "head d_head"] | None = None
    b_K: Float[Tensor, "kv_head d_head"] | None = None
    b_V: Float[Tensor, "kv_head d_value"] | None = None

    def __post_init__(self) -> None:
        if self.n_kv_heads == 0 or self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"Heads: {self.n_heads} query heads cannot be divided among {self.n_kv_heads} key "
                f"and value heads: choose a number that divides {self.n_heads}"
            )

    @property
    def n_heads(self) -> int:
        """Number of query heads, which is the number of writes."""
        return self.W_Q.shape[0]

    @property
    def n_kv_heads(self) -> int:
        """Number of key and value heads."""
        return self.W_K.shape[0]

    @property
    def group(self) -> int:
        """How many query heads share one key and value head."""
        return self.n_heads // self.n_kv_heads

    def __len__(self) -> int:
        return self.n_heads

    def __getitem__(self, head: int) -> Head:
        """One head by its number, with the keys and values of its group.

        Raises:
            IndexError: If there is no head of that number.
            TypeError: If it is no whole number.
        """
        if not isinstance(head, int) or isinstance(head, bool):
            raise TypeError(f"Heads: head is {head!r}: give one whole number")
        if not -self.n_heads <= head < self.n_heads:
            raise IndexError(f"Heads: no head {head} among n_heads = {self.n_heads}")
        head %= self.n_heads
        shared = head // self.group
        biases = ((self.b_Q, head), (self.b_K, shared), (self.b_V, shared))
        b_Q, b_K, b_V = (None if b is None else b[number] for b, number in biases)
        return Head(
            self.W_Q[head], self.W_K[shared], self.W_V[shared], self.W_O[head], b_Q, b_K, b_V
        )

    def __repr__(self) -> str:
        d_model, d_head, d_value = *self.W_Q.shape[1:], self.W_V.shape[-1]
        return (
            f"Heads(n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}, "
            f"d_model={d_model}, d_head={d_head}, d_value={d_value})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Attended:
    """What a head did, step by step: every intermediate under its own name.

    ``scores`` are what the softmax saw: scaled, and −∞ where the mask forbids. ``out`` is the
    head's write, to be added to the stream. Of a layer's :class:`Heads`, every step has an axis
    ``head`` before its last two, and the layer's write is ``out.sum(dim=-3)``.
    """

    q: Float[Tensor, "*batch query d_head"]
    k: Float[Tensor, "*batch key d_head"]
    v: Float[Tensor, "*batch key d_value"]
    scores: Float[Tensor, "*batch query key"]
    pattern: Float[Tensor, "*batch query key"]
    z: Float[Tensor, "*batch query d_value"]
    out: Float[Tensor, "*batch pos d_model"]

    def __repr__(self) -> str:
        return f"Attended({', '.join(f'{name}={describe(t)}' for name, t in vars(self).items())})"


@typed
def attend(
    x: Float[Tensor, "*batch pos d_model"],
    head: Head | Heads,
    mask: Bool[Tensor, "*mask query key"] | None = None,
    *,
    source: Float[Tensor, "*batch source d_model"] | None = None,
    past: Attended | None = None,
) -> Attended:
    """Let a head, or all heads of a layer, look at the stream, and keep every step.

    Args:
        x: The stream before the head, a row for each position that reads.
        head: The weights.
        mask: True = may look, as :func:`tinyattn.mask_scores` takes it. ``causal_mask(pos)``
            hides the future; None hides nothing.
        source: The stream that is read, if it is another one than ``x`` (cross-attention).
        past: What the same head did at earlier positions. Its keys and values are read as well,
            and come first: this is the cache. Queries are not kept, since nobody asks again.

    Raises:
        ShapeError: If the stream and the head differ in ``d_model``, dtype or device, or if
            ``past`` has keys or values of another width, batch, dtype or device.
        ValueError: If a query may see no key.

    Examples:
        >>> import torch
        >>> from tinyattn import Head, attend, causal_mask
        >>> one = torch.ones(2, 1)
        >>> step = attend(torch.eye(2), Head(one, one, one, one.T), causal_mask(2))
        >>> step.pattern.tolist()
        [[1.0, 0.0], [0.5, 0.5]]

    Source: Vaswani et al. (2017), section 3.2.
    """
    read = x if source is None else source
    q = _read(x, head.W_Q, head.b_Q)
    k = _read(read, head.W_K, head.b_K)
    v = _read(read, head.W_V, head.b_V)
    if isinstance(head, Heads):
        k, v = (t.repeat_interleave(head.group, dim=-3) for t in (k, v))
    if past is not None:
        k, v = (_behind(past, name, new) for name, new in (("k", k), ("v", v)))
    S = scores(q, k)
    if mask is not None:
        S = mask_scores(S, mask)
    A = pattern(S)
    z = mix(A, v)
    out = write(z, head.W_O) if isinstance(head, Head) else z @ head.W_O
    return Attended(q=q, k=k, v=v, scores=S, pattern=A, z=z, out=out)


def _behind(past: Attended, name: str, new: Tensor) -> Tensor:
    """Put new keys or values behind those of earlier positions."""
    old: Tensor = getattr(past, name)
    fits = (old.shape[:-2], old.shape[-1:]) == (new.shape[:-2], new.shape[-1:])
    if not fits or (old.dtype, old.device) != (new.dtype, new.device):
        raise ShapeError(
            f"attend: past.{name} is {describe(old)} on {old.device} and the new {name} is "
            f"{describe(new)} on {new.device}: they may differ only in the number of positions, "
            f"so past must be of the same head and batch"
        )
    return torch.cat([old, new], dim=-2)


def _read(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    """Project with one weight, or with a weight for each head in one product."""
    if W.ndim == 2:
        return project(x, W, b)
    side_by_side = W.transpose(0, 1).flatten(1)
    return split_heads(project(x, side_by_side, None if b is None else b.flatten()), W.shape[0])


@typed
def split_heads(
    t: Float[Tensor, "*batch pos d_model"], n_heads: int
) -> Float[Tensor, "*batch head pos d_head"]:
    """Cut every position's vector into equal slices, one for each head.

    The cut comes first and the swap of axes after it. Viewing straight to [head, pos, d_head]
    gives the same shape and mixes positions.

    Raises:
        ValueError: If the width cannot be divided evenly among the heads.

    Examples:
        >>> import torch
        >>> from tinyattn import split_heads
        >>> x = torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])
        >>> split_heads(x, 2).tolist()
        [[[0.0, 1.0], [4.0, 5.0]], [[2.0, 3.0], [6.0, 7.0]]]
    """
    d_model = t.shape[-1]
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(
            f"split_heads: d_model = {d_model} cannot be divided among n_heads = {n_heads}: "
            f"choose a number of heads that divides {d_model}"
        )
    return t.unflatten(-1, (n_heads, d_model // n_heads)).transpose(-3, -2)


@typed
def merge_heads(
    t: Float[Tensor, "*batch head pos d_head"],
) -> Float[Tensor, "*batch pos d_model"]:
    """Lay the slices of all heads side by side again: the inverse of :func:`split_heads`.

    Examples:
        >>> import torch
        >>> from tinyattn import merge_heads
        >>> z = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
        >>> merge_heads(z).tolist()
        [[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]
    """
    return t.transpose(-3, -2).flatten(-2)
