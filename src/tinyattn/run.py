"""A run: the stream at every boundary of one pass, from which all else is computed when asked.

The stream is all the state there is. What a layer asked, offered, weighed and wrote is a function
of the stream before it, so a run keeps the stream and the logits and nothing more: that is what
makes it as cheap as the logits alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tinyattn.attention import pattern
from tinyattn.block import Block, Edit, Scene
from tinyattn.edits import check_names
from tinyattn.head import Attended
from tinyattn.shapes import ShapeError, describe
from tinyattn.stream import Stream

if TYPE_CHECKING:
    from tinyattn.model import Transformer


class _Product:
    """Sums the products of last axes, again and again in one place.

    To come by fresh memory costs more than to multiply.
    """

    def __init__(self) -> None:
        self.place: Tensor | None = None

    def __call__(self, one: Tensor, other: Tensor) -> Tensor:
        place = None if torch.is_grad_enabled() else self.place
        try:
            self.place = torch.mul(one, other, out=place)
        except RuntimeError:  # under vmap and forward differentiation there is no writing in place
            self.place = one * other
        return self.place.sum(dim=-1)


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """Everything that happened in one pass, under the site's names.

    Kept are the ``tokens``, the ``stream`` at every sub-layer boundary, and the ``logits``.
    Everything else is computed from the stream when asked, at the cost of that layer's step, and
    with the weights the model has then: whoever changes them in place runs it again. What a run
    hands out may be what it keeps, so change a copy of it, or use :meth:`with_`.
    Layers count from 0; negative numbers count from the end. :meth:`Transformer.run` makes one.

    Examples:
        >>> from tinyattn import Config, Transformer
        >>> config = Config(d_model=8, d_head=4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=6)
        >>> run = Transformer(config).run([1, 2, 3])
        >>> run
        Run(2 layers, tokens=int64[3], logits=float32[3, 5])
        >>> run.pattern(0).shape, run.out(1).shape
        (torch.Size([2, 3, 3]), torch.Size([2, 3, 8]))
        >>> run.ledger().writers
        ('embed', 'pos', '0.attn', '1.attn')

    Source: Elhage et al. (2021), "High-Level Architecture".
    """

    model: "Transformer"
    tokens: Int[Tensor, "*batch pos"]
    logits: Float[Tensor, "*batch pos d_vocab"]
    stream: tuple[Float[Tensor, "*batch pos d_model"], ...]
    scene: Scene
    edits: dict[str, Edit] = field(default_factory=dict)
    changes: dict[str, float] = field(default_factory=dict)
    remember: bool = False
    grad: bool = False
    _known: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def resid_pre(self, layer: int) -> Float[Tensor, "*batch pos d_model"]:
        """The stream before a block: what its heads read."""
        return self.stream[self._layer(layer) * self._step]

    def resid_mid(self, layer: int) -> Float[Tensor, "*batch pos d_model"]:
        """The stream between heads and neurons: what the neurons read.

        Raises:
            ValueError: If the model is attention only.
        """
        self._needs_neurons("resid_mid")
        return self.stream[self._layer(layer) * self._step + 1]

    def resid_post(self, layer: int) -> Float[Tensor, "*batch pos d_model"]:
        """The stream after a block, which is the stream before the next."""
        return self.stream[(self._layer(layer) + 1) * self._step]

    @property
    def final(self) -> Float[Tensor, "*batch pos d_model"]:
        """The stream after the last block: what the unembedding reads, through the final norm."""
        return self.stream[-1]

    @property
    def real(self) -> Bool[Tensor, "*batch pos"] | None:
        """True where a token is real, False where it is padding; None if all are real."""
        return self.scene.real

    def q(self, layer: int) -> Float[Tensor, "*batch head pos d_head"]:
        """What each position asks, in every head."""
        return self._ask("q", layer)

    def k(self, layer: int) -> Float[Tensor, "*batch head pos d_head"]:
        """What each position offers, in every head; shared keys are repeated."""
        return self._ask("k", layer)

    def v(self, layer: int) -> Float[Tensor, "*batch head pos d_head"]:
        """What each position carries, in every head; shared values are repeated."""
        return self._ask("v", layer)

    def scores(self, layer: int) -> Float[Tensor, "*batch head query key"]:
        """How well queries match keys: scaled, and −∞ where a query may not look."""
        return self._ask("scores", layer)

    def pattern(self, layer: int) -> Float[Tensor, "*batch head query key"]:
        """How much each query reads of each key. Rows read, columns are read."""
        return self._ask("pattern", layer)

    def z(self, layer: int) -> Float[Tensor, "*batch head pos d_head"]:
        """What each query takes in: the values, mixed."""
        return self._ask("z", layer)

    def out(self, layer: int) -> Float[Tensor, "*batch head pos d_model"]:
        """Each head's write. The layer's own bias ``b_O`` belongs to none of them."""
        return self._ask("out", layer)

    def attn_out(self, layer: int) -> Float[Tensor, "*batch pos d_model"]:
        """What the heads of a layer added to the stream together, with ``b_O``."""
        return self._ask("attn_out", layer)

    def neurons(self, layer: int) -> Float[Tensor, "*batch pos d_mlp"]:
        """How much each neuron fires.

        Raises:
            ValueError: If the model is attention only.
        """
        self._needs_neurons("neurons")
        return self._ask("neurons", layer)

    def mlp_out(self, layer: int) -> Float[Tensor, "*batch pos d_model"]:
        """What the neurons of a layer added to the stream together, with ``b_out``.

        Raises:
            ValueError: If the model is attention only.
        """
        self._needs_neurons("mlp_out")
        return self._ask("mlp_out", layer)

    def attended(self, layer: int) -> Attended:
        """Every step of a layer's heads at once, as :func:`tinyattn.attend` gives them."""
        names = ("q", "k", "v", "scores", "pattern", "z", "out")
        return Attended(**{name: getattr(self, name)(layer) for name in names})

    def ledger(self, *, heads: bool = False) -> Stream:
        """Who wrote what: all writes in order, which sum to the final stream.

        The order is "embed", "pos", then for each layer l "l.attn", "l.b_O", "l.mlp", "l.b_out".
        A bias is a writer of its own. What an edit did to the stream itself is written by
        "edit of l.resid_mid", say.

        Args:
            heads: Split "l.attn" into "l.head 0", "l.head 1", ….
        """
        with torch.set_grad_enabled(self.grad):
            writers, writes = zip(*self._writes(heads), strict=True)
            dtype = writes[0].dtype  # autocast mixes them
            return Stream(writers, tuple(delta.to(dtype) for delta in writes))

    def along(self, direction: Tensor, *, heads: bool = False) -> dict[str, Tensor]:
        """How far each write of the ledger reaches along a direction: [*batch pos] each.

        No head's write is formed for it: ``z`` meets the direction as ``W_O`` shows it.

        Args:
            direction: [d_model] for all positions, or [*batch pos d_model].
            heads: Split "l.attn" into its heads.

        Raises:
            ShapeError: If the direction does not fit the stream.
        """
        self._fits("along", direction)
        with torch.set_grad_enabled(self.grad):
            return dict(self._writes(heads, direction))

    def heads_along(self, direction: Tensor) -> Float[Tensor, "layer head *batch pos"]:
        """How far each head's write reaches along a direction, as a grid of layers and heads.

        The heads' part of :meth:`along`, in a fraction of its time.

        Args:
            direction: [d_model] for all positions, or [*batch pos d_model].

        Raises:
            ShapeError: If the direction does not fit the stream.
            ValueError: If an edit replaced what the heads of a layer add together.
        """
        self._fits("heads_along", direction)
        with torch.set_grad_enabled(self.grad):
            replaced = [name for name in self.scene.edits if name.endswith(".attn_out")]
            if replaced:
                raise ValueError(
                    f"Run.heads_along: an edit replaced {replaced[0]}, so the heads of that layer "
                    f"have no share: use along or logit_attribution"
                )
            product, layers = _Product(), self.model.layers
            seen = [_through(block.W_O, direction) for block in layers]
            grid = [
                self._reach(block, direction, there, product)
                for block, there in zip(layers, seen, strict=True)
            ]
            if not grid:
                return self.final.new_zeros(0, self.model.config.n_heads, *self.tokens.shape)
            return torch.stack(grid).movedim(-2, 1)

    def value(self, name: str) -> Tensor:
        """An activation by its name, "1.pattern" or "0.head 3": the names an edit goes by.

        A head by its number is its ``z``, since that is where it can be edited.

        Raises:
            ValueError: If there is no such name, listing those there are.
        """
        check_names([name], self.model.config)
        if "." not in name:
            return self.model.embedded(self.tokens, self.scene)[name]
        layer, what = name.split(".")
        if what.startswith("head "):
            return self.z(int(layer))[..., int(what.removeprefix("head ")), :, :]
        return getattr(self, what)(int(layer))

    def with_(self, edits: dict[str, "Tensor | Run | Edit"]) -> "Run":
        """The same tokens again with some activations replaced. This run stays as it is.

        The pass starts at the first layer that an edit touches; the stream before it is shared.
        Edits of this run are kept, unless one of the same name replaces them.

        Args:
            edits: For each name a tensor to put there, a run to take the activation from, or a
                function of the activation.

        Raises:
            ValueError: If a name is unknown, or a replacement has another shape.

        Warns:
            NothingChanged: If no edit changed anything.

        Examples:
            >>> from tinyattn import Config, Transformer
            >>> config = Config(d_model=8, d_head=4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=6)
            >>> run = Transformer(config).run([1, 2, 3])
            >>> without = run.with_({"0.head 1": lambda z: 0 * z})
            >>> bool((without.out(0)[1] == 0).all()), bool((run.out(0)[1] == 0).all())
            (True, False)
        """
        return self.model.rerun(self, edits)

    def _layer(self, layer: int) -> int:
        n_layers = self.model.config.n_layers
        if isinstance(layer, bool) or not isinstance(layer, int):
            raise TypeError(f"Run: layer is {layer!r}: give a whole number")
        if not -n_layers <= layer < n_layers:
            raise IndexError(f"Run: no layer {layer} among n_layers = {n_layers}")
        return layer % n_layers

    @property
    def _step(self) -> int:
        """Boundaries in a block."""
        return 2 if self.model.config.d_mlp else 1

    def _needs_neurons(self, what: str) -> None:
        if not self.model.config.d_mlp:
            raise ValueError(f"Run.{what}: the model is attention only, d_mlp = 0: it has no MLP")

    def _ask(self, name: str, layer: int) -> Tensor:
        layer = self._layer(layer)
        if (name, layer) in self._known:
            return self._known[name, layer]
        with torch.set_grad_enabled(self.grad):
            found = self._compute(name, self.model.layers[layer])
        if self.remember:
            self._known[name, layer] = found
        return found

    def _compute(self, name: str, block: Block) -> Tensor:
        layer, scene = block.layer, self.scene
        steps: dict[str, Callable[[], Tensor]] = {
            "q": lambda: self._read(block)[0],
            "k": lambda: self._read(block)[1],
            "v": lambda: self._read(block)[2],
            "scores": lambda: scene.edited(
                f"{layer}.scores", block.scores(*self._read(block)[:2], scene)
            ),
            "pattern": lambda: scene.edited(f"{layer}.pattern", pattern(self.scores(layer))),
            "z": lambda: block.mixed(*self._read(block), scene),
            "out": lambda: block.writes(self.z(layer), scene),
            "attn_out": lambda: block.attention(self.resid_pre(layer), scene),
            "neurons": lambda: block.neurons(self.resid_mid(layer), scene),
            "mlp_out": lambda: block.feed(self.resid_mid(layer), scene),
        }
        return steps[name]()

    def _read(self, block: Block) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of a layer, computed together."""
        keys = [(name, block.layer) for name in "qkv"]
        if all(key in self._known for key in keys):
            q, k, v = (self._known[key] for key in keys)
            return q, k, v
        found = block.queries_keys_values(self.resid_pre(block.layer), self.scene)
        if self.remember:
            self._known.update(zip(keys, found, strict=True))
        return found

    def _writes(self, heads: bool, along: Tensor | None = None) -> list[tuple[str, Tensor]]:
        """Every write by name, or how far it reaches along a direction."""
        first = self.model.embedded(self.tokens, self.scene)
        parts = [(name, _share(write, along)) for name, write in first.items()]
        product = _Product()
        for block in self.model.layers:
            parts += self._of_heads(block, heads, along, product)
            parts += self._of_neurons(block, along)
        return parts

    def _of_heads(
        self, block: Block, heads: bool, along: Tensor | None, product: "_Product"
    ) -> list[tuple[str, Tensor]]:
        """The writes of a layer's heads and ``b_O``, after what an edit did before them."""
        layer, parts = block.layer, list[tuple[str, Tensor]]()
        if layer == 0 and "0.resid_pre" in self.scene.edits:
            jump = self.resid_pre(0) - self.model.start(self.tokens, self.scene)
            parts.append(("edit of 0.resid_pre", _share(jump, along)))
        if f"{layer}.attn_out" in self.scene.edits:
            return [*parts, (f"{layer}.attn", _share(self.attn_out(layer), along))]
        bias = self._bias(block, "b_O", along)
        if along is not None and not heads and not self._stream_edited(layer):
            after = self.resid_mid(layer) if self.model.config.d_mlp else self.resid_post(layer)
            write = _share(after, along) - _share(self.resid_pre(layer), along)
            return [*parts, (f"{layer}.attn", write - bias[0][1] if bias else write), *bias]
        if along is None:
            out = self.out(layer)
        else:
            out = self._reach(block, along, _through(block.W_O, along), product)
        axis = -3 if along is None else -2
        if not heads:
            return [*parts, (f"{layer}.attn", out.sum(dim=axis)), *bias]
        names = [f"{layer}.head {head}" for head in range(out.shape[axis])]
        return [*parts, *zip(names, out.unbind(axis), strict=True), *bias]

    def _reach(self, block: Block, along: Tensor, seen: Tensor, product: "_Product") -> Tensor:
        """How far each head's write reaches, [*batch head pos]; no write is formed for it."""
        if f"{block.layer}.out" in self.scene.edits:
            out = self.out(block.layer)
            return _share(out, along if along.ndim == 1 else along.unsqueeze(-3))
        return product(self.z(block.layer).transpose(-3, -2), seen).transpose(-2, -1)

    def _of_neurons(self, block: Block, along: Tensor | None) -> list[tuple[str, Tensor]]:
        """The writes of a layer's neurons and ``b_out``, and what edits did around them."""
        layer, edits, parts = block.layer, self.scene.edits, list[tuple[str, Tensor]]()
        mid, last = f"{layer}.resid_mid", f"{layer}.resid_post"
        before, write = self.resid_pre(layer), self.attn_out
        if self.model.config.d_mlp:
            if mid in edits:
                jump = self.resid_mid(layer) - before - write(layer)
                parts.append((f"edit of {mid}", _share(jump, along)))
            before, write = self.resid_mid(layer), self.mlp_out
            bias = self._bias(block, "b_out", along) if f"{layer}.mlp_out" not in edits else []
            if along is not None and not self._stream_edited(layer):
                share = _share(self.resid_post(layer), along) - _share(before, along)
                share = share - bias[0][1] if bias else share
            elif bias:
                share = _share(self.neurons(layer) @ block.W_out, along)
            else:
                share = _share(self.mlp_out(layer), along)
            parts += [(f"{layer}.mlp", share), *bias]
        if last in edits or f"{layer + 1}.resid_pre" in edits:
            jump = self.resid_post(layer) - before - write(layer)
            parts.append((f"edit of {last}", _share(jump, along)))
        return parts

    def _fits(self, method: str, direction: Tensor) -> None:
        if not isinstance(direction, Tensor):
            kind = type(direction).__name__
            raise ShapeError(f"Run.{method}: direction is a {kind}: give a tensor")
        fits = direction.shape in (self.final.shape, self.final.shape[-1:])
        like = (self.final.dtype, self.final.device)
        if not fits or (direction.dtype, direction.device) != like:
            raise ShapeError(
                f"Run.{method}: direction is {describe(direction)} on {direction.device} and the "
                f"stream is {describe(self.final)} on {self.final.device}: give one vector of "
                f"d_model = {self.final.shape[-1]}, or one for each position, of its dtype"
            )

    def _stream_edited(self, layer: int) -> bool:
        """Whether more than the writes lies between the boundaries of a layer."""
        names = {f"{layer}.{what}" for what in ("resid_mid", "resid_post", "attn_out", "mlp_out")}
        return bool(self.scene.edits.keys() & (names | {f"{layer + 1}.resid_pre"}))

    def _bias(self, block: Block, name: str, along: Tensor | None) -> list[tuple[str, Tensor]]:
        bias = getattr(block, name)
        if bias is None:
            return []
        if along is None:
            return [(f"{block.layer}.{name}", bias.expand_as(self.final))]
        return [(f"{block.layer}.{name}", (along @ bias).expand(self.tokens.shape))]

    def __repr__(self) -> str:
        layers = self.model.config.n_layers
        return (
            f"Run({layers} layers, tokens={describe(self.tokens)}, logits={describe(self.logits)})"
        )


def _share(write: Tensor, along: Tensor | None) -> Tensor:
    """The write itself, or how far it reaches along a direction, one for all or one for each."""
    if along is None:
        return write
    return write @ along if along.ndim == 1 else (write * along).sum(dim=-1)


def _through(W_O: Tensor, along: Tensor) -> Tensor:
    """A direction as each head's ``z`` meets it: [head d_head], or one for each position."""
    if along.ndim == 1:
        return W_O @ along
    return (along @ W_O.flatten(0, 1).T).unflatten(-1, W_O.shape[:2])
