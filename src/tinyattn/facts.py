"""What can be counted in a text: how often one token follows another, and what a model adds.

Counting needs no training, so it is what a trained model has to beat.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tinyattn.bpe import Vocabulary
from tinyattn.model import Transformer
from tinyattn.shapes import describe

REACH = 40
"""How far before a token the source of a skip-trigram may stand."""

PRIOR = 50.0
"""How many imagined followers each token has, shared out as all tokens are."""


@dataclass(frozen=True)
class SkipTrigram:
    """How often a token follows another, with and without a third somewhere before them.

    Attributes:
        source: The token somewhere before.
        destination: The token that is there now.
        out: The token that comes next.
        places: How often the destination stands after the source, within :data:`REACH`.
        with_source: How often the next token is ``out``, at those places.
        without_source: How often it is, at all other places of the destination.
        bigram: How often it is, at all places of the destination.
    """

    source: str
    destination: str
    out: str
    places: int
    with_source: float
    without_source: float
    bigram: float


def bigrams(tokens: Tensor, d_vocab: int) -> Tensor:
    """Count which token follows which: log-probabilities [d_vocab d_vocab], a row for each first.

    A pair that never came is not impossible: each row is mixed with how often tokens are at all.

    Raises:
        ValueError: If a token is not in the vocabulary.
    """
    _known("bigrams", tokens, d_vocab)
    pairs = torch.bincount(tokens[:-1] * d_vocab + tokens[1:], minlength=d_vocab**2)
    counts = pairs.view(d_vocab, d_vocab).double()
    alone = torch.bincount(tokens, minlength=d_vocab).double()
    alone = (alone + 0.5) / (alone + 0.5).sum()
    return ((counts + PRIOR * alone) / (counts.sum(dim=1, keepdim=True) + PRIOR)).log().float()


def unigrams(tokens: Tensor, d_vocab: int) -> Tensor:
    """Count how often each token comes at all: log-probabilities [d_vocab].

    Raises:
        ValueError: If a token is not in the vocabulary.
    """
    _known("unigrams", tokens, d_vocab)
    alone = torch.bincount(tokens, minlength=d_vocab).double() + 0.5
    return (alone / alone.sum()).log().float()


def held_out_rows(tokens: Tensor, n_ctx: int) -> Tensor:
    """Cut a text into rows of ``n_ctx`` tokens that do not overlap, the start before each."""
    count = len(tokens) // n_ctx
    return functional.pad(tokens[: count * n_ctx].view(count, n_ctx), (1, 0))


def counted_loss(rows: Tensor, log_probabilities: Tensor) -> float:
    """The mean loss of counts on rows, from the second token of the text on, in nats.

    Raises:
        ValueError: If there is no such token.
    """
    _long_enough("counted_loss", rows)
    before, after = rows[:, 1:-1], rows[:, 2:]
    found = (
        log_probabilities[after]
        if log_probabilities.ndim == 1
        else log_probabilities[before, after]
    )
    return -found.mean().item()


@torch.no_grad()
def model_loss(model: Transformer, rows: Tensor) -> float:
    """The mean loss of a model on rows, from the second token of the text on, in nats.

    Raises:
        ValueError: If there is no such token.
    """
    _long_enough("model_loss", rows)
    losses = []
    for part in rows.split(16):
        logits = model(part[:, :-1])[:, 1:]
        wanted = part[:, 2:]
        losses.append(
            functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
        )
    return torch.cat(losses).mean().item()


def skip_trigram(tokens: Tensor, vocabulary: Vocabulary, words: Sequence[str]) -> SkipTrigram:
    """Count a skip-trigram in a text: source, destination and out, each one token.

    Raises:
        ValueError: If a word is not one token, or the destination never stands in the text.

    Examples:
        >>> import torch
        >>> from tinyattn import Vocabulary
        >>> from tinyattn.facts import skip_trigram
        >>> words = Vocabulary.learn("abacabad", 5)
        >>> text = torch.tensor(words.encode("abacabad"))
        >>> found = skip_trigram(text, words, ["b", "a", "c"])
        >>> found.places, round(found.with_source, 2), found.without_source
        (3, 0.33, 0.0)
    """
    source, destination, out = _numbers("skip_trigram", vocabulary, words)
    at, near = _places(tokens, source, destination)
    if not len(at):
        raise ValueError(
            f"skip_trigram: {words[1]!r} never stands before another token in {describe(tokens)}: "
            f"there is nothing to count"
        )
    hit = (tokens[at + 1] == out).double()
    return SkipTrigram(
        words[0],
        words[1],
        words[2],
        int(near.sum()),
        hit[near].mean().item() if near.any() else 0.0,
        hit[~near].mean().item() if (~near).any() else 0.0,
        hit.mean().item(),
    )


@torch.no_grad()
def chances(
    model: Transformer,
    tokens: Tensor,
    vocabulary: Vocabulary,
    words: Sequence[str],
    *,
    places: int = 40,
) -> tuple[float, float]:
    """The mean chance a model gives a skip-trigram's out token, with its source and without.

    Args:
        model: What is asked. It reads a start and as many tokens up to the destination as it can.
        tokens: The text.
        vocabulary: What the tokens are.
        words: Source, destination and out, each one token.
        places: At how many places it is asked, spread evenly over those of the text.

    Raises:
        ValueError: If a word is not one token, or the text has no such places.

    Examples:
        >>> import torch
        >>> from tinyattn import Config, Transformer, Vocabulary
        >>> from tinyattn.facts import chances
        >>> words = Vocabulary.learn("abacabad", 5)
        >>> text = torch.tensor(words.encode("abacabad"))
        >>> model = Transformer(Config(4, 4, 1, 1, d_vocab=5, n_ctx=3))
        >>> _ = model.W_U.requires_grad_(False).zero_()  # all five tokens are as likely
        >>> [round(chance, 2) for chance in chances(model, text, words, ["c", "a", "b"])]
        [0.2, 0.2]
    """
    source, destination, out = _numbers("chances", vocabulary, words)
    if places < 1:
        raise ValueError(f"chances: places = {places}: give 1 or more")
    reach = model.config.n_ctx - 1
    at, near = _places(tokens, source, destination)
    whole = at >= reach - 1
    found = []
    for there in (at[near & whole], at[~near & whole]):
        if not len(there):
            raise ValueError(f"chances: the text has no place to ask for {' … '.join(words)}")
        asked = there[torch.linspace(0, len(there) - 1, min(places, len(there))).long()]
        rows = tokens[asked.unsqueeze(-1) + torch.arange(1 - reach, 1)]
        logits = model(functional.pad(rows, (1, 0)))[:, -1]
        found.append(logits.softmax(dim=-1)[:, out].mean().item())
    return found[0], found[1]


def _known(caller: str, tokens: Tensor, d_vocab: int) -> None:
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < d_vocab:
        raise ValueError(
            f"{caller}: tokens are {int(tokens.min())} to {int(tokens.max())}, but d_vocab = "
            f"{d_vocab}: give those of one vocabulary"
        )


def _long_enough(caller: str, rows: Tensor) -> None:
    if not len(rows) or rows.shape[-1] < 3:
        raise ValueError(
            f"{caller}: rows is {describe(rows)}: give one or more, each a start and two tokens"
        )


def _numbers(caller: str, vocabulary: Vocabulary, words: Sequence[str]) -> list[int]:
    if len(words) != 3:
        raise ValueError(f"{caller}: {len(words)} words: give source, destination and out")
    for word in words:
        if word not in vocabulary.tokens:
            raise ValueError(f"{caller}: {word!r} is not one token of the vocabulary")
    return [vocabulary.tokens.index(word) for word in words]


def _places(tokens: Tensor, source: int, destination: int) -> tuple[Tensor, Tensor]:
    """Where the destination stands, the last token aside, and whether the source is near."""
    at = (tokens[:-1] == destination).nonzero().flatten()
    seen = functional.pad((tokens == source).cumsum(0), (1, 0))
    return at, seen[at] > seen[(at - REACH).clamp(min=0)]
