"""Small transformers for the law tests: every kind of part, every weight random."""

import torch
from draws import normal
from hypothesis import strategies as st

from tinyattn import Config, Transformer

KINDS = {
    "attention only": Config(8, 4, 3, 2, 11, 9, positions="shortformer"),
    "gpt2": Config(
        12, 4, 3, 2, 11, 9, 10, norm="layer", biases=True, tied=True, activation="gelu_tanh"
    ),
    "llama": Config(
        12, 4, 4, 2, 11, 9, 10, 2, "rotary", "rms", activation="silu", gated=True, eps=1e-6
    ),
    "everything": Config(
        6, 2, 4, 3, 7, 9, 5, 1, "sinusoidal", "layer", gated=True, biases=True, unembed_bias=True
    ),
}


def filled(config: Config, seed: int = 0, dtype: torch.dtype = torch.float64) -> Transformer:
    """A model whose every weight is random: no gain is 1 and no bias 0."""
    model = Transformer(config).to(dtype)
    with torch.no_grad():
        for number, (name, weight) in enumerate(model.named_parameters()):
            draw = 0.4 * normal(1000 * seed + number, *weight.shape)
            weight.copy_(draw + (1 if name.endswith("gain") else 0))
    return model


@st.composite
def configs(draw) -> Config:
    d_mlp = draw(st.sampled_from([0, 0, 5]))
    n_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return Config(
        d_model=2 * draw(st.integers(1, 4)),
        d_head=2 * draw(st.integers(1, 2)),
        n_heads=n_heads * group,
        n_layers=draw(st.integers(0, 3)),
        d_vocab=draw(st.integers(2, 7)),
        n_ctx=8,
        d_mlp=d_mlp,
        n_kv_heads=n_heads,
        positions=draw(st.sampled_from(["learned", "sinusoidal", "shortformer", "rotary", None])),
        norm=draw(st.sampled_from(["layer", "rms", None])),
        activation=draw(st.sampled_from(["relu", "gelu", "gelu_tanh", "silu"])),
        gated=bool(d_mlp) and draw(st.booleans()),
        biases=draw(st.booleans()),
        unembed_bias=draw(st.booleans()),
        tied=draw(st.booleans()),
        rotary_layout=draw(st.sampled_from(["halves", "interleaved"])),
    )


@st.composite
def scenes(draw, layers: int = 0) -> tuple[Transformer, torch.Tensor]:
    """A model and tokens that fit it, with any number of batch axes."""
    config = draw(configs().filter(lambda config: config.n_layers >= layers))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    shape = (*batch, draw(st.integers(2, 6)))
    seed = draw(st.integers(0, 1000))
    dice = torch.Generator().manual_seed(seed)
    return filled(config, seed), torch.randint(config.d_vocab, shape, generator=dice)
