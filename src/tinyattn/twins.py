"""The same weights under the names of torch's own layers and of TransformerLens.

``nn.Linear`` stores [out, in], the transpose of ``x @ W``; TransformerLens stores what is stored
here, one axis for the heads included.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tinyattn.block import Block
from tinyattn.checkpoint import assemble
from tinyattn.config import Config
from tinyattn.model import Transformer

LENS = (
    ("W_E", "embed.W_E"),
    ("W_pos", "pos_embed.W_pos"),
    ("W_U", "unembed.W_U"),
    ("b_U", "unembed.b_U"),
    ("norm_final.gain", "ln_final.w"),
    ("norm_final.bias", "ln_final.b"),
    ("norm_attn.gain", "ln1.w"),
    ("norm_attn.bias", "ln1.b"),
    ("norm_mlp.gain", "ln2.w"),
    ("norm_mlp.bias", "ln2.b"),
    *((f"{kind}_{what}", f"attn.{kind}_{what}") for kind in "Wb" for what in "QKVO"),
    *((name, f"mlp.{name}") for name in ("W_in", "W_gate", "W_out", "b_in", "b_out")),
)


def from_torch(module: nn.Module, *, causal: bool = False) -> Block:
    """Take over ``nn.MultiheadAttention``, or ``nn.TransformerEncoderLayer`` with its norms first.

    ``block(x)`` is the stream after the layer; ``block.heads`` and ``block.b_O`` are the weights.
    Of attention alone, what it returns is ``block(x) - x``. Dropout is left out: compare with
    ``module.eval()``.

    Args:
        module: Batch-first or not makes no difference: here the batch always comes first.
        causal: Whether the block hides the future. Torch's layers do not know; it is said at
            every call.

    Raises:
        TypeError: If the module is another one.
        ValueError: If it does what a block here does not, saying what.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from tinyattn import from_torch
        >>> _ = torch.manual_seed(0)
        >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x, ours = torch.eye(8)[None], from_torch(theirs)
        >>> bool((ours(x) - x - theirs(x, x, x)[0]).abs().max() < 1e-6)
        True
    """
    if isinstance(module, nn.MultiheadAttention):
        return _attention_block(module, causal)
    if not isinstance(module, nn.TransformerEncoderLayer):
        raise TypeError(
            f"from_torch: {type(module).__name__} is not taken: give nn.MultiheadAttention or "
            f"nn.TransformerEncoderLayer"
        )
    if not module.norm_first:
        raise ValueError(
            "from_torch: norm_first = False: the layer normalises the stream itself, so its writes "
            "do not sum to it; only norm_first = True is built here"
        )
    block = _attention_block(module.self_attn, causal)
    functional = nn.functional
    activation: dict[Any, Any] = {functional.relu: "relu", functional.gelu: "gelu"}
    if module.activation not in activation:
        raise ValueError(f"from_torch: activation {module.activation}: give relu or gelu")
    for name in ("norm1", "norm2"):
        norm = getattr(module, name)
        if not isinstance(norm, nn.LayerNorm) or norm.weight is None:
            raise ValueError(f"from_torch: {name} is {norm}: give a layer norm with weights")
    if module.norm1.eps != module.norm2.eps:
        raise ValueError(
            f"from_torch: norm1 has eps = {module.norm1.eps} and norm2 {module.norm2.eps}: a block "
            f"here has one for both"
        )
    config = replace(
        block.config,
        d_mlp=module.linear1.out_features,
        activation=activation[module.activation],
        norm="layer",
        biases=True,
        eps=module.norm1.eps,
    )
    state, zero = dict(block.state_dict()), torch.zeros_like
    norms = {"norm_attn": module.norm1, "norm_mlp": module.norm2}
    for name, norm in norms.items():
        state[f"{name}.gain"] = norm.weight
        state[f"{name}.bias"] = zero(norm.weight) if norm.bias is None else norm.bias
    state |= _linear("W_in", "b_in", module.linear1) | _linear("W_out", "b_out", module.linear2)
    whole = Block(config, 0).to(module.linear1.weight)
    for name, t in whole.state_dict().items():
        state.setdefault(name, zero(t))
    whole.load_state_dict(state)
    return whole


def to_transformer_lens(model: Transformer) -> dict[str, Tensor]:
    """The weights under TransformerLens' names, in its shapes: copies of ours.

    Examples:
        >>> from tinyattn import Config, Transformer, to_transformer_lens
        >>> model = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6))
        >>> sorted(to_transformer_lens(model))[:4]
        ['blocks.0.attn.W_K', 'blocks.0.attn.W_O', 'blocks.0.attn.W_Q', 'blocks.0.attn.W_V']
    """
    if not isinstance(model, Transformer):
        raise TypeError(f"a {type(model).__name__} is no model: give a Transformer")
    state = {_to_lens(name): t.detach().clone() for name, t in model.state_dict().items()}
    return state if "unembed.W_U" in state else {**state, "unembed.W_U": model.W_U.detach()}


def from_transformer_lens(
    state: Mapping[str, Tensor], config: Config, *, dtype: torch.dtype = torch.float32
) -> Transformer:
    """Make a model of weights under TransformerLens' names.

    What this model has no place for is left out if it is a mask; biases of all zeros are left out
    where the config has none.

    Args:
        state: Its state dict.
        config: What the weights make up. An unembedding is always its own there: not tied.
        dtype: Of the model.

    Raises:
        ValueError: If the weights do not fit the config, naming them.

    Examples:
        >>> from tinyattn import Config, Transformer, from_transformer_lens, to_transformer_lens
        >>> model = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6))
        >>> again = from_transformer_lens(to_transformer_lens(model), model.config)
        >>> bool((again([1, 2]) == model([1, 2])).all())
        True
    """
    if not isinstance(state, Mapping) or not isinstance(config, Config):
        raise TypeError(
            f"from_transformer_lens: a {type(state).__name__} and a {type(config).__name__}: give "
            f"its state_dict() and a Config"
        )
    ours = {}
    for name, t in state.items():
        name = _from_lens(name)
        bias = name.rpartition(".")[-1]
        kept = config.unembed_bias if bias == "b_U" else config.biases
        if name.endswith((".mask", ".IGNORE")) or (
            bias.startswith("b_") and not kept and not t.any()
        ):
            continue
        ours[name] = t
    return assemble(replace(config, tied=False), ours, dtype=dtype, source="the state dict")


def _to_lens(name: str) -> str:
    block, name = _cut(name)
    return block + dict(LENS).get(name, name)


def _from_lens(name: str) -> str:
    block, name = _cut(name)
    for shared in ("W_K", "W_V", "b_K", "b_V"):
        name = name.replace(f"._{shared}", f".{shared}")  # of grouped heads
    return block + {theirs: ours for ours, theirs in LENS}.get(name, name)


def _cut(name: str) -> tuple[str, str]:
    """Part "blocks.3." from the rest of a name."""
    if not name.startswith("blocks."):
        return "", name
    _, layer, rest = name.split(".", 2)
    return f"blocks.{layer}.", rest


def _attention_block(module: nn.MultiheadAttention, causal: bool) -> Block:
    odd = {
        "add_bias_kv": module.bias_k is not None,
        "add_zero_attn": module.add_zero_attn,
        "kdim or vdim": module.in_proj_weight is None,
    }
    for option, set_ in odd.items():
        if set_:
            raise ValueError(f"from_torch: {option} is set: such a layer has no twin here")
    d_model, n_heads = module.embed_dim, module.num_heads
    config = Config(
        d_model,
        d_model // n_heads,
        n_heads,
        n_layers=1,
        d_vocab=1,
        n_ctx=1,
        positions=None,
        biases=module.in_proj_bias is not None,
        causal=causal,
    )
    block = Block(config, 0).to(module.out_proj.weight)
    state = {"W_O": module.out_proj.weight.T.reshape(n_heads, -1, d_model)}
    for what, W in zip("QKV", module.in_proj_weight.chunk(3), strict=True):
        state[f"W_{what}"] = _by_head(W.T, n_heads)
    if config.biases:
        for what, b in zip("QKV", module.in_proj_bias.chunk(3), strict=True):
            state[f"b_{what}"] = b.reshape(n_heads, -1)
        state["b_O"] = module.out_proj.bias
    block.load_state_dict(state)
    return block


def _linear(W: str, b: str, layer: nn.Linear) -> dict[str, Tensor]:
    bias = {} if layer.bias is None else {b: layer.bias}
    return {W: layer.weight.T, **bias}


def _by_head(W: Tensor, n_heads: int) -> Tensor:
    """[d_model, n_heads · d_head], heads side by side, as [head d_model d_head]."""
    return W.unflatten(-1, (n_heads, -1)).transpose(0, 1)
