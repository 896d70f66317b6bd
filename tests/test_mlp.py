"""The MLP: keys, values, and one position at a time."""

from typing import Any

import pytest
import torch
from draws import batches, normal, sizes, tensors
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from tinyattn import ShapeError, activate, gated_mlp, gelu, mlp


@given(st.data(), batches, sizes, sizes, sizes)
def test_it_is_two_linear_layers(data, batch, pos, d_model, d_mlp):
    x = data.draw(tensors(*batch, pos, d_model))
    theirs = nn.Sequential(nn.Linear(d_model, d_mlp), nn.GELU(), nn.Linear(d_mlp, d_model)).double()
    for p in theirs.parameters():
        p.data = data.draw(tensors(*p.shape))
    W_in, b_in, W_out, b_out = theirs.parameters()
    ours = mlp(x, W_in.T, W_out.T, b_in, b_out)
    assert_close(ours, theirs(x))


@given(st.data(), sizes, sizes, sizes)
def test_it_is_a_sum_over_neurons_of_how_well_a_key_matches_times_a_value(
    data, pos, d_model, d_mlp
):
    x = data.draw(tensors(pos, d_model))
    W_in, W_out = data.draw(tensors(d_model, d_mlp)), data.draw(tensors(d_mlp, d_model))
    total = torch.zeros_like(x)
    for neuron in range(d_mlp):
        fires = gelu(x @ W_in[:, neuron])
        total += fires[:, None] * W_out[neuron]
    assert_close(mlp(x, W_in, W_out), total)


def test_positions_are_alone():
    x, W_in, W_out = normal(0, 4, 3), normal(1, 3, 5), normal(2, 5, 3)
    swapped = x[[1, 0, 2, 3]]
    assert_close(mlp(swapped, W_in, W_out), mlp(x, W_in, W_out)[[1, 0, 2, 3]])


def test_b15_both_forms_of_gelu():
    """GPT-2 was trained with the tanh form; the exact one drifts away unseen."""
    x = torch.linspace(-5, 5, 10_001, dtype=torch.float64)
    assert_close(gelu(x), functional.gelu(x))
    assert_close(gelu(x, tanh=True), functional.gelu(x, approximate="tanh"))
    assert (gelu(x) - gelu(x, tanh=True)).abs().max().item() == pytest.approx(4.73e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("relu", functional.relu),
        ("gelu", functional.gelu),
        ("silu", functional.silu),
        ("gelu_tanh", lambda x: functional.gelu(x, approximate="tanh")),
    ],
)
def test_each_name_is_its_function(name, theirs):
    x = normal(0, 5, 3)
    assert_close(activate(x, name), theirs(x))


def test_a_shut_gate_writes_nothing():
    x, W, W_out = torch.ones(1, 1), torch.ones(1, 2), torch.tensor([[1.0], [10.0]])
    gate = torch.tensor([[-1.0, 1.0]])
    assert gated_mlp(x, W, gate, W_out, activation="relu").tolist() == [[10.0]]


def test_an_unknown_activation_is_refused_with_those_there_are():
    name: Any = "gelu_new"
    with pytest.raises(ShapeError, match="gelu_tanh"):
        activate(torch.ones(2), name)


def test_weights_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match=r"W_out is float64\[4, 3\].*d_mlp = 5"):
        mlp(normal(0, 2, 3), normal(1, 3, 5), normal(2, 4, 3))
