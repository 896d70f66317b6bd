"""What a function depends on is found by trying it; chains of dependence compose."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from draws import causal_scenes, masks, normal, sizes, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import (
    ShapeError,
    attend,
    causal_mask,
    critical_path,
    depends,
    earliest,
    generation,
    reach,
)

EYE = torch.eye(3).bool()
ALL = torch.ones(3, 3).bool()


# laws


@settings(max_examples=15)
@given(causal_scenes())
def test_a_causal_head_depends_on_what_its_mask_shows(scene):
    x, head, mask = scene
    x = x.reshape(-1, *x.shape[-2:])[0]
    assert torch.equal(depends(lambda x: attend(x, head, mask).out, x), mask)


@settings(max_examples=15)
@given(causal_scenes(), st.data())
def test_a_layer_with_any_mask_depends_on_the_mask_and_on_itself(scene, data):
    x, head, _ = scene
    x = x.reshape(-1, *x.shape[-2:])[0]
    pos = x.shape[0]
    mask = data.draw(masks(pos, pos))
    found = depends(lambda x: x + attend(x, head, mask).out, x)
    assert torch.equal(found, mask | torch.eye(pos, dtype=torch.bool))


@given(sizes, sizes, st.data())
def test_an_mlp_depends_on_its_own_position_alone(pos, d_model, data):
    W_in, W_out = data.draw(tensors(d_model, 4 * d_model)), data.draw(tensors(4 * d_model, d_model))
    found = depends(lambda x: (x @ W_in).relu() @ W_out, torch.zeros(pos, d_model).double())
    assert torch.equal(found, torch.eye(pos, dtype=torch.bool))


@settings(max_examples=15)
@given(st.integers(2, 4), st.data())
def test_two_layers_depend_on_the_composition_of_their_dependences(pos, data):
    one, two = data.draw(masks(pos, pos)), data.draw(masks(pos, pos))
    A, B = (mask * data.draw(tensors(pos, pos)) for mask in (one, two))
    x = data.draw(tensors(pos, 3))

    def first(x):
        return A @ x.sin()

    def second(x):
        return B @ x.sin()

    found = depends(lambda x: second(first(x)), x)
    assert torch.equal(found, reach([depends(first, x), depends(second, x)]))
    assert torch.equal(found, reach([one, two]))


@given(st.integers(1, 6), st.integers(1, 6))
def test_training_takes_a_step_a_layer_and_generation_a_pass_a_token(pos, n_layers):
    levels = [causal_mask(pos)] * n_layers
    assert len(critical_path(levels)) - 1 == n_layers
    assert len(critical_path(levels, generation(pos))) - 1 == pos * n_layers + pos - 1
    assert len(critical_path(levels, generation(pos, prompt=pos))) - 1 == n_layers


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_a_chain_is_made_of_edges_and_counts_the_steps(pos, n_layers, data):
    levels = [data.draw(masks(pos, pos)) & causal_mask(pos) for _ in range(n_layers)]
    feedback = generation(pos, data.draw(st.integers(1, pos)))
    path, when = critical_path(levels, feedback), earliest(levels, feedback)
    assert [when[node].item() for node in path] == list(range(len(path)))
    assert when.max() == len(path) - 1
    for (level, source), (next_level, to) in pairwise(path):
        edge = levels[level] if next_level else feedback
        assert edge[to, source]
        assert next_level == (level + 1) % (n_layers + 1)


# what hides a dependence from one gradient


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x**2,  # its gradient is 0 where it is tried first
        lambda x: (x - 1).relu() + (-x - 1).relu(),  # off near 0
        lambda x: (1e4 * x).tanh(),  # saturated away from 0
        lambda x: torch.nn.functional.one_hot(x.argmax(dim=-1), 2).float(),  # a hard choice
        lambda x: x.detach().sign(),
    ],
)
def test_a_gradient_of_0_by_coincidence_hides_nothing(function):
    assert torch.equal(depends(function, torch.zeros(3, 2)), EYE)


def test_a_saturated_softmax_hides_nothing():
    x = 1e3 * normal(0, 4, 3, dtype=torch.float32)
    assert depends(lambda x: (x @ x.T).softmax(dim=-1) @ x, x).all()


def test_what_is_constant_depends_on_nothing():
    assert not depends(lambda x: torch.ones(2, 1), torch.zeros(3, 2)).any()
    assert depends(lambda x: x.mean(dim=0, keepdim=True), torch.ones(3, 2)).tolist() == [[True] * 3]


def test_a_function_that_writes_into_its_input_changes_neither_the_answer_nor_x():
    x = torch.ones(3, 2)
    assert torch.equal(depends(lambda x: x.mul_(2), x), EYE)
    assert torch.equal(x, torch.ones(3, 2))
    assert not x.requires_grad


def test_the_points_are_its_own():
    state = torch.get_rng_state()
    depends(lambda x: x, torch.ones(3, 2))
    assert torch.equal(state, torch.get_rng_state())


def test_gradients_of_weights_are_left_alone():
    W = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(depends(lambda x: x @ W, torch.ones(3, 2)), EYE)
    assert W.grad is None


def test_a_point_that_gives_nan_is_passed_over():
    assert torch.equal(depends(lambda x: x.sqrt() if (x >= 0).all() else x, torch.zeros(3, 2)), EYE)


# bad input


def test_dropout_is_refused():
    with pytest.raises(ValueError, match=r"two answers for one input.*\.eval\(\)"):
        depends(torch.nn.Dropout(0.5), torch.ones(30, 20))


def test_nan_is_refused_wherever_it_is():
    with pytest.raises(ValueError, match="no finite answer and gradient at any point"):
        depends(lambda x: x * torch.nan, torch.ones(3, 2))
    with pytest.raises(ValueError, match=r"x is float32\[3, 2\] and has NaN"):
        depends(lambda x: x, torch.full((3, 2), torch.nan))
    with pytest.raises(ValueError, match="no values at all"):
        depends(lambda x: x, torch.ones(3, 2, device="meta"))


def test_an_answer_that_is_no_matrix_is_refused():
    with pytest.raises(ShapeError, match=r"returns float32\[3\] for float32\[3, 2\]"):
        depends(lambda x: x.sum(dim=-1), torch.ones(3, 2))
    as_list: Any = torch.Tensor.tolist
    with pytest.raises(ShapeError, match="returns a list"):
        depends(as_list, torch.ones(3, 2))


@pytest.mark.parametrize("function", [reach, earliest, critical_path])
def test_levels_that_do_not_fit_are_refused(function):
    with pytest.raises(ValueError, match="edges is empty"):
        function([])
    with pytest.raises(ShapeError, match=r"edges\[1\] is float32\[3, 3\], but must be bool"):
        function([EYE, torch.eye(3)])
    with pytest.raises(ShapeError, match=r"edges\[1\] is bool\[2, 2\] and reads 2 positions"):
        function([EYE, EYE[:2, :2]])


def test_levels_of_different_positions_compose_and_have_no_picture():
    assert reach([EYE[:2], torch.ones(1, 2).bool()]).tolist() == [[True, True, False]]
    with pytest.raises(ShapeError, match="every level must have the same positions"):
        earliest([EYE[:2]])
    with pytest.raises(ShapeError, match=r"feedback is bool\[2, 2\]"):
        earliest([EYE], generation(2))


def test_what_waits_for_itself_is_refused():
    """Without a mask the first token would read the tokens that are made of it."""
    with pytest.raises(ValueError, match=r"position 1 at level 0 waits for itself.*causal_mask"):
        critical_path([ALL], generation(3))
    assert len(critical_path([ALL])) == 2


def test_a_prompt_is_neither_empty_nor_too_long():
    for prompt in (0, 4):
        with pytest.raises(ValueError, match=f"prompt is {prompt} of pos = 3"):
            generation(3, prompt)


def test_the_default_device_does_not_reach_the_random_points():
    itself, mask = torch.eye(2).bool(), causal_mask(2)
    with torch.device("meta"):
        found, steps = depends(lambda x: x, torch.zeros(2, 2, device="cpu")), earliest([mask])
        with pytest.raises(ValueError, match=r"edges\[0\] is bool\[2, 2\] on meta"):
            earliest([causal_mask(2)])
    assert torch.equal(found, itself)
    assert steps.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("shape", [(0, 2), (2, 0)])
def test_nothing_to_start_from_is_named(shape):
    with pytest.raises(ShapeError, match="at least one position and one entry"):
        depends(lambda x: x, torch.zeros(shape))
