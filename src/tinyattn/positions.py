"""Where a token stands: numbers added to a vector, or angles it is turned by.

Attention alone cannot tell the order of what it reads. A position is told either by a vector that
is added (learned or sinusoidal), or by turning queries and keys, so that their product depends on
how far apart they are.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tinyattn.shapes import ShapeError, describe, typed


@typed
def sinusoidal(
    pos: int, d_model: int, *, start: int = 0, device: torch.device | str | None = None
) -> Float[Tensor, "pos d_model"]:
    """Give every position a vector of waves, each pair of entries slower than the one before.

    Entry 2i is the sine and entry 2i + 1 the cosine of the position times 10000^(−2i / d_model).

    Args:
        pos: How many positions.
        d_model: Width of the stream; an even number, since sine and cosine come in pairs.
        start: The number of the first position.
        device: Where the vectors will be used.

    Raises:
        ValueError: If ``d_model`` is odd, or there are fewer than 0 positions.

    Examples:
        >>> from tinyattn import show
        >>> print(show(sinusoidal(2, 4)))
              0     1     2     3
        0  0.00  1.00  0.00  1.00
        1  0.84  0.54  0.01  1.00

    Source: Vaswani et al. (2017), section 3.5.
    """
    if pos < 0:
        raise ValueError(f"sinusoidal: pos = {pos}: give 0 positions or more")
    if d_model < 2 or d_model % 2:
        raise ValueError(
            f"sinusoidal: d_model = {d_model}, but sine and cosine come in pairs: make it even"
        )
    turns = _angles(torch.arange(start, start + pos, device=device), d_model, 10_000.0)
    waves = torch.stack([turns.sin(), turns.cos()], dim=-1).flatten(-2)
    return waves.to(torch.get_default_dtype())


@typed
def rotary(
    t: Float[Tensor, "*batch pos d_head"],
    theta: float | int = 10_000.0,
    layout: Literal["halves", "interleaved"] = "halves",
    *,
    start: int = 0,
    places: Int[Tensor, "*places pos"] | None = None,
) -> Float[Tensor, "*batch pos d_head"]:
    """Turn queries or keys by angles that grow with their position.

    Every pair of entries is a point in a plane, turned by the position times a speed of its own.
    Turning keeps lengths, and the product of a turned query and a turned key depends on how far
    apart they stand, not on where: q R(i) · k R(j) = q R(i − j) · k.

    Args:
        t: Queries or keys. Values are not turned: their position would end in what is written.
        theta: The slowest pair turns by about 1 / theta a position.
        layout: Which entries are a pair. "halves": entry i and entry i + d_head / 2 (Hugging
            Face); "interleaved": entries 2i and 2i + 1 (the paper). Weights trained with one do
            not work with the other.
        start: The number of the first position: what a cache has already seen.
        places: The number of each position, where they do not run 0, 1, 2, … (padding). Its
            leading axes are those of ``t``, each of size 1 or theirs.

    Raises:
        ShapeError: If ``places`` has another number of positions, or leading axes that do not fit.
        ValueError: If ``d_head`` is odd, or ``theta`` is not above 0 and finite.

    Examples:
        >>> import torch
        >>> from tinyattn import show
        >>> print(show(rotary(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))))
              0     1
        0  1.00  0.00
        1  0.54  0.84

    Source: Su et al. (2021), section 3.2.
    """
    pos, d_head = t.shape[-2:]
    if d_head % 2:
        raise ValueError(
            f"rotary: d_head = {d_head}, but entries are turned in pairs: make it even"
        )
    if not 0 < theta < math.inf:
        raise ValueError(f"rotary: theta = {theta}: give a finite number above 0")
    if places is None:
        places = torch.arange(pos, device=t.device)
    given, wanted = places.shape[:-1], t.shape[:-2]
    alike = len(given) == len(wanted) or set(given) <= {1}
    pairs = zip(reversed(given), reversed(wanted), strict=False)
    if not alike or len(given) > len(wanted) or any(size not in (1, room) for size, room in pairs):
        raise ShapeError(
            f"rotary: places is {describe(places)} and t is {describe(t)}: give [pos] alone, or "
            f"leading axes {list(wanted)}, each of that size or 1"
        )
    turns = _angles(places.double() + start, d_head, theta)
    cos, sin = turns.cos().to(t.dtype), turns.sin().to(t.dtype)
    if layout == "halves":
        a, b = t.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    a, b = t[..., 0::2], t[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


def _angles(places: Tensor, width: int, theta: float) -> Tensor:
    """The angle of each pair at each position, in float64: large angles lose digits in float32."""
    pairs = torch.arange(0, width, 2, device=places.device, dtype=torch.float64)
    return places[..., None] * theta ** (-pairs / width)
