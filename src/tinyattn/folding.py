"""The same model with its norms folded away: other weights, the same function.

A norm's gain and bias are read by nothing but the weights behind it, so they can be moved there.
What the heads then read is the stream itself, brought to one size.
"""

from dataclasses import replace

import torch

from tinyattn.block import Block, Norm
from tinyattn.checkpoint import assemble
from tinyattn.config import Config
from tinyattn.model import Transformer
from tinyattn.norm import centre, fold_norm


@torch.no_grad()
def fold(
    model: Transformer, *, centre_writers: bool = False, centre_unembedding: bool = False
) -> Transformer:
    """Move the gain and bias of every norm into the weights that read it. The model stays.

    The copy is untied, since the unembedding takes up the final norm and the embedding must not.

    Args:
        model: A pre-norm model; others cannot be made here.
        centre_writers: Take the mean out of everything that writes. Layer norm takes it out
            anyway, so that no output changes; the stream then has mean 0 everywhere.
        centre_unembedding: Take the mean out of the logits: they change by a constant for each
            position, the probabilities do not.

    Raises:
        ValueError: If shortformer positions stand between norm and weight, so that the gain
            cannot pass them; or if writers are to be centred under a norm that reads the mean.

    Examples:
        >>> from tinyattn import Config, Transformer, fold
        >>> config = Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6, norm="layer")
        >>> model = Transformer(config)
        >>> bool((fold(model)([1, 2, 3]) - model([1, 2, 3])).abs().max() < 1e-5)
        True

    Source: the weight processing of TransformerLens, `fold_layer_norm`.
    """
    _is_model("fold", model)
    config = model.config
    if config.norm and config.positions == "shortformer":
        raise ValueError(
            "fold: shortformer positions are added behind the norm, so its gain cannot be moved "
            "past them into W_Q and W_K: keep the norm"
        )
    if centre_writers and config.norm != "layer":
        raise ValueError(
            f"fold: centre_writers needs layer norm, which takes the mean out; norm = "
            f"{config.norm!r} reads it, so the output would change"
        )
    layer_norm = config.norm == "layer"
    config = replace(
        config,
        tied=False,
        biases=config.biases or layer_norm,
        unembed_bias=config.unembed_bias or layer_norm,
    )
    folded = _with_config(model, config)
    for block in folded.layers:
        for weight in "QKV":
            _fold(block, f"W_{weight}", f"b_{weight}", block.norm_attn)
        _reset(block.norm_attn)
        if config.d_mlp:
            _fold(block, "W_in", "b_in", block.norm_mlp)
            if config.gated:
                _fold(block, "W_gate", "b_gate", block.norm_mlp)
            _reset(block.norm_mlp)
    _fold(folded, "W_U", "b_U", folded.norm_final)
    _reset(folded.norm_final)
    if centre_writers:
        _centre_writers(folded)
    if centre_unembedding:
        folded.W_U.copy_(centre(folded.W_U))
        if folded.b_U is not None:
            folded.b_U.copy_(centre(folded.b_U))
    return folded


@torch.no_grad()
def untie(model: Transformer) -> Transformer:
    """A copy whose unembedding is a parameter of its own, so that it can be edited alone.

    Examples:
        >>> from tinyattn import Config, Transformer
        >>> from tinyattn.folding import untie
        >>> model = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6, tied=True))
        >>> free = untie(model)
        >>> _ = free.W_U.data.zero_()
        >>> bool((free.W_E == model.W_E).all())
        True
    """
    _is_model("untie", model)
    return _with_config(model, replace(model.config, tied=False))


def _is_model(function: str, model: object) -> None:
    if not isinstance(model, Transformer):
        raise TypeError(f"{function}: a {type(model).__name__} is no model: give a Transformer")


def _with_config(model: Transformer, config: Config) -> Transformer:
    """A copy of the weights under another config, which may have more biases and no tie."""
    with torch.device("meta"):
        shapes = {name: t.shape for name, t in Transformer(config).state_dict().items()}
    state = model.state_dict()
    for name, shape in shapes.items():
        if name not in state:
            state[name] = model.W_U if name == "W_U" else model.W_E.new_zeros(shape)
    return assemble(config, state, dtype=model.W_E.dtype, device=model.W_E.device)


def _fold(owner: Block | Transformer, weight: str, bias: str, norm: Norm) -> None:
    if not norm.kind:
        return
    W, b = getattr(owner, weight), getattr(owner, bias)
    shift = norm.bias if norm.kind == "layer" else None
    new_W, new_b = fold_norm(W, b, gain=norm.gain, bias=shift)
    W.copy_(new_W)
    if b is not None:
        b.copy_(new_b)


def _reset(norm: Norm) -> None:
    if norm.kind:
        norm.gain.fill_(1)
    if norm.kind == "layer":
        norm.bias.fill_(0)


def _centre_writers(model: Transformer) -> None:
    writers = [model.W_E, model.W_pos if model.config.positions == "learned" else None]
    for block in model.layers:
        names = ("W_O", "b_O", "W_out", "b_out")
        writers += [getattr(block, name, None) for name in names]
    for W in writers:
        if W is not None:
            W.copy_(centre(W))
