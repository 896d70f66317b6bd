"""Byte-pair encoding: a vocabulary made of the pieces of words that a text uses most.

It begins with single characters. Again and again the two neighbours that stand side by side most
often become one token, never across the border of a word. The space before a word is part of it.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tinyattn.shapes import whole_numbers

START = "<start>"
"""Token 0 of every vocabulary: it stands before a text, and is no text itself."""

_WORD = re.compile(r" ?[A-Za-z']+| ?[^\sA-Za-z']+|\s")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens a text model knows, and the merges that made them.

    Attributes:
        tokens: The text of each token; token 0 is the start.
        merges: Two tokens each, in the order in which they became one. The last tokens are theirs.

    Raises:
        ValueError: If a token occurs twice, or merges and tokens do not fit.

    Examples:
        >>> from tinyattn import Vocabulary
        >>> words = Vocabulary.learn("the cat, the hat, the mat", 14)
        >>> words.tokens
        ('<start>', ' ', ',', 'a', 'c', 'e', 'h', 'm', 't', 'at', 'he', 'the', ' the', ' c')
        >>> words.encode("the hat"), words.decode(words.encode("the hat"))
        ([11, 1, 6, 9], 'the hat')

    Source: Sennrich, Haddow and Birch (2016), section 3.2.
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[int, int], ...]
    _known: dict[str, int] = field(init=False, repr=False, compare=False)
    _ranks: dict[tuple[int, int], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first = len(self.tokens) - len(self.merges)
        made = [self.tokens[a] + self.tokens[b] for a, b in self.merges]
        if list(self.tokens[first:]) != made or len(set(self.tokens)) != len(self.tokens):
            raise ValueError("Vocabulary: its tokens are not what its merges make, each once")
        known = {token: number for number, token in enumerate(self.tokens) if number}
        object.__setattr__(self, "_known", known)
        ranks = {pair: first + rank for rank, pair in enumerate(self.merges)}
        object.__setattr__(self, "_ranks", ranks)

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def learn(cls, text: str, size: int) -> "Vocabulary":
        """Merge the most frequent pair until there are ``size`` tokens. Ties: the smaller pair.

        Raises:
            ValueError: If the characters alone are more than ``size``, or the text has no pair
                left to merge.
            TypeError: If it is no text.
        """
        _text("learn", text)
        tokens = [START, *sorted(set(text))]
        if len(tokens) > size:
            raise ValueError(
                f"Vocabulary.learn: the start and the characters of the text are {len(tokens)} "
                f"tokens already: ask for more than {size}"
            )
        ids = {token: number for number, token in enumerate(tokens)}
        counted = Counter(_WORD.findall(text))
        words = [[ids[character] for character in word] for word in counted]
        often = list(counted.values())
        pairs: Counter[tuple[int, int]] = Counter()
        where: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for place, word in enumerate(words):
            for pair in pairwise(word):
                pairs[pair] += often[place]
                where[pair].add(place)
        merges = []
        while len(tokens) < size:
            best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
            if best is None or not pairs[best]:
                raise ValueError(
                    f"Vocabulary.learn: every word is one token at {len(tokens)} tokens: ask for "
                    f"no more, or give a longer text"
                )
            merges.append(best)
            new = len(tokens)
            tokens.append(tokens[best[0]] + tokens[best[1]])
            for place in sorted(where[best]):
                for pair in pairwise(words[place]):
                    pairs[pair] -= often[place]
                    where[pair].discard(place)
                words[place] = _merge(words[place], best, new)
                for pair in pairwise(words[place]):
                    pairs[pair] += often[place]
                    where[pair].add(place)
        return cls(tuple(tokens), tuple(merges))

    def encode(self, text: str) -> list[int]:
        """The text as numbers of tokens. Decoded, they are the text again, character by character.

        Raises:
            TypeError: If it is no text.
            ValueError: If the text holds a character the vocabulary does not know, naming it.
        """
        _text("encode", text)
        seen: dict[str, list[int]] = {}
        numbers = []
        for word in _WORD.findall(text):
            if word not in seen:
                seen[word] = self._encode(word)
            numbers += seen[word]
        return numbers

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of the tokens, one behind the other.

        Raises:
            ShapeError: If they are not one row of whole numbers.
            ValueError: If the vocabulary has no such token.
        """
        row = whole_numbers("Vocabulary.decode: numbers", numbers)
        for number in row:
            if not 0 <= number < len(self):
                raise ValueError(
                    f"Vocabulary.decode: no token {number}: there are {len(self)}, so tokens are "
                    f"0 to {len(self) - 1}"
                )
        return "".join(self.tokens[number] for number in row)

    def _encode(self, word: str) -> list[int]:
        lost = next((character for character in word if character not in self._known), None)
        if lost is not None:
            known = "".join(sorted(token for token in self._known if len(token) == 1)).strip()
            raise ValueError(
                f"Vocabulary: {lost!r} in {word!r} did not occur in the text it was made from: "
                f"write with {known}"
            )
        numbers = [self._known[character] for character in word]
        while True:
            pair = min(pairwise(numbers), key=lambda p: self._ranks.get(p, len(self)), default=None)
            if pair not in self._ranks:
                return numbers
            numbers = _merge(numbers, pair, self._ranks[pair])

    def save(self, path: str | Path) -> None:
        """Write it as JSON that any language reads."""
        data = {"tokens": self.tokens, "merges": self.merges}
        Path(path).write_text(json.dumps(data, ensure_ascii=True), encoding="ascii")

    @classmethod
    def read(cls, path: str | Path) -> "Vocabulary":
        """Read what :meth:`save` wrote.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is another one, or damaged.
        """
        text = Path(path).read_text(encoding="ascii", errors="replace")
        try:
            data = json.loads(text)
            return cls(tuple(data["tokens"]), tuple((a, b) for a, b in data["merges"]))
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(f"{path} holds no vocabulary ({error}): damaged file") from None


def _text(method: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"Vocabulary.{method}: a {type(text).__name__} is no text: give one string")


def _merge(numbers: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """Put one token where two stood, from left to right."""
    merged: list[int] = []
    at = 0
    while at < len(numbers):
        if tuple(numbers[at : at + 2]) == pair:
            merged.append(new)
            at += 2
        else:
            merged.append(numbers[at])
            at += 1
    return merged
