"""The whole transformer: what holds for every model, and what others' models got wrong."""

import copy
import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import KINDS, filled, scenes
from torch.nn import functional
from torch.testing import assert_close

from tinyattn import (
    Config,
    ShapeError,
    Transformer,
    attend,
    causal_mask,
    fold,
    layer_norm,
    mix,
    pattern,
    rms_norm,
    scores,
)
from tinyattn.block import Cache
from tinyattn.folding import untie

few = settings(max_examples=15)
kinds = pytest.mark.parametrize("kind", KINDS)
TOKENS = torch.tensor([[1, 4, 2, 2, 0, 5], [3, 3, 6, 1, 0, 2]])


# What holds for every model


@few
@given(scenes())
def test_the_ledger_sums_to_the_stream(scene):
    model, tokens = scene
    run = model.run(tokens)
    assert_close(run.ledger().now, run.final)
    assert_close(run.ledger(heads=True).now, run.final)


@few
@given(scenes(layers=1))
def test_b7_every_boundary_is_the_one_before_and_a_write(scene):
    """A hook called attention output already held the stream."""
    model, tokens = scene
    run = model.run(tokens)
    for layer in range(model.config.n_layers):
        after = run.resid_pre(layer) + run.attn_out(layer)
        if model.config.d_mlp:
            assert torch.equal(run.resid_mid(layer), after)
            after = run.resid_mid(layer) + run.mlp_out(layer)
        assert torch.equal(run.resid_post(layer), after)
        if layer:
            assert torch.equal(run.resid_pre(layer), run.resid_post(layer - 1))


@few
@given(scenes(layers=1))
def test_the_pass_equals_the_explicit_steps(scene):
    """The pass goes through fused attention; scores, pattern and mix are asked for later."""
    model, tokens = scene
    run = model.run(tokens)
    for layer in range(model.config.n_layers):
        q, k, v = run.q(layer), run.k(layer), run.v(layer)
        mask = causal_mask(tokens.shape[-1])
        assert_close(run.pattern(layer), pattern(scores(q, k), mask))
        assert_close(run.z(layer), mix(run.pattern(layer), v))
        step, steps = run.attended(layer), ("q", "k", "v", "scores", "pattern", "z", "out")
        assert all(torch.equal(getattr(step, name), getattr(run, name)(layer)) for name in steps)


@few
@given(scenes(layers=1))
def test_the_heads_of_a_layer_attend_alone_as_they_do_in_it(scene):
    model, tokens = scene
    config, run = model.config, model.run(tokens)
    if config.positions in ("rotary", "shortformer"):
        return  # these heads read more than the stream; the next test is theirs
    x = model.layers[0].norm_attn(run.resid_pre(0))
    alone = attend(x, model.heads(0), causal_mask(tokens.shape[-1]))
    assert_close(alone.pattern, run.pattern(0))
    assert_close(alone.out, run.out(0))


@few
@given(scenes(layers=1), st.integers(1, 5))
def test_token_by_token_equals_all_at_once(scene, cut):
    model, tokens = scene
    whole, cache = model(tokens), Cache()
    pieces = [tokens[..., :cut], *tokens[..., cut:].split(1, dim=-1)]
    parts = [model(piece, cache=cache) for piece in pieces if piece.shape[-1]]
    assert_close(torch.cat(parts, dim=-2), whole)
    assert cache.pos == tokens.shape[-1]
    cache = Cache()
    halves = [model(half, cache=cache) for half in (tokens[..., :1], tokens[..., 1:])]
    assert_close(torch.cat(halves, dim=-2), whole)


@few
@given(scenes())
def test_batch_rows_do_not_see_each_other(scene):
    model, tokens = scene
    together = model(tokens)
    rows = tokens.reshape(-1, tokens.shape[-1])
    alone = torch.stack([model(row) for row in rows])
    assert_close(together.reshape(alone.shape), alone)


@few
@given(scenes(), st.integers(1, 2), st.data())
def test_b19_padding_on_the_left_changes_nothing(scene, pads, data):
    """Position numbers counted the padding."""
    model, tokens = scene
    shape = (*tokens.shape[:-1], pads)
    filler = torch.full(shape, data.draw(st.integers(0, model.config.d_vocab - 1)))
    padded, real = torch.cat([filler, tokens], dim=-1), torch.ones_like(filler, dtype=torch.bool)
    real = torch.cat([~real, torch.ones_like(tokens, dtype=torch.bool)], dim=-1)
    assert_close(model(padded, real=real)[..., pads:, :], model(tokens))
    run = model.run(padded, real=real)
    assert_close(run.ledger(heads=True).now, run.final)
    for layer in range(model.config.n_layers):
        A = run.pattern(layer)
        assert (A[..., pads:, :pads] == 0).all()
        assert_close(A[..., pads:, pads:], model.run(tokens).pattern(layer))


@few
@given(scenes())
def test_padding_on_the_right_changes_nothing(scene):
    model, tokens = scene
    padded = torch.cat([tokens, torch.zeros_like(tokens[..., :1])], dim=-1)
    real = torch.ones_like(padded, dtype=torch.bool)
    real[..., -1] = False
    assert_close(model(padded, real=real)[..., :-1, :], model(tokens))


def test_b19_without_saying_which_are_padding_the_answer_is_another():
    model = filled(KINDS["gpt2"])
    padded = torch.cat([torch.zeros(2, 2, dtype=torch.int64), TOKENS], dim=-1)
    assert (model(padded)[:, 2:] - model(TOKENS)).abs().max() > 0.1


def test_rows_padded_by_different_amounts():
    model = filled(KINDS["llama"])
    rows = torch.tensor([[0, 0, 5, 1], [0, 7, 3, 2]])
    real = torch.tensor([[False, False, True, True], [False, True, True, True]])
    logits = model(rows, real=real)
    assert_close(logits[0, 2:], model(rows[0, 2:]))
    assert_close(logits[1, 1:], model(rows[1, 1:]))


@few
@given(scenes(), st.data())
def test_the_past_ignores_the_future(scene, data):
    model, tokens = scene
    cut = data.draw(st.integers(1, tokens.shape[-1] - 1))
    edited = tokens.clone()
    edited[..., cut:] = (edited[..., cut:] + 1) % model.config.d_vocab
    before, after = model.run(tokens), model.run(edited)
    assert torch.equal(before.logits[..., :cut, :], after.logits[..., :cut, :])


@kinds
def test_a31_the_last_token_changes_nothing_before_it(kind):
    """Every token saw its own answer, and the loss was perfect."""
    model = filled(KINDS[kind], dtype=torch.float32)
    edited = TOKENS.clone()
    edited[:, -1] += 1
    before, after = model(TOKENS), model(edited)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5], after[:, 5])


def test_without_causal_the_past_does_see_the_future():
    model = filled(dataclasses.replace(KINDS["gpt2"], causal=False))
    edited = TOKENS.clone()
    edited[:, -1] += 1
    assert (model(TOKENS)[:, 0] - model(edited)[:, 0]).abs().max() > 1e-3
    run = model.run(TOKENS)
    assert (run.pattern(0) > 0).all()
    with pytest.raises(ValueError, match="a cache needs a causal model"):
        model(TOKENS, cache=Cache())


@few
@given(scenes())
def test_b4_the_final_stream_unembedded_is_the_logits(scene):
    """A helper used the norm's scale and forgot its weights."""
    model, tokens = scene
    run = model.run(tokens)
    x, final = run.final, model.norm_final
    if model.config.norm == "layer":
        x = layer_norm(x, final.gain, final.bias, final.eps)
    elif model.config.norm == "rms":
        x = rms_norm(x, final.gain, final.eps)
    logits = x @ model.W_U
    assert_close(logits if model.b_U is None else logits + model.b_U, run.logits)


@few
@given(scenes(layers=1))
def test_b8_the_heads_and_the_bias_once_are_the_layers_write(scene):
    """A split with the wrong blocks of W_O has the right shape."""
    model, tokens = scene
    run, b_O = model.run(tokens), model.layers[0].b_O
    heads = run.out(0).sum(dim=-3)
    assert_close(heads if b_O is None else heads + b_O, run.attn_out(0))
    for number in range(model.config.n_heads):
        assert_close(
            run.out(0)[..., number, :, :], run.z(0)[..., number, :, :] @ model.heads(0)[number].W_O
        )


@few
@given(scenes())
def test_b10_folding_changes_no_logit(scene):
    model, tokens = scene
    if model.config.norm and model.config.positions == "shortformer":
        with pytest.raises(ValueError, match="shortformer positions are added behind the norm"):
            fold(model)
        return
    folded = fold(model)
    assert_close(folded(tokens), model(tokens))
    for name, weight in folded.named_parameters():
        assert not name.endswith("gain") or (weight == 1).all()


@few
@given(scenes())
def test_centring_moves_logits_by_a_constant_for_each_position(scene):
    model, tokens = scene
    if model.config.norm != "layer" or model.config.positions == "shortformer":
        return
    centred = fold(model, centre_writers=True, centre_unembedding=True)
    run = centred.run(tokens)
    assert_close(run.logits.log_softmax(dim=-1), model(tokens).log_softmax(dim=-1))
    assert run.logits.mean(dim=-1).abs().max() < 1e-10
    if model.config.positions != "sinusoidal":  # waves are no weight and keep their mean
        assert all(write.mean(dim=-1).abs().max() < 1e-10 for write in run.ledger().writes)


def test_writers_are_not_centred_under_a_norm_that_reads_the_mean():
    with pytest.raises(ValueError, match="centre_writers needs layer norm"):
        fold(filled(KINDS["llama"]), centre_writers=True)


def test_folding_leaves_the_model_as_it_was():
    model = filled(KINDS["gpt2"])
    kept = copy.deepcopy(model.state_dict())
    fold(model, centre_writers=True, centre_unembedding=True).W_E.data.zero_()
    assert all(torch.equal(t, kept[name]) for name, t in model.state_dict().items())


def test_b10_a_post_norm_model_is_refused():
    """Folding was advertised as exact and changed the logits."""
    with pytest.raises(
        ValueError, match="norm_first = False: a post-norm block normalises the str"
    ):
        dataclasses.replace(KINDS["gpt2"], norm_first=False)


# Against plain torch


def test_a_gpt2_written_out_by_hand():
    """Every line of the forward pass in torch's own words, no function of ours."""
    config = KINDS["gpt2"]
    model = filled(config)
    x = model.W_E[TOKENS] + model.W_pos[:6]
    future = torch.ones(6, 6).triu(1).bool()
    for b in model.layers:
        n = functional.layer_norm(x, (12,), b.norm_attn.gain, b.norm_attn.bias)
        for h in range(3):
            q, k, v = (n @ W[h] + c[h] for W, c in ((b.W_Q, b.b_Q), (b.W_K, b.b_K), (b.W_V, b.b_V)))
            A = (q @ k.mT / 2).masked_fill(future, -torch.inf).softmax(dim=-1)
            x = x + A @ v @ b.W_O[h]
        x = x + b.b_O
        n = functional.layer_norm(x, (12,), b.norm_mlp.gain, b.norm_mlp.bias)
        x = x + functional.gelu(n @ b.W_in + b.b_in, approximate="tanh") @ b.W_out + b.b_out
    x = functional.layer_norm(x, (12,), model.norm_final.gain, model.norm_final.bias)
    assert_close(model(TOKENS), x @ model.W_E.T)


def test_grouped_heads_read_the_keys_of_their_group():
    model = filled(KINDS["llama"])
    run = model.run(TOKENS)
    assert torch.equal(run.k(0)[:, 0], run.k(0)[:, 1])
    assert not torch.equal(run.k(0)[:, 1], run.k(0)[:, 2])
    assert not torch.equal(run.q(0)[:, 0], run.q(0)[:, 1])


def test_shortformer_positions_reach_queries_and_keys_and_nothing_else():
    model = filled(KINDS["attention only"])
    moved = copy.deepcopy(model)
    with torch.no_grad():
        moved.W_pos += 1
    before, after = model.run(TOKENS), moved.run(TOKENS)
    assert torch.equal(before.v(0), after.v(0))
    assert torch.equal(before.resid_pre(0), model.W_E[TOKENS])
    assert not torch.equal(before.k(0), after.k(0))
    assert_close(
        before.q(0),
        torch.stack(
            [(before.resid_pre(0) + model.W_pos[:6]) @ W for W in model.heads(0).W_Q], dim=1
        ),
    )


def test_b31_each_weight_does_its_own_work():
    model = filled(KINDS["attention only"])
    run = model.run(TOKENS)
    same = {}
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        other = copy.deepcopy(model)
        with torch.no_grad():
            getattr(other.layers[0], name).mul_(1.5)
        again = other.run(TOKENS)
        steps = ("q", "k", "v", "pattern", "z", "out")
        same[name] = {s for s in steps if torch.equal(getattr(run, s)(0), getattr(again, s)(0))}
    assert same["W_Q"] == {"k", "v"}
    assert same["W_K"] == {"q", "v"}
    assert same["W_V"] == {"q", "k", "pattern"}
    assert same["W_O"] == {"q", "k", "v", "pattern", "z"}


# What a run keeps


@kinds
def test_a_run_keeps_the_stream_and_the_logits(kind):
    model = filled(KINDS[kind])
    run = model.run(TOKENS)
    boundaries = model.config.n_layers * (2 if model.config.d_mlp else 1) + 1
    assert len(run.stream) == boundaries
    run.pattern(0)
    assert not run._known
    assert not run.logits.requires_grad


def test_a_run_remembers_if_asked_to():
    run = filled(KINDS["gpt2"]).run(TOKENS, remember=True)
    assert run.pattern(1) is run.pattern(1)
    assert run.q(-1) is run.q(1)


def test_gradients_flow_through_a_run_if_asked_to():
    model = filled(KINDS["gpt2"])
    model.run(TOKENS, grad=True).pattern(1)[..., -1, 0].sum().backward()
    assert model.layers[0].W_V.grad is not None
    assert model.layers[1].W_V.grad is None  # the last layer's values come after its pattern


def test_b21_what_may_not_be_seen_is_minus_infinity():
    run = filled(KINDS["gpt2"]).run(TOKENS)
    assert torch.equal(run.scores(0).isneginf()[0, 0], ~causal_mask(6))


def test_what_is_not_there_says_so():
    run = filled(KINDS["attention only"]).run(TOKENS)
    for ask in (run.resid_mid, run.neurons, run.mlp_out):
        with pytest.raises(ValueError, match="attention only, d_mlp = 0"):
            ask(0)
    with pytest.raises(IndexError, match="no layer 2 among n_layers = 2"):
        run.pattern(2)


# Tokens


def test_b30_too_many_positions():
    """A cryptic index error sent people looking for a bad token."""
    model = filled(Config(4, 2, 2, 1, 7, 4))
    with pytest.raises(ValueError, match="5 positions, but the model has n_ctx = 4"):
        model([1, 2, 3, 4, 5])
    cache = Cache()
    model([1, 2, 3], cache=cache)
    with pytest.raises(ValueError, match="5 positions, but the model has n_ctx = 4"):
        model([4, 5], cache=cache)
    assert cache.pos == 3


@pytest.mark.parametrize("token", [7, -1])
def test_b30_a_token_that_is_not_in_the_vocabulary(token):
    with pytest.raises(ValueError, match=rf"token {token} is not in the vocabulary: d_vocab = 7"):
        filled(Config(4, 2, 2, 1, 7, 4)).run([0, token])


@pytest.mark.parametrize("tokens", [[0.5, 1.0], [True, False], [[1, 2], [3]], 3, [], "the"])
def test_b30_what_is_no_row_of_tokens(tokens):
    with pytest.raises(TypeError, match="tokens are"):
        filled(Config(4, 2, 2, 1, 7, 4)).run(tokens)


def test_b30_a_list_is_a_row_of_tokens():
    model = filled(Config(4, 2, 2, 1, 7, 4))
    assert torch.equal(model([1, 2]), model(torch.tensor([1, 2], dtype=torch.uint8)))


@pytest.mark.parametrize("n_ctx", [1, 2])
def test_a19_a_context_that_is_too_small_hides_nothing_less(n_ctx):
    """A 1 × 1 mask broadcast to "all visible"."""
    with pytest.raises(ValueError, match=f"3 positions, but the model has n_ctx = {n_ctx}"):
        filled(Config(4, 2, 2, 1, 7, n_ctx)).run([1, 2, 3])


def test_real_is_one_bool_for_each_token():
    with pytest.raises(ShapeError, match=r"real is bool\[2\] and tokens are int64\[3\]"):
        filled(Config(4, 2, 2, 1, 7, 4)).run([1, 2, 3], real=torch.ones(2, dtype=torch.bool))


def test_b23_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="no_such_option"):
        filled(Config(4, 2, 2, 1, 7, 4)).run([1], no_such_option=1)


def test_b23_a_hook_of_the_readers_own_fires_once_and_stays():
    model, fired = filled(KINDS["gpt2"]), []
    handle = model.layers[0].register_forward_hook(lambda *_: fired.append(1))

    def raises(z):
        raise RuntimeError("inside")

    model.run(TOKENS)
    with pytest.raises(RuntimeError, match="inside"):
        model.run(TOKENS).with_({"1.z": raises})
    model(TOKENS)
    assert len(fired) == 3  # with_ began behind it
    handle.remove()


# Generating


def test_generation_takes_the_likeliest_token_each_time():
    model = filled(KINDS["gpt2"])
    tokens = TOKENS[:, :3]
    for _ in range(4):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(dim=-1)], dim=-1)
    assert torch.equal(model.generate(TOKENS[:, :3], 4), tokens)


def test_generation_with_padding_on_the_left():
    model = filled(KINDS["gpt2"])
    padded = torch.cat([torch.zeros(2, 2, dtype=torch.int64), TOKENS[:, :3]], dim=-1)
    real = torch.tensor([False, False, True, True, True]).expand(2, 5)
    assert torch.equal(
        model.generate(padded, 3, real=real)[:, 2:], model.generate(TOKENS[:, :3], 3)
    )
    with pytest.raises(ValueError, match="the last token is padding"):
        model.generate(padded, 3, real=real.flip(-1))


def test_generation_can_be_drawn_and_repeated():
    model = filled(KINDS["gpt2"])

    def draw(seed):
        dice = torch.Generator().manual_seed(seed)
        return model.generate([1, 2], 6, temperature=1.0, generator=dice)

    assert torch.equal(draw(0), draw(0))
    assert any(not torch.equal(draw(0), draw(seed)) for seed in range(1, 4))
    with pytest.raises(ValueError, match=r"temperature = 1\.0 with generator = None"):
        model.generate([1, 2], 6, temperature=1.0)


def test_generation_beyond_the_positions_is_refused():
    with pytest.raises(ValueError, match=r"3 tokens and 7 new ones make 10 .* ask for 0 to 6"):
        filled(KINDS["gpt2"]).generate([1, 2, 3], 7)


# Weights


def test_b12_a_tied_unembedding_cannot_be_edited_through():
    """Centring one end changed the other."""
    model = filled(KINDS["gpt2"])
    kept = model.W_E.detach().clone()
    with torch.no_grad():
        model.W_U.sub_(1)
        free = untie(model)
        free.W_U.sub_(free.W_U.mean(dim=-1, keepdim=True))
    assert torch.equal(model.W_E, kept)
    assert torch.equal(free.W_E, kept)
    assert not torch.equal(free(TOKENS), model(TOKENS))


def test_b12_a_tied_weight_is_counted_once():
    tied = Config(4, 2, 2, 0, 7, 4, positions=None, tied=True)
    free = dataclasses.replace(tied, tied=False)
    count = [sum(p.numel() for p in Transformer(config).parameters()) for config in (tied, free)]
    assert count == [28, 56]


@kinds
def test_a28_nothing_is_lost_on_the_meta_device(kind):
    """A mask kept in a buffer came back as random memory."""
    model = filled(KINDS[kind], dtype=torch.float32)
    with torch.device("meta"):
        empty = Transformer(KINDS[kind])
    assert empty(torch.zeros(2, 3, dtype=torch.int64, device="meta")).shape == (
        2,
        3,
        model.config.d_vocab,
    )
    assert not list(empty.buffers())
    again = empty.to_empty(device="cpu")
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(TOKENS), model(TOKENS))


@kinds
def test_a21_there_is_no_dropout(kind):
    model = filled(KINDS[kind])
    assert torch.equal(model.train()(TOKENS), model.eval()(TOKENS))
    assert "no dropout" in (__import__("tinyattn.model").model.__doc__ or "")


def test_the_first_weights_are_the_same_every_time_and_disturb_no_generator():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, two = Transformer(KINDS["gpt2"]), Transformer(KINDS["gpt2"])
    other = Transformer(KINDS["gpt2"], generator=torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.W_E, two.W_E)
    assert not torch.equal(one.W_E, other.W_E)


def test_a_new_model_keeps_its_stream_of_one_size():
    config = Config(64, 16, 4, 6, 64, 64, d_mlp=128, norm="layer")
    run = Transformer(config).run(torch.arange(64))
    size = [x.std().item() for x in run.stream]
    assert 1.2 < size[0] < 1.6  # a token and a position of variance 1 each
    assert size[-1] < 2 * size[0]


def test_it_learns():
    """Three steps of gradient descent on one row lower its loss."""
    model = Transformer(Config(16, 8, 2, 2, 7, 6, d_mlp=8, norm="rms"))
    step = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        loss = functional.cross_entropy(
            model(TOKENS[:, :-1]).flatten(0, 1), TOKENS[:, 1:].flatten()
        )
        losses.append(loss.item())
        step.zero_grad()
        loss.backward()
        step.step()
    assert losses == sorted(losses, reverse=True)
    assert all(p.grad is not None for p in model.parameters())


@kinds
def test_it_compiles(kind):
    model = filled(KINDS[kind], dtype=torch.float32)
    compiled = torch.compile(model, backend="eager")
    assert_close(compiled(TOKENS), model(TOKENS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_goes_in_and_comes_out(dtype):
    model = filled(KINDS["llama"], dtype=dtype)
    run = model.run(TOKENS)
    assert run.logits.dtype == run.pattern(0).dtype == dtype
    assert run.logits.isfinite().all()


def test_heads_are_views_of_the_weights():
    model = filled(KINDS["attention only"])
    assert model.heads(1).W_Q.data_ptr() == model.layers[1].W_Q.data_ptr()
    assert len(model.heads(-1)) == 3
    with pytest.raises(IndexError, match="no layer 2 among n_layers = 2"):
        model.heads(2)


# What does not fit


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_kv_heads": 2}, "n_heads = 3 cannot be divided among n_kv_heads = 2"),
        ({"positions": "rotary", "d_head": 3}, r"'rotary' pair the entries, but d_head = 3"),
        ({"positions": "sinusoidal", "d_model": 5}, r"but d_model = 5 is odd"),
        ({"positions": "alibi"}, "positions = 'alibi': choose among 'learned'"),
        ({"norm": "batch"}, "norm = 'batch': choose among 'layer', 'rms', None"),
        ({"activation": "swish"}, "activation = 'swish': choose among 'relu'"),
        ({"gated": True}, "gated = True, but d_mlp = 0"),
        ({"n_heads": 0}, "n_heads = 0: give 1 or more"),
        ({"n_layers": -1}, "n_layers = -1: give 0 or more"),
        ({"eps": 0.0}, "eps = 0.0: give a finite number above 0"),
    ],
)
def test_a_config_that_does_not_fit(wrong, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(KINDS["attention only"], **wrong)


@pytest.mark.parametrize(
    "wrong", [{"d_model": 8.0}, {"n_heads": True}, {"tied": 1}, {"theta": "1"}]
)
def test_a_config_of_the_wrong_kind(wrong):
    with pytest.raises(TypeError, match=f"{next(iter(wrong))} = "):
        dataclasses.replace(KINDS["attention only"], **wrong)


def test_no_layers_is_a_bigram_table():
    model = filled(Config(4, 2, 2, 0, 7, 4, positions=None))
    assert_close(model([3, 5]), (model.W_E @ model.W_U)[[3, 5]])


@pytest.mark.parametrize("tokens", [None, {1, 2}, "ab", [[1], [1, 2]]])
def test_what_is_no_array_of_tokens_is_named(tokens):
    model = Transformer(Config(8, 4, 2, 2, d_vocab=5, n_ctx=6))
    with pytest.raises(ShapeError, match="tokens are not one array of whole numbers"):
        model(tokens)


def test_no_tokens_at_all_are_named():
    with pytest.raises(ShapeError, match="tokens are empty: give at least one"):
        Transformer(Config(8, 4, 2, 2, d_vocab=5, n_ctx=6)).run([])


def test_what_a_run_is_asked_for_wrongly_is_named():
    run = Transformer(Config(8, 4, 2, 2, d_vocab=5, n_ctx=6)).run([1, 2])
    for layer in (0.5, "a", True):
        with pytest.raises(TypeError, match=f"layer is {layer!r}: give a whole number"):
            run.pattern(layer)
    for direction in (torch.ones(8).double(), torch.ones(8, device="meta"), [1.0] * 8):
        with pytest.raises(ShapeError, match=r"Run\.along: direction is"):
            run.along(direction)


def test_real_as_a_list_or_elsewhere_is_named():
    model = Transformer(Config(8, 4, 2, 2, d_vocab=5, n_ctx=6))
    with pytest.raises(ShapeError, match=r"real is a list: give a tensor"):
        model([1, 2], real=[True, False])
    with pytest.raises(ShapeError, match="on meta and cpu"):
        model([1, 2], real=torch.ones(2, dtype=torch.bool, device="meta"))


def test_a_head_is_asked_for_by_a_whole_number():
    heads = Transformer(Config(8, 4, 2, 2, d_vocab=5, n_ctx=6)).heads(0)
    for head in (0.5, True, slice(1)):
        with pytest.raises(TypeError, match=r"Heads: head is .*: give one whole number"):
            heads[head]


@pytest.mark.parametrize("name", ["eps", "theta"])
def test_an_infinite_choice_is_refused(name):
    with pytest.raises(ValueError, match=f"Config: {name} = inf: give a finite number"):
        Config(8, 4, 2, 2, d_vocab=5, n_ctx=6, **{name: math.inf})
