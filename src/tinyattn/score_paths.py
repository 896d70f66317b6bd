"""The scores of a head as a sum over paths: what it asks came one way, what it reads another.

A score is a product of a query and a key, and each of the two is a sum over the paths that lead to
it. So a score is a sum over pairs of paths. What reaches the queries through an earlier head is
Q-composition with it, what reaches the keys is K-composition, in numbers and for these tokens.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.lowrank import LowRank
from tinyattn.paths import LIMIT, expand, frozen, listed, stations
from tinyattn.positions import rotary
from tinyattn.run import Run
from tinyattn.shapes import typed


@dataclass(frozen=True, eq=False, repr=False)
class ScorePaths:
    """Named terms that sum to the scores of one head. :func:`score_paths` makes one.

    A term has two names: the path by which the reader got what it asks with, and the path by
    which the one that is read got what it offers. ``terms["embed", "0.3"]`` is such a term as a
    :class:`LowRank` [*batch query key]: nothing is multiplied out before ``.dense()``.

    ``queries`` and ``keys`` hold the parts of what is asked and offered, [*batch pos d_head].

    Examples:
        >>> import torch
        >>> from tinyattn import ScorePaths
        >>> asked = {"embed": torch.tensor([[1.0], [2.0]])}
        >>> offered = {"embed": torch.ones(2, 1), "0.0": torch.tensor([[3.0], [0.0]])}
        >>> terms = ScorePaths(asked, offered)
        >>> terms["embed", "0.0"].dense().tolist()
        [[3.0, 0.0], [6.0, 0.0]]
        >>> terms.at(1, 0).tolist(), terms.sum().tolist()
        ([[2.0, 6.0]], [[4.0, 1.0], [8.0, 2.0]])
    """

    queries: dict[str, Tensor]
    keys: dict[str, Tensor]

    def __post_init__(self) -> None:
        if not self.queries or not self.keys:
            raise ValueError(
                f"ScorePaths: {len(self.queries)} queries and {len(self.keys)} keys: give one or "
                f"more of each"
            )

    def __len__(self) -> int:
        return len(self.queries) * len(self.keys)

    def __getitem__(self, names: tuple[str, str]) -> LowRank:
        """One term: scores, scaled and before the mask. Row i reads column j.

        Raises:
            KeyError: If there is no such path.
        """
        if not isinstance(names, tuple) or len(names) != 2:
            raise KeyError(
                f"ScorePaths: {names!r}: a term has two names, the reader's path and that of the "
                f"one that is read: terms['embed', 'embed']"
            )
        query, key = names
        return self._score([query], [key])

    def sum(
        self, queries: Iterable[str] | None = None, keys: Iterable[str] | None = None
    ) -> Float[Tensor, "*batch query key"]:
        """Scores from some paths of the reader to some of what is read; all, if left out.

        All of them are the head's scores before the mask.

        Raises:
            KeyError: If there is no such path.
        """
        queries = [queries] if isinstance(queries, str) else queries  # one name, not its letters
        keys = [keys] if isinstance(keys, str) else keys
        asked = list(self.queries if queries is None else queries)
        offered = list(self.keys if keys is None else keys)
        return self._score(asked, offered).dense()

    def through(self, head: str, side: str = "key") -> tuple[str, ...]:
        """The names on one side that pass through an earlier head, or come from a source.

        Those of the keys are the head's K-composition with it, those of the queries its
        Q-composition.

        Raises:
            KeyError: If no path does.
            ValueError: If ``side`` is neither "query" nor "key".
        """
        if side not in ("query", "key"):
            raise ValueError(f"ScorePaths.through: side = {side!r}: give 'query' or 'key'")
        names = tuple(self.queries if side == "query" else self.keys)
        found = tuple(name for name in names if head in stations(name))
        if not found:
            raise KeyError(f"ScorePaths: no {side} path through {head!r}: {listed(names)}")
        return found

    def at(self, query: int, key: int) -> Float[Tensor, "*batch row column"]:
        """One score taken apart: rows are the reader's paths, columns those of what it reads.

        Raises:
            IndexError: If there is no such position.
            TypeError: If a position is no whole number.
        """
        pos = next(iter(self.queries.values())).shape[-2]
        for name, place in (("query", query), ("key", key)):
            if isinstance(place, bool) or not isinstance(place, int):
                raise TypeError(f"ScorePaths.at: {name} is {place!r}: give a whole number")
            if not -pos <= place < pos:
                raise IndexError(f"ScorePaths.at: no {name} {place} among {pos} positions")
        asked = torch.stack([q[..., query, :] for q in self.queries.values()], dim=-2)
        offered = torch.stack([k[..., key, :] for k in self.keys.values()], dim=-2)
        return asked @ offered.mT / math.sqrt(asked.shape[-1])

    def __repr__(self) -> str:
        return f"ScorePaths({listed(tuple(self.queries))} × {listed(tuple(self.keys))})"

    def _score(self, queries: list[str], keys: list[str]) -> LowRank:
        sides = []
        for side, wanted, parts in (("query", queries, self.queries), ("key", keys, self.keys)):
            for name in wanted:
                if name not in parts:
                    raise KeyError(f"ScorePaths: no {side} path {name!r}: {listed(tuple(parts))}")
            nothing = torch.zeros_like(next(iter(parts.values())))
            sides.append(sum((parts[name] for name in wanted), nothing))
        return LowRank(sides[0] / math.sqrt(sides[0].shape[-1]), sides[1].mT)


@typed
def score_paths(run: Run, layer: int, head: int, *, limit: int = LIMIT) -> ScorePaths:
    """Take the scores of one head apart: which come through which earlier head, on which side.

    A score is a product of what the reader asks and what the other position offers. Each side is
    a sum over the paths that lead to it, so a score is a sum over pairs of paths.

    Args:
        run: Of an attention-only model without norm.
        layer: The head's layer; negative numbers count from the end.
        head: Its number in the layer.
        limit: How many paths there may be on a side.

    Raises:
        IndexError: If there is no such head.
        ValueError: As :func:`paths`, and if queries, keys or scores of this layer were edited.

    Examples:
        >>> from tinyattn import Config, Transformer, score_paths
        >>> config = Config(8, 4, 2, 2, d_vocab=5, n_ctx=6, positions="shortformer")
        >>> run = Transformer(config).run([1, 2, 3])
        >>> terms = score_paths(run, 1, 0)
        >>> terms
        ScorePaths(embed, 0.0, 0.1, pos × embed, 0.0, 0.1, pos)
        >>> terms["embed", "0.1"].dense().shape, terms.at(2, 0).shape
        (torch.Size([3, 3]), torch.Size([4, 4]))
        >>> bool((terms.sum() - run.scores(1)[0])[2].abs().max() < 1e-5)
        True

    Source: Elhage et al. (2021), "Path Expansion of Attention Scores QK Circuit".
    """
    config, scene = run.model.config, run.scene
    reader = frozen(run.model.heads(layer), run.grad)[head]
    layer %= config.n_layers
    edited = [f"{layer}.{name}" for name in ("q", "k", "scores") if f"{layer}.{name}" in run.edits]
    if edited:
        raise ValueError(
            f"score_paths: {edited[0]!r} was edited, so the paths do not sum to it: take the run "
            f"without that edit"
        )
    terms = expand("score_paths", run, layer, None, limit)

    def side(W: Tensor, bias: str, b: Tensor | None) -> dict[str, Tensor]:
        read = terms.each(lambda x: x @ W)
        parts = {name: read[name] for name in terms.names}
        if scene.added is not None:
            parts["pos"] = (scene.added @ W).expand_as(parts["embed"])
        if b is not None:
            parts[bias] = b.expand_as(parts["embed"])
        if config.positions != "rotary":
            return parts
        turn = functools.partial(
            rotary, theta=config.theta, layout=config.rotary_layout, places=scene.places
        )
        return {name: turn(part) for name, part in parts.items()}

    with torch.set_grad_enabled(run.grad):
        queries = side(reader.W_Q, "b_Q", reader.b_Q)
        return ScorePaths(queries, side(reader.W_K, "b_K", reader.b_K))
