"""What models are trained on: rows of tokens, drawn anew for each step.

Every row begins with token 0, the start, so that a head which finds nothing has somewhere to look.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tinyattn.shapes import describe, typed


@typed
def repeats(
    batch: int,
    pos: int,
    d_vocab: int,
    *,
    periods: tuple[int, int],
    generator: torch.Generator,
    frequencies: Float[Tensor, " d_vocab"] | None = None,
    before: bool = True,
) -> tuple[Int[Tensor, "*batch pos"], Int[Tensor, "*batch"], Int[Tensor, "*batch"]]:
    """Draw rows in which a block of random tokens comes again and again.

    A row is the start, then some random tokens (none in half of the rows), then a block of random
    tokens, repeated to the end. Until the block comes again no token stands twice, so a token seen
    before always says what follows. How long the block is differs from row to row: where it is the
    same in all of them, a model can learn where to look without looking.

    Args:
        batch: How many rows.
        pos: Tokens in a row.
        d_vocab: Tokens there are, the start included.
        periods: The shortest block and the longest.
        generator: What they are drawn with.
        frequencies: How often each token is drawn. All alike, if left out; the start never.
        before: Whether half of the rows have random tokens before the block.

    Returns:
        The rows; where the block begins in each; and how long it is.

    Raises:
        ValueError: If the block cannot be distinct, or does not come twice, naming both numbers;
            or if ``frequencies`` are not one for each token.

    Examples:
        >>> import torch
        >>> from tinyattn import repeats
        >>> generator = torch.Generator().manual_seed(0)
        >>> rows, first, period = repeats(4, 16, 10, periods=(3, 5), generator=generator)
        >>> row, u, p = rows[0].tolist(), int(first[0]), int(period[0])
        >>> row[u : u + p] == row[u + p : u + 2 * p], row[0], len(set(row[u : u + p])) == p
        (True, 0, True)

    Source: Olsson et al. (2022), "Definition of Induction Heads" (repeated random tokens).
    """
    least, most = periods
    if batch < 0:
        raise ValueError(f"repeats: batch = {batch}: give 0 rows or more")
    if frequencies is not None:
        fit = len(frequencies) == d_vocab and bool(frequencies.isfinite().all())
        if not fit or frequencies.min() < 0:
            raise ValueError(
                f"repeats: frequencies is {describe(frequencies)}: give one finite number, 0 or "
                f"more, for each of d_vocab = {d_vocab} tokens"
            )
    possible = d_vocab - 1 if frequencies is None else int((frequencies[1:] > 0).sum())
    if not 1 <= least <= most:
        raise ValueError(
            f"repeats: periods = {periods}: give the shortest, 1 or more, then the longest"
        )
    if most > possible:
        raise ValueError(
            f"repeats: a block of {most} distinct tokens, but only {possible} can be drawn: "
            f"shorten periods, or enlarge d_vocab = {d_vocab}"
        )
    if 1 + most + 1 > pos:
        raise ValueError(
            f"repeats: a block of {most} after the start does not begin again within pos = {pos}: "
            f"shorten periods to {pos - 2} at most"
        )
    weights = torch.ones(d_vocab) if frequencies is None else frequencies.float().cpu()
    weights = weights.index_fill(0, torch.tensor(0), 0.0)

    def number(low: int, high: int | Tensor) -> Tensor:
        return (low + torch.rand(batch, generator=generator) * (high - low)).long()

    period = number(least, most + 1)
    room = torch.minimum(pos - 3 - period, possible + 1 - period).clamp(min=1)
    first = 1 + (number(0, room) * number(0, 2) if before else torch.zeros_like(period))

    # Of −log(uniform) / weight, the smallest are a draw without replacement.
    waits = -torch.rand(batch, d_vocab, generator=generator).clamp(min=1e-30).log() / weights
    drawn = waits.argsort(dim=-1)
    length, places = period.unsqueeze(-1), torch.arange(pos) - first.unsqueeze(-1)
    others = (length - 1 - places).clamp(max=d_vocab - 1)  # those drawn after the block
    rows = drawn.gather(-1, torch.where(places < 0, others, places % length))
    rows[:, 0] = 0
    return rows, first, period


@typed
def windows(
    text: Int[Tensor, " source"], batch: int, length: int, *, generator: torch.Generator
) -> Int[Tensor, "*batch pos"]:
    """Cut rows out of a text, anywhere, and put the start before each.

    Args:
        text: The tokens of the text.
        batch: How many rows.
        length: Tokens in a row, the start included.
        generator: What they are drawn with.

    Raises:
        ValueError: If the text is shorter than a row, or a row has no token.

    Examples:
        >>> import torch
        >>> from tinyattn.batches import windows
        >>> windows(torch.arange(1, 5), 1, 5, generator=torch.Generator().manual_seed(0))
        tensor([[0, 1, 2, 3, 4]])
    """
    if batch < 0 or length < 1:
        raise ValueError(f"windows: batch = {batch} and length = {length}: give 0, and 1, or more")
    if len(text) < length - 1:
        raise ValueError(f"windows: text is {describe(text)}, too short for rows of {length}")
    at = torch.randint(len(text) - length + 2, (batch, 1), generator=generator)
    return torch.nn.functional.pad(text[at + torch.arange(length - 1)], (1, 0))


def mixed(
    text: Tensor,
    batch: int,
    length: int,
    d_vocab: int,
    *,
    repeated: float,
    periods: tuple[int, int],
) -> Callable[[torch.Generator], Tensor]:
    """Rows of a text, a share of them repeated random words drawn as often as the text has them.

    Raises:
        ValueError: If the text holds no token, or one beyond ``d_vocab``, or the share is none.
    """
    if not len(text) or int(text.min()) < 0 or not 0 <= repeated <= 1:
        raise ValueError(
            f"mixed: text is {describe(text)} and repeated = {repeated}: give tokens from 0 on, "
            f"and a share from 0 to 1"
        )
    if int(text.max()) >= d_vocab:
        raise ValueError(
            f"mixed: the text holds token {int(text.max())}, but d_vocab = {d_vocab}: its "
            f"vocabulary is larger than the model's"
        )
    count = round(batch * repeated)
    frequencies = torch.bincount(text, minlength=d_vocab).float()

    def draw(generator: torch.Generator) -> Tensor:
        rows = windows(text, batch - count, length, generator=generator)
        if not count:
            return rows
        words, _, _ = repeats(
            count, length, d_vocab, periods=periods, generator=generator, frequencies=frequencies
        )
        return torch.cat([rows, words])

    return draw
