"""Interventions: change one thing inside a model and see what follows.

Each is a pure function of a run: it gives a new run and leaves the old one, and the model, as they
were. :meth:`Transformer.edited` does the same for every pass inside a ``with``. A run says in its
``changes`` by how much each edit moved what it touched, and an edit that moves nothing warns.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from tinyattn.block import Edit
from tinyattn.edits import check_names
from tinyattn.run import Run
from tinyattn.shapes import describe, inspectable, typed


@typed
def ablate(
    run: Run,
    names: str | Sequence[str],
    by: Literal["zero", "mean", "resample"] = "zero",
    *,
    reference: Run | None = None,
    generator: torch.Generator | None = None,
) -> Run:
    """Take out what an activation says about this input, and run on from there.

    - ``"zero"`` puts 0. The model never saw that, so more may break than was asked about.
    - ``"mean"`` puts the mean over batch and positions: what is the same for all inputs stays.
    - ``"resample"`` puts the activation of another input: everything looks usual, and nothing fits.

    Args:
        run: The run to change.
        names: Which activations, "0.head 3" or "1.mlp_out", say. One name, several, or none.
        by: What is put there.
        reference: The run whose mean or whose rows are taken; ``run`` itself, if left out.
        generator: Shuffles the rows for "resample". Without one, every row takes the next one's,
            and the last the first's.

    Returns:
        A new run. With no names it is the old one over again, to the last bit.

    Raises:
        ValueError: If a name is unknown; or if rows are to be resampled where there is only one.

    Warns:
        NothingChanged: If what is put there is what stood there.

    Examples:
        >>> from tinyattn import Config, Transformer, ablate
        >>> run = Transformer(Config(8, 4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=6)).run([1, 2])
        >>> without = ablate(run, "0.head 1")
        >>> bool((without.z(0)[1] == 0).all()), list(without.changes)
        (True, ['0.head 1'])

    Source: Wang et al. (2022), section 3.1 (mean ablation); Chan et al. (2022), "Causal Scrubbing"
    (resampling).
    """
    names = [names] if isinstance(names, str) else list(names)
    check_names(names, run.model.config)
    source = run if reference is None else reference
    if by == "zero":
        return run.with_(dict.fromkeys(names, torch.zeros_like))
    if by == "mean":
        return run.with_({name: _mean(name, source) for name in names})
    rows = _shuffled(source, run, generator) if names else torch.empty(0)
    return run.with_({name: _rows(source.value(name), rows) for name in names})


@typed
def patch(run: Run, source: Run, names: str | Sequence[str], pos: int | None = None) -> Run:
    """Put activations of another run in the place of this one's, and run on from there.

    Direction matters. From a corrupted run into a clean one asks what the answer needs; from a
    clean run into a corrupted one asks what suffices for it. Two parts that back each other up
    show only in the second, two that need each other only in the first.

    Args:
        run: The run to change.
        source: Where the activations come from: as many tokens, another input.
        names: Which activations. One name, several, or none.
        pos: One position to patch, or all if left out. Of scores and pattern it is the query;
            negative numbers count from the end.

    Returns:
        A new run.

    Raises:
        ValueError: If a name is unknown, or the two runs differ in shape.
        IndexError: If there is no such position.

    Warns:
        NothingChanged: If both runs agree there.

    Examples:
        >>> from tinyattn import Config, Transformer, patch
        >>> model = Transformer(Config(8, 4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=6))
        >>> clean, corrupted = model.run([1, 2, 3]), model.run([4, 2, 3])
        >>> patched = patch(corrupted, clean, "1.resid_pre")
        >>> bool((patched.logits == clean.logits).all())
        True

    Source: Meng et al. (2022), section 2.1 (causal tracing).
    """
    names = [names] if isinstance(names, str) else list(names)
    check_names(names, run.model.config)
    length = run.tokens.shape[-1]
    if pos is not None and not -length <= pos < length:
        raise IndexError(f"patch: no position {pos} among {length}")
    if run.tokens.shape != source.tokens.shape:
        raise ValueError(
            f"patch: the run has tokens {describe(run.tokens)} and its source "
            f"{describe(source.tokens)}: give both as many"
        )
    return run.with_({name: _at(source.value(name), pos) for name in names})


def _mean(name: str, source: Run) -> Edit:
    """Put the mean over batch and positions, for each head its own. Padding does not count."""
    value = source.value(name)
    per_head = name.partition(".")[2] in {"q", "k", "v", "z", "out", "scores", "pattern"}
    if name.partition(".")[2] in {"scores", "pattern"}:
        raise ValueError(
            f"ablate: the mean of {name} over queries would look at the future: use 'zero' or "
            f"'resample', or give with_ a pattern of your own"
        )
    real = source.real
    if real is None:
        real = torch.ones_like(source.tokens, dtype=torch.bool)
    if inspectable(real) and not real.any():
        raise ValueError(
            f"ablate: the mean of {name} is over no token: {describe(source.tokens)} holds none "
            f"that is real"
        )
    weight = (real.unsqueeze(-2) if per_head else real).unsqueeze(-1).to(value.dtype)
    axes = [axis for axis in range(value.ndim - 1) if not (per_head and axis == value.ndim - 3)]
    mean = (value * weight).sum(dim=axes, keepdim=True) / real.sum()
    mean = mean.reshape(mean.shape[-3:] if per_head else mean.shape[-1:])

    def put(old: Tensor) -> Tensor:
        own = (*old.shape[-3:-2], 1, old.shape[-1]) if per_head else old.shape[-1:]
        return mean.expand_as(old) if mean.shape == own else mean  # which is refused, and named

    return put


def _shuffled(source: Run, run: Run, generator: torch.Generator | None) -> Tensor:
    """Which row of the source each row of the run receives."""
    if source.tokens.shape != run.tokens.shape or run.tokens.ndim != 2:
        raise ValueError(
            f"ablate: 'resample' takes rows from another input, so tokens must be [batch, pos] "
            f"in both: they are {describe(source.tokens)} and {describe(run.tokens)}"
        )
    count = run.tokens.shape[0]
    if count < 2:
        raise ValueError("ablate: 'resample' takes each row from another one: give two or more")
    if generator is None:
        return torch.arange(count).roll(-1)
    return torch.randperm(count, generator=generator)


def _rows(value: Tensor, rows: Tensor) -> Edit:
    return lambda old: value[rows]


def _at(value: Tensor, pos: int | None) -> Edit:
    def put(old: Tensor) -> Tensor:
        if pos is None or (value.shape, value.dtype) != (old.shape, old.dtype):
            return value  # if it does not fit, it is refused, and named
        new = old.clone()
        new[..., pos, :] = value[..., pos, :]
        return new

    return put
