"""The MLP: neurons that look at one position, and write where they fire.

Each neuron has a key, its column of ``W_in``, and a value, its row of ``W_out``. How well the
position matches the key, passed through the activation, is how much of the value is written:
y = Σ σ(k · x) v. No neuron sees another position.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from tinyattn.shapes import typed

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


@typed
def gelu(x: Float[Tensor, "*batch"], *, tanh: bool = False) -> Float[Tensor, "*batch"]:
    """Let through what is positive, stop what is negative, with a soft corner at 0.

    It is x Φ(x), with Φ the normal distribution function. GPT-2 was trained with an approximation
    by a tanh; the two differ by at most 0.0005, which is not nothing in a deep model.

    Args:
        x: Any tensor.
        tanh: Use the approximation, as GPT-2 does.

    Examples:
        >>> import torch
        >>> from tinyattn import show
        >>> print(show(gelu(torch.tensor([-1.0, 0.0, 1.0])), digits=4))
              0       1       2
        -0.1587  0.0000  0.8413

    Source: Hendrycks and Gimpel (2016), section 2.
    """
    return functional.gelu(x, approximate="tanh" if tanh else "none")


@typed
def activate(x: Float[Tensor, "*batch"], activation: Activation) -> Float[Tensor, "*batch"]:
    """Apply an activation by its name.

    Raises:
        ShapeError: If there is none of that name.

    Examples:
        >>> import torch
        >>> activate(torch.tensor([-1.0, 2.0]), "relu").tolist()
        [0.0, 2.0]
    """
    if activation == "relu":
        return torch.relu(x)
    if activation == "silu":
        return functional.silu(x)
    return gelu(x, tanh=activation == "gelu_tanh")


@typed
def mlp(
    x: Float[Tensor, "*batch pos d_model"],
    W_in: Float[Tensor, "d_model d_mlp"],
    W_out: Float[Tensor, "d_mlp d_model"],
    b_in: Float[Tensor, " d_mlp"] | None = None,
    b_out: Float[Tensor, " d_model"] | None = None,
    activation: Activation = "gelu",
) -> Float[Tensor, "*batch pos d_model"]:
    """What the neurons write: each position alone, each value as much as its key fires.

    It is the difference the layer makes, to be added to the stream.

    Args:
        x: What the layer reads, normalised if the model has a norm.
        W_in: Keys, one column a neuron.
        W_out: Values, one row a neuron.
        b_in: Added before the activation.
        b_out: Added to every write.
        activation: "relu", "gelu" (exact), "gelu_tanh" (GPT-2) or "silu".

    Raises:
        ShapeError: If the weights do not fit each other or the stream.

    Examples:
        >>> import torch
        >>> keys, values = torch.eye(2), torch.tensor([[10.0, 0.0], [0.0, 5.0]])
        >>> mlp(torch.tensor([[1.0, -1.0]]), keys, values, activation="relu").tolist()
        [[10.0, 0.0]]

    Source: Geva et al. (2021), section 2.
    """
    fire = activate(_affine(x, W_in, b_in), activation)
    return _affine(fire, W_out, b_out)


@typed
def gated_mlp(
    x: Float[Tensor, "*batch pos d_model"],
    W_in: Float[Tensor, "d_model d_mlp"],
    W_gate: Float[Tensor, "d_model d_mlp"],
    W_out: Float[Tensor, "d_mlp d_model"],
    activation: Activation = "silu",
) -> Float[Tensor, "*batch pos d_model"]:
    """What gated neurons write: each has two keys, and one of them opens or shuts the other.

    y = (σ(x W_gate) ⊙ x W_in) W_out. In Llama's files they are ``gate_proj``, ``up_proj`` and
    ``down_proj``.

    Raises:
        ShapeError: If the weights do not fit each other or the stream.

    Examples:
        >>> import torch
        >>> one = torch.ones(1, 1)
        >>> gated_mlp(torch.tensor([[3.0]]), one, one, one, activation="relu").tolist()
        [[9.0]]

    Source: Shazeer (2020), section 2.
    """
    return (activate(x @ W_gate, activation) * (x @ W_in)) @ W_out


def _affine(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    return x @ W if b is None else x @ W + b
