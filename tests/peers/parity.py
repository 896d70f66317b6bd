"""The same numbers as Hugging Face and TransformerLens, on models saved in their own formats.

Run by ``make test-peers``, with the extra ``peers`` installed; nothing is downloaded. The file's
name keeps it out of ``make test``, which must not need those libraries.
"""

import copy
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import safetensors.torch
import torch
import transformers
from torch import Tensor
from torch.testing import assert_close

from tinyattn import (
    Transformer,
    fold,
    from_gpt2,
    from_hf,
    from_transformer_lens,
    to_transformer_lens,
)
from tinyattn.weights import read_weights, write_weights

TOKENS = torch.randint(211, (2, 17), generator=torch.Generator().manual_seed(0))
SMALL = {"vocab_size": 211, "bos_token_id": 0, "eos_token_id": 0}
LLAMA = {
    **SMALL, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32,
}  # fmt: skip
MODELS = {
    "gpt2": transformers.GPT2Config(**SMALL, n_embd=48, n_layer=3, n_head=4, n_positions=32),
    "llama": transformers.LlamaConfig(**LLAMA, rms_norm_eps=1e-5),
    "llama, tied": transformers.LlamaConfig(**LLAMA, tie_word_embeddings=True),
    "mistral": transformers.MistralConfig(**LLAMA, head_dim=16, sliding_window=None),
    "qwen2": transformers.Qwen2Config(**LLAMA),
}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.fixture(params=MODELS)
def theirs(request):
    """A model with no gain of 1 and no bias of 0, that shows its patterns."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        MODELS[request.param], attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape))
    return model


def all_in_its_dtype(model):
    """Let a Llama-style model compute in float64 where it is told to: it falls back to float32."""

    def norm(module, x):
        return (
            module.weight * x * (x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon) ** -0.5
        )

    def turns(x, position_ids):
        pairs = torch.arange(0, width, 2, dtype=x.dtype)
        angles = position_ids[..., None].to(x.dtype) * theta ** (-pairs / width)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()

    if not hasattr(model.model if hasattr(model, "model") else None, "rotary_emb"):
        return model
    theta = model.config.rope_parameters["rope_theta"]
    width = getattr(model.config, "head_dim", None) or 12
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm.__get__(module)
    model.model.rotary_emb.forward = turns
    return model


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_logits_and_every_pattern_equal_hugging_face(theirs, dtype, tmp_path, monkeypatch):
    theirs.save_pretrained(tmp_path)
    theirs = theirs.to(dtype)
    if dtype == torch.float64:
        theirs = all_in_its_dtype(theirs)
        # Theirs asks for float32.
        monkeypatch.setattr(
            torch.nn.functional, "softmax", lambda x, dim, dtype=None: x.softmax(dim)
        )
    with torch.no_grad():
        expected = theirs(TOKENS, output_attentions=True, output_hidden_states=True)
    for ours in (from_hf(tmp_path, dtype=dtype), from_hf(theirs, dtype=dtype)):
        run = ours.run(TOKENS)
        close(run.logits, expected.logits, dtype)
        for layer in range(3):
            close(run.pattern(layer), expected.attentions[layer], dtype)
            close(run.resid_pre(layer), expected.hidden_states[layer], dtype)


def test_the_parameters_are_as_many(theirs):
    ours = sum(p.numel() for p in from_hf(theirs).parameters())
    missing = 3 * (48 + 64 + 64 + 48) if theirs.config.model_type == "qwen2" else 0  # zero biases
    assert ours - missing == sum(p.numel() for p in theirs.parameters())


def test_continuations_are_the_same(theirs):
    ours = from_hf(theirs, dtype=torch.float64)
    expected = all_in_its_dtype(theirs.double()).generate(
        TOKENS[:, :5], attention_mask=torch.ones(2, 5), max_new_tokens=8, do_sample=False,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    assert torch.equal(ours.generate(TOKENS[:, :5], 8), expected)


def test_left_padding_is_the_same(theirs):
    real = torch.ones_like(TOKENS, dtype=torch.bool)
    real[0, :4] = False
    places = (real.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        expected = theirs(TOKENS, attention_mask=real.long(), position_ids=places).logits
    logits = from_hf(theirs).run(TOKENS, real=real).logits
    close(logits[real], expected[real], torch.float32)


def test_files_of_ours_are_read_by_the_safetensors_package(tmp_path):
    tensors = {"W": torch.randn(3, 4), "half": torch.randn(5).bfloat16(), "n": torch.arange(3)}
    write_weights(tmp_path / "ours", tensors, {"note": "é"})
    safetensors.torch.save_file(tensors, tmp_path / "theirs")
    for back in (
        safetensors.torch.load_file(tmp_path / "ours"),
        read_weights(tmp_path / "theirs")[0],
    ):
        assert back.keys() == tensors.keys()
        assert all(torch.equal(back[name], t) for name, t in tensors.items())


# TransformerLens


@pytest.fixture
def lens(tmp_path):
    """A GPT-2 as TransformerLens wraps it, and ours of the same folder."""
    from transformer_lens.model_bridge import TransformerBridge

    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(MODELS["gpt2"]).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape))
    model.save_pretrained(tmp_path)
    bridge = TransformerBridge.boot_transformers(
        str(tmp_path), hf_model=copy.deepcopy(model), device="cpu"
    )
    return bridge, from_gpt2(tmp_path)


def test_every_activation_equals_transformer_lens(lens):
    bridge, ours = lens
    logits, cache = bridge.run_with_cache(TOKENS)
    run = ours.run(TOKENS)
    close(run.logits, logits, torch.float32)
    for layer in range(3):
        at = f"blocks.{layer}."
        close(run.pattern(layer), cache[at + "attn.hook_pattern"], torch.float32)
        for name in ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out"):
            close(getattr(run, name)(layer), cache[f"{at}hook_{name}"], torch.float32)
        for name in ("q", "k", "v", "z"):
            by_head = cache[f"{at}attn.hook_{name}"].unflatten(-1, (-1, 12)).squeeze(-3)
            ours_by_pos = getattr(run, name)(layer).transpose(1, 2)
            close(ours_by_pos, by_head.reshape(ours_by_pos.shape), torch.float32)


def test_weights_go_there_and_come_back(lens):
    bridge, ours = lens
    state = to_transformer_lens(ours)
    for layer in range(3):
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            close(state[f"blocks.{layer}.attn.{name}"], getattr(bridge, name)[layer], torch.float32)
    close(state["embed.W_E"], bridge.W_E, torch.float32)
    close(from_transformer_lens(state, ours.config)(TOKENS), ours(TOKENS), torch.float32)


def test_folded_as_it_folds(lens):
    """Its compatibility mode folds and centres: logits differ by a constant for each position."""
    bridge, ours = lens
    bridge.enable_compatibility_mode()
    folded: Transformer = fold(ours, centre_writers=True, centre_unembedding=True)
    run = folded.run(TOKENS)
    theirs, cache = bridge.run_with_cache(TOKENS)
    close(run.logits.log_softmax(-1), theirs.log_softmax(-1), torch.float32)
    close(run.pattern(2), cache["blocks.2.attn.hook_pattern"], torch.float32)


def close(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> None:
    assert_close(ours.detach(), theirs.detach(), rtol=0, atol=TOLERANCE[dtype])
