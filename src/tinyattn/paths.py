"""The logits as a sum over paths: from a token, through some heads or none, to the logits.

While the patterns stay as they are, an attention-only model is linear in what enters its stream.
Multiply its layers out, and the logits are a sum of terms. Each term is one way through the model:
straight from the embedding ("embed"), through one head ("0.3": layer 0, head 3), or through one
head after another ("0.3 → 1.2").

Where positions are added to the stream they are a second source, "pos", and their paths are named
after it: "pos → 0.3". Biases are a source for each layer, "0.bias", and "b_U" is a term of its own.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tinyattn.circuits import ov_circuit
from tinyattn.head import Heads
from tinyattn.lowrank import LowRank
from tinyattn.reading import one_for_each, pick
from tinyattn.run import Run
from tinyattn.shapes import typed

LIMIT = 4096
"""How many terms there may be, unless more are asked for."""

ARROW = " → "
_Chain = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Paths:
    """Named terms that sum to the logits of a run. :func:`paths` makes one.

    ``terms["0.3 → 1.2"]`` is what one path adds to the logits, [*batch pos d_vocab]. Terms are
    computed when asked; only the patterns are kept. ``names`` lists them: first those of the
    embedding, shorter paths first.

    Examples:
        >>> from tinyattn import Config, Transformer, paths
        >>> config = Config(8, 4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=6, positions=None)
        >>> terms = paths(Transformer(config).run([1, 2, 3]))
        >>> terms
        Paths(9 terms: embed, 0.0, 0.1, 1.0, …, 0.1 → 1.1)
        >>> terms["0.1 → 1.0"].shape
        torch.Size([3, 5])
        >>> terms.through("0.1")
        ('0.1', '0.1 → 1.0', '0.1 → 1.1')

    Source: Elhage et al. (2021), "Two-Layer Attention-Only Transformers", "Path Expansion of
    Logits".
    """

    run: Run
    layers: tuple[Heads, ...]
    patterns: tuple[Tensor, ...]
    sources: dict[str, Tensor]
    W_U: Tensor
    b_U: Tensor | None
    longest: int
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> Float[Tensor, "*batch pos d_vocab"]:
        """What one path adds to the logits.

        Raises:
            KeyError: If there is no such path.
        """
        self._known(name)
        with torch.set_grad_enabled(self.run.grad):
            if name == "b_U" and self.b_U is not None:
                return self.b_U.expand_as(self.run.logits)
            return self.stream(name) @ self.W_U

    def stream(self, name: str) -> Float[Tensor, "*batch pos d_model"]:
        """What one path writes into the stream, before the unembedding.

        Raises:
            KeyError: If there is no such path, or it has no place in the stream ("b_U").
        """
        self._known(name)
        if name == "b_U":
            raise KeyError("Paths: 'b_U' is added to the logits and is never in the stream")
        with torch.set_grad_enabled(self.run.grad):
            if name == "longer":
                return _lengths(self)[self.longest + 1 :].sum(dim=0)
            source, chain = _parse(name)
            return reduce(lambda x, step: self._through(step, x), chain, self.sources[source])

    def pattern(self, name: str) -> Float[Tensor, "*batch query key"]:
        """Where a path carries things: row i reads column j, through all its heads at once.

        It is the product of the heads' patterns, the last head on the left: the pattern of a
        virtual head. The direct path stays where it is.

        Raises:
            KeyError: If there is no such path, or it is no single chain of heads.
        """
        chain = self._chain(name)
        pos = self.run.tokens.shape[-1]
        stay = torch.eye(pos, dtype=self.run.logits.dtype, device=self.run.logits.device)
        stay = stay.expand(*self.run.tokens.shape, pos)
        with torch.set_grad_enabled(self.run.grad):
            return reduce(
                lambda A, step: self.patterns[step[0]][..., step[1], :, :] @ A, chain, stay
            )

    def circuit(self, name: str) -> LowRank:
        """What a path makes of what it carries: the product of its heads' OV circuits.

        With ``x`` its source, a path adds ``pattern @ x @ circuit @ W_U`` to the logits.

        Raises:
            KeyError: If there is no such path, or it is no single chain of heads.
        """
        W_E = self.run.model.W_E.detach()
        one = torch.eye(W_E.shape[1], dtype=W_E.dtype, device=W_E.device)
        with torch.set_grad_enabled(self.run.grad):
            heads = [self.layers[layer][head] for layer, head in self._chain(name)]
            circuits = [ov_circuit(head.W_V, head.W_O) for head in heads]
            return reduce(lambda one, next_: one @ next_, circuits or [LowRank(one, one)])

    def logit(
        self, token: int | Int[Tensor, "*batch pos"]
    ) -> dict[str, Float[Tensor, "*batch pos"]]:
        """Each term's share in the logit of one token, or of another token at each position.

        All logits are never formed. The shares sum to the logit.

        Raises:
            ShapeError: If the tokens are not one for each position.
            ValueError: If a token is not in the vocabulary.

        Examples:
            >>> from tinyattn import Config, Transformer, paths
            >>> config = Config(8, 4, n_heads=1, n_layers=1, d_vocab=5, n_ctx=6, positions=None)
            >>> run = Transformer(config).run([1, 2, 3])
            >>> shares = paths(run).logit(4)
            >>> list(shares)
            ['embed', '0.0']
            >>> bool((sum(shares.values()) - run.logits[:, 4]).abs().max() < 1e-5)
            True
        """
        tokens = one_for_each("Paths.logit", "token", token, self.run)
        with torch.set_grad_enabled(self.run.grad):
            reads = pick(self.W_U.T, tokens)
            shares = self.each(lambda x: (x * reads).sum(dim=-1))
            if self.b_U is not None:
                shares["b_U"] = pick(self.b_U, tokens).expand(self.run.tokens.shape)
        return {name: shares[name] for name in self.names}

    def through(self, head: str) -> tuple[str, ...]:
        """The names of the paths that pass through a head, or come from a source.

        Raises:
            KeyError: If no path does.

        Examples:
            >>> from tinyattn import Config, Transformer, paths
            >>> config = Config(8, 4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=6)
            >>> paths(Transformer(config).run([1, 2])).through("0.1")[:3]
            ('0.1', '0.1 → 1.0', '0.1 → 1.1')
        """
        found = tuple(name for name in self.names if head in stations(name))
        if not found:
            raise KeyError(f"Paths: no path through {head!r}: {listed(self.names)}")
        return found

    def sum(self, names: Iterable[str] | None = None) -> Float[Tensor, "*batch pos d_vocab"]:
        """Some terms together, or one; all of them, which is the logits, if left out.

        Raises:
            KeyError: If there is no such path.
        """
        names = [names] if isinstance(names, str) else names  # one name, not its letters
        names = self.names if names is None else [self._known(name) for name in names]
        with torch.set_grad_enabled(self.run.grad):
            streams = self.each(lambda x: x) if len(names) > 1 else {}
            total = torch.zeros_like(self.run.final)
            for name in names:
                if name != "b_U":
                    total = total + (streams[name] if streams else self.stream(name))
            logits = total @ self.W_U
            return logits if self.b_U is None or "b_U" not in names else logits + self.b_U

    def __repr__(self) -> str:
        return f"Paths({len(self)} terms: {listed(self.names)})"

    def _known(self, name: str) -> str:
        if name not in self.names:
            raise KeyError(f"Paths: no path {name!r}: {listed(self.names)}")
        return name

    def _chain(self, name: str) -> _Chain:
        if self._known(name) in {"b_U", "longer"}:
            raise KeyError(f"Paths: {name!r} is no single chain of heads")
        return _parse(name)[1]

    def _through(self, step: tuple[int, int], x: Tensor) -> Tensor:
        """What a head makes of a part of the stream: ``A @ x @ W_OV``, the bias left out."""
        layer, number = step
        head = self.layers[layer][number]
        return self.patterns[layer][..., number, :, :] @ (x @ head.W_V) @ head.W_O

    def each(self, read: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        """What is read of every path's write. Paths that begin alike share their beginning."""
        found: dict[str, Tensor] = {}

        def follow(source: str, chain: _Chain, level: int, x: Tensor) -> None:
            found[_name(source, chain)] = read(x)
            if len(chain) < self.longest:
                for layer in range(level, len(self.layers)):
                    for head in range(len(self.layers[layer])):
                        step = (layer, head)
                        follow(source, (*chain, step), layer + 1, self._through(step, x))

        for source, x in self.sources.items():
            follow(source, (), _level(source), x)
        if "longer" in self.names:
            found["longer"] = read(self.stream("longer"))
        return found


@typed
def paths(run: Run, *, longest: int | None = None, limit: int = LIMIT) -> Paths:
    """Take the logits of a run apart: one term for each way through the model.

    The patterns are those of the run and stay fixed; with them the sum is exact. If the run keeps
    gradients they flow through the patterns too, as they do in the logits.

    Args:
        run: Of an attention-only model without norm. Its patterns may have been edited.
        longest: At most so many heads in a path. The others are one term, "longer".
        limit: How many terms there may be.

    Raises:
        ValueError: If the model has norms or neurons, if something other than patterns was
            edited, or if there are more terms than ``limit``.

    Examples:
        >>> from tinyattn import Config, Transformer, paths
        >>> config = Config(8, 4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=6)
        >>> run = Transformer(config).run([1, 2, 3])
        >>> bool((paths(run).sum() - run.logits).abs().max() < 1e-5)
        True
        >>> paths(run, longest=1).names[:6]
        ('embed', '0.0', '0.1', '1.0', '1.1', 'pos')
        >>> paths(run, longest=1).names[-2:]
        ('pos → 1.1', 'longer')

    Source: Elhage et al. (2021), "Path Expansion of Logits".
    """
    return expand("paths", run, run.model.config.n_layers, longest, limit)


@typed
def paths_by_length(run: Run) -> Float[Tensor, "level *batch pos d_vocab"]:
    """Logits by the number of heads passed through: entry k is all paths through k heads.

    Paths are not listed for it, so any number of layers and heads will do. Biases count as
    passing through none.

    Raises:
        ValueError: As :func:`paths`.

    Examples:
        >>> from tinyattn import Config, Transformer, paths_by_length
        >>> run = Transformer(Config(8, 4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=6)).run([1, 2])
        >>> parts = paths_by_length(run)
        >>> parts.shape, bool((parts.sum(dim=0) - run.logits).abs().max() < 1e-5)
        (torch.Size([3, 2, 5]), True)

    Source: Elhage et al. (2021), "Term Importance Analysis".
    """
    terms = expand("paths_by_length", run, run.model.config.n_layers, 0, LIMIT)
    with torch.set_grad_enabled(run.grad):
        logits = _lengths(terms) @ terms.W_U
        if terms.b_U is not None:
            logits = torch.cat([logits[:1] + terms.b_U, logits[1:]])
    return logits


def expand(function: str, run: Run, depth: int, longest: int | None, limit: int) -> Paths:
    """The paths that end in the stream before layer ``depth``; with b_U, if that is the last."""
    config, model = run.model.config, run.model
    _check_linear(function, run, depth)
    if longest is not None and longest < 0:
        raise ValueError(f"{function}: longest = {longest}: give 0 or more")
    b_U: Tensor | None = model.b_U if depth == config.n_layers else None
    with torch.set_grad_enabled(run.grad):
        sources = model.embedded(run.tokens, run.scene)
    biases = [f"{layer}.bias" for layer in range(depth) if config.biases]
    levels = [_level(source) for source in (*sources, *biases)]

    def count(most: int) -> int:
        """How many terms there are, none of them made."""
        chains = (
            math.comb(depth - level, length) * config.n_heads**length
            for level in levels
            for length in range(min(most, depth - level) + 1)
        )
        return sum(chains) + (most < depth) + (b_U is not None)

    most = depth if longest is None else min(longest, depth)
    if count(most) > limit:
        fits = [shorter for shorter in range(most) if count(shorter) <= limit]
        remedy = f", or set longest = {fits[-1]}, which makes {count(fits[-1])}" if fits else ""
        raise ValueError(
            f"{function}: {depth} layers of {config.n_heads} heads make {count(most)} terms, more "
            f"than limit = {limit}: raise the limit{remedy if function == 'paths' else ''}"
        )
    with torch.set_grad_enabled(run.grad):
        layers = tuple(frozen(model.heads(layer), run.grad) for layer in range(depth))
        patterns = tuple(run.pattern(layer) for layer in range(depth))
        for layer, name in enumerate(biases):
            sources[name] = _bias(run, layer, patterns[layer])
    names = [
        _name(source, chain)
        for source in sources
        for chain in _chains(config.n_heads, _level(source), depth, most)
    ]
    names += ["longer"] * (most < depth) + ["b_U"] * (b_U is not None)
    W_U = model.W_U if run.grad else model.W_U.detach()
    b_U = b_U if run.grad or b_U is None else b_U.detach()
    return Paths(run, layers, patterns, sources, W_U, b_U, most, tuple(names))


def _check_linear(function: str, run: Run, depth: int) -> None:
    """Refuse a run whose stream before a layer is no sum over paths from the tokens."""
    config = run.model.config
    if config.norm or config.d_mlp:
        part = f"norm = {config.norm!r}" if config.norm else f"d_mlp = {config.d_mlp}"
        raise ValueError(
            f"{function}: the model has {part}, and only attention is linear once its patterns "
            f"are fixed: take an attention-only model, Config(norm=None, d_mlp=0), or the "
            f"writes of run.ledger(heads=True)"
        )
    harmless = {"embed", "pos"}
    for layer in range(depth):
        harmless |= {f"{layer}.{name}" for name in ("q", "k", "scores", "pattern")}
    later = tuple(f"{layer}." for layer in range(depth, config.n_layers))
    for name in run.edits:
        if name not in harmless and not (name.startswith(later) and name != f"{depth}.resid_pre"):
            raise ValueError(
                f"{function}: {name!r} was edited, which is no path from the tokens: edit "
                f"patterns only, or take a head's paths out of the unedited sum, terms.through(…)"
            )


def _chains(n_heads: int, level: int, depth: int, longest: int) -> Iterator[_Chain]:
    """Every way through the heads from a level on, short ones first."""
    for length in range(min(longest, depth - level) + 1):
        for layers in itertools.combinations(range(level, depth), length):
            for heads in itertools.product(range(n_heads), repeat=length):
                yield tuple(zip(layers, heads, strict=True))


def _lengths(terms: Paths) -> Tensor:
    """The stream by the number of heads passed through, layer by layer: [level *batch pos d_model].

    What has passed through k heads before a layer has passed through k + 1 after one of its own.
    """
    zero = torch.zeros_like(terms.run.final)
    passed = [zero] * (len(terms.layers) + 1)
    for layer in range(len(terms.layers) + 1):
        for source, x in terms.sources.items():
            if _level(source) == layer:
                passed[0] = passed[0] + x
        if layer < len(terms.layers):
            heads = [(layer, head) for head in range(len(terms.layers[layer]))]
            wrote = [sum((terms._through(step, x) for step in heads), zero) for x in passed[:-1]]
            passed = [passed[0], *(x + new for x, new in zip(passed[1:], wrote, strict=True))]
    return torch.stack(passed)


def _bias(run: Run, layer: int, A: Tensor) -> Tensor:
    """What a layer writes whatever it reads: values' biases as its heads mix them, and b_O."""
    block, heads = run.model.layers[layer], run.model.heads(layer)
    write = torch.zeros_like(run.final)
    for number in range(len(heads)):
        head = heads[number]
        if head.b_V is not None:
            write = write + A[..., number, :, :].sum(dim=-1, keepdim=True) * (head.b_V @ head.W_O)
    return write if block.b_O is None else write + block.b_O


def frozen(heads: Heads, grad: bool) -> Heads:
    """The weights without their gradients, unless the run keeps them."""
    quiet = {name: weight.detach() for name, weight in vars(heads).items() if weight is not None}
    return heads if grad else Heads(**quiet)


def _name(source: str, chain: _Chain) -> str:
    """The embedding is left out where heads follow it: "0.3 → 1.2"."""
    heads = [f"{layer}.{head}" for layer, head in chain]
    return ARROW.join(heads if source == "embed" and heads else [source, *heads])


def stations(name: str) -> list[str]:
    """What a path passes through, its source first."""
    stations = name.split(ARROW)
    return stations if _is_source(stations[0]) else ["embed", *stations]


def _parse(name: str) -> tuple[str, _Chain]:
    source, *heads = stations(name)
    numbers = [head.split(".") for head in heads]
    return source, tuple((int(layer), int(head)) for layer, head in numbers)


def _level(source: str) -> int:
    """The first layer that reads a source."""
    layer, bias, _ = source.partition(".bias")
    return int(layer) + 1 if bias else 0


def _is_source(station: str) -> bool:
    return not station.replace(".", "").isdigit()


def listed(names: tuple[str, ...]) -> str:
    if len(names) <= 6:
        return ", ".join(names)
    return f"{', '.join(names[:4])}, …, {names[-1]}"
