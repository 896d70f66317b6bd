"""A transformer: an embedding, blocks that read and write one stream, an unembedding.

There is no dropout anywhere, so a model gives the same numbers in training and in evaluation.
There are no buffers either: masks and sinusoidal positions are made when they are needed, so a
state dict holds all there is.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from tinyattn.attention import causal_mask
from tinyattn.block import Block, Cache, Edit, Norm, Scene
from tinyattn.config import Config
from tinyattn.edits import as_edits, layer_of, prepare, warn_if_unchanged
from tinyattn.head import Heads
from tinyattn.positions import sinusoidal
from tinyattn.progress import progress
from tinyattn.run import Run
from tinyattn.shapes import ShapeError, describe, inspectable, typed


class Transformer(nn.Module):
    """A transformer with its weights under the site's names.

    ``W_E`` [d_vocab d_model], ``W_pos`` [n_ctx d_model], ``blocks[l].W_Q`` [head d_model d_head]
    and so on, ``norm_final``, ``W_U`` [d_model d_vocab]. Called, it gives logits, with gradients,
    for training; :meth:`run` gives a :class:`Run`, for looking.

    A tied model has one parameter for both ends, counted and saved once. Reading its ``W_U`` gives
    a copy, so that editing it cannot reach ``W_E``; :meth:`untied` gives it one of its own.

    Args:
        config: What it is made of.
        generator: Where its first weights are drawn from; one with seed 0, if left out. The
            global generator is never touched.

    Examples:
        >>> from tinyattn import Config, Transformer
        >>> config = Config(d_model=8, d_head=4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6)
        >>> model = Transformer(config)
        >>> model([[1, 2, 3], [3, 2, 1]]).shape
        torch.Size([2, 3, 5])
        >>> model.heads(0)
        Heads(n_heads=2, n_kv_heads=2, d_model=8, d_head=4, d_value=4)

    Source: Vaswani et al. (2017), section 3; Radford et al. (2019), section 2.3 (pre-norm).
    """

    W_E: nn.Parameter
    W_pos: nn.Parameter | None
    b_U: nn.Parameter | None

    def __init__(self, config: Config, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        for name, value, kind in (("config", config, Config), ("generator", generator, Generator)):
            if not isinstance(value, kind) and not (name == "generator" and value is None):
                raise TypeError(f"Transformer: {name} is {value!r}: give a {kind.__name__}")
        self.config = config
        self.W_E = nn.Parameter(torch.empty(config.d_vocab, config.d_model))
        learned = config.positions in ("learned", "shortformer")
        W_pos = nn.Parameter(torch.empty(config.n_ctx, config.d_model)) if learned else None
        self.register_parameter("W_pos", W_pos)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.n_layers))
        self.norm_final = Norm(config)
        if not config.tied:
            self.W_U = nn.Parameter(torch.empty(config.d_model, config.d_vocab))
        b_U = nn.Parameter(torch.zeros(config.d_vocab)) if config.unembed_bias else None
        self.register_parameter("b_U", b_U)
        self._edits: dict[str, Edit] = {}
        self._changes: dict[str, float] = {}
        self._draw(generator or torch.Generator().manual_seed(0))

    def __getattr__(self, name: str) -> Any:
        if name == "W_U" and self.config.tied:
            return self.W_E.T.clone()
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "W_U" and self.config.tied:
            raise AttributeError(
                "Transformer: the model is tied, so its W_U is W_E transposed: set W_U in a copy "
                "whose unembedding is its own, untie(model)"
            )
        super().__setattr__(name, value)

    def _draw(self, generator: torch.Generator) -> None:
        """Draw weights so that every vector begins with entries of about variance 1.

        Writers are smaller, by the number of writes, so that the stream keeps its size.
        """
        config = self.config
        writers = max(1, config.n_layers * (2 if config.d_mlp else 1))
        variance = {
            "W_E": 1 / config.d_model if config.tied else 1.0,
            "W_pos": 1 / config.d_model if config.tied else 1.0,
            "W_O": 1 / (config.n_heads * config.d_head * writers),
            "W_out": 1 / (max(1, config.d_mlp) * writers),
        }
        for name, weight in self.named_parameters():
            name = name.rpartition(".")[-1]
            if name.startswith("W_") and not weight.is_meta:
                std = variance.get(name, 1 / config.d_model) ** 0.5
                draw = torch.randn(weight.shape, generator=generator, device="cpu")
                weight.data.copy_(draw * std)

    @property
    def layers(self) -> list[Block]:
        """The blocks in order."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def heads(self, layer: int) -> Heads:
        """The attention weights of one layer, side by side.

        Raises:
            IndexError: If there is no such layer.
            TypeError: If it is no whole number.
        """
        n_layers = self.config.n_layers
        if isinstance(layer, bool) or not isinstance(layer, int):
            raise TypeError(f"Transformer: layer is {layer!r}: give a whole number")
        if not -n_layers <= layer < n_layers:
            raise IndexError(f"Transformer: no layer {layer} among n_layers = {n_layers}")
        return self.layers[layer].heads

    def forward(
        self,
        tokens: Any,
        *,
        real: Bool[Tensor, "*batch pos"] | None = None,
        cache: Cache | None = None,
        keep: list[Tensor] | None = None,
    ) -> Float[Tensor, "*batch pos d_vocab"]:
        """Give the logits of the next token at every position.

        Args:
            tokens: Whole numbers [*batch pos], as a tensor or a list.
            real: True where a token is real. The others are padding, on either side: nobody reads
                them, and positions are counted without them.
            cache: What earlier calls have seen. ``tokens`` are then the ones that follow.
            keep: Receives the stream at every boundary.

        Raises:
            TypeError: If tokens are not whole numbers.
            ValueError: If a token is not in the vocabulary, or there are too many positions.
        """
        tokens = self._tokens(tokens)
        scene = self._scene(tokens, real, cache, prepare(self._edits, self._changes))
        x = self.start(tokens, scene)
        logits = self._from(0, x, scene, keep)
        if cache is not None:
            cache.end(cache.pos + tokens.shape[-1], scene.real)
        return logits

    def run(
        self,
        tokens: Any,
        *,
        real: Bool[Tensor, "*batch pos"] | None = None,
        remember: bool = False,
        grad: bool = False,
    ) -> Run:
        """Pass the tokens through, and keep the stream at every boundary.

        Args:
            tokens: Whole numbers [*batch pos], as a tensor or a list.
            real: True where a token is real, False for padding; see :meth:`forward`.
            remember: Keep what is computed later, so that asking twice costs once.
            grad: Let gradients flow back through the run.

        Raises:
            TypeError: If tokens are not whole numbers.
            ValueError: If a token is not in the vocabulary, or there are too many positions.
        """
        tokens, stream = self._tokens(tokens).clone(), list[Tensor]()  # they may change later
        scene = self._scene(tokens, real, None, prepare(self._edits, {}))
        with torch.set_grad_enabled(grad):
            logits = self(tokens, real=real, keep=stream)
        return Run(
            self,
            tokens,
            logits,
            tuple(stream),
            scene,
            edits=self._edits,
            changes=dict(self._changes),
            remember=remember,
            grad=grad,
        )

    def rerun(self, run: Run, edits: Mapping[str, Any]) -> Run:
        """What :meth:`Run.with_` does: again from the first layer that an edit touches."""
        new = as_edits(edits, self.config)
        both, changes = {**run.edits, **new}, dict[str, float]()
        scene = replace(run.scene, edits=prepare(both, changes))
        layer = min((layer_of(name) for name in new), default=self.config.n_layers)
        while layer and f"{layer}.resid_pre" in run.edits:
            layer -= 1  # the stream kept there is the edited one
        with torch.set_grad_enabled(run.grad):
            step = 2 if self.config.d_mlp else 1
            stream = list(run.stream[: layer * step])
            x = run.stream[layer * step] if layer else self.start(run.tokens, scene)
            logits = self._from(layer, x, scene, stream)
        warn_if_unchanged(changes, new)
        kept = {name: change for name, change in run.changes.items() if name not in new}
        return replace(
            run,
            logits=logits,
            stream=tuple(stream),
            scene=scene,
            edits=both,
            changes={**changes, **kept},
            _known={},
        )

    @contextmanager
    def edited(self, edits: Mapping[str, Any]) -> Iterator["Transformer"]:
        """Replace activations in every pass inside the ``with``, and in none after it.

        Args:
            edits: As :meth:`Run.with_` takes them.

        Warns:
            NothingChanged: If no pass inside was changed.
        """
        new = as_edits(edits, self.config)
        before = self._edits, self._changes
        self._edits, self._changes = {**self._edits, **new}, {}
        try:
            yield self
            warn_if_unchanged(self._changes, new)
        finally:
            self._edits, self._changes = before

    def start(self, tokens: Tensor, scene: Scene) -> Tensor:
        """The stream before the first block."""
        return functools.reduce(torch.add, self.embedded(tokens, scene).values())

    def embedded(self, tokens: Tensor, scene: Scene) -> dict[str, Tensor]:
        """The first writes to the stream, by name: the tokens', and the positions' if added."""
        writes = {"embed": scene.edited("embed", self.W_E[tokens])}
        pos = None
        if self.config.positions == "learned" and self.W_pos is not None:
            pos = self.W_pos[scene.places]
        elif self.config.positions == "sinusoidal":
            table = sinusoidal(self.config.n_ctx, self.config.d_model, device=tokens.device)
            pos = table.to(self.W_E.dtype)[scene.places]
        if pos is not None:
            writes["pos"] = scene.edited("pos", pos.expand_as(writes["embed"]))
        return writes

    def unembed(
        self, x: Float[Tensor, "*batch pos d_model"]
    ) -> Float[Tensor, "*batch pos d_vocab"]:
        """Read the stream as logits: the final norm with its weights, ``W_U``, and ``b_U``.

        Raises:
            ShapeError: If ``x`` has another width.
        """
        if x.shape[-1:] != self.W_E.shape[1:]:
            raise ShapeError(
                f"Transformer.unembed: x is {describe(x)}, but must be [*batch, pos, d_model] with "
                f"d_model = {self.config.d_model}"
            )
        x = self.norm_final(x)
        logits = x @ (self.W_E.T if self.config.tied else self.W_U)
        return logits if self.b_U is None else logits + self.b_U

    @typed
    @torch.no_grad()
    def generate(
        self,
        tokens: Any,
        new: int,
        *,
        temperature: float | int = 0,
        generator: torch.Generator | None = None,
        real: Bool[Tensor, "*batch pos"] | None = None,
        show_progress: bool = True,
    ) -> Int[Tensor, "*whole"]:
        """Continue the tokens, one at a time. Each pass reads one token and the cache.

        Args:
            tokens: What to continue.
            new: How many tokens to add.
            temperature: 0 takes the likeliest token. Above 0, tokens are drawn from the softmax of
                the logits divided by it.
            generator: What they are drawn with; needed above 0, so that a draw can be repeated.
            real: False for padding, which stands on the left.
            show_progress: Show a bar where standard error is a terminal.

        Returns:
            The tokens given and the new ones.

        Raises:
            ShapeError: If an argument is of another kind.
            ValueError: If they would not fit the model's positions, or the temperature is no
                finite number from 0 on.
        """
        tokens, cache = self._tokens(tokens), Cache()
        pos, n_ctx = tokens.shape[-1], self.config.n_ctx
        if new < 0 or pos + new > n_ctx:
            raise ValueError(
                f"generate: {pos} tokens and {new} new ones make {pos + new} positions, but "
                f"n_ctx = {n_ctx}: ask for 0 to {max(0, n_ctx - pos)} new ones"
            )
        if not 0 <= temperature < math.inf or (temperature and generator is None):
            raise ValueError(
                f"generate: temperature = {temperature} with generator = {generator}: give 0, or a "
                f"finite number above 0 and a generator, torch.Generator().manual_seed(0)"
            )
        if real is not None and not real[..., -1].all():
            raise ValueError("generate: the last token is padding: pad on the left")
        latest = tokens
        for _ in progress(range(new), new, "generate", show=show_progress):
            logits = self(latest, real=real, cache=cache)[..., -1, :]
            real = None
            if temperature:
                below = logits - logits.amax(dim=-1, keepdim=True)  # divided, 0 stays finite
                below = below / max(temperature, torch.finfo(below.dtype).tiny)
                odds = below.softmax(dim=-1).reshape(-1, logits.shape[-1])
                latest = torch.multinomial(odds, 1, generator=generator)
                latest = latest.reshape(*tokens.shape[:-1], 1)
            else:
                latest = logits.argmax(dim=-1, keepdim=True)
            tokens = torch.cat([tokens, latest], dim=-1)
        return tokens

    def _from(self, layer: int, x: Tensor, scene: Scene, keep: list[Tensor] | None) -> Tensor:
        for block in self.layers[layer:]:
            x = block(x, scene, keep)
        if keep is not None:
            keep.append(x)
        return self.unembed(x)

    def _tokens(self, tokens: Any) -> Tensor:
        """Tokens as a tensor of numbers that are in the vocabulary."""
        if not isinstance(tokens, Tensor):
            if isinstance(tokens, str):
                raise ShapeError(
                    f"tokens are not one array of whole numbers but a text, {tokens!r}: encode it"
                )
            try:
                tokens = torch.as_tensor(tokens, device=self.W_E.device)
            except (TypeError, ValueError, RuntimeError) as error:
                raise ShapeError(
                    f"tokens are not one array of whole numbers ({error}): rows of different "
                    f"lengths need padding, and real to say which tokens are real"
                ) from None
        if not tokens.numel() and tokens.ndim == 1:
            raise ShapeError("tokens are empty: give at least one, such as [0]")
        if tokens.layout is not torch.strided:
            raise ShapeError(f"tokens are {tokens.layout}, but must be dense: tokens.to_dense()")
        if tokens.ndim == 0 or tokens.shape[-1] == 0:
            raise ShapeError(f"tokens are {describe(tokens)}, but must be [*batch, pos], pos ≥ 1")
        if tokens.dtype == torch.bool or tokens.is_floating_point() or tokens.is_complex():
            raise ShapeError(
                f"tokens are {describe(tokens)}, but must be whole numbers: tokens.long()"
            )
        if tokens.device != self.W_E.device:
            raise ShapeError(
                f"tokens are on {tokens.device} and the model on {self.W_E.device}: move one, "
                f"tokens.to(model.W_E.device)"
            )
        tokens = tokens.long()
        if inspectable(tokens) and tokens.numel():
            for token in (int(tokens.min()), int(tokens.max())):
                if not 0 <= token < self.config.d_vocab:
                    raise ValueError(
                        f"token {token} is not in the vocabulary: d_vocab = "
                        f"{self.config.d_vocab}, so tokens are 0 to {self.config.d_vocab - 1}"
                    )
        return tokens

    def _scene(
        self, tokens: Tensor, real: Tensor | None, cache: Cache | None, edits: dict[str, Edit]
    ) -> Scene:
        """Where each token stands and whom it may look at."""
        causal = self.config.causal
        if cache is not None:
            if not isinstance(cache, Cache):
                raise ShapeError(
                    f"cache is a {type(cache).__name__}: give a tinyattn.block.Cache()"
                )
            if not causal:
                raise ValueError(
                    "a cache needs a causal model: earlier positions would see later ones"
                )
            cache.begin(self, list(tokens.shape[:-1]), self.W_E.dtype)
        pos, past = tokens.shape[-1], cache.pos if cache is not None else 0
        whole = _all_real(tokens, real, cache)
        if whole is None:
            places, count = torch.arange(past, past + pos, device=tokens.device), past + pos
            mask = causal_mask(pos, past + pos, tokens.device) if past and pos > 1 else None
            causal = causal and not past
        else:
            places = (whole.cumsum(dim=-1) - 1).clamp(min=0)[..., past:]
            count = int(whole.sum(dim=-1).max()) if whole.numel() and inspectable(whole) else 0
            mask = whole[..., None, None, :].expand(*whole.shape[:-1], 1, pos, past + pos)
            if causal:
                mask = mask & causal_mask(pos, past + pos, tokens.device)
            mask = mask | _itself(pos, past, tokens.device)  # padding looks at itself alone
        if count > self.config.n_ctx:
            raise ValueError(
                f"{count} positions, but the model has n_ctx = {self.config.n_ctx}: "
                f"give at most {self.config.n_ctx} tokens"
            )
        added = None
        if self.config.positions == "shortformer" and self.W_pos is not None:
            added = self.W_pos[places]
        return Scene(places, mask, causal, added, edits, cache, whole)


def _all_real(tokens: Tensor, real: Tensor | None, cache: Cache | None) -> Tensor | None:
    """Which positions are real, those of the cache included; None where all are."""
    if real is not None and not isinstance(real, Tensor):
        raise ShapeError(f"real is a {type(real).__name__}: give a tensor, torch.tensor(real)")
    like = (torch.bool, tokens.shape, tokens.device)
    if real is not None and (real.dtype, real.shape, real.device) != like:
        raise ShapeError(
            f"real is {describe(real)} and tokens are {describe(tokens)}, on {real.device} and "
            f"{tokens.device}: give one bool for each token, True where it is real"
        )
    if cache is None or not cache.pos:
        return None if real is None else real.clone()  # the caller may change it later
    if real is None and cache.real is None:
        return None
    old = torch.ones(*tokens.shape[:-1], cache.pos, dtype=torch.bool, device=tokens.device)
    new = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
    return torch.cat([old if cache.real is None else cache.real, new], dim=-1)


def _itself(pos: int, past: int, device: torch.device) -> Tensor:
    """True where a position meets itself."""
    square = torch.ones(pos, past + pos, dtype=torch.bool, device=device)
    return square.tril(past).triu(past)
