"""Weights of other libraries under this site's names, checked by value against those libraries.

Three layouts do the harm. ``nn.Linear`` stores [out, in], the transpose of ``x @ W``. GPT-2's
``Conv1D`` stores [in, out], as here; where the two are square only values can tell. And heads lie
side by side in one axis, which is cut before it is moved.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tinyattn.checkpoint import assemble
from tinyattn.config import Config
from tinyattn.hub import model_folder, read_folder
from tinyattn.model import Transformer

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
LLAMAS = ("llama", "mistral", "qwen2")
LAYERS = ("n_layer", "num_hidden_layers")
COMPUTED = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
"""Endings of what old checkpoints keep and nobody needs: causal masks and rotary angles."""


def from_hf(source: Any, *, dtype: torch.dtype = torch.float32) -> Transformer:
    """Load a model that Hugging Face's transformers can load: GPT-2, or one built like Llama.

    Llama, Mistral and Qwen2 share RMS norm, rotary positions, grouped heads and a gated MLP.

    Args:
        source: A folder, an id on the hub, or a model of transformers itself.
        dtype: Of the model, whatever the file holds.

    Raises:
        FileNotFoundError: If nothing is found, or a file is missing.
        ValueError: If the architecture is another one, a file is damaged, or the weights do not
            fit the config.

    Examples:
        >>> from tinyattn import from_hf
        >>> from_hf("./gone")
        Traceback (most recent call last):
        FileNotFoundError: no folder ./gone, and no id on the hub either: an id is owner/name
    """
    about, state, name = _source(source)
    kind = about.get("model_type")
    if kind == "gpt2":
        return _gpt2(about, state, name, dtype)
    if kind in LLAMAS:
        return _llama(about, state, name, dtype)
    raise ValueError(
        f"{name} is a {kind} model: only gpt2 and {', '.join(LLAMAS)} are built as this one is"
    )


def from_gpt2(source: Any, *, dtype: torch.dtype = torch.float32) -> Transformer:
    """Load GPT-2. It stays tied: :func:`tinyattn.untie` or :func:`tinyattn.fold` part the ends.

    Args:
        source: A folder, an id on the hub such as ``"openai-community/gpt2"``, a model of
            transformers, or a pair of its config and its state dict.
        dtype: Of the model, whatever the file holds.

    Raises:
        FileNotFoundError: If nothing is found, or a file is missing.
        ValueError: If it is not a GPT-2, a file is damaged, or the weights do not fit the config.

    Examples:
        >>> from tinyattn import from_gpt2
        >>> from_gpt2("./gone")
        Traceback (most recent call last):
        FileNotFoundError: no folder ./gone, and no id on the hub either: an id is owner/name

    Source: Radford et al. (2019), section 2.3.
    """
    about, state, name = _source(source)
    if about.get("model_type", "gpt2") != "gpt2":
        raise ValueError(
            f"{name} is a {about['model_type']} model, not a gpt2: from_hf takes gpt2, "
            f"{', '.join(LLAMAS)}"
        )
    return _gpt2(about, state, name, dtype)


def _source(source: Any) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """Config, weights, and what to call them in an error."""
    if isinstance(source, tuple) and len(source) == 2:
        about, state = source
        about = about.to_dict() if hasattr(about, "to_dict") else about
        if isinstance(about, Mapping) and isinstance(state, Mapping):
            return dict(about), dict(state), "the state dict"
    if isinstance(source, str | Path):
        return (*read_folder(model_folder(source)), str(source))
    if hasattr(source, "state_dict") and hasattr(getattr(source, "config", None), "to_dict"):
        state = {name: t.detach() for name, t in source.state_dict().items()}
        return source.config.to_dict(), state, type(source).__name__
    raise TypeError(
        f"a {type(source).__name__} is no model: give a folder, an id on the hub, a model of "
        f"transformers, or a pair (config, state dict)"
    )


def _gpt2(about: dict[str, Any], state: dict, name: str, dtype: torch.dtype) -> Transformer:
    usual = {"scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True}
    _refuse(name, about, {**usual, "add_cross_attention": False})
    state = {key.removeprefix("transformer."): t for key, t in state.items()}
    d_model, n_heads = _need(about, name, "n_embd", "n_head")
    _whole(name, d_model, n_heads)
    config = Config(
        d_model=d_model,
        d_head=d_model // n_heads,
        n_heads=n_heads,
        n_layers=_need(about, name, "n_layer")[0],
        d_vocab=_need(about, name, "vocab_size")[0],
        n_ctx=_need(about, name, "n_positions")[0],
        d_mlp=about.get("n_inner") or 4 * d_model,
        norm="layer",
        eps=about.get("layer_norm_epsilon", 1e-5),
        activation=_activation(name, about.get("activation_function", "gelu_new")),
        biases=True,
        tied=about.get("tie_word_embeddings", True),
    )
    take = _Taker(name, state)
    ours = {"W_E": take("wte.weight"), "W_pos": take("wpe.weight")}
    for layer in range(config.n_layers):
        old, new = f"h.{layer}.", f"blocks.{layer}."
        for norm, theirs in (("norm_attn", "ln_1"), ("norm_mlp", "ln_2")):
            ours[f"{new}{norm}.gain"] = take(f"{old}{theirs}.weight")
            ours[f"{new}{norm}.bias"] = take(f"{old}{theirs}.bias")
        weights = take(f"{old}attn.c_attn.weight", d_model, 3 * d_model).chunk(3, dim=-1)
        biases = take(f"{old}attn.c_attn.bias", 3 * d_model).chunk(3)
        for what, W, b in zip("QKV", weights, biases, strict=True):
            ours[f"{new}W_{what}"] = _by_head(W, n_heads)
            ours[f"{new}b_{what}"] = b.reshape(n_heads, -1)
        W_O = take(f"{old}attn.c_proj.weight", d_model, d_model)
        ours[f"{new}W_O"] = W_O.reshape(n_heads, -1, d_model)
        ours[f"{new}b_O"] = take(f"{old}attn.c_proj.bias")
        for side, theirs in (("in", "c_fc"), ("out", "c_proj")):
            ours[f"{new}W_{side}"] = take(f"{old}mlp.{theirs}.weight")
            ours[f"{new}b_{side}"] = take(f"{old}mlp.{theirs}.bias")
    ours["norm_final.gain"], ours["norm_final.bias"] = take("ln_f.weight"), take("ln_f.bias")
    take.unembedding(config, ours)
    take.rest()
    return assemble(config, ours, dtype=dtype, source=name)


def _llama(about: dict[str, Any], state: dict, name: str, dtype: torch.dtype) -> Transformer:
    _refuse(name, about, {"partial_rotary_factor": 1.0})
    d_model, n_heads = _need(about, name, "hidden_size", "num_attention_heads")
    n_kv_heads = about.get("num_key_value_heads") or n_heads
    d_head = about.get("head_dim") or d_model // n_heads
    n_ctx = _need(about, name, "max_position_embeddings")[0]
    if about.get("sliding_window") and about.get("use_sliding_window", True):
        n_ctx = min(n_ctx, about["sliding_window"])  # within one window nothing slides
    biases = any(".layers." in f".{key}" and key.endswith("_proj.bias") for key in state)
    config = Config(
        d_model=d_model,
        d_head=d_head,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        n_layers=_need(about, name, "num_hidden_layers")[0],
        d_vocab=_need(about, name, "vocab_size")[0],
        n_ctx=n_ctx,
        d_mlp=_need(about, name, "intermediate_size")[0],
        positions="rotary",
        theta=_theta(about, name),
        norm="rms",
        eps=about.get("rms_norm_eps", 1e-6),
        activation=_activation(name, about.get("hidden_act", "silu")),
        gated=True,
        biases=biases,
        tied=about.get("tie_word_embeddings", False),
    )
    take = _Taker(name, {key.removeprefix("model."): t for key, t in state.items()})
    ours = {"W_E": take("embed_tokens.weight"), "norm_final.gain": take("norm.weight")}
    for layer in range(config.n_layers):
        old, new = f"layers.{layer}.", f"blocks.{layer}."
        ours[f"{new}norm_attn.gain"] = take(f"{old}input_layernorm.weight")
        ours[f"{new}norm_mlp.gain"] = take(f"{old}post_attention_layernorm.weight")
        for what, count in (("Q", n_heads), ("K", n_kv_heads), ("V", n_kv_heads)):
            theirs = f"{old}self_attn.{what.lower()}_proj"
            W = take(f"{theirs}.weight", count * d_head, d_model).T
            ours[f"{new}W_{what}"] = _by_head(W, count)
            if biases:
                b = take.optional(f"{theirs}.bias", count * d_head)
                ours[f"{new}b_{what}"] = b.reshape(count, d_head)
        W_O = take(f"{old}self_attn.o_proj.weight", d_model, n_heads * d_head).T
        ours[f"{new}W_O"] = W_O.reshape(n_heads, d_head, d_model)
        for what, theirs in (("in", "up"), ("gate", "gate"), ("out", "down")):
            ours[f"{new}W_{what}"] = take(f"{old}mlp.{theirs}_proj.weight").T
            if biases:
                width = d_model if what == "out" else config.d_mlp
                ours[f"{new}b_{what}"] = take.optional(f"{old}mlp.{theirs}_proj.bias", width)
        if biases:
            ours[f"{new}b_O"] = take.optional(f"{old}self_attn.o_proj.bias", d_model)
    take.unembedding(config, ours)
    take.rest()
    return assemble(config, ours, dtype=dtype, source=name)


class _Taker:
    """Takes weights by name and shape out of a state dict, and says which is missing or left."""

    def __init__(self, source: str, state: Mapping[str, Tensor]) -> None:
        self.source, self.state, self.taken = source, state, set[str]()

    def __call__(self, name: str, *shape: int) -> Tensor:
        self.taken.add(name)
        if name not in self.state:
            some = ", ".join(sorted(self.state)[:4]) or "nothing"
            raise ValueError(f"{self.source} has no weight {name}: it holds {some}, …")
        found = self.state[name]
        if shape and found.shape != shape:
            raise ValueError(
                f"{self.source} does not fit its config: {name} is {list(found.shape)} but must "
                f"be {list(shape)}"
            )
        return found

    def optional(self, name: str, width: int) -> Tensor:
        """A bias that not every model has: zeros where it is missing."""
        return self(name, width) if name in self.state else torch.zeros(width)

    def unembedding(self, config: Config, ours: dict[str, Tensor]) -> None:
        """Add the unembedding, or see that a tied one is the embedding and nothing else."""
        if not config.tied:
            ours["W_U"] = self("lm_head.weight").T
        elif "lm_head.weight" in self.state and not torch.equal(
            self("lm_head.weight"), ours["W_E"]
        ):
            raise ValueError(
                f"{self.source} does not fit its config: it is said to be tied, but "
                f"lm_head.weight is not the embedding: set tie_word_embeddings = False"
            )

    def rest(self) -> None:
        """Refuse weights that no part of the model would hold; masks and angles are computed."""
        left = [name for name in self.state if name not in self.taken]
        left = [name for name in left if not name.endswith(COMPUTED)]
        if left:
            more = f", and {len(left) - 4} more" if len(left) > 4 else ""
            raise ValueError(
                f"{self.source} does not fit its config: nothing here takes "
                f"{', '.join(sorted(left)[:4])}{more}"
            )


def _by_head(W: Tensor, n_heads: int) -> Tensor:
    """[d_model, n_heads · d_head], heads side by side, as [head d_model d_head]."""
    return W.unflatten(-1, (n_heads, -1)).transpose(0, 1)


def _need(about: dict[str, Any], source: str, *names: str) -> list[int]:
    missing = [name for name in names if name not in about]
    if missing:
        raise ValueError(f"the config of {source} has no {', '.join(missing)}")
    for name in names:
        value, least = about[name], 0 if name in LAYERS else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(
                f"the config of {source} has {name} = {value!r}, but must have a whole number, "
                f"{least} or more"
            )
    return [about[name] for name in names]


def _whole(source: str, d_model: int, n_heads: int) -> None:
    if d_model % n_heads:
        raise ValueError(
            f"the config of {source} does not fit: n_embd = {d_model} cannot be divided among "
            f"n_head = {n_heads}"
        )


def _activation(source: str, name: str) -> Any:
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"{source} has the activation {name!r}, and known are {known}")
    return ACTIVATIONS[name]


def _refuse(source: str, about: dict[str, Any], usual: dict[str, Any]) -> None:
    for option, value in usual.items():
        if about.get(option) not in (None, value):
            raise ValueError(f"{source} has {option} = {about[option]}: only {value} is built here")


def _theta(about: dict[str, Any], source: str) -> float:
    """The base of the rotary angles, under the names of old and new config files."""
    rope = about.get("rope_parameters") or about.get("rope_scaling") or {}
    _refuse(source, rope, {"partial_rotary_factor": 1.0})
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise ValueError(
            f"{source} scales its rotary positions ({kind}): only plain ones are built"
        )
    return float(rope.get("rope_theta", about.get("rope_theta", 10_000.0)))
