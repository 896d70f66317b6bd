"""The models that come with the package, by name: weights that nobody wrote by hand."""

import json
from pathlib import Path
from typing import Any

from tinyattn.bpe import Vocabulary
from tinyattn.checkpoint import load_model
from tinyattn.learning import History
from tinyattn.model import Transformer
from tinyattn.weights import read_weights

MODELS = Path(__file__).parent / "models"
"""Where weights, cards and the vocabulary lie."""


def load(name: str) -> Transformer:
    """Give one of the trained models: attention only, no norm, no biases.

    - ``"induction-1l"`` and ``"induction-2l"`` have read random tokens, repeated;
    - ``"text-0l"``, ``"text-1l"`` and ``"text-2l"`` have read the King James Bible, the last one
      with lists of repeated random words among it. Their tokens are those of
      :func:`load_vocabulary`.

    Token 0 is a start that stands before everything. :func:`model_card` says how each was made. The
    weights ask for no gradients; ``model.requires_grad_()`` turns them on, to train on.

    Raises:
        ValueError: If there is no such model, listing those there are.

    Examples:
        >>> from tinyattn import load
        >>> load("induction-2l").config.n_layers
        2
        >>> load("x")
        Traceback (most recent call last):
        ValueError: no model 'x': choose among induction-1l, induction-2l, text-0l, text-1l, text-2l
    """
    return load_model(_file(name, ".safetensors")).requires_grad_(False)


def load_history(name: str) -> History:
    """Say how the training of a model went: its losses along the way, for :func:`draw_curve`.

    Raises:
        ValueError: If there is no such model.

    Examples:
        >>> from tinyattn import load_history
        >>> load_history("induction-2l").steps[:3]
        [0, 10, 20]
    """
    _, notes = read_weights(_file(name, ".safetensors"))
    return History(**json.loads(notes["history"]))


def model_card(name: str) -> str:
    """Say how a model was made, of what, under which licence, and what it can and cannot do.

    Raises:
        ValueError: If there is no such model.

    Examples:
        >>> from tinyattn import model_card
        >>> model_card("induction-2l").splitlines()[0]
        '# induction-2l'
    """
    return _file(name, ".md").read_text(encoding="utf-8")


def load_vocabulary() -> Vocabulary:
    """Give the tokens of the text models.

    Examples:
        >>> from tinyattn import load_vocabulary
        >>> words = load_vocabulary()
        >>> [words.tokens[number] for number in words.encode("And God said")]
        ['And', ' God', ' said']
    """
    return Vocabulary.read(MODELS / "text-vocabulary.json")


def load_facts() -> dict[str, Any]:
    """Give what was counted in the text of the text models, which is not shipped itself.

    The losses of counts and models on held-out chapters in nats, ``"held out"``; how often tokens
    follow each other with and without a third before them, and how likely ``"text-1l"`` makes that
    at up to forty of those places: ``"skip-trigrams"`` it has learnt, ``"missed"`` ones, and those
    of ``"one source"``, which its heads cannot tell apart; and which tokens most often follow some,
    ``"bigrams"``.

    Examples:
        >>> from tinyattn import load_facts
        >>> sorted(load_facts())
        ['bigrams', 'command', 'held out', 'missed', 'one source', 'skip-trigrams', 'tokens']
    """
    return json.loads((MODELS / "text-facts.json").read_text(encoding="utf-8"))


def _file(name: str, ending: str) -> Path:
    known = sorted(path.stem for path in MODELS.glob("*.safetensors"))
    if name not in known:
        raise ValueError(f"no model {name!r}: choose among {', '.join(known)}")
    return MODELS / (name + ending)
