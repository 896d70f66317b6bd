"""Heads and a model with every weight written by hand, so that each can be explained.

Nothing is trained here. A coordinate of the stream means one thing, named by whoever builds the
head: ``here[t]`` is 1 where the token is number t, ``places[i]`` is 1 at position i. A weight is 0,
or it says which coordinate goes where. Queries carry the ``sharpness``: the score of a match. At
the softmax a match then outweighs a miss by e to that power.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.attention import causal_mask, mask_scores, mix, pattern, project, scores, write
from tinyattn.config import Config
from tinyattn.head import Attended, Head
from tinyattn.model import Transformer
from tinyattn.shapes import typed

SHARP = 250.0
"""A miss then weighs e^−250 of a match, or half of it e^−125: in float32 both are 0."""


@typed
def copy_head(d_model: int, reads: Sequence[int], writes: Sequence[int]) -> Head:
    """A head that looks at all positions alike and writes what it reads to other coordinates.

    W_Q and W_K are 0, so every score is 0 and every position that may be seen counts the same.
    W_V has a 1 at [reads[t], t] and W_O a 1 at [t, writes[t]]: together they move coordinate
    reads[t] to coordinate writes[t].

    Raises:
        ValueError: If the coordinates differ in number, repeat, or are not in the stream.

    Examples:
        >>> import torch
        >>> from tinyattn import attend, causal_mask, copy_head
        >>> x = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        >>> attend(x, copy_head(3, reads=[0], writes=[2]), causal_mask(2)).out.tolist()
        [[0.0, 0.0, 1.0], [0.0, 0.0, 0.5]]
    """
    _coordinates("copy_head", d_model, reads=reads, writes=writes)
    nothing = torch.zeros(d_model, len(reads))
    return Head(nothing, nothing, _columns(d_model, reads), _columns(d_model, writes).T)


@typed
def previous_token_head(
    d_model: int,
    places: Sequence[int],
    reads: Sequence[int],
    writes: Sequence[int],
    *,
    sharpness: float | int = SHARP,
) -> Head:
    """A head that looks at the position before and writes what stands there to other coordinates.

    The key of position j is j. The query of position i asks for i − 1: W_K has a 1 at
    [places[j], j], and W_Q has its weight at [places[i], i − 1]. Position 0 has nothing before
    it. It asks for nothing, and a causal mask leaves it itself: there the head is wrong.

    Args:
        d_model: Width of the stream.
        places: The coordinate that is 1 at each position.
        reads: Coordinates to read at the position before.
        writes: Where to write each of them.
        sharpness: The score of a match.

    Raises:
        ValueError: If coordinates repeat or are not in the stream, or if ``reads`` and ``writes``
            differ in number.

    Examples:
        >>> import torch
        >>> from tinyattn import attend, causal_mask, previous_token_head
        >>> head = previous_token_head(5, places=[0, 1, 2], reads=[3], writes=[4])
        >>> x = torch.eye(3, 5)  # coordinates 0 to 2 say the position
        >>> attend(x, head, causal_mask(3)).pattern.tolist()
        [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]

    Source: Elhage et al. (2021), "How Induction Heads Work".
    """
    _coordinates("previous_token_head", d_model, places=places)
    _coordinates("previous_token_head", d_model, reads=reads, writes=writes)
    _finite("previous_token_head", sharpness)
    count = len(places)
    W_Q = torch.zeros(d_model, count)
    W_Q[list(places[1:]), range(count - 1)] = sharpness * count**0.5
    W_V, W_O = _columns(d_model, reads), _columns(d_model, writes).T
    return Head(W_Q, _columns(d_model, places), W_V, W_O)


@typed
def induction_head(
    d_model: int,
    here: Sequence[int],
    before: Sequence[int],
    writes: Sequence[int],
    *,
    start: int | None = None,
    sharpness: float | int = SHARP,
) -> Head:
    """A head that looks for where the token ``here`` stood ``before``, and copies what came next.

    The query is the token that stands here, the key is the token before: W_Q has its weight at
    [here[t], t], W_K a 1 at [before[t], t]. So the head finds what followed this token last time.
    W_V has a 1 at [here[t], t] and W_O a 1 at [t, writes[t]]: it copies the token it finds.

    With a ``start`` token the head has a place to rest. All tokens ask for it at half the weight
    (W_Q at [here[t], start]), it alone offers it (W_K at [here[start], start]), and nothing is
    carried from there (W_V's row is 0): a token never seen before then makes no guess.

    With ``before = here`` it finds the same token instead. :func:`attend_smeared` makes an
    induction head of that, in one layer.

    Args:
        d_model: Width of the stream.
        here: The coordinate of each token, where it stands.
        before: The coordinate of each token, one position later.
        writes: The coordinate of each token, as a guess.
        start: The number of the start token, if there is one.
        sharpness: The score of a match.

    Raises:
        ValueError: If the coordinates differ in number, repeat, or are not in the stream, or if
            there is no such start token.

    Examples:
        >>> import torch
        >>> from tinyattn import attend, causal_mask, induction_head
        >>> head = induction_head(6, here=[0, 1], before=[2, 3], writes=[4, 5])
        >>> x = torch.tensor([[1.0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]])
        >>> attend(x, head, causal_mask(3)).pattern[2].tolist()  # A B A: the last reads B
        [0.0, 1.0, 0.0]

    Source: Elhage et al. (2021), "How Induction Heads Work"; Olsson et al. (2022), section on
    "Induction Heads".
    """
    _coordinates("induction_head", d_model, here=here, before=before, writes=writes)
    _finite("induction_head", sharpness)
    count = len(here)
    if start is not None and not 0 <= start < count:
        raise ValueError(f"induction_head: start = {start}: there are tokens 0 to {count - 1}")
    match = sharpness * count**0.5
    W_Q, W_K = match * _columns(d_model, here), _columns(d_model, before)
    W_V, W_O = _columns(d_model, here), _columns(d_model, writes).T
    if start is not None:
        W_Q[list(here), start] = match / 2
        W_K[:, start] = 0
        W_K[here[start], start] = 1
        W_V[here[start], start] = 0
    return Head(W_Q, W_K, W_V, W_O)


@typed
def induction_model(
    d_vocab: int, n_ctx: int, *, start: int | None = None, sharpness: float | int = SHARP
) -> Transformer:
    """Two layers of one head each that continue what has been seen before: A B … A, so B.

    The stream has 3 · d_vocab + n_ctx coordinates. With V = d_vocab, coordinate

    - t, for t < V: the token here is t. ``W_E`` writes a 1 there.
    - V + t: the token before is t. Head 0.0 writes it, a :func:`previous_token_head`.
    - 2 V + t: the guess is t. Head 1.0 writes it, an :func:`induction_head`; ``W_U`` reads it and
      nothing else, so the logits are that head's write.
    - 3 V + i: the position is i. ``W_pos`` writes it into what queries and keys read, and not
      into the stream ("shortformer").

    Without a start token, position 0 has no token before it. Head 0.0 looks at itself there and
    says that token 0 follows itself, so the first repeated token finds two places that match.

    Args:
        d_vocab: Tokens there are.
        n_ctx: Positions at most.
        start: The number of the token every text begins with, if there is one.
        sharpness: The score of a match.

    Raises:
        ValueError: If there is no such start token.

    Examples:
        >>> from tinyattn import induction_model, show
        >>> model = induction_model(d_vocab=4, n_ctx=6, start=0)
        >>> run = model.run([0, 2, 3, 1, 2])
        >>> print(show(run.pattern(1)[0], rows="s A B C A".split(), columns="s A B C A".split()))
              s     A     B     C     A
        s  1.00  0.00  0.00  0.00  0.00
        A  1.00  0.00  0.00  0.00  0.00
        B  1.00  0.00  0.00  0.00  0.00
        C  1.00  0.00  0.00  0.00  0.00
        A  0.00  0.00  1.00  0.00  0.00
        >>> run.logits[-1].tolist()
        [0.0, 0.0, 0.0, 1.0]

    Source: Elhage et al. (2021), "How Induction Heads Work".
    """
    here, before, guess = (range(part * d_vocab, (part + 1) * d_vocab) for part in range(3))
    d_model, d_head = 3 * d_vocab + n_ctx, max(d_vocab, n_ctx)
    places = range(3 * d_vocab, d_model)
    model = Transformer(
        Config(
            d_model, d_head, n_heads=1, n_layers=2, d_vocab=d_vocab, n_ctx=n_ctx,
            positions="shortformer",
        )
    )  # fmt: skip
    heads = [
        previous_token_head(d_model, places, here, before, sharpness=sharpness),
        induction_head(d_model, here, before, guess, start=start, sharpness=sharpness),
    ]
    assert model.W_pos is not None  # shortformer
    with torch.no_grad():
        model.W_E.copy_(_columns(d_model, here).T)
        model.W_pos.copy_(_columns(d_model, places).T)
        model.W_U.copy_(_columns(d_model, guess))
        for block, head in zip(model.layers, heads, strict=True):
            # A wider head divides its scores by a larger root; the rest of its width stays 0.
            wider = (d_head / head.d_head) ** 0.5
            for name, factor in (("W_Q", wider), ("W_K", 1.0), ("W_V", 1.0)):
                weight = getattr(head, name)
                getattr(block, name).zero_()[0, :, : weight.shape[1]] = factor * weight
            block.W_O.zero_()[0, : head.d_value] = head.W_O
    return model


@typed
def attend_smeared(
    x: Float[Tensor, "*batch pos d_model"], head: Head, *, share: float | int = 1.0
) -> Attended:
    """Let a head look, causally, at keys that hold something of the position before.

    Key j becomes (1 − share) · k_j + share · k_{j−1}; before position 0 there is nothing, 0. So
    what stood before can be found without an earlier layer to move it. This is the exception to
    the rule that induction needs two layers: the smear does the work of the first.

    Args:
        x: The stream before the head.
        head: The weights.
        share: How much of each key is the one before. 0 is plain attention.

    Raises:
        ShapeError: If the stream and the head do not fit.
        ValueError: If ``share`` is not between 0 and 1.

    Examples:
        >>> import torch
        >>> from tinyattn import attend_smeared, induction_head
        >>> head = induction_head(4, here=[0, 1], before=[0, 1], writes=[2, 3])
        >>> x = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]])  # A B A
        >>> attend_smeared(x, head).pattern[2].tolist()  # A B A: the last reads B
        [0.0, 1.0, 0.0]

    Source: Olsson et al. (2022), Argument 2 ("smeared key" architecture).
    """
    if not 0 <= share <= 1:
        raise ValueError(f"attend_smeared: share = {share}: give a number from 0 to 1")
    q, k, v = (
        project(x, head.W_Q, head.b_Q), project(x, head.W_K, head.b_K),
        project(x, head.W_V, head.b_V),
    )  # fmt: skip
    earlier = torch.cat([torch.zeros_like(k[..., :1, :]), k[..., :-1, :]], dim=-2)
    k = (1 - share) * k + share * earlier
    S = mask_scores(scores(q, k), causal_mask(x.shape[-2], device=x.device))
    A = pattern(S)
    z = mix(A, v)
    return Attended(q=q, k=k, v=v, scores=S, pattern=A, z=z, out=write(z, head.W_O))


def _columns(d_model: int, coordinates: Sequence[int]) -> Tensor:
    """A 1 in each column, in the row of its coordinate: [d_model, number of coordinates]."""
    weight = torch.zeros(d_model, len(coordinates))
    weight[list(coordinates), range(len(coordinates))] = 1
    return weight


def _finite(function: str, sharpness: float) -> None:
    """Refuse a score of a match that no float32 softmax can take."""
    if not 0 <= sharpness <= 1e6:
        raise ValueError(f"{function}: sharpness = {sharpness}: give a number from 0 to 1e6")


def _coordinates(function: str, d_model: int, **given: Sequence[int]) -> None:
    """Check coordinates that belong together: as many of each, in the stream, none twice."""
    sizes = {name: len(coordinates) for name, coordinates in given.items()}
    if len(set(sizes.values())) > 1 or not all(sizes.values()):
        said = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"{function}: {said}: give as many of each, and at least one")
    for name, coordinates in given.items():
        for coordinate in coordinates:
            if not 0 <= coordinate < d_model:
                raise ValueError(
                    f"{function}: {name} has coordinate {coordinate}, but d_model = {d_model}: "
                    f"coordinates are 0 to {d_model - 1}"
                )
        if len(set(coordinates)) < len(coordinates):
            raise ValueError(f"{function}: {name} names a coordinate twice: {list(coordinates)}")
