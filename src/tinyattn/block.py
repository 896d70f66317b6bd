"""One block: heads read the stream and write to it, then neurons do.

Each step is a function of the stream as it stood before, so nothing else has to be kept. The pass
itself goes through torch's fused attention; the steps it fuses (scores, pattern, mix) are there
to be asked for, and give the same numbers. Where a value is NaN or infinite they do not: torch
multiplies a hidden value by 0, and 0 times NaN is NaN; :func:`tinyattn.mix` does not read it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from tinyattn.attention import causal_mask, mask_scores, mix, pattern, scores
from tinyattn.config import Config
from tinyattn.head import Heads, merge_heads, split_heads
from tinyattn.mlp import activate
from tinyattn.norm import layer_norm, norm_scale, rms_norm
from tinyattn.positions import rotary
from tinyattn.shapes import ShapeError, describe

Edit = Callable[[Tensor], Tensor]


class Cache:
    """Keys and values of the positions so far, a pair for each layer.

    Queries are not kept, since no later position asks for them. Hand the same cache to one call
    after another, and each need bring only its new tokens.

    Examples:
        >>> from tinyattn import Config, Transformer
        >>> from tinyattn.block import Cache
        >>> config = Config(d_model=4, d_head=2, n_heads=2, n_layers=1, d_vocab=5, n_ctx=8)
        >>> model, cache = Transformer(config), Cache()
        >>> first, second = model([1, 2, 3], cache=cache), model([4], cache=cache)
        >>> cache
        Cache(4 positions)
    """

    def __init__(self) -> None:
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}
        self.pos = 0  # how many positions it holds
        self.real: Tensor | None = None
        self.filled_by: tuple[nn.Module, tuple[object, ...]] | None = None

    def copy(self) -> "Cache":
        """A cache with the same past, to continue one beginning in more than one way."""
        other = Cache()
        other.layers, other.pos = dict(self.layers), self.pos  # what is in them is never changed
        other.real, other.filled_by = self.real, self.filled_by
        return other

    __copy__ = copy

    def __deepcopy__(self, known: dict[int, object]) -> "Cache":
        """The model is not copied: it would be another one."""
        return self.copy()

    def begin(self, model: nn.Module, *kind: object) -> None:
        """Refuse what is not of the model, batch and dtype that filled it.

        Raises:
            ShapeError: Naming both.
        """
        if self.pos and self.filled_by is not None:
            by, old = self.filled_by
            if by is not model or old != kind:
                whose = "of this" if by is model else "of another"
                raise ShapeError(
                    f"the cache holds {self.pos} positions {whose} model with batch and dtype "
                    f"{old}, and the new tokens have {kind}: begin with a new Cache()"
                )
        self.filled_by = model, kind

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Put new keys and values behind the old ones, and return all of them."""
        if self.pos:  # a pass that broke off may have left more
            old_k, old_v = (t[..., : self.pos, :] for t in self.layers[layer])
            k, v = torch.cat([old_k, k], dim=-2), torch.cat([old_v, v], dim=-2)
        self.layers[layer] = k, v
        return k, v

    def end(self, pos: int, real: Tensor | None) -> None:
        """Count the positions of a pass, once it is through."""
        self.pos, self.real = pos, real

    def __repr__(self) -> str:
        return f"Cache({self.pos} positions)"


@dataclass(frozen=True)
class Scene:
    """What all blocks of one pass share: where tokens stand, who may look, what is edited."""

    places: Tensor
    mask: Tensor | None = None  # None: the causal mask of a square, or nothing hidden
    causal: bool = True
    added: Tensor | None = None  # what shortformer positions add to what q and k read
    edits: Mapping[str, Edit] = field(default_factory=dict)
    cache: Cache | None = None
    real: Tensor | None = None  # False for padding

    def edited(self, name: str, value: Tensor) -> Tensor:
        """The value as the edit of that name leaves it; itself, if there is none."""
        if name not in self.edits:
            return value
        new = self.edits[name](value)
        if not isinstance(new, Tensor):
            raise TypeError(not_a_tensor(name, value, new))
        if (new.shape, new.dtype, new.device) != (value.shape, value.dtype, value.device):
            raise ValueError(
                f"edit of {name!r}: it is {describe(value)} on {value.device} and was replaced by "
                f"{describe(new)} on {new.device}: keep shape, dtype and device"
            )
        return new


def not_a_tensor(name: str, value: Tensor, new: object) -> str:
    """Say of an edit that it returned something else than a tensor."""
    what = "None" if new is None else f"a {type(new).__name__}"
    return (
        f"edit of {name!r}: it returned {what} in place of {describe(value)}: return a tensor of "
        f"that shape"
    )


class Norm(nn.Module):
    """The norm before a reader: layer norm, RMS norm, or none at all."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.kind, self.eps = config.norm, config.eps
        if self.kind:
            self.gain = nn.Parameter(torch.ones(config.d_model))
        if self.kind == "layer":
            self.bias = nn.Parameter(torch.zeros(config.d_model))

    def forward(self, x: Tensor) -> Tensor:
        """The stream as the reader sees it."""
        if self.kind == "layer":
            return layer_norm(x, self.gain, self.bias, self.eps)
        return rms_norm(x, self.gain, self.eps) if self.kind else x

    def scale(self, x: Tensor) -> Tensor | None:
        """The number each position is divided by: [*batch pos 1], or None without a norm."""
        return norm_scale(x, self.eps, centred=self.kind == "layer") if self.kind else None

    def parts(self, x: Tensor, whole: Tensor) -> Tensor:
        """A part of the stream as the reader sees it, with the scale of the whole and no bias.

        This is linear: the parts of a sum, and the bias once, add up to the normalised sum.
        """
        if self.kind == "layer":
            return layer_norm(x, self.gain, None, self.eps, scale_of=whole)
        return rms_norm(x, self.gain, self.eps, scale_of=whole) if self.kind else x


class Block(nn.Module):
    """The weights of one layer under the site's names, and what it does to the stream."""

    W_Q: nn.Parameter
    W_K: nn.Parameter
    W_V: nn.Parameter
    W_O: nn.Parameter
    b_Q: nn.Parameter | None
    b_K: nn.Parameter | None
    b_V: nn.Parameter | None
    b_O: nn.Parameter | None
    b_in: nn.Parameter | None
    b_gate: nn.Parameter | None
    b_out: nn.Parameter | None

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.config, self.layer = config, layer
        d_model, d_head, n_heads = config.d_model, config.d_head, config.n_heads
        self.norm_attn = Norm(config)
        self.W_Q = _side_by_side(n_heads, d_model, d_head)
        self.W_K = _side_by_side(config.kv_heads, d_model, d_head)
        self.W_V = _side_by_side(config.kv_heads, d_model, d_head)
        self.W_O = nn.Parameter(torch.empty(n_heads, d_head, d_model))
        self._bias("b_Q", n_heads, d_head)
        self._bias("b_K", config.kv_heads, d_head)
        self._bias("b_V", config.kv_heads, d_head)
        self._bias("b_O", d_model)
        if config.d_mlp:
            self.norm_mlp = Norm(config)
            self.W_in = nn.Parameter(torch.empty(d_model, config.d_mlp))
            self._bias("b_in", config.d_mlp)
            if config.gated:
                self.W_gate = nn.Parameter(torch.empty(d_model, config.d_mlp))
                self._bias("b_gate", config.d_mlp)
            self.W_out = nn.Parameter(torch.empty(config.d_mlp, d_model))
            self._bias("b_out", d_model)

    def _bias(self, name: str, *shape: int) -> None:
        self.register_parameter(
            name, nn.Parameter(torch.zeros(shape)) if self.config.biases else None
        )

    @property
    def heads(self) -> Heads:
        """The attention weights as :class:`tinyattn.Heads`: views, not copies."""
        return Heads(self.W_Q, self.W_K, self.W_V, self.W_O, self.b_Q, self.b_K, self.b_V)

    def forward(
        self, x: Tensor, scene: Scene | None = None, keep: list[Tensor] | None = None
    ) -> Tensor:
        """The stream after the block. ``keep`` receives it before each of its sub-layers.

        Without a scene the block is on its own: positions count from 0 and nothing is edited.

        Raises:
            ShapeError: If ``x`` is no stream of the block's width.
        """
        if x.ndim < 2 or x.shape[-1] != self.config.d_model:
            raise ShapeError(
                f"Block: x is {describe(x)}, but must be [*batch, pos, d_model] with d_model = "
                f"{self.config.d_model}"
            )
        if scene is None:
            places = torch.arange(x.shape[-2], device=x.device)
            scene = Scene(places, causal=self.config.causal)
        x = self._boundary("resid_pre", x, scene, keep)
        x = x + self.attention(x, scene)
        if self.config.d_mlp:
            x = self._boundary("resid_mid", x, scene, keep)
            x = x + self.feed(x, scene)
        return scene.edited(f"{self.layer}.resid_post", x)

    def _boundary(self, name: str, x: Tensor, scene: Scene, keep: list[Tensor] | None) -> Tensor:
        x = scene.edited(f"{self.layer}.{name}", x)
        if keep is not None:
            keep.append(x)
        return x

    def queries_keys_values(self, x: Tensor, scene: Scene) -> tuple[Tensor, Tensor, Tensor]:
        """What every head asks, offers and carries: [*batch head pos d_head], keys repeated."""
        v_reads = self.norm_attn(x)
        qk_reads = v_reads if scene.added is None else v_reads + scene.added
        q = _read(qk_reads, self.W_Q, self.b_Q)
        k = _read(qk_reads, self.W_K, self.b_K)
        v = _read(v_reads, self.W_V, self.b_V)
        if self.config.positions == "rotary":
            theta, layout = self.config.theta, self.config.rotary_layout
            places = scene.places.unsqueeze(-2)  # the same for all heads
            q, k = (rotary(t, theta, layout, places=places) for t in (q, k))
        if scene.cache is not None:
            k, v = scene.cache.extend(self.layer, k, v)
        group = self.config.n_heads // self.config.kv_heads
        if group > 1:
            k, v = (t.repeat_interleave(group, dim=-3) for t in (k, v))
        named = zip("qkv", (q, k, v), strict=True)
        q, k, v = (scene.edited(f"{self.layer}.{name}", t) for name, t in named)
        return q, k, v

    def scores(self, q: Tensor, k: Tensor, scene: Scene) -> Tensor:
        """What the softmax sees: −∞ where a query may not look."""
        S, mask = scores(q, k), scene.mask
        if mask is None and scene.causal:
            mask = causal_mask(q.shape[-2], k.shape[-2], device=q.device)
        return S if mask is None else mask_scores(S, mask)

    def pattern(self, q: Tensor, k: Tensor, scene: Scene) -> Tensor:
        """The pattern, edits of scores and pattern included."""
        S = scene.edited(f"{self.layer}.scores", self.scores(q, k, scene))
        return scene.edited(f"{self.layer}.pattern", pattern(S))

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, scene: Scene) -> Tensor:
        """What each query takes in, edits included, through torch's fused attention."""
        z = None
        if scene.edits.keys() & {f"{self.layer}.scores", f"{self.layer}.pattern"}:
            A = self.pattern(q, k, scene)
            if not torch.equal(A, pattern(self.scores(q, k, scene))):
                z = mix(A, v)
        if z is None:  # an edit that changes nothing leaves every bit as it was
            z = _fused(q, k, v, scene)
        return scene.edited(f"{self.layer}.z", z)

    def writes(self, z: Tensor, scene: Scene) -> Tensor:
        """Each head's write on its own: [*batch head pos d_model], edits included."""
        return scene.edited(f"{self.layer}.out", z @ self.W_O)

    def attention(self, x: Tensor, scene: Scene) -> Tensor:
        """What the layer's heads add to the stream together, with ``b_O``."""
        z = self.mixed(*self.queries_keys_values(x, scene), scene)
        total = merge_heads(z) @ self.W_O.flatten(0, 1)
        if f"{self.layer}.out" in scene.edits:
            out = self.writes(z, scene)
            if not torch.equal(out, z @ self.W_O):
                total = out.sum(dim=-3)
        if self.b_O is not None:
            total = total + self.b_O
        return scene.edited(f"{self.layer}.attn_out", total)

    def neurons(self, x: Tensor, scene: Scene) -> Tensor:
        """How much each neuron fires: [*batch pos d_mlp]."""
        read = self.norm_mlp(x)
        fire = _affine(read, self.W_in, self.b_in)
        if self.config.gated:
            gate = _affine(read, self.W_gate, self.b_gate)
            fire = activate(gate, self.config.activation) * fire
        else:
            fire = activate(fire, self.config.activation)
        return scene.edited(f"{self.layer}.neurons", fire)

    def feed(self, x: Tensor, scene: Scene) -> Tensor:
        """What the neurons add to the stream together, with ``b_out``."""
        total = _affine(self.neurons(x, scene), self.W_out, self.b_out)
        return scene.edited(f"{self.layer}.mlp_out", total)


def _side_by_side(n_heads: int, d_model: int, d_head: int) -> nn.Parameter:
    """A weight [head d_model d_head] that lies in memory as [d_model head d_head].

    All heads can then read the stream in one product without a copy: half the training time.
    """
    return nn.Parameter(torch.empty(d_model, n_heads, d_head).transpose(0, 1))


def _read(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    """Let every head read the stream through its own weight, in one product."""
    read = x @ W.transpose(0, 1).flatten(1)
    return split_heads(read if b is None else read + b.flatten(), W.shape[0])


def _fused(q: Tensor, k: Tensor, v: Tensor, scene: Scene) -> Tensor:
    """Scores, mask, softmax and mix in one call, with the batch as one axis: its fast path."""
    shape, mask = q.shape, scene.mask
    q, k, v = (t.reshape(-1, *t.shape[-3:]) for t in (q, k, v))
    if mask is not None and mask.ndim > 2:
        mask = mask.expand(*shape[:-3], *mask.shape[-3:]).reshape(-1, *mask.shape[-3:])
    causal = scene.causal and mask is None and shape[-2] > 1
    z = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    return z.reshape(shape)


def _affine(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    return x @ W if b is None else x @ W + b
