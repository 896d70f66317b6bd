"""Text as the tokens of a published model, and tokens as words again.

One call decides whether a start token stands in front: :meth:`Tokens.encode`. What comes after it
takes tokens and adds none, so the words, the logits and a pattern's axes are always equally many.
"""

import copy
import importlib
import itertools
import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from tinyattn.hub import model_folder
from tinyattn.shapes import ShapeError, describe, whole_numbers

FILES = ["tokenizer.json", "tokenizer_config.json", "config.json"]


class Tokens:
    """The vocabulary of a published model: a tokenizer of Hugging Face, with one rule for starts.

    Which token is the start is read from the model's files, or from what the tokenizer puts in
    front by itself. Some models have none. Settings that would cut or fill up a text are off.

    Args:
        source: A folder with a ``tokenizer.json``, that file itself, an id on the hub, a
            ``tokenizers.Tokenizer``, or a fast tokenizer of transformers. It is copied.
        start_token: The start token as it is written in the vocabulary, such as ``"<s>"``, where
            the files do not say it.

    Attributes:
        start: The number of the start token, or None where there is none.

    Raises:
        FileNotFoundError: If nothing is found, or there is no ``tokenizer.json``.
        ImportError: If the extra ``hub`` is needed and missing.
        TypeError: If the source is something else.
        ValueError: If a file is damaged, or ``start_token`` is not in the vocabulary.

    Examples:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from tinyattn import Tokens
        >>> made = Tokenizer(models.WordLevel({"<s>": 0, "The": 1, "cat": 2}))
        >>> made.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> vocabulary = Tokens(made, start_token="<s>")
        >>> tokens = vocabulary.encode("The cat")
        >>> tokens, vocabulary.words(tokens), vocabulary.decode(tokens)
        (tensor([0, 1, 2]), ['<s>', 'The', 'cat'], 'The cat')
        >>> vocabulary.encode("The cat", start=False), vocabulary.answer("cat")
        (tensor([1, 2]), 2)
    """

    def __init__(self, source: Any, *, start_token: str | None = None) -> None:
        folder = None
        if isinstance(source, str | Path):
            tokenizer, folder = _read(source)
        else:
            tokenizer = copy.deepcopy(getattr(source, "backend_tokenizer", source))
            start_token = getattr(source, "bos_token", None) if start_token is None else start_token
        if not all(hasattr(tokenizer, name) for name in ("encode", "decode", "id_to_token")):
            raise TypeError(
                f"a {type(source).__name__} is no tokenizer: give a folder, an id on the hub, or "
                f"a tokenizers.Tokenizer"
            )
        if getattr(tokenizer, "truncation", None):
            tokenizer.no_truncation()
        if getattr(tokenizer, "padding", None):
            tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.start = self._find_start(start_token, folder)
        # A tokenizer may put the start in front although it is told not to.
        self._insists = self.start is not None and self._added(False) == self.start

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def __repr__(self) -> str:
        start = "no start" if self.start is None else f"start={self.words([self.start])[0]!r}"
        return f"Tokens({len(self)} tokens, {start})"

    def encode(self, text: str, *, start: bool | None = None) -> Int[Tensor, " pos"]:
        """Give the tokens of a text, with one start token in front if the vocabulary has one.

        Args:
            text: What to read. A start token that it begins with by itself is not doubled.
            start: True demands a start token, False adds none. Left out, there is one wherever
                the vocabulary has one.

        Raises:
            TypeError: If it is not one text.
            ValueError: If a start token is demanded and the vocabulary has none, if there is no
                token at all, or if the vocabulary has no token for a part of the text.
        """
        if start not in (None, True, False):
            raise TypeError(f"encode: start is {start!r}: give True, False, or leave it out")
        tokens = self._pieces(text)
        if start and self.start is None:
            raise ValueError(
                "encode: start=True, but this vocabulary has no start token: leave start out, or "
                "name one, Tokens(…, start_token='<s>')"
            )
        if start is not False and self.start is not None and tokens[:1] != [self.start]:
            tokens = [self.start, *tokens]
        if not tokens:
            raise ValueError(f"encode: {text!r} makes no token: give a text with a word in it")
        return torch.tensor(tokens)

    def answer(self, text: str) -> int:
        """Give the one token of an answer, whose logit can be asked for. No start is added.

        Args:
            text: The answer as it would go on: most vocabularies have the space before a word
                inside the token, as in ``" Paris"``.

        Raises:
            ValueError: If it is more than one token, naming them, or none.
        """
        tokens = self._pieces(text)
        if len(tokens) == 1:
            return tokens[0]
        pieces = " + ".join(repr(word) for word in self.words(tokens)) or "no token"
        other = text[1:] if text.startswith(" ") else f" {text}"
        try:
            alone = len(self._pieces(other)) == 1
        except ValueError:
            alone = False
        remedy = f"{other!r} is one" if alone else "take the first, encode(text, start=False)[0]"
        raise ValueError(f"answer: {text!r} is not one token but {pieces}: {remedy}")

    def words(self, tokens: Int[Tensor, " pos"] | Sequence[int]) -> list[str]:
        """Name every position, as the labels of a table or picture: one for each token.

        A space before a word is kept. A token that is part of a character only is named as the
        vocabulary writes it.

        Raises:
            ShapeError: If the tokens are not one row of whole numbers.
            ValueError: If the vocabulary has no such token.
        """
        return [self._word(token) for token in self._row(tokens, "words")]

    def decode(self, tokens: Int[Tensor, " pos"] | Sequence[int]) -> str:
        """Give the text of the tokens. A start token in front is no text and left out.

        Raises:
            ShapeError: If the tokens are not one row of whole numbers.
            ValueError: If the vocabulary has no such token.
        """
        row = self._row(tokens, "decode")
        if self.start is not None and row[:1] == [self.start]:
            row = row[1:]
        return self._tokenizer.decode(row, skip_special_tokens=False)

    def _pieces(self, text: str) -> list[int]:
        """The tokens of the text alone, or an error where a part of it would be lost."""
        if not isinstance(text, str):
            raise TypeError(
                f"a {type(text).__name__} is no text: give one string, and encode several one by "
                f"one"
            )
        try:
            found = self._tokenizer.encode(text, add_special_tokens=False)
        except Exception as error:  # the library raises nothing more particular
            raise ValueError(f"{text!r} has no tokens in this vocabulary: {error}") from None
        tokens, places = list(found.ids), list(found.offsets)
        if self._insists:
            tokens, places = tokens[1:], places[1:]
        unknown = getattr(getattr(self._tokenizer, "model", None), "unk_token", "<unk>")
        for token, (first, last) in zip(tokens, places, strict=True):
            word = text[first:last]
            if unknown and word != unknown and self._tokenizer.id_to_token(token) == unknown:
                raise ValueError(
                    f"the vocabulary has no token for {word!r} in {text!r}, and would write "
                    f"{unknown}: use other words"
                )
        covered = {place for first, last in places for place in range(first, last)}
        lost = [sign for place, sign in enumerate(text) if place not in covered]
        if any(unicodedata.category(sign)[0] in "LNPS" for sign in lost):
            raise ValueError(
                f"the vocabulary has no token for a part of {text!r}: its tokens say "
                f"{self._tokenizer.decode(tokens, skip_special_tokens=False)!r}. Use other words"
            )
        return tokens

    def _word(self, token: int) -> str:
        piece = self._tokenizer.id_to_token(token)
        word = self._tokenizer.decode([token], skip_special_tokens=False)
        if piece.startswith("▁") and not word.startswith(" "):
            return f" {word}"  # alone, it counts as the first word, which is written without
        return piece if "\ufffd" in word or not word else word

    def _row(self, tokens: Any, name: str) -> list[int]:
        if isinstance(tokens, Tensor):
            if tokens.ndim != 1 or tokens.is_floating_point() or tokens.dtype == torch.bool:
                remedy = "one row at a time, tokens[0]" if tokens.ndim > 1 else "whole numbers"
                raise ShapeError(
                    f"{name}: tokens is {describe(tokens)}, but must be int64[pos]: give {remedy}"
                )
            tokens = tokens.tolist()
        row = whole_numbers(f"{name}: tokens", tokens)
        for token in row:
            if token < 0 or self._tokenizer.id_to_token(token) is None:
                raise ValueError(
                    f"{name}: the vocabulary has no token {token}: it has {len(self)} tokens"
                )
        return row

    def _find_start(self, start_token: str | None, folder: Path | None) -> int | None:
        if start_token is not None:
            if not isinstance(start_token, str):
                raise TypeError(f"start_token is {start_token!r}: give it as it is written, '<s>'")
            start = self._tokenizer.token_to_id(start_token)
            if start is None:
                raise ValueError(
                    f"start_token = {start_token!r} is not in the vocabulary: write it as there"
                )
            return start
        about = _json(folder, "tokenizer_config.json")
        if "bos_token" in about:  # None there is an answer too: config.json is not asked
            name = about["bos_token"]
            return self._find_start(name.get("content") if isinstance(name, dict) else name, None)
        for special in (False, True):
            added = self._added(special)
            if added is not None:
                return added
        start = _json(folder, "config.json").get("bos_token_id")
        known = type(start) is int and self._tokenizer.id_to_token(start) is not None
        return start if known else None

    def _added(self, special: bool) -> int | None:
        """The one token that stands before a text although the text does not have it."""
        nothing = list(self._tokenizer.encode("", add_special_tokens=False).ids)
        if not special:
            return nothing[0] if nothing else None
        around = set(self._tokenizer.encode("", add_special_tokens=True).ids)
        for word in itertools.islice(("a", *getattr(self._tokenizer, "get_vocab", dict)()), 100):
            try:
                plain, full = (
                    list(self._tokenizer.encode(word, add_special_tokens=with_them).ids)
                    for with_them in (False, True)
                )
            except Exception:  # it is no word there: the library raises nothing more particular
                continue
            if plain and not around & set(plain):
                return full[0] if full[1 : 1 + len(plain)] == plain else None
        return None


def _read(source: str | Path) -> tuple[Any, Path]:
    """The tokenizer of a file, a folder or an id, and the folder it lies in."""
    file = Path(source)
    if not file.is_file():
        file = model_folder(source, files=FILES) / "tokenizer.json"
    if not file.is_file():
        raise FileNotFoundError(
            f"no tokenizer.json in {file.parent}: save one there, "
            f"AutoTokenizer.from_pretrained(…).save_pretrained(folder)"
        )
    try:
        library = importlib.import_module("tokenizers")
    except ImportError:
        raise ImportError(
            "reading a tokenizer needs the extra hub: pip install 'tinyattn[hub]'"
        ) from None
    try:
        return library.Tokenizer.from_file(str(file)), file.parent
    except Exception as error:  # the library raises nothing more particular
        raise ValueError(
            f"{file} is not a whole tokenizer file ({error}): a damaged download? Fetch it again"
        ) from None


def _json(folder: Path | None, name: str) -> dict[str, Any]:
    """What a file beside the tokenizer says; nothing where there is none."""
    if folder is None or not (folder / name).is_file():
        return {}
    try:
        return json.loads((folder / name).read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(
            f"{folder / name} is no JSON: a damaged download? Fetch it again"
        ) from None
