"""Text and tokens: one rule for the start token, one label a position, and nothing lost silently.

The tokenizers are made here, small, of the kinds that published models have. Stubs stand in for
those that do what none of these does.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from test_interop import Hub
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from tinyattn import Config, ShapeError, Tokens, Transformer, show

START = "<|endoftext|>"
TEXT = "hello world!"


def bytewise() -> Tokenizer:
    """As GPT-2's: any text has tokens, a space is part of its word, no start is put in front."""
    pieces = [
        START,
        *sorted(pre_tokenizers.ByteLevel.alphabet()),
        "ĠP",
        "ar",
        "is",
        "ĠPar",
        "ĠParis",
    ]
    merges = [("Ġ", "P"), ("a", "r"), ("i", "s"), ("ĠP", "ar"), ("ĠPar", "is")]
    made = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([START])
    return made


def llamalike() -> Tokenizer:
    """As Llama's: ▁ is a space, and the tokenizer puts <s> in front by itself."""
    made = Tokenizer(
        models.Unigram([("<unk>", 0.0), ("<s>", 0.0), ("▁cat", -1.0), ("▁", -3.0), ("s", -3.0)], 0)
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<unk>", "<s>"])
    made.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    return made


def wordwise(unknown: str | None = None, **words: int) -> Tokenizer:
    made = Tokenizer(models.WordLevel({"cat": 0, "sat": 1, **words}, unknown))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


class Stub:
    """A tokenizer of letters. ``insists``: it puts ^ in front, whatever it is told."""

    def __init__(self, start: bool, insists: bool = False):
        self.letters = ["^"] * start + list(" !dehlorw")
        self.insists = insists

    def encode(self, text, add_special_tokens=True):
        front = ["^"] * self.insists
        return SimpleNamespace(
            ids=[self.letters.index(letter) for letter in [*front, *text]],
            offsets=[(0, 0)] * len(front) + [(n, n + 1) for n in range(len(text))],
        )

    def decode(self, ids, skip_special_tokens=True):
        return "".join(self.letters[n] for n in ids)

    def id_to_token(self, n):
        return self.letters[n] if n < len(self.letters) else None

    def token_to_id(self, token):
        return self.letters.index(token) if token in self.letters else None

    def get_vocab_size(self):
        return len(self.letters)


@pytest.fixture
def gpt2_folder(tmp_path):
    bytewise().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"bos_token_id": 0}))
    return tmp_path


# The start token


@pytest.mark.parametrize("start", [None, True, False])
def test_b16_tokens_words_logits_and_pattern_are_equally_many(gpt2_folder, start):
    """An extra start token in one function but not in another, and a day is gone."""
    vocabulary = Tokens(gpt2_folder)
    model = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=len(vocabulary), n_ctx=16))
    tokens = vocabulary.encode("to Paris", start=start)
    run, words = model.run(tokens), vocabulary.words(tokens)
    assert words == [START] * (start is not False) + ["t", "o", " Paris"]
    assert len(tokens) == len(words) == run.logits.shape[0]
    assert run.pattern(0).shape[1:] == (len(words), len(words))
    assert "␣Paris" in show(run.pattern(0)[0], rows=words, columns=words)


def test_b17_a_start_token_is_not_added_twice():
    """A tokenizer that adds one by itself made two, also in the answer."""
    for vocabulary, start in (
        (Tokens(Stub(start=True, insists=True)), 0),
        (Tokens(Stub(start=True), start_token="^"), 0),
    ):
        tokens = vocabulary.encode(TEXT).tolist()
        assert tokens.count(start) == 1
        assert tokens[0] == start
        assert vocabulary.decode(tokens) == TEXT
        assert start not in vocabulary.encode(TEXT, start=False)
        assert vocabulary.words([vocabulary.answer("w")]) == ["w"]
    llama = Tokens(llamalike())
    assert llama.words(llama.encode("cats")) == ["<s>", " cat", "s"]
    assert llama.words(llama.encode("<s>cats")) == ["<s>", " cat", "s"]
    assert llama.answer("cat") == 2


def test_the_start_token_itself_can_be_an_answer():
    assert Tokens(llamalike()).answer("<s>") == 1


@pytest.mark.parametrize("start", [None, False])
def test_b18_no_start_token_is_invented_or_taken_away(start):
    """Where there was none, the first word went instead, or None + str crashed."""
    vocabulary = Tokens(Stub(start=False))
    tokens = vocabulary.encode(TEXT, start=start)
    assert vocabulary.start is None
    assert vocabulary.words(tokens) == list(TEXT)
    assert vocabulary.decode(tokens) == TEXT
    assert repr(vocabulary) == "Tokens(9 tokens, no start)"


def test_b18_a_start_token_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="has no start token: leave start out, or name one"):
        Tokens(Stub(start=False)).encode(TEXT, start=True)


@pytest.mark.parametrize(
    ("files", "start"),
    [
        ({}, None),
        ({"config.json": {"bos_token_id": 0}}, 0),
        ({"config.json": {"bos_token_id": 9999}}, None),
        ({"tokenizer_config.json": {"bos_token": START}}, 0),
        ({"tokenizer_config.json": {"bos_token": {"content": "a"}}}, "a"),
        # As Qwen2's: its config has a number, but it was trained without.
        ({"config.json": {"bos_token_id": 0}, "tokenizer_config.json": {"bos_token": None}}, None),
    ],
)
def test_where_the_start_token_is_said(tmp_path, files, start):
    bytewise().save(str(tmp_path / "tokenizer.json"))
    for name, about in files.items():
        (tmp_path / name).write_text(json.dumps(about))
    expected = bytewise().token_to_id(start) if isinstance(start, str) else start
    assert Tokens(tmp_path).start == expected


def test_what_the_tokenizer_puts_in_front_is_the_start_whatever_the_files_leave_out(tmp_path):
    llamalike().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": None}))
    (tmp_path / "config.json").write_text(json.dumps({"bos_token_id": 2}))
    assert Tokens(tmp_path).start == 1


def test_a_tokenizer_of_transformers_brings_its_start():
    theirs = SimpleNamespace(backend_tokenizer=bytewise(), bos_token=START)
    assert Tokens(theirs).start == 0
    assert Tokens(SimpleNamespace(backend_tokenizer=bytewise(), bos_token=None)).start is None


def test_a_start_token_that_is_not_in_the_vocabulary():
    with pytest.raises(ValueError, match="start_token = '<s>' is not in the vocabulary"):
        Tokens(bytewise(), start_token="<s>")


# Words


def test_every_position_has_a_word_and_decoding_gives_the_text_back(gpt2_folder):
    vocabulary = Tokens(str(gpt2_folder / "tokenizer.json"))
    text = " é in Paris\n☃"
    tokens = vocabulary.encode(text)
    assert tokens.dtype == torch.int64
    assert vocabulary.decode(tokens) == text
    assert vocabulary.words(tokens) == [
        START, " ", "Ã", "©", " ", "i", "n", " Paris", "\n", "â", "ĺ", "ĥ",
    ]  # fmt: skip
    assert vocabulary.words(tokens.tolist()) == vocabulary.words(tokens)
    assert repr(vocabulary) == f"Tokens(262 tokens, start={START!r})"


def test_a_text_is_neither_cut_nor_filled_up_and_the_tokenizer_is_not_changed():
    made = bytewise()
    made.enable_truncation(3)
    made.enable_padding(length=20)
    assert len(Tokens(made).encode(TEXT)) == len(TEXT)
    settings = json.loads(made.to_str())
    assert settings["truncation"]["max_length"] == 3
    assert settings["padding"]["strategy"] == {"Fixed": 20}


def test_an_answer_of_several_tokens_names_them():
    vocabulary = Tokens(bytewise())
    assert vocabulary.words([vocabulary.answer(" Paris")]) == [" Paris"]
    with pytest.raises(ValueError, match=r"'Paris' is not one .* 'P' \+ 'ar' \+ 'is': ' Paris' is"):
        vocabulary.answer("Paris")
    with pytest.raises(ValueError, match=r"'ab' is not one token but 'a' \+ 'b': take the first"):
        vocabulary.answer("ab")
    with pytest.raises(ValueError, match="'' is not one token but no token"):
        vocabulary.answer("")


# What goes wrong, in a sentence a person can act on


def test_an_empty_text():
    assert Tokens(llamalike()).encode("").tolist() == [1]
    with pytest.raises(ValueError, match="encode: '' makes no token: give a text with a word"):
        Tokens(llamalike()).encode("", start=False)


@pytest.mark.parametrize(
    ("made", "text", "message"),
    [
        (wordwise(), "cat dog", "'cat dog' has no tokens in this vocabulary"),
        (wordwise("?", **{"?": 2}), "cat dog", r"no token for 'dog' in 'cat dog', and would write"),
        (llamalike(), "cat dog", "no token for 'dog' in 'cat dog', and would write <unk>"),
        (Tokenizer(models.BPE({"a": 0, "b": 1}, [])), "aüb", "part of 'aüb': its tokens say 'a b'"),
    ],
)
def test_a_text_the_vocabulary_cannot_write(made, text, message):
    with pytest.raises(ValueError, match=message):
        Tokens(made).encode(text)
    with pytest.raises(ValueError, match=message):
        Tokens(made).answer(text)


def test_the_unknown_token_can_be_written_on_purpose():
    assert Tokens(llamalike()).encode("<unk>", start=False).tolist() == [0]


@pytest.mark.parametrize("wrong", [99, -1])
def test_a_token_that_is_not_in_the_vocabulary(wrong):
    vocabulary = Tokens(llamalike())
    for function in (vocabulary.words, vocabulary.decode):
        with pytest.raises(ValueError, match=f"has no token {wrong}: it has 5 tokens"):
            function([1, wrong])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            torch.zeros(2, 3).long(),
            r"words: tokens is int64\[2, 3\].* one row at a time, tokens\[0",
        ),
        (torch.zeros(3), r"words: tokens is float32\[3\], but must be int64\[pos\]"),
        (torch.tensor(3), "give whole numbers"),
        ([[1, 2]], "must be one row of whole numbers"),
        (["cat"], "must be one row of whole numbers"),
        (3, "must be one row of whole numbers"),
    ],
)
def test_what_is_no_row_of_tokens(wrong, message):
    with pytest.raises(ShapeError, match=message):
        Tokens(llamalike()).words(wrong)


def test_several_texts_at_once():
    texts: Any = ["cat", "cats"]
    with pytest.raises(TypeError, match="a list is no text: give one string, and encode several"):
        Tokens(llamalike()).encode(texts)


def test_what_is_no_tokenizer():
    with pytest.raises(TypeError, match="a int is no tokenizer: give a folder, an id on the hub"):
        Tokens(3)


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json in .*save_pretrained"):
        Tokens(tmp_path)


def test_a_damaged_tokenizer_and_a_damaged_config(gpt2_folder):
    (gpt2_folder / "config.json").write_text('{"bos')
    with pytest.raises(ValueError, match=r"config\.json is no JSON: a damaged download\?"):
        Tokens(gpt2_folder)
    file = gpt2_folder / "tokenizer.json"
    file.write_text(file.read_text()[:300])
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a whole tokenizer file"):
        Tokens(gpt2_folder)


def test_an_id_is_fetched_without_the_weights(monkeypatch, gpt2_folder):
    hub = Hub(str(gpt2_folder))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert Tokens("openai-community/gpt2").start == 0
    ((name, patterns),) = hub.asked
    assert name == "openai-community/gpt2"
    assert patterns == ["tokenizer.json", "tokenizer_config.json", "config.json"]


def test_without_the_library(monkeypatch, gpt2_folder):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"needs the extra hub: pip install 'tinyattn\[hub\]'"):
        Tokens(gpt2_folder)
