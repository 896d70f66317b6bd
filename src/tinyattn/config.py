"""The shape of a transformer: every choice that its weights do not show by themselves."""

import math
import typing
from dataclasses import dataclass, fields
from typing import Literal

from tinyattn.mlp import Activation


@dataclass(frozen=True)
class Config:
    """What a transformer is made of: widths, counts, and which parts it has.

    The defaults are the smallest transformer: attention only, no norm, no biases. Blocks are
    pre-norm: a norm stands before what reads it, never on the stream itself.

    Args:
        d_model: Width of the stream.
        d_head: Width of a head. ``n_heads * d_head`` need not be ``d_model``.
        n_heads: Heads in a layer.
        n_layers: Blocks. 0 leaves embedding and unembedding, which count bigrams.
        d_vocab: Tokens there are.
        n_ctx: Positions at most.
        d_mlp: Neurons in a layer. 0 means attention only.
        n_kv_heads: Keys and values in a layer, shared by groups of heads; ``n_heads`` if left out.
        positions: How a token is told where it stands. "learned" and "sinusoidal" add a vector
            to the stream, "shortformer" adds a learned one to what queries and keys read and to
            nothing else, "rotary" turns queries and keys, None tells nothing.
        norm: "layer", "rms", or None.
        norm_first: Pre-norm. Post-norm blocks are refused.
        eps: Of the norms.
        activation: Of the MLP: "relu", "gelu" (exact), "gelu_tanh" (GPT-2), "silu" (Llama).
        gated: Whether the MLP has a second key for each neuron, which opens or shuts it.
        biases: Whether attention and MLP have biases.
        unembed_bias: Whether the logits have a bias.
        tied: Whether the unembedding is the embedding transposed: one parameter, counted once.
        causal: Whether the future is hidden.
        theta: Of rotary positions.
        rotary_layout: Which entries rotary positions turn together; see :func:`tinyattn.rotary`.

    Raises:
        TypeError: If a count is not a whole number, or a switch is not True or False.
        ValueError: If two choices do not fit each other, naming both.

    Examples:
        >>> config = Config(d_model=64, d_head=16, n_heads=4, n_layers=2, d_vocab=64, n_ctx=64)
        >>> config.positions, config.d_mlp
        ('learned', 0)
        >>> Config(d_model=64, d_head=16, n_heads=0, n_layers=2, d_vocab=64, n_ctx=64)
        Traceback (most recent call last):
        ValueError: Config: n_heads = 0: give 1 or more

    Source: Vaswani et al. (2017), section 3; Press et al. (2021), section 5 (shortformer).
    """

    d_model: int
    d_head: int
    n_heads: int
    n_layers: int
    d_vocab: int
    n_ctx: int
    d_mlp: int = 0
    n_kv_heads: int | None = None
    positions: Literal["learned", "sinusoidal", "shortformer", "rotary"] | None = "learned"
    norm: Literal["layer", "rms"] | None = None
    norm_first: bool = True
    eps: float = 1e-5
    activation: Activation = "gelu"
    gated: bool = False
    biases: bool = False
    unembed_bias: bool = False
    tied: bool = False
    causal: bool = True
    theta: float = 10_000.0
    rotary_layout: Literal["halves", "interleaved"] = "halves"

    def __post_init__(self) -> None:
        for field in fields(self):
            self._check(field.name, field.type)
        if self.n_heads % self.kv_heads:
            raise ValueError(
                f"Config: n_heads = {self.n_heads} cannot be divided among n_kv_heads = "
                f"{self.n_kv_heads}: choose a divisor of {self.n_heads}"
            )
        for name, width in (("d_head", self.d_head), ("d_model", self.d_model)):
            if self.positions == {"d_head": "rotary", "d_model": "sinusoidal"}[name] and width % 2:
                raise ValueError(
                    f"Config: positions = {self.positions!r} pair the entries, but {name} = "
                    f"{width} is odd: make it even"
                )
        if self.gated and not self.d_mlp:
            raise ValueError("Config: gated = True, but d_mlp = 0: there are no neurons to gate")
        if not self.norm_first:
            raise ValueError(
                "Config: norm_first = False: a post-norm block normalises the stream itself, so "
                "writes would not sum to it and its norms cannot be folded; only pre-norm is built"
            )

    @property
    def kv_heads(self) -> int:
        """How many keys and values a layer has."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    def _check(self, name: str, kind: object) -> None:
        value = getattr(self, name)
        if kind in (int, int | None):
            if value is None and kind == int | None:
                return
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"Config: {name} = {value!r}: give a whole number")
            least = 0 if name in {"n_layers", "d_mlp"} else 1
            if value < least:
                raise ValueError(f"Config: {name} = {value}: give {least} or more")
        elif kind is bool:
            if not isinstance(value, bool):
                raise TypeError(f"Config: {name} = {value!r}: give True or False")
        elif kind is float:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"Config: {name} = {value!r}: give a number")
            if not 0 < value < math.inf:
                raise ValueError(f"Config: {name} = {value}: give a finite number above 0")
        else:
            choices = _choices(kind)
            if value not in choices:
                known = ", ".join(map(repr, choices))
                raise ValueError(f"Config: {name} = {value!r}: choose among {known}")


def _choices(kind: object) -> tuple[object, ...]:
    """The values of a Literal, and None where it may be left out."""
    if typing.get_origin(kind) is Literal:
        return typing.get_args(kind)
    return (*typing.get_args(typing.get_args(kind)[0]), None)
