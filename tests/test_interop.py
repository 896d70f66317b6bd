"""Weights of other libraries: by value, in formats written here, against forwards in plain torch.

The same against the libraries themselves is in tests/peers, which needs them installed.
"""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from draws import normal
from models import KINDS, filled
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from tinyattn import from_gpt2, from_hf, from_torch, from_transformer_lens, to_transformer_lens
from tinyattn.hub import model_folder
from tinyattn.weights import write_weights

TOKENS = torch.tensor([[1, 4, 2, 2, 0, 5], [3, 3, 6, 1, 0, 2]])
GPT2 = {
    "model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 2, "vocab_size": 7,
    "n_positions": 9, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "vocab_size": 7, "max_position_embeddings": 9, "rms_norm_eps": 1e-6,
    "intermediate_size": 12, "hidden_act": "silu", "rope_theta": 500.0,
}  # fmt: skip


def gpt2_state() -> dict[str, torch.Tensor]:
    """A checkpoint as GPT-2's is: Conv1D, [in, out]; square weights upper triangular."""
    shapes = {"wte.weight": (7, 8), "wpe.weight": (9, 8), "ln_f.weight": (8,), "ln_f.bias": (8,)}
    for layer in range(2):
        shapes |= {
            f"h.{layer}.{name}": shape
            for name, shape in {
                "ln_1.weight": (8,), "ln_1.bias": (8,), "ln_2.weight": (8,), "ln_2.bias": (8,),
                "attn.c_attn.weight": (8, 24), "attn.c_attn.bias": (24,),
                "attn.c_proj.weight": (8, 8), "attn.c_proj.bias": (8,),
                "mlp.c_fc.weight": (8, 32), "mlp.c_fc.bias": (32,),
                "mlp.c_proj.weight": (32, 8), "mlp.c_proj.bias": (8,),
            }.items()
        }  # fmt: skip
    state = {name: normal(seed, *shape) for seed, (name, shape) in enumerate(shapes.items())}
    for layer in range(2):
        state[f"h.{layer}.attn.c_proj.weight"] = state[f"h.{layer}.attn.c_proj.weight"].triu()
    return state


def gpt2_by_hand(s: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    """The logits in plain torch, from the checkpoint's own names."""
    x = s["wte.weight"][tokens] + s["wpe.weight"][: tokens.shape[-1]]
    for layer in range(2):
        p = {name.removeprefix(f"h.{layer}."): t for name, t in s.items()}
        n = functional.layer_norm(x, (8,), p["ln_1.weight"], p["ln_1.bias"])
        q, k, v = (n @ p["attn.c_attn.weight"] + p["attn.c_attn.bias"]).split(8, dim=-1)
        q, k, v = (t.view(*t.shape[:-1], 2, 4).transpose(1, 2) for t in (q, k, v))
        z = (
            functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .flatten(2)
        )
        x = x + z @ p["attn.c_proj.weight"] + p["attn.c_proj.bias"]
        n = functional.layer_norm(x, (8,), p["ln_2.weight"], p["ln_2.bias"])
        fire = functional.gelu(n @ p["mlp.c_fc.weight"] + p["mlp.c_fc.bias"], approximate="tanh")
        x = x + fire @ p["mlp.c_proj.weight"] + p["mlp.c_proj.bias"]
    return functional.layer_norm(x, (8,), s["ln_f.weight"], s["ln_f.bias"]) @ s["wte.weight"].T


def llama_state() -> dict[str, torch.Tensor]:
    """A checkpoint as Llama's is: Linear, [out, in]."""
    shapes = {"embed_tokens.weight": (7, 8), "norm.weight": (8,)}
    for layer in range(2):
        shapes |= {
            f"layers.{layer}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (8,), "post_attention_layernorm": (8,),
                "self_attn.q_proj": (8, 8), "self_attn.k_proj": (4, 8),
                "self_attn.v_proj": (4, 8), "self_attn.o_proj": (8, 8),
                "mlp.gate_proj": (12, 8), "mlp.up_proj": (12, 8), "mlp.down_proj": (8, 12),
            }.items()
        }  # fmt: skip
    state = {f"model.{name}": normal(n, *shape) for n, (name, shape) in enumerate(shapes.items())}
    return {**state, "lm_head.weight": normal(99, 7, 8)}


def llama_by_hand(s: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    """The logits in plain torch, rotary positions by halves, each key read by two heads."""
    x = s["model.embed_tokens.weight"][tokens]
    angle = torch.arange(6.0, dtype=torch.float64)[:, None]  # d_head = 2: one pair, speed 1

    def turn(t):
        a, b = t.unbind(dim=-1)
        (cos,), (sin,) = angle.cos().T, angle.sin().T
        return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1)

    for layer in range(2):
        prefix = f"model.layers.{layer}."
        p = {n[len(prefix) : -7]: t for n, t in s.items() if n.startswith(prefix)}
        n = functional.rms_norm(x, (8,), p["input_layernorm"], 1e-6)
        q, k, v = (
            functional.linear(n, p[f"self_attn.{w}_proj"]).unflatten(-1, (-1, 2)) for w in "qkv"
        )
        writes = []
        for head in range(4):
            qh, kh, vh = turn(q[..., head, :]), turn(k[..., head // 2, :]), v[..., head // 2, :]
            writes.append(functional.scaled_dot_product_attention(qh, kh, vh, is_causal=True))
        x = x + functional.linear(torch.cat(writes, dim=-1), p["self_attn.o_proj"])
        n = functional.rms_norm(x, (8,), p["post_attention_layernorm"], 1e-6)
        fire = functional.silu(functional.linear(n, p["mlp.gate_proj"])) * functional.linear(
            n, p["mlp.up_proj"]
        )
        x = x + functional.linear(fire, p["mlp.down_proj"])
    return functional.linear(
        functional.rms_norm(x, (8,), s["model.norm.weight"], 1e-6), s["lm_head.weight"]
    )


@pytest.fixture
def gpt2_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    write_weights(tmp_path / "model.safetensors", gpt2_state())
    return tmp_path


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_b13_gpt2_against_its_forward_by_hand(prefix):
    """Square weights loaded transposed, and nothing complained."""
    state = {prefix + name: t for name, t in gpt2_state().items()}
    model = from_gpt2((GPT2, state), dtype=torch.float64)
    assert_close(model(TOKENS), gpt2_by_hand(gpt2_state(), TOKENS))
    wrong = gpt2_state()
    wrong["h.0.attn.c_proj.weight"] = wrong["h.0.attn.c_proj.weight"].T
    assert (model(TOKENS) - gpt2_by_hand(wrong, TOKENS)).abs().max() > 0.1


def test_b15_gpt2_fires_by_the_tanh_form():
    assert from_gpt2((GPT2, gpt2_state())).config.activation == "gelu_tanh"


def test_b12_gpt2_stays_tied_and_shares_no_memory_with_the_checkpoint():
    state = gpt2_state()
    model = from_gpt2((GPT2, state), dtype=torch.float64)
    assert model.config.tied
    before = model(TOKENS)
    for t in state.values():
        t.zero_()
    assert torch.equal(model(TOKENS), before)
    assert sum(p.numel() for p in model.parameters()) == sum(t.numel() for t in state.values())


def test_llama_against_its_forward_by_hand():
    model = from_hf((LLAMA, llama_state()), dtype=torch.float64)
    assert_close(model(TOKENS), llama_by_hand(llama_state(), TOKENS))
    assert model.config.theta == 500
    assert torch.equal(
        model.heads(0).W_V[1].T, llama_state()["model.layers.0.self_attn.v_proj.weight"][2:]
    )


def test_qwen2_has_biases_on_queries_keys_and_values_alone():
    state = llama_state()
    for layer in range(2):
        for seed, (what, width) in enumerate({"q": 8, "k": 4, "v": 4}.items()):
            state[f"model.layers.{layer}.self_attn.{what}_proj.bias"] = normal(seed, width)
    model = from_hf(({**LLAMA, "model_type": "qwen2"}, state), dtype=torch.float64)
    weights = model.state_dict()
    assert torch.equal(weights["blocks.0.b_Q"].flatten(), normal(0, 8))
    assert (weights["blocks.1.b_O"] == 0).all()
    assert (weights["blocks.1.b_gate"] == 0).all()


def test_a_folder_and_a_folder_in_shards(gpt2_folder):
    expected = gpt2_by_hand(gpt2_state(), TOKENS)
    assert_close(from_gpt2(gpt2_folder, dtype=torch.float64)(TOKENS), expected)
    assert_close(from_hf(str(gpt2_folder), dtype=torch.float64)(TOKENS), expected)

    (gpt2_folder / "model.safetensors").unlink()
    names = list(gpt2_state())
    shards = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, part in shards.items():
        write_weights(gpt2_folder / file, {name: gpt2_state()[name] for name in part})
    weight_map = {name: file for file, part in shards.items() for name in part}
    index = gpt2_folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert_close(from_gpt2(gpt2_folder, dtype=torch.float64)(TOKENS), expected)
    (gpt2_folder / "b.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*b\.safetensors"):
        from_gpt2(gpt2_folder)


# What goes wrong, in a sentence a person can act on


def test_half_a_download(gpt2_folder):
    file = gpt2_folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"is not a whole safetensors file: .* download it again"):
        from_gpt2(gpt2_folder)


def test_half_a_config(gpt2_folder):
    (gpt2_folder / "config.json").write_text('{"model_type": ')
    with pytest.raises(ValueError, match=r"config\.json is no JSON: a damaged download\?"):
        from_gpt2(gpt2_folder)


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no config\.json in .*: it is not a model folder"):
        from_hf(tmp_path)


def test_weights_in_a_format_that_can_run_code(gpt2_folder):
    (gpt2_folder / "model.safetensors").rename(gpt2_folder / "pytorch_model.bin")
    with pytest.raises(
        FileNotFoundError, match=r"pytorch_model\.bin can run code.*save_pretrained"
    ):
        from_hf(gpt2_folder)


def test_another_architecture():
    with pytest.raises(ValueError, match="the state dict is a bert model: only gpt2 and llama"):
        from_hf(({"model_type": "bert"}, {}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_embd": 12}, r"c_attn.weight is \[8, 24\] but must be \[12, 36\]"),
        ({"n_layer": 3}, r"has no weight h\.2\.ln_1\.weight"),
        ({"n_positions": 5}, r"W_pos is \[9, 8\] but must be \[5, 8\]"),
        ({"n_head": 3}, "n_embd = 8 cannot be divided among n_head = 3"),
        ({"activation_function": "mish"}, "activation 'mish', and known are relu, gelu"),
        ({"scale_attn_by_inverse_layer_idx": True}, "only False is built here"),
    ],
)
def test_weights_that_do_not_match_the_config(change, message):
    with pytest.raises(ValueError, match=message):
        from_gpt2(({**GPT2, **change}, gpt2_state()))


def test_a_config_that_lacks_something():
    with pytest.raises(ValueError, match="the config of the state dict has no n_embd"):
        from_gpt2(({"model_type": "gpt2"}, gpt2_state()))


def test_scaled_rotary_positions_are_refused():
    scaled = {**LLAMA, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}
    with pytest.raises(ValueError, match=r"scales its rotary positions \(llama3\)"):
        from_hf((scaled, llama_state()))


def test_what_is_no_model():
    with pytest.raises(TypeError, match="a int is no model: give a folder"):
        from_hf(3)


class Hub:
    """Stands in for huggingface_hub: one answer, whatever is asked."""

    errors = SimpleNamespace(
        RepositoryNotFoundError=type("RepositoryNotFoundError", (Exception,), {}),
        LocalEntryNotFoundError=type("LocalEntryNotFoundError", (FileNotFoundError,), {}),
    )

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def snapshot_download(self, name, allow_patterns):
        self.asked.append((name, allow_patterns))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_an_id_is_fetched_from_the_hub(monkeypatch, gpt2_folder):
    hub = Hub(str(gpt2_folder))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    model = from_gpt2("openai-community/gpt2", dtype=torch.float64)
    assert_close(model(TOKENS), gpt2_by_hand(gpt2_state(), TOKENS))
    ((name, patterns),) = hub.asked
    assert name == "openai-community/gpt2"
    assert "*.bin" not in patterns


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Hub.errors.RepositoryNotFoundError(), "no public model on the hub: check the spelling"),
        (Hub.errors.LocalEntryNotFoundError(), "the hub could not be reached: go online once"),
        (OSError("no route"), "the hub could not be reached: go online once"),
    ],
)
def test_offline_or_unknown(monkeypatch, answer, message):
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub(answer))
    with pytest.raises(FileNotFoundError, match=message):
        from_gpt2("nobody/nothing")


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"needs the extra hub: pip install 'tinyattn\[hub\]'"):
        model_folder("openai-community/gpt2")


# torch's own layers


@pytest.mark.parametrize("bias", [False, True])
def test_multihead_attention(bias):
    theirs = nn.MultiheadAttention(8, 2, bias=bias, batch_first=True).double()
    _fill(theirs)
    x, ours = normal(0, 2, 5, 8), from_torch(theirs)
    assert_close(ours(x) - x, theirs(x, x, x)[0])
    future = torch.ones(5, 5).triu(1).bool()
    hidden = from_torch(theirs, causal=True)
    assert_close(hidden(x) - x, theirs(x, x, x, attn_mask=future)[0])


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [False, True])
def test_encoder_layer(activation, bias):
    theirs = nn.TransformerEncoderLayer(
        8, 2, 12, 0.0, activation, norm_first=True, bias=bias, batch_first=True
    ).double()
    _fill(theirs)
    x = normal(0, 2, 5, 8)
    future = torch.ones(5, 5).triu(1).bool()
    assert_close(from_torch(theirs)(x), theirs(x))
    assert_close(from_torch(theirs, causal=True)(x), theirs(x, src_mask=future))


def test_what_from_torch_does_not_take():
    post = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    with pytest.raises(ValueError, match="norm_first = False: the layer normalises the stream"):
        from_torch(post)
    with pytest.raises(TypeError, match="Linear is not taken"):
        from_torch(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="kdim or vdim is set"):
        from_torch(nn.MultiheadAttention(8, 2, kdim=4))


def _fill(module: nn.Module) -> None:
    with torch.no_grad():
        for seed, p in enumerate(module.parameters()):
            p.copy_(normal(seed, *p.shape))


# TransformerLens


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_through_transformer_lens_names(kind):
    model = filled(KINDS[kind])
    state = to_transformer_lens(model)
    again = from_transformer_lens(state, model.config, dtype=torch.float64)
    assert_close(again(TOKENS), model(TOKENS))
    assert not again.config.tied


def test_its_names_and_shapes():
    state = to_transformer_lens(filled(KINDS["gpt2"]))
    assert state["blocks.1.attn.W_Q"].shape == (3, 12, 4)
    assert state["unembed.W_U"].shape == (12, 11)
    assert {"ln_final.w", "blocks.0.ln1.b", "blocks.0.mlp.W_in", "embed.W_E"} <= state.keys()


def test_its_masks_and_empty_biases_are_left_out():
    model = filled(KINDS["attention only"])
    state = to_transformer_lens(model)
    state["blocks.0.attn.mask"] = torch.ones(9, 9).tril().bool()
    state["blocks.0.attn.b_Q"] = torch.zeros(3, 4)
    state["unembed.b_U"] = torch.zeros(11)
    assert_close(
        from_transformer_lens(state, model.config, dtype=torch.float64)(TOKENS), model(TOKENS)
    )
    state["unembed.b_U"] += 1
    with pytest.raises(ValueError, match="b_U is not known"):
        from_transformer_lens(state, model.config)
