"""One head: its weights, and everything that happens when it looks at the stream."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from tinyattn.attention import mask_scores, mix, pattern, project, scores, write
from tinyattn.shapes import describe, typed


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


@dataclass(frozen=True, eq=False, repr=False)
class Attended:
    """What one head did, step by step: every intermediate under its own name.

    ``scores`` are what the softmax saw: scaled, and −∞ where the mask forbids. ``out`` is the
    head's write, to be added to the stream.
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
    head: Head,
    mask: Bool[Tensor, "*mask query key"] | None = None,
) -> Attended:
    """Let a head look at the stream, and keep every step.

    Args:
        x: The stream before the head.
        head: Its weights.
        mask: True = may look, as :func:`tinyattn.mask_scores` takes it. ``causal_mask(pos)``
            hides the future; None hides nothing.

    Raises:
        ShapeError: If the stream and the head differ in ``d_model``, dtype or device.
        ValueError: If a query may see no key.

    Examples:
        >>> import torch
        >>> from tinyattn import causal_mask
        >>> one = torch.ones(2, 1)
        >>> step = attend(torch.eye(2), Head(one, one, one, one.T), causal_mask(2))
        >>> step.pattern.tolist()
        [[1.0, 0.0], [0.5, 0.5]]

    Source: Vaswani et al. (2017), section 3.2.
    """
    q = project(x, head.W_Q, head.b_Q)
    k = project(x, head.W_K, head.b_K)
    v = project(x, head.W_V, head.b_V)
    S = scores(q, k)
    if mask is not None:
        S = mask_scores(S, mask)
    A = pattern(S)
    z = mix(A, v)
    return Attended(q=q, k=k, v=v, scores=S, pattern=A, z=z, out=write(z, head.W_O))


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
        >>> z = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
        >>> merge_heads(z).tolist()
        [[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]
    """
    return t.transpose(-3, -2).flatten(-2)
