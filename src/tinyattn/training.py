"""How each shipped model was made: ``python -m tinyattn.training induction-2l``, say."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tinyattn.batches import mixed, repeats
from tinyattn.bpe import Vocabulary
from tinyattn.checkpoint import save_model
from tinyattn.config import Config
from tinyattn.corpus import king_james, split
from tinyattn.learning import Draw, History, Measure, Schedule, next_token_loss, train
from tinyattn.model import Transformer
from tinyattn.positions import sinusoidal

ROWS = 16
"""Rows of text in a step; of repeats there are four times as many."""

D_VOCAB = 1024
"""Tokens of the text models."""


@dataclass(frozen=True)
class Recipe:
    """All that decides what a model becomes, the seed aside.

    Attributes:
        config: What is trained.
        schedule: How long, and how fast.
        text: Whether rows are text. Otherwise all are repeated random tokens.
        periods: How long the repeated blocks are.
        repeated: Of text rows, which share is repeated random words instead.
        embed_scale: What ``W_E`` is multiplied by at the start.
    """

    config: Config
    schedule: Schedule
    text: bool = False
    periods: tuple[int, int] = (4, 24)
    repeated: float = 0.0
    embed_scale: float = 1.0


def _induction(n_layers: int) -> Recipe:
    config = Config(64, 16, 4, n_layers, d_vocab=64, n_ctx=64, positions="shortformer")
    return Recipe(config, Schedule(800))


def _text(n_layers: int, steps: int, repeated: float = 0.0) -> Recipe:
    positions = "shortformer" if n_layers else None
    config = Config(128, 16, 8, n_layers, d_vocab=D_VOCAB, n_ctx=128, positions=positions)
    schedule = Schedule(steps, decay=0.01)
    return Recipe(config, schedule, True, (4, 40), repeated, embed_scale=0.3)


RECIPES = {
    "induction-1l": _induction(1),
    "induction-2l": _induction(2),
    "text-0l": _text(0, 1500),
    "text-1l": _text(1, 2500),
    "text-2l": _text(2, 3500, repeated=0.25),
}
"""The shipped models by name."""


FAMILIES = {
    family: [name for name in RECIPES if name.startswith(family)]
    for family in ("induction", "text")
}


def new_model(recipe: Recipe, seed: int) -> Transformer:
    """A model as its training begins.

    The positions of a text model begin as waves. From random ones, one training in three never
    came to look one token back.
    """
    model = Transformer(recipe.config, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        model.W_E.mul_(recipe.embed_scale)
        if recipe.text and model.W_pos is not None:
            waves = sinusoidal(recipe.config.n_ctx, recipe.config.d_model)
            model.W_pos.copy_(waves * 2**0.5)  # entries of variance 1, as random ones have
    return model


def rows_of(recipe: Recipe, text: Tensor | None = None) -> Draw:
    """What the recipe draws its rows with. A row has one token more than the model reads."""
    config = recipe.config
    length = config.n_ctx + 1
    if not recipe.text:
        return lambda generator: repeats(
            4 * ROWS, length, config.d_vocab, periods=recipe.periods, generator=generator
        )[0]
    if text is None:
        raise ValueError("rows_of: the recipe is for text: give the tokens of one")
    return mixed(
        text, ROWS, length, config.d_vocab, repeated=recipe.repeated, periods=recipe.periods
    )


def loss_on_repeats(recipe: Recipe, frequencies: Tensor | None = None) -> Measure:
    """Measure the loss from the second copy on, on rows never trained on."""
    config = recipe.config
    rows, first, period = repeats(
        ROWS if recipe.text else 4 * ROWS,
        config.n_ctx + 1,
        config.d_vocab,
        periods=recipe.periods,
        generator=torch.Generator().manual_seed(0),
        frequencies=frequencies,
    )
    second = torch.arange(1, rows.shape[1]) > (first + period).unsqueeze(-1)

    def measure(model: Transformer) -> float:
        device = model.W_E.device
        return float(next_token_loss(model, rows.to(device))[second.to(device)].mean())

    return measure


def make(
    name: str, seed: int, folder: Path, *, show_progress: bool = True
) -> tuple[Transformer, History]:
    """Train a shipped model again, or go on where its folder stopped.

    Raises:
        FileNotFoundError: If it needs the text and the text is not installed.
    """
    recipe = RECIPES[name]
    text = frequencies = None
    if recipe.text:
        kept, _ = split(king_james())
        learnt = folder / "text-vocabulary.json"
        if not learnt.exists():
            folder.mkdir(parents=True, exist_ok=True)
            Vocabulary.learn(kept, recipe.config.d_vocab).save(learnt)
        vocabulary = Vocabulary.read(learnt)
        text = torch.tensor(vocabulary.encode(kept))
        frequencies = torch.bincount(text, minlength=len(vocabulary)).float()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = new_model(recipe, seed).to(device)
    history = train(
        model,
        rows_of(recipe, text),
        recipe.schedule,
        seed=seed,
        measures={
            "loss on repeats": loss_on_repeats(recipe, frequencies, 16 if text is not None else 64)
        },
        every=100 if recipe.text else 10,
        folder=folder,
        show_progress=show_progress,
    )
    return model.cpu(), history


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tinyattn.training", description=__doc__)
    parser.add_argument("name", choices=[*RECIPES, *FAMILIES])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("build/training"))
    given = parser.parse_args(arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for name in FAMILIES.get(given.name, [given.name]):
        folder = given.folder / f"{name}-seed-{given.seed}"
        try:
            model, history = make(name, given.seed, folder)
        except (FileNotFoundError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt as stop:
            print(f"{name}: {stop}. The same command goes on from there.", file=sys.stderr)
            return 130
        save_model(model, folder / f"{name}.safetensors", dtype=torch.float16)
        for step, *values in zip(history.steps, *history.values.values(), strict=True):
            said = ", ".join(f"{n} {v:.3f}" for n, v in zip(history.values, values, strict=True))
            print(f"{name}, step {step}: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
