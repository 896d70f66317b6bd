"""Siblings of the cases: the same kinds of fault in places the cases do not name.

A test is named after its case; the docstring says what happened here.
"""

import math

import pytest
import torch
from draws import normal

from tinyattn import Config, Transformer, ablate, patch, untie
from tinyattn.block import Cache

CONFIG = Config(8, 4, n_heads=2, n_layers=2, d_vocab=5, n_ctx=8)
MODEL = Transformer(CONFIG)


def other(**changes) -> Transformer:
    return Transformer(Config(**{**vars(CONFIG), **changes}))


def test_a16_a_run_keeps_tokens_that_are_changed_later():
    """A buffer used again changed the ledger of the run before."""
    tokens, real = torch.tensor([[0, 1, 2]]), torch.tensor([[False, True, True]])
    run = MODEL.run(tokens, real=real)
    cache = Cache()
    MODEL(tokens, real=real, cache=cache)
    tokens[:], real[:] = 4, True
    assert run.tokens.tolist() == [[0, 1, 2]]
    assert run.real.tolist() == cache.real.tolist() == [[False, True, True]]
    assert (run.ledger().now - run.final).abs().max() < 1e-5


def test_a16_a_cache_of_another_batch_or_model_is_refused():
    """It failed inside torch.cat; another model's keys were read without a word."""
    cache = Cache()
    MODEL([1, 2], cache=cache)
    for model, tokens in ((MODEL, [[3]]), (other(n_layers=1), [3]), (other(), [3])):
        with pytest.raises(ValueError, match=r"holds 2 positions .* begin with a new Cache\(\)"):
            model(tokens, cache=cache)
    with pytest.raises(TypeError, match=r"cache is a dict: give a tinyattn\.block\.Cache\(\)"):
        MODEL([1], cache={})
    assert torch.equal(MODEL([3], cache=cache), MODEL([1, 2, 3])[2:])


def test_a16_a_cache_counts_positions_without_layers():
    """Without layers nothing was cached, and positions began at 0 again."""
    model, cache = other(n_layers=0), Cache()
    parts = [model([1, 2], cache=cache), model([3], cache=cache)]
    assert torch.equal(torch.cat(parts), model([1, 2, 3]))


def test_b23_after_an_exception_a_cache_is_as_it_was():
    """Keys of the pass that broke off stayed in it, and were read twice."""
    cache = Cache()
    MODEL([1, 2], cache=cache)
    with pytest.raises(ZeroDivisionError), MODEL.edited({"1.z": lambda z: z / (1 // 0)}):
        MODEL([3], cache=cache)
    assert cache.pos == 2
    assert torch.equal(MODEL([3], cache=cache), MODEL([1, 2, 3])[2:])


@pytest.mark.parametrize("name", ["0.head 1", "0.z"])
def test_b23_an_edit_that_returns_no_tensor_is_named(name):
    """Of a head it ended in "'NoneType' object has no attribute 'shape'"."""
    run = MODEL.run([1, 2, 3])
    for returned, said in ((None, "None"), ([1.0], "a list")):
        with pytest.raises(TypeError, match=rf"edit of '{name}': it returned {said} in place of"):
            run.with_({name: lambda z, returned=returned: returned})
    with pytest.raises(ValueError, match=r"on cpu and was replaced by .* on meta"):
        run.with_({name: lambda z: z.to("meta")})


def test_b23_edits_are_given_by_name():
    run = MODEL.run([1, 2])
    with pytest.raises(TypeError, match=r"edits are a list: give them by name"):
        run.with_([("0.z", torch.zeros_like)])
    with pytest.raises(TypeError, match=r"edits are a str"), MODEL.edited("0.z"):
        pass


def test_b23_a_run_of_another_model_cannot_be_put_in():
    """One position of it was converted to the run's dtype; a mean failed inside torch."""
    run = MODEL.run([1, 2])
    wide, double = other(d_model=6).run([1, 2]), other().double().run([1, 2])
    with pytest.raises(ValueError, match=r"'0.attn_out': it is float32\[2, 8\].*float64\[2, 8\]"):
        patch(run, double, "0.attn_out", 0)
    with pytest.raises(ValueError, match=r"'0.attn_out': it is float32\[2, 8\].*float32\[2, 6\]"):
        patch(run, wide, "0.attn_out", 0)
    with pytest.raises(ValueError, match=r"'0.attn_out': it is float32\[2, 8\].*float32\[6\]"):
        ablate(run, "0.attn_out", "mean", reference=wide)


def test_a1_a_mean_over_no_token_is_refused():
    """All padding: 0/0 put NaN into the run."""
    run = MODEL.run([[1, 2]], real=torch.zeros(1, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"the mean of 0.attn_out is over no token"):
        ablate(run, "0.attn_out", "mean")


def test_b12_a_tied_unembedding_cannot_be_replaced():
    """The new W_U was read by some functions and not by the model."""
    model = other(tied=True)
    with pytest.raises(AttributeError, match=r"the model is tied.*untie\(model\)"):
        model.W_U = torch.zeros(8, 5)
    free = untie(model)
    free.W_U = torch.nn.Parameter(torch.zeros(8, 5))
    assert not free([1, 2]).any()


def test_b19_an_empty_batch_may_have_padding():
    real = torch.ones(0, 3, dtype=torch.bool)
    assert MODEL(torch.zeros(0, 3, dtype=torch.long), real=real).shape == (0, 3, 5)


def test_b30_tokens_of_other_kinds_are_named():
    with pytest.raises(TypeError, match=r"whole numbers but a text, 'the cat': encode it"):
        MODEL("the cat")
    with pytest.raises(TypeError, match=r"tokens are torch.sparse_coo, but must be dense"):
        MODEL(torch.eye(3).long().to_sparse())
    with pytest.raises(ValueError, match=r"tokens are float32\[2, 0\].* pos ≥ 1"):
        MODEL([[], []])


def test_a4_a_very_small_temperature_does_not_overflow():
    """Logits divided by it were infinite, and their softmax NaN."""
    generator = torch.Generator().manual_seed(0)
    likeliest = MODEL.generate([1, 2], 3, show_progress=False)
    for temperature in (1e-45, 1e-300):
        drawn = MODEL.generate(
            [1, 2], 3, temperature=temperature, generator=generator, show_progress=False
        )
        assert torch.equal(drawn, likeliest)
    for temperature in (math.nan, math.inf, -1.0):
        with pytest.raises(ValueError, match=r"give 0, or a finite number above 0"):
            MODEL.generate([1], 1, temperature=temperature, generator=generator)


def test_a25_what_a_model_is_asked_for_wrongly_is_named():
    """It failed inside torch, or took True for layer 1."""
    for layer in (True, "0", 1.0):
        with pytest.raises(TypeError, match=r"layer is .*: give a whole number"):
            MODEL.heads(layer)
    with pytest.raises(TypeError, match=r"generate: new is 1.5, but must be int"):
        MODEL.generate([1], 1.5)
    with pytest.raises(ValueError, match=r"unembed: x is float32\[3, 5\].*d_model = 8"):
        MODEL.unembed(normal(0, 3, 5).float())
    for shape in ((3, 5), (8,)):
        with pytest.raises(ValueError, match=r"Block: x is float32\[.*d_model = 8"):
            MODEL.layers[0](normal(0, *shape).float())
