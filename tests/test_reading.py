"""Reading a run: parts that sum, stages that stand alone, and whose scale belongs to which."""

import inspect

import pytest
import torch
from draws import normal
from hypothesis import given, settings
from hypothesis import strategies as st
from models import KINDS, filled, scenes
from torch.testing import assert_close

from tinyattn import (
    Config,
    ShapeError,
    Terms,
    accumulated,
    decomposed,
    head_attribution,
    logit_attribution,
    logit_lens,
)

few = settings(max_examples=15)
TOKENS = torch.tensor([[1, 4, 2, 2, 0, 5], [3, 3, 6, 1, 0, 2]])


@few
@given(scenes(), st.booleans())
def test_the_shares_of_all_writers_sum_to_the_logit(scene, heads):
    model, tokens = scene
    run = model.run(tokens)
    for token in range(model.config.d_vocab):
        assert_close(logit_attribution(run, token, heads=heads).sum(), run.logits[..., token])


@few
@given(scenes(), st.booleans(), st.data())
def test_with_a_token_for_each_position_and_a_wrong_one(scene, heads, data):
    model, tokens = scene
    run = model.run(tokens)
    answer = (tokens + 1) % model.config.d_vocab
    wrong = data.draw(st.integers(0, model.config.d_vocab - 1))
    terms = logit_attribution(run, answer, wrong, heads=heads)
    right = run.logits.gather(-1, answer.unsqueeze(-1)).squeeze(-1)
    assert_close(terms.sum(), right - run.logits[..., wrong])
    assert terms.values.shape == (len(terms.names), *tokens.shape)


@few
@given(scenes(), st.booleans(), st.booleans(), st.booleans())
def test_the_grid_holds_the_heads_of_the_list(scene, each, lead, norm):
    model, tokens = scene
    answer = (tokens + 1) % model.config.d_vocab if each else 1
    for grad in (False, True):
        run = model.run(tokens, grad=grad)
        grid = head_attribution(run, answer, 0 if lead else None, norm=norm)
        terms = logit_attribution(run, answer, 0 if lead else None, heads=True, norm=norm)
        assert grid.shape == (model.config.n_layers, model.config.n_heads, *tokens.shape)
        if len(grid):
            assert grid.requires_grad == grad
        for layer, row in enumerate(grid):
            for head, share in enumerate(row):
                assert_close(share, terms[f"{layer}.head {head}"])


@few
@given(scenes(layers=1))
def test_a_heads_share_is_its_write_along_the_token(scene):
    """The short way, z against W_O's view of the direction, equals the long way."""
    model, tokens = scene
    run = model.run(tokens)
    terms = logit_attribution(run, 1, heads=True)
    long = decomposed(run, heads=True).along(model.W_U[:, 1])
    assert_close(terms.values[: len(long)], long)


@few
@given(scenes(), st.booleans())
def test_the_lens_at_the_last_stage_is_the_model(scene, heads):
    model, tokens = scene
    run = model.run(tokens)
    lens = logit_lens(run, heads=heads)
    assert_close(lens.values[-1], run.logits)
    assert lens.names == run.ledger(heads=heads).writers


@few
@given(scenes(), st.booleans())
def test_the_parts_as_the_unembedding_reads_them_sum_to_what_it_reads(scene, heads):
    model, tokens = scene
    run = model.run(tokens)
    assert_close(decomposed(run, heads=heads).now, model.norm_final(run.final))
    assert_close(decomposed(run, heads=heads, norm=False).now, run.final)


def test_accumulated_is_the_stream_at_the_boundaries():
    run = filled(KINDS["everything"]).run(TOKENS)
    stages = accumulated(run, norm=False)
    assert_close(stages["0.b_O"], run.resid_mid(0))
    assert_close(stages["1.b_out"], run.resid_post(1))
    assert stages.names[:6] == ("embed", "pos", "0.attn", "0.b_O", "0.mlp", "0.b_out")


def test_f6_the_same_switches_on_every_function():
    """Only one of four had it."""
    for function in (decomposed, accumulated, logit_lens, logit_attribution):
        switches = [
            p for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY
        ]
        assert [(p.name, p.default) for p in switches] == [("heads", False), ("norm", True)]


def test_b5_stages_use_their_own_scale_and_parts_that_of_the_whole():
    """One scale served both, and early layers looked undecided."""
    model = filled(Config(16, 4, 4, 1, 50, 3, positions=None, norm="layer"))
    r0, write = normal(0, 3, 16), 20 * normal(1, 3, 16)
    run = model.run([0, 1, 2]).with_({"embed": r0, "0.attn_out": write})
    assert_close(run.final, r0 + write)

    lens = logit_lens(run)["embed"]
    assert_close(lens, model.norm_final(r0) @ model.W_U)
    frozen = model.norm_final.parts(r0, run.final) @ model.W_U + model.norm_final.bias @ model.W_U
    spread = [logits.log_softmax(dim=-1).amax(dim=-1).mean() for logits in (lens, frozen)]
    assert spread[0] > spread[1] + 1  # in nats: the early stream with the late scale says little

    parts = decomposed(run)
    assert_close(parts.now @ model.W_U, run.logits)
    own = sum(model.norm_final(part) for part in (r0, write)) - model.norm_final.bias
    assert (own @ model.W_U - run.logits).abs().max() > 1


def test_a_part_that_is_left_out_leaves_a_gap():
    run = filled(KINDS["gpt2"]).run(TOKENS)
    terms = logit_attribution(run, 3)
    assert "norm bias" in terms.names
    gap = terms.sum() - terms["norm bias"] - run.logits[..., 3]
    assert gap.abs().min() > 1e-3


def test_without_the_norm_the_shares_are_of_the_bare_stream():
    model = filled(KINDS["llama"])
    run = model.run(TOKENS)
    assert_close(logit_attribution(run, 3, norm=False).sum(), run.final @ model.W_U[:, 3])


def test_an_edited_run_is_read_as_it_ran():
    run = filled(KINDS["everything"]).run(TOKENS)
    for name in (
        "0.resid_pre",
        "1.resid_mid",
        "1.resid_post",
        "1.out",
        "2.attn_out",
        "0.mlp_out",
        "0.pattern",
    ):
        edited = run.with_({name: lambda t: t.flip(0)})
        assert_close(edited.ledger(heads=True).now, edited.final)
        assert_close(logit_attribution(edited, 3, heads=True).sum(), edited.logits[..., 3])
        if name == "2.attn_out":
            with pytest.raises(
                ValueError, match=r"replaced 2\.attn_out, so the heads of that layer"
            ):
                head_attribution(edited, 3)
        else:
            one = logit_attribution(edited, 3, heads=True)["1.head 0"]
            assert_close(head_attribution(edited, 3)[1, 0], one)


def test_no_layer_and_no_position():
    run = filled(Config(4, 2, 2, 0, 7, 4, positions=None)).run([1, 2])
    assert logit_attribution(run, 3).names == ("embed",)
    assert head_attribution(run, 3).shape == (0, 2, 2)


@pytest.mark.parametrize("token", [1.5, torch.tensor([1, 2]), True])
def test_a_token_that_is_none(token):
    run = filled(KINDS["gpt2"]).run(TOKENS)
    for function in (logit_attribution, head_attribution):
        with pytest.raises(ShapeError, match=r"one for each position, \[2, 6\]"):
            function(run, token)


def test_a_token_outside_the_vocabulary():
    run = filled(KINDS["gpt2"]).run(TOKENS)
    with pytest.raises(ValueError, match="wrong = 11 is not in the vocabulary: d_vocab = 11"):
        logit_attribution(run, 3, 11)


def test_terms_name_what_they_have():
    with pytest.raises(KeyError, match="no 'mlp'; the names are embed"):
        Terms(("embed",), torch.ones(1, 2))["mlp"]
    with pytest.raises(ValueError, match="1 names for 2 values"):
        Terms(("embed",), torch.ones(2, 2))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch calls it itself
def test_directions_may_be_mapped_and_differentiated():
    """Both forbid to write into a place that is there already."""
    run = filled(KINDS["gpt2"]).run(TOKENS)
    directions = normal(0, 3, run.final.shape[-1]).to(run.final.dtype)
    one_by_one = torch.stack([run.heads_along(direction) for direction in directions])
    assert_close(torch.func.vmap(run.heads_along)(directions), one_by_one)
    found, change = torch.func.jvp(run.heads_along, (directions[0],), (directions[1],))
    assert_close((found, change), (one_by_one[0], one_by_one[1]))
