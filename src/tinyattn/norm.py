"""Norms: what a layer reads is the stream, brought to one size at every position.

A norm divides each position's vector by a number found in that vector alone. That number is all
that keeps it from being linear. Hold it still and a norm can be taken apart: the normalised parts
of a sum then add up to the normalised sum. What is linear in it, gain and bias, can be moved into
the weight that reads next.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from tinyattn.shapes import ShapeError, describe, inspectable, typed


@typed
def layer_norm(
    x: Float[Tensor, "*batch pos d_model"],
    gain: Float[Tensor, " d_model"] | None = None,
    bias: Float[Tensor, " d_model"] | None = None,
    eps: float | int = 1e-5,
    *,
    scale_of: Float[Tensor, "*whole pos d_model"] | None = None,
) -> Float[Tensor, "*batch pos d_model"]:
    """Give every position's vector mean 0 and standard deviation 1, then gain and bias.

    The deviation is the biased one (divide by ``d_model``), and ``eps`` stands under the root.

    Args:
        x: The stream, or a part of it.
        gain: Multiplies each entry.
        bias: Is added to each entry afterwards.
        eps: Keeps a constant vector from being divided by 0.
        scale_of: Divide by the deviation of this stream rather than that of ``x``. With the scale
            of the whole, the parts of a sum still sum to it.

    Raises:
        ShapeError: If a weight does not have the stream's width and dtype, or ``scale_of`` not
            its positions.
        ValueError: If ``eps`` is negative or not finite, or 0 where there is nothing to divide by.

    Examples:
        >>> import torch
        >>> layer_norm(torch.tensor([[1.0, 3.0, 1.0, 3.0]]), eps=0.0).tolist()
        [[-1.0, 1.0, -1.0, 1.0]]

    Source: Ba et al. (2016), section 3.
    """
    _check("layer_norm", x, eps, scale_of)
    if scale_of is None:
        return functional.layer_norm(x, x.shape[-1:], gain, bias, eps)
    centred = x - x.mean(dim=-1, keepdim=True)
    return _apply(centred / norm_scale(scale_of, eps), gain, bias)


@typed
def rms_norm(
    x: Float[Tensor, "*batch pos d_model"],
    gain: Float[Tensor, " d_model"] | None = None,
    eps: float | int = 1e-5,
    *,
    scale_of: Float[Tensor, "*whole pos d_model"] | None = None,
) -> Float[Tensor, "*batch pos d_model"]:
    """Give every position's vector a mean square of 1, then the gain. The mean stays.

    Args:
        x: The stream, or a part of it.
        gain: Multiplies each entry.
        eps: Keeps a vector of zeros from being divided by 0.
        scale_of: Divide by the scale of this stream rather than that of ``x``.

    Raises:
        ShapeError: If the gain does not have the stream's width and dtype, or ``scale_of`` not
            its positions.
        ValueError: If ``eps`` is negative or not finite, or 0 where there is nothing to divide by.

    Examples:
        >>> import torch
        >>> from tinyattn import show
        >>> print(show(rms_norm(torch.tensor([[1.0, 7.0]])), digits=1))
             0    1
        0  0.2  1.4

    Source: Zhang and Sennrich (2019), section 4.
    """
    _check("rms_norm", x, eps, scale_of, centred=False)
    # Before torch 2.5 its own norm overflows in halves.
    if scale_of is None and x.dtype not in (torch.float16, torch.bfloat16):
        return functional.rms_norm(x, x.shape[-1:], gain, eps)
    scale_of = x if scale_of is None else scale_of
    return _apply(x / norm_scale(scale_of, eps, centred=False), gain, None)


@typed
def norm_scale(
    x: Float[Tensor, "*batch pos d_model"], eps: float | int = 1e-5, *, centred: bool = True
) -> Float[Tensor, "*batch pos 1"]:
    """Find the number a norm divides each position by: the one part of it that is not linear.

    Args:
        x: The stream.
        eps: As the norm uses it.
        centred: True for layer norm (the deviation from the mean), False for RMS norm.

    Raises:
        ShapeError: If a vector has no entries.
        ValueError: If ``eps`` is negative, or not finite.

    Examples:
        >>> import torch
        >>> norm_scale(torch.tensor([[1.0, 7.0]]), 0.0).tolist()
        [[3.0]]
        >>> norm_scale(torch.tensor([[1.0, 7.0]]), 0.0, centred=False).tolist()
        [[5.0]]
    """
    _check("norm_scale", x, eps)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # a square soon overflows float16
    if centred:
        wide = wide - wide.mean(dim=-1, keepdim=True)
    return (wide.square().mean(dim=-1, keepdim=True) + eps).sqrt().to(x.dtype)


@typed
def fold_norm(
    W: Float[Tensor, "*batch d_model column"],
    b: Float[Tensor, "*batch column"] | None = None,
    *,
    gain: Float[Tensor, " d_model"] | None = None,
    bias: Float[Tensor, " d_model"] | None = None,
) -> tuple[Float[Tensor, "*batch d_model column"], Float[Tensor, "*batch column"]]:
    """Move a norm's gain and bias into the weight that reads the norm, and that weight's bias.

    The gain scales the rows of ``W``; the bias, read through ``W``, becomes a bias. The norm that
    remains has no weights, and what is read is the same. This needs a norm that stands directly
    before the weight. After a post-norm block the stream itself is what was normalised, other
    readers see its gain too, and there is nothing to move.

    Args:
        W: The weight that reads, or one for each head.
        b: Its bias.
        gain: The norm's gain.
        bias: The norm's bias.

    Returns:
        The weight and the bias that read the bare norm.

    Raises:
        ShapeError: If the norm's width is not the weight's.

    Examples:
        >>> import torch
        >>> W, b = fold_norm(torch.eye(2), gain=torch.tensor([2.0, 3.0]), bias=torch.ones(2))
        >>> W.tolist(), b.tolist()
        ([[2.0, 0.0], [0.0, 3.0]], [1.0, 1.0])
    """
    offset = W.new_zeros(*W.shape[:-2], W.shape[-1]) if b is None else b
    if bias is not None:
        offset = offset + bias @ W
    return (W if gain is None else gain[:, None] * W), offset


@typed
def centre(W: Float[Tensor, "*batch column"]) -> Float[Tensor, "*batch column"]:
    """Take out of every row its mean.

    A weight that writes (``W_O``, ``W_out``, ``W_E``) then never moves the mean of the stream,
    which layer norm takes out anyway. An unembedding then gives logits whose mean over the
    vocabulary is 0: a constant for each position, which no softmax sees. Under RMS norm a writer
    must not be centred: its mean is read.

    Examples:
        >>> import torch
        >>> centre(torch.tensor([[1.0, 3.0], [0.0, 0.0]])).tolist()
        [[-1.0, 1.0], [0.0, 0.0]]
    """
    return W - W.mean(dim=-1, keepdim=True)


def _check(
    function: str, x: Tensor, eps: float, scale_of: Tensor | None = None, *, centred: bool = True
) -> None:
    """Refuse what would end in NaN, and a scale of other positions than those it divides."""
    if not 0 <= eps < math.inf:
        raise ValueError(f"{function}: eps = {eps}: give a finite number, 0 or more")
    if not x.shape[-1]:
        raise ShapeError(f"{function}: x is {describe(x)}, so d_model is 0: there is no mean")
    if eps == 0:
        _refuse_flat(function, x if scale_of is None else scale_of, centred)
    if scale_of is None:
        return
    given, wanted = scale_of.shape[:-2], x.shape[:-2]
    pairs = zip(reversed(given), reversed(wanted), strict=False)
    if len(given) > len(wanted) or any(size not in (1, room) for size, room in pairs):
        raise ShapeError(
            f"{function}: scale_of is {describe(scale_of)} and x is {describe(x)}: its leading "
            f"axes must be {list(wanted)}, each of that size or 1"
        )


def _refuse_flat(function: str, x: Tensor, centred: bool) -> None:
    """Refuse a position that would be divided by 0, where no eps keeps it from that."""
    if not inspectable(x):
        return
    flat = (x == x[..., :1] if centred else x == 0).all(dim=-1)
    if function != "norm_scale" and flat.any():
        place = flat.nonzero()[0].tolist()
        what = "constant" if centred else "0 everywhere"
        raise ValueError(
            f"{function}: position {place[-1]} of {describe(x)} is {what}, and eps = 0 leaves "
            f"nothing to divide by: give eps = 1e-5"
        )


def _apply(x: Tensor, gain: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if gain is None else x * gain
    return x if bias is None else x + bias
