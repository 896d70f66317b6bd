"""Interventions: one change, what follows from it, and nothing left behind."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import KINDS, filled, scenes
from torch.testing import assert_close

from tinyattn import Config, NothingChanged, Transformer, ablate, patch
from tinyattn.edits import activation_names

few = settings(max_examples=15)
TOKENS = torch.tensor([[1, 4, 2, 2, 0, 5], [3, 3, 6, 1, 0, 2]])
EVERYTHING = filled(KINDS["everything"])
NAMES = activation_names(EVERYTHING.config)


@pytest.mark.parametrize("name", NAMES)
def test_putting_back_what_stood_there_changes_no_bit_and_says_so(name):
    run = EVERYTHING.run(TOKENS)
    with pytest.warns(NothingChanged, match=f"the edit of {name} changed nothing"):
        again = run.with_({name: run.value(name)})
    assert torch.equal(again.logits, run.logits)
    assert again.changes == {name: 0.0}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_reaches_the_logits_and_is_found_as_it_was_put(name):
    run = EVERYTHING.run(TOKENS)
    new = run.value(name).flip(-2 if name == "pos" else 0)
    if "scores" in name:
        new = new.nan_to_num(neginf=0)
    edited = run.with_({name: new})
    assert edited.changes[name] > 0
    assert not torch.equal(edited.logits, run.logits)
    assert torch.equal(edited.value(name), new)


def test_ablating_nothing_is_the_same_run_again():
    run = EVERYTHING.run(TOKENS)
    again = ablate(run, [])
    assert torch.equal(again.logits, run.logits)
    assert again.changes == {}


@few
@given(scenes(layers=1), st.data())
def test_ablating_a_head_takes_its_write_out(scene, data):
    model, tokens = scene
    layer = data.draw(st.integers(0, model.config.n_layers - 1))
    head = data.draw(st.integers(0, model.config.n_heads - 1))
    run = model.run(tokens)
    without = ablate(run, f"{layer}.head {head}")
    assert_close(without.attn_out(layer), run.attn_out(layer) - run.out(layer)[..., head, :, :])
    assert (without.out(layer)[..., head, :, :] == 0).all()
    others = [h for h in range(model.config.n_heads) if h != head]
    assert torch.equal(without.out(layer)[..., others, :, :], run.out(layer)[..., others, :, :])


def test_the_run_and_the_model_stay_as_they_were():
    model, kept = EVERYTHING, {n: t.clone() for n, t in EVERYTHING.state_dict().items()}
    run = model.run(TOKENS)
    logits, stream = run.logits.clone(), [x.clone() for x in run.stream]
    ablate(run, ["1.head 2", "0.mlp_out"])
    assert torch.equal(run.logits, logits)
    assert all(torch.equal(a, b) for a, b in zip(run.stream, stream, strict=True))
    assert all(torch.equal(t, kept[n]) for n, t in model.state_dict().items())
    assert torch.equal(model(TOKENS), logits)


def test_the_stream_before_the_edit_is_shared_and_not_computed_again():
    run = EVERYTHING.run(TOKENS)
    without = ablate(run, "1.head 0")
    assert without.stream[1] is run.stream[1]
    assert not torch.equal(without.stream[-1], run.stream[-1])


def test_edits_add_up():
    run = EVERYTHING.run(TOKENS)
    step_by_step = ablate(ablate(run, "0.head 1"), "1.mlp_out")
    at_once = ablate(run, ["0.head 1", "1.mlp_out"])
    assert torch.equal(step_by_step.logits, at_once.logits)
    assert step_by_step.changes.keys() == {"0.head 1", "1.mlp_out"}
    other_way = ablate(ablate(run, "1.mlp_out"), "0.head 1")
    assert_close(other_way.logits, at_once.logits)


def test_an_edit_of_the_stream_is_made_once_though_later_edits_run_again():
    run = EVERYTHING.run(TOKENS)
    doubled = run.with_({"1.resid_pre": lambda x: 2 * x})
    again = doubled.with_({"1.head 0": torch.zeros_like})
    assert_close(again.resid_pre(1), 2 * run.resid_pre(1))


def test_the_mean_is_over_batch_and_positions_for_each_head():
    run = EVERYTHING.run(TOKENS)
    without = ablate(run, "0.z", by="mean")
    assert_close(without.z(0)[0, 1, 0], run.z(0)[:, 1].mean(dim=(0, 1)))
    one = ablate(run, "0.head 1", by="mean")
    assert_close(one.z(0)[1, 1, 3], run.z(0)[:, 1].mean(dim=(0, 1)))
    assert torch.equal(one.z(0)[:, 0], run.z(0)[:, 0])
    assert_close(
        ablate(run, "2.mlp_out", by="mean").mlp_out(2)[0, 0], run.mlp_out(2).mean(dim=(0, 1))
    )


def test_padding_does_not_count_in_a_mean():
    padded = torch.cat([torch.zeros(2, 1, dtype=torch.int64), TOKENS], dim=-1)
    real = torch.tensor([False] + 6 * [True]).expand(2, 7)
    run, whole = EVERYTHING.run(TOKENS), EVERYTHING.run(padded, real=real)
    pair = [ablate(r, "1.head 0", by="mean").z(1)[0, 0, -1] for r in (run, whole)]
    assert_close(*pair)


def test_the_mean_of_another_run():
    run, other = EVERYTHING.run(TOKENS), EVERYTHING.run(TOKENS.flip(-1))
    without = ablate(run, "0.neurons", by="mean", reference=other)
    assert_close(without.neurons(0)[0, 0], other.neurons(0).mean(dim=(0, 1)))


def test_a_mean_pattern_would_look_at_the_future():
    with pytest.raises(
        ValueError, match=r"mean of 0\.pattern over queries would look at the future"
    ):
        ablate(EVERYTHING.run(TOKENS), "0.pattern", by="mean")


def test_resampling_takes_another_row():
    run = EVERYTHING.run(TOKENS)
    swapped = ablate(run, "0.attn_out", by="resample")
    assert torch.equal(swapped.attn_out(0), run.attn_out(0).flip(0))
    dice = torch.Generator().manual_seed(0)
    longer = EVERYTHING.run(TOKENS.repeat(4, 1) * torch.tensor([[1]] * 7 + [[0]]))
    drawn = ablate(longer, "0.attn_out", by="resample", generator=dice)
    assert {tuple(r) for r in drawn.attn_out(0)[:, 0].tolist()} <= {
        tuple(r) for r in longer.attn_out(0)[:, 0].tolist()
    }
    with pytest.raises(ValueError, match="give two or more"):
        ablate(EVERYTHING.run(TOKENS[:1]), "0.z", by="resample")
    with pytest.raises(ValueError, match=r"tokens must be \[batch, pos\]"):
        ablate(EVERYTHING.run(TOKENS[0]), "0.z", by="resample")


def test_patching_the_whole_stream_gives_the_other_runs_answer():
    clean, corrupted = EVERYTHING.run(TOKENS), EVERYTHING.run(TOKENS.flip(-1))
    assert torch.equal(patch(corrupted, clean, "2.resid_pre").logits, clean.logits)
    assert torch.equal(patch(clean, corrupted, "embed").logits, corrupted.logits)


def test_patching_one_position():
    clean, corrupted = EVERYTHING.run(TOKENS), EVERYTHING.run((TOKENS + 1) % 7)
    patched = patch(corrupted, clean, "1.resid_pre", pos=-2)
    assert torch.equal(patched.resid_pre(1)[:, 4], clean.resid_pre(1)[:, 4])
    assert torch.equal(patched.logits[:, :4], corrupted.logits[:, :4])
    assert not torch.equal(patched.logits[:, 5], corrupted.logits[:, 5])
    with pytest.raises(IndexError, match="no position 6 among 6"):
        patch(corrupted, clean, "0.z", pos=6)


def test_d4_a_batch_of_patches_patches_each_row():
    """A batched patch silently patched nothing."""
    clean, corrupted = EVERYTHING.run(TOKENS), EVERYTHING.run((TOKENS + 1) % 7)
    patched = patch(corrupted, clean, "0.head 3")
    for row in range(2):
        assert not torch.equal(patched.logits[row], corrupted.logits[row])
        alone = patch(
            EVERYTHING.run((TOKENS[row] + 1) % 7), EVERYTHING.run(TOKENS[row]), "0.head 3"
        )
        assert_close(patched.logits[row], alone.logits)


def test_patching_a_run_into_itself_says_that_nothing_changed():
    run = EVERYTHING.run(TOKENS)
    with pytest.warns(NothingChanged, match="0.head 3, 1.z changed nothing"):
        patch(run, run, ["0.head 3", "1.z"])


def test_runs_of_another_length_cannot_be_patched():
    run, other = EVERYTHING.run(TOKENS), EVERYTHING.run(TOKENS[:, :4])
    with pytest.raises(ValueError, match=r"int64\[2, 6\] and its source int64\[2, 4\]"):
        patch(run, other, "0.z")


# For every pass inside a with


def test_within_a_context_every_pass_is_edited_and_after_it_none():
    plain = EVERYTHING(TOKENS)
    with EVERYTHING.edited({"0.head 1": torch.zeros_like}) as model:
        inside, run = model(TOKENS), model.run(TOKENS)
    assert torch.equal(inside, ablate(EVERYTHING.run(TOKENS), "0.head 1").logits)
    assert torch.equal(run.logits, inside)
    assert (run.out(0)[:, 1] == 0).all()
    assert torch.equal(EVERYTHING(TOKENS), plain)


def test_contexts_nest():
    run = EVERYTHING.run(TOKENS)
    with EVERYTHING.edited({"0.head 1": torch.zeros_like}):
        with EVERYTHING.edited({"1.head 0": torch.zeros_like}):
            both = EVERYTHING(TOKENS)
        one = EVERYTHING(TOKENS)
    assert torch.equal(both, ablate(run, ["0.head 1", "1.head 0"]).logits)
    assert torch.equal(one, ablate(run, "0.head 1").logits)


def test_b23_after_an_exception_nothing_stays():
    """Hooks of the library stayed behind, and the reader's own were removed."""
    plain = EVERYTHING(TOKENS)

    def fails(value):
        raise RuntimeError("inside an edit")

    with pytest.raises(RuntimeError, match="inside an edit"), EVERYTHING.edited({"1.z": fails}):
        EVERYTHING(TOKENS)
    assert torch.equal(EVERYTHING(TOKENS), plain)
    assert not EVERYTHING.layers[1]._forward_hooks


def test_a_context_in_which_nothing_ran_says_so():
    with (
        pytest.warns(NothingChanged, match="or no pass reached it"),
        EVERYTHING.edited({"0.z": torch.zeros_like}),
    ):
        pass


def test_generation_can_be_edited():
    with EVERYTHING.edited({"2.mlp_out": torch.zeros_like}):
        edited = EVERYTHING.generate(TOKENS[:, :2], 5)
        tokens = TOKENS[:, :2]
        for _ in range(5):
            tokens = torch.cat([tokens, EVERYTHING(tokens)[:, -1:].argmax(dim=-1)], dim=-1)
    assert torch.equal(edited, tokens)


# What is refused


@pytest.mark.parametrize(
    "name", ["0.head 4", "3.z", "0.result", "z", "0.head", "-1.z", "blocks.0.z"]
)
def test_b23_an_unknown_name_is_refused_with_those_there_are(name):
    run = EVERYTHING.run(TOKENS)
    for attempt in (lambda: ablate(run, name), lambda: run.value(name)):
        with pytest.raises(
            ValueError, match=rf"no activation '{name}': the names are embed, pos, 0\.resid_pre"
        ):
            attempt()


def test_neurons_of_an_attention_only_model_are_no_name():
    run = filled(KINDS["attention only"]).run(TOKENS)
    with pytest.raises(ValueError, match=r"no activation '0\.neurons'"):
        ablate(run, "0.neurons")


@pytest.mark.parametrize("name", ["0.z", "0.head 1", "1.resid_mid"])
def test_a_replacement_of_another_shape_is_refused(name):
    run = EVERYTHING.run(TOKENS)
    with pytest.raises(ValueError, match=rf"edit of '{name}': .* was replaced by float64\[1\]"):
        run.with_({name: torch.ones(1, dtype=torch.float64)})


def test_a_replacement_that_is_none_is_refused():
    with pytest.raises(
        TypeError, match=r"edit of '0\.z' is 0: give a tensor, a Run, or a function"
    ):
        EVERYTHING.run(TOKENS).with_({"0.z": 0})


def test_a_change_that_changes_something_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ablate(EVERYTHING.run(TOKENS), "0.head 0")


# Which direction shows what


def test_noising_shows_an_and_and_denoising_an_or():
    """Two heads bring a part each; a ReLU wants both, or is content with either."""
    from tinyattn import Config, Transformer

    config = Config(4, 2, 2, 1, 4, 3, d_mlp=1, positions=None, activation="relu", biases=True)
    model = Transformer(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.W_E[:3] = torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
        for head in range(2):  # each copies its own entry of the stream to a place of its own
            model.layers[0].W_V[head, head, 0] = 3.0
            model.layers[0].W_O[head, 0, 2] = 1.0
        model.layers[0].W_in[2, 0] = 1.0
        model.layers[0].W_out[0, 3] = 1.0
        model.W_U[3, 3] = 1.0

    def effects(bias, names=("0.head 0", "0.head 1")):
        with torch.no_grad():
            model.state_dict()["blocks.0.b_in"][0] = bias
        clean, corrupted = model.run([0, 1, 2]), model.run([0, 0, 0])
        answer = [run.logits[-1, 3].item() > 0 for run in (clean, corrupted)]
        assert answer == [True, False]
        noised = [patch(clean, corrupted, name).logits[-1, 3].item() > 0 for name in names]
        denoised = [patch(corrupted, clean, name).logits[-1, 3].item() > 0 for name in names]
        return noised, denoised

    assert effects(bias=-1.5) == ([False, False], [False, False])  # AND: only noising shows a part
    assert effects(bias=-0.5) == ([True, True], [True, True])  # OR: only denoising shows a part


@pytest.mark.parametrize("name", ["1.resid_pre", "1.z", "1.head 0"])
def test_an_edit_in_place_is_seen_and_leaves_the_run_alone(name):
    """It changed the run it was made from, and was said to have changed nothing."""
    run = Transformer(Config(8, 4, 2, 2, d_vocab=5, n_ctx=6)).run([1, 2, 3])
    kept = [x.clone() for x in run.stream]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        edited = run.with_({name: lambda value: value.mul_(2)})
    assert all(torch.equal(a, b) for a, b in zip(kept, run.stream, strict=True))
    assert torch.equal(edited.logits, run.with_({name: lambda value: value * 2}).logits)


def test_an_edit_that_returns_nothing_is_named():
    run = Transformer(Config(8, 4, 2, 2, d_vocab=5, n_ctx=6)).run([1, 2, 3])
    with pytest.raises(TypeError, match=r"edit of '0.z': it returned None in place of float32"):
        run.with_({"0.z": lambda z: None})
