"""Reading a run: what each writer says about the next token, and what the stream says so far.

Two questions look alike and need different norms. *How much did each part add to this logit?* is a
sum, so every part is divided by the scale of the whole. *What would the model say if it stopped
here?* is a stream of its own, so it is divided by its own scale. Every function here takes the
same switch ``norm``, and all but one ``heads``, by name only.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tinyattn.run import Run
from tinyattn.shapes import ShapeError, describe, inspectable, typed
from tinyattn.stream import Stream


@typed
@dataclass(frozen=True, eq=False, repr=False)
class Terms:
    """Values under names, in the order in which they were written: [writer *batch pos], or wider.

    ``values[i]`` belongs to ``names[i]``; ``terms["0.head 1"]`` is one of them by name.

    Raises:
        ValueError: If names and values differ in number.

    Examples:
        >>> import torch
        >>> from tinyattn import Terms
        >>> terms = Terms(("embed", "0.attn"), torch.tensor([[1.0], [2.0]]))
        >>> terms["0.attn"].tolist(), terms.sum().tolist()
        ([2.0], [3.0])
    """

    names: tuple[str, ...]
    values: Tensor

    def __post_init__(self) -> None:
        count = self.values.shape[0] if self.values.ndim else 0
        if not self.values.ndim or len(self.names) != count:
            raise ValueError(f"Terms: {len(self.names)} names for {count} values: give one each")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"Terms: a name is there twice among {', '.join(self.names)}")

    def __getitem__(self, name: str) -> Tensor:
        """The values of one name.

        Raises:
            KeyError: If there is no such name, naming those there are.
        """
        if name not in self.names:
            raise KeyError(f"Terms: no {name!r}; the names are {', '.join(self.names)}")
        return self.values[self.names.index(name)]

    def sum(self) -> Tensor:
        """All values together."""
        return self.values.sum(dim=0)

    def __repr__(self) -> str:
        return f"Terms({', '.join(self.names)}; {describe(self.values)})"


@typed
def decomposed(run: Run, *, heads: bool = False, norm: bool = True) -> Stream:
    """Take the stream apart into its writes, as the unembedding reads each of them.

    Args:
        run: A pass.
        heads: Each head on its own rather than a layer's heads together.
        norm: Pass every write through the final norm with the scale of the whole stream, which
            keeps the sum; the norm's own bias is then the last term, "norm bias". False leaves
            the writes as they were written.

    Examples:
        >>> from tinyattn import Config, Transformer, decomposed
        >>> model = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6, norm="rms"))
        >>> run = model.run([1, 2, 3])
        >>> parts = decomposed(run, heads=True)
        >>> parts.writers
        ('embed', 'pos', '0.head 0', '0.head 1')
        >>> bool((parts.now - model.norm_final(run.final)).abs().max() < 1e-5)
        True
    """
    ledger = run.ledger(heads=heads)
    final = run.model.norm_final
    if not norm or not final.kind:
        return ledger
    with torch.set_grad_enabled(run.grad):
        writes = tuple(final.parts(write, run.final) for write in ledger.writes)
        stream = Stream(ledger.writers, writes)
        if final.kind == "layer":
            stream = stream.write(final.bias.expand_as(run.final), by="norm bias")
    return stream


@typed
def accumulated(run: Run, *, heads: bool = False, norm: bool = True) -> Terms:
    """The stream after each write, as the unembedding would read it there and then.

    Args:
        run: A pass.
        heads: After each head rather than after a layer's heads together.
        norm: Pass every stream through the final norm, each with its own scale. False leaves the
            sums as they stand.

    Returns:
        Under each writer's name the stream after its write, [writer *batch pos d_model].

    Examples:
        >>> from tinyattn import Config, Transformer, accumulated
        >>> model = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6))
        >>> accumulated(model.run([1, 2, 3]))
        Terms(embed, pos, 0.attn; float32[3, 3, 8])
    """
    ledger = run.ledger(heads=heads)
    with torch.set_grad_enabled(run.grad):
        so_far = torch.stack(ledger.writes).cumsum(dim=0)
        return Terms(ledger.writers, run.model.norm_final(so_far) if norm else so_far)


@typed
def logit_lens(run: Run, *, heads: bool = False, norm: bool = True) -> Terms:
    """What the model would say after each write, if it stopped there: logits of every stage.

    Args:
        run: A pass.
        heads: After each head rather than after a layer's heads together.
        norm: Each stage with its own scale of the final norm. With the last stage's scale an early
            stream, which is smaller, looks almost undecided. False unembeds without any norm.

    Returns:
        Under each writer's name the logits after its write, [writer *batch pos d_vocab]. The last
        are the model's.

    Examples:
        >>> from tinyattn import Config, Transformer, logit_lens
        >>> run = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6)).run([1, 2])
        >>> lens = logit_lens(run)
        >>> bool((lens["0.attn"] - run.logits).abs().max() < 1e-5)
        True

    Source: nostalgebraist (2020), "interpreting GPT: the logit lens".
    """
    stages = accumulated(run, heads=heads, norm=norm)
    with torch.set_grad_enabled(run.grad):
        logits = stages.values @ run.model.W_U
        return Terms(stages.names, logits if run.model.b_U is None else logits + run.model.b_U)


def logit_attribution(
    run: Run,
    answer: int | Int[Tensor, "*batch pos"],
    wrong: int | Int[Tensor, "*batch pos"] | None = None,
    *,
    heads: bool = False,
    norm: bool = True,
) -> Terms:
    """How much each writer adds to the logit of a token, or to its lead over another.

    The final norm's scale is held still, so that the terms sum to the logit exactly. Biases are
    terms of their own, and so are the final norm's ("norm bias") and the unembedding's ("b_U").
    No head's write is formed: its ``z`` meets the direction seen through ``W_O``.

    Args:
        run: A pass.
        answer: A token, for all positions, or one for each.
        wrong: Another; the terms are then those of the difference of the two logits.
        heads: Each head on its own rather than a layer's heads together.
        norm: Through the final norm with the scale of the whole stream. False reads the bare
            writes, whose terms do not sum to the logit of a model with a norm.

    Returns:
        Under each writer's name its share at every position, [writer *batch pos].

    Raises:
        ShapeError: If a token is not an integer, or tokens are not one for each position.
        ValueError: If a token is not in the vocabulary.

    Examples:
        >>> from tinyattn import Config, Transformer, logit_attribution
        >>> run = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6)).run([1, 2])
        >>> terms = logit_attribution(run, answer=3, wrong=4, heads=True)
        >>> terms.names
        ('embed', 'pos', '0.head 0', '0.head 1')
        >>> lead = run.logits[:, 3] - run.logits[:, 4]
        >>> bool((terms.sum() - lead).abs().max() < 1e-5)
        True

    Source: Elhage et al. (2021), "Observations about Attention Heads"; Wang et al. (2022),
    section 3 (logit difference).
    """
    reading = _towards("logit_attribution", run, answer, wrong, norm)
    with torch.set_grad_enabled(run.grad):
        shares = run.along(reading.direction, heads=heads)
        written = torch.stack(list(shares.values()))
        if reading.scale is not None:
            written = written / reading.scale
        biases = [share.expand(written.shape[1:])[None] for share in reading.biases.values()]
        return Terms((*shares, *reading.biases), torch.cat([written, *biases]))


def head_attribution(
    run: Run,
    answer: int | Int[Tensor, "*batch pos"],
    wrong: int | Int[Tensor, "*batch pos"] | None = None,
    *,
    norm: bool = True,
) -> Float[Tensor, "layer head *batch pos"]:
    """How much each head adds to the logit of a token, or to its lead: a grid of layers and heads.

    These are the heads' terms of :func:`logit_attribution` and nothing else, in a fraction of its
    time.

    Args:
        run: A pass.
        answer: A token, for all positions, or one for each.
        wrong: Another; the shares are then those of the difference of the two logits.
        norm: Through the final norm with the scale of the whole stream.

    Raises:
        ShapeError: If a token is not an integer, or tokens are not one for each position.
        ValueError: If a token is not in the vocabulary, or an edit replaced a layer's "attn_out".

    Examples:
        >>> from tinyattn import Config, Transformer, head_attribution, logit_attribution
        >>> run = Transformer(Config(8, 4, n_heads=2, n_layers=3, d_vocab=5, n_ctx=6)).run([1, 2])
        >>> grid = head_attribution(run, answer=3, wrong=4)
        >>> grid.shape
        torch.Size([3, 2, 2])
        >>> terms = logit_attribution(run, answer=3, wrong=4, heads=True)
        >>> bool((grid[2, 1] - terms["2.head 1"]).abs().max() < 1e-5)
        True

    Source: Wang et al. (2022), section 3.
    """
    reading = _towards("head_attribution", run, answer, wrong, norm)
    with torch.set_grad_enabled(run.grad):
        grid = run.heads_along(reading.direction)
        return grid if reading.scale is None else grid / reading.scale


@dataclass(frozen=True, eq=False)
class _Reading:
    """What a logit reads of the stream: a direction, its scale, and what is added at the end."""

    direction: Tensor
    scale: Tensor | None
    biases: dict[str, Tensor]


def _towards(
    function: str, run: Run, answer: int | Tensor, wrong: int | Tensor | None, norm: bool
) -> _Reading:
    """What the logit of a token reads, or the difference of two."""
    if not isinstance(run, Run):
        raise ShapeError(f"{function}: run is a {type(run).__name__}: give model.run(tokens)")
    model, final = run.model, run.model.norm_final
    tokens = [one_for_each(function, "answer", answer, run)]
    if wrong is not None:
        tokens.append(one_for_each(function, "wrong", wrong, run))

    def difference(rows: Tensor) -> Tensor:
        return pick(rows, tokens[0]) - (pick(rows, tokens[1]) if wrong is not None else 0)

    with torch.set_grad_enabled(run.grad):
        direction = difference(model.W_E if model.config.tied else model.W_U.T)
        seen, scale, biases = direction, None, dict[str, Tensor]()
        if norm and final.kind:
            seen = direction * final.gain
            if final.kind == "layer":
                seen = seen - seen.mean(dim=-1, keepdim=True)
                biases["norm bias"] = direction @ final.bias
            scale = final.scale(run.final)
        if model.b_U is not None:
            biases["b_U"] = difference(model.b_U)
    return _Reading(seen, None if scale is None else scale.squeeze(-1), biases)


def pick(W: Tensor, tokens: Tensor) -> Tensor:
    """The row of each token, or of one token, also where its number cannot be looked at.

    Examples:
        >>> import torch
        >>> from tinyattn.reading import pick
        >>> pick(torch.eye(2), torch.tensor(1)).tolist()
        [0.0, 1.0]
    """
    return W[tokens[None]][0]


def one_for_each(function: str, name: str, token: int | Tensor, run: Run) -> Tensor:
    """A token for each position, or one for all, as a tensor of checked numbers.

    Raises:
        ShapeError: If it is no whole number, or tokens are not one for each position.
        ValueError: If a token is not in the vocabulary.

    Examples:
        >>> from tinyattn import Config, Transformer
        >>> from tinyattn.reading import one_for_each
        >>> run = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6)).run([1, 2])
        >>> one_for_each("logit_attribution", "answer", 3, run)
        tensor(3)
    """
    must = f"but must be the number of a token, or one for each position, {list(run.tokens.shape)}"
    try:
        target = torch.as_tensor(token, device=run.tokens.device)
    except (TypeError, ValueError, RuntimeError):
        raise ShapeError(f"{function}: {name} is {token!r}, {must}") from None
    whole = not (target.is_floating_point() or target.is_complex() or target.dtype == torch.bool)
    if not whole or target.shape not in (torch.Size([]), run.tokens.shape):
        raise ShapeError(f"{function}: {name} is {describe(target)}, {must}")
    d_vocab = run.model.config.d_vocab
    lost = (target < 0) | (target >= d_vocab)
    if inspectable(lost) and lost.any():
        raise ValueError(
            f"{function}: {name} = {int(target[lost][0])} is not in the vocabulary: "
            f"d_vocab = {d_vocab}, so tokens are 0 to {d_vocab - 1}"
        )
    return target.long()
