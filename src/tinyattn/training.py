"""How each shipped model was made: ``python -m tinyattn.training induction-2l``, say."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tinyattn.batches import mixed, repeats
from tinyattn.bpe import Vocabulary
from tinyattn.checkpoint import load_model, save_model
from tinyattn.config import Config
from tinyattn.corpus import king_james, split
from tinyattn.facts import (
    bigrams,
    chances,
    counted_loss,
    held_out_rows,
    model_loss,
    skip_trigram,
    unigrams,
)
from tinyattn.learning import Draw, History, Measure, Schedule, next_token_loss, train
from tinyattn.model import Transformer
from tinyattn.positions import sinusoidal
from tinyattn.trained import MODELS

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
    config = Config(128, 16, 8, n_layers, d_vocab=D_VOCAB, n_ctx=128, positions="shortformer")
    if not n_layers:
        config = replace(config, positions=None)  # nobody would read them
    schedule = Schedule(steps, decay=0.01)
    return Recipe(config, schedule, True, (4, 40), repeated, embed_scale=0.3)


RECIPES = {
    "induction-1l": _induction(1),
    "induction-2l": _induction(2),
    "text-0l": _text(0, 1500),
    "text-1l": _text(1, 2000),
    "text-2l": _text(2, 2500, repeated=0.25),
}
"""The shipped models by name."""


SKIP_TRIGRAMS = [
    (" gather", " themselves", " together"),
    (" burn", " with", " fire"),
    (" Aaron", " his", " sons"),
    (" answered", " and", " said"),
    (" mercy", " for", " ever"),
    (" reign", " to", " reign"),
    (" eat", " nor", " drink"),
    (" our", " against", " us"),
    (" her", " when", " she"),
    (" deliver", " us", " out"),
]
"""Source, destination and out: what a one-layer model can know and a bigram cannot."""

MISSED = [(" num", " from", " twenty"), (" offer", " great", " sacrif")]
"""Skip-trigrams of the text which the shipped model of one layer does not have."""

ONE_SOURCE = [
    (" deliver", destination, out)
    for destination in (" us", " you", " him", " thee")
    for out in (" out", " into")
]
"""What heads that read one source cannot tell apart: the text does not treat these alike."""

FOLLOWED = [" thou", " king", " Jesus"]
"""Tokens whose followers are counted, besides the destinations above."""

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
        return next_token_loss(model, rows.to(device))[second.to(device)].mean().item()

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
        measures={"loss on repeats": loss_on_repeats(recipe, frequencies)},
        every=100 if recipe.text else 10,
        folder=folder,
        show_progress=show_progress,
    )
    return model.cpu(), history


def count(folder: Path) -> dict[str, Any]:
    """Count what pages say about the text, and write it where :func:`tinyattn.load_facts` looks.

    Raises:
        FileNotFoundError: If the text is missing.
    """
    kept, held_out = split(king_james())
    vocabulary = Vocabulary.read(folder / "text-vocabulary.json")
    tokens, others = (torch.tensor(vocabulary.encode(part)) for part in (kept, held_out))
    rows = held_out_rows(others, 127)
    pairs = bigrams(tokens, len(vocabulary))
    losses = {
        "unigram": counted_loss(rows, unigrams(tokens, len(vocabulary))),
        "bigram": counted_loss(rows, pairs),
    }
    for path in sorted(folder.glob("text-*.safetensors")):
        losses[path.stem] = model_loss(load_model(path), rows)
    followers = {}
    triples = {"skip-trigrams": SKIP_TRIGRAMS, "missed": MISSED, "one source": ONE_SOURCE}
    one_layer = load_model(folder / "text-1l.safetensors")
    destinations = {destination for named in triples.values() for _, destination, _ in named}
    for word in sorted(destinations.union(FOLLOWED)):
        best = pairs[vocabulary.tokens.index(word)].exp().topk(5)
        named = [vocabulary.tokens[number] for number in best.indices.tolist()]
        shares = [round(share, 4) for share in best.values.tolist()]
        followers[word] = list(zip(named, shares, strict=True))

    def counted(words: tuple[str, str, str]) -> dict[str, str | int | float]:
        with_source, without_source = chances(one_layer, tokens, vocabulary, words)
        values = {
            **asdict(skip_trigram(tokens, vocabulary, words)),
            "model_with_source": with_source,
            "model_without_source": without_source,
        }
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}

    found = {
        "command": "python -m tinyattn.training facts",
        "tokens": {
            "trained on": len(tokens),
            "held out": len(others),
            "counts": torch.bincount(tokens, minlength=len(vocabulary)).tolist(),
        },
        "held out": {name: round(loss, 4) for name, loss in losses.items()},
        **{kind: [counted(words) for words in named] for kind, named in triples.items()},
        "bigrams": followers,
    }
    text = json.dumps(found, ensure_ascii=False, indent=None) + "\n"
    (folder / "text-facts.json").write_text(text, encoding="utf-8")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line names: train a model or a family, or count facts of the text."""
    parser = argparse.ArgumentParser(prog="python -m tinyattn.training", description=__doc__)
    parser.add_argument("name", choices=[*RECIPES, *FAMILIES, "facts"])
    parser.add_argument("--seed", type=int, default=0, help="another start, other rows")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("build/training"),
        help="where checkpoints and trained models go (default: build/training)",
    )
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)  # on matrices this small, threads wait for each other
    try:
        if given.name == "facts":
            found = count(MODELS)
            print(f"loss on held-out chapters: {found['held out']}")
            for kind in ("skip-trigrams", "missed", "one source"):
                print(f"{kind}:", *found[kind], sep="\n")
        for name in [] if given.name == "facts" else FAMILIES.get(given.name, [given.name]):
            _make(name, given.seed, given.folder / f"{name}-seed-{given.seed}")
    except (FileNotFoundError, ValueError) as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"{given.name}: {stop}. The same command goes on from there.", file=sys.stderr)
        return 130
    return 0


def _make(name: str, seed: int, folder: Path) -> None:
    """Train one model, write it beside its checkpoints, and print how it went."""
    model, history = make(name, seed, folder)
    path = folder / f"{name}.safetensors"
    short = {key: [round(value, 4) for value in row] for key, row in history.values.items()}
    notes = json.dumps({"steps": history.steps, "values": short})
    save_model(model, path, dtype=torch.float16, history=notes)
    for step, *values in zip(history.steps, *history.values.values(), strict=True):
        said = ", ".join(f"{n} {v:.4f}" for n, v in zip(history.values, values, strict=True))
        print(f"{name}, step {step}: {said}")
    print(f"{name}: {path}")


if __name__ == "__main__":
    sys.exit(main())
