"""Siblings of the cases: the same kinds of fault in places the cases do not name.

A test is named after its case; the docstring says what happened here.
"""

import copy
import json
import math
import re
import warnings

import pytest
import torch
from draws import normal
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.testing import assert_close

from tinyattn import (
    Config,
    History,
    LowRank,
    Schedule,
    ScorePaths,
    Stream,
    Terms,
    Tokens,
    Transformer,
    Vocabulary,
    ablate,
    causal_mask,
    composition,
    decomposed,
    depends,
    detect,
    draw_curve,
    draw_heads,
    draw_matrix,
    draw_paths,
    draw_pattern,
    draw_stream,
    facts,
    fold,
    from_gpt2,
    from_hf,
    from_torch,
    from_transformer_lens,
    layer_norm,
    load_model,
    logit_attribution,
    mix,
    patch,
    paths,
    pattern,
    previous_token_score,
    repeats,
    rms_norm,
    rotary,
    save_model,
    score_paths,
    show,
    svd_tokens,
    to_transformer_lens,
    train,
    untie,
)
from tinyattn.batches import mixed, windows
from tinyattn.block import Cache
from tinyattn.shapes import ShapeError
from tinyattn.weights import read_weights, write_weights

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


def test_a16_a_cache_can_be_copied():
    """A deep copy was refused as another model's; a shallow one shared what came later."""
    cache = Cache()
    MODEL([1, 2], cache=cache)
    others = [cache.copy(), copy.copy(cache), copy.deepcopy(cache)]
    for token, one in enumerate(others):
        assert_close(MODEL([token], cache=one), MODEL([1, 2, token])[2:])
    for token, one in enumerate(others):
        assert_close(MODEL([3], cache=one), MODEL([1, 2, token, 3])[3:])
    assert_close(MODEL([4], cache=cache), MODEL([1, 2, 4])[2:])


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


GPT2 = {"n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 6, "n_positions": 5}


def gpt2(**more) -> tuple[dict, dict]:
    """A small state dict under GPT-2's names, and its config."""
    shapes = {"wte.weight": (6, 8), "wpe.weight": (5, 8)}
    shapes |= {f"{norm}.{what}": (8,) for norm in ("ln_f", "h.0.ln_1", "h.0.ln_2")
               for what in ("weight", "bias")}  # fmt: skip
    for name, shape in (("attn.c_attn", (8, 24)), ("attn.c_proj", (8, 8)),
                        ("mlp.c_fc", (8, 32)), ("mlp.c_proj", (32, 8))):  # fmt: skip
        shapes |= {f"h.0.{name}.weight": shape, f"h.0.{name}.bias": shape[1:]}
    state = {name: normal(n, *shape).float() for n, (name, shape) in enumerate(shapes.items())}
    return GPT2, {**state, **more}


LLAMA = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 6,
         "num_hidden_layers": 1, "max_position_embeddings": 7, "intermediate_size": 10}  # fmt: skip


def llama(**more) -> dict:
    shapes = {"embed_tokens": (6, 8), "norm": (8,)}
    shapes |= {f"layers.0.{norm}_layernorm": (8,) for norm in ("input", "post_attention")}
    shapes |= {f"layers.0.self_attn.{what}_proj": (8, 8) for what in "qkvo"}
    shapes |= {f"layers.0.mlp.{what}_proj": (10, 8) for what in ("up", "gate")}
    shapes |= {"layers.0.mlp.down_proj": (8, 10)}
    state = {f"model.{name}.weight": normal(n, *s).float() for n, (name, s) in
             enumerate(shapes.items())}  # fmt: skip
    return {**state, "lm_head.weight": normal(99, 6, 8).float(), **more}


@pytest.mark.parametrize(
    "name", ["h.1.ln_1.weight", "h.0.attn.lora_A", "h.0.crossattention.c_attn.weight"]
)
def test_b13_a_weight_that_no_part_takes_is_refused(name):
    """A layer too many, or an adapter, was left out, and the logits were of another model."""
    with pytest.raises(ValueError, match=rf"does not fit its config: nothing here takes {name}"):
        from_gpt2(gpt2(**{name: torch.ones(8)}))
    norm = {f"model.layers.{n}.self_attn.q_norm.weight": torch.ones(4) for n in range(6)}
    with pytest.raises(ValueError, match=r"nothing here takes layers.0.*, and 2 more"):
        from_hf((LLAMA, llama(**norm)))


def test_b13_masks_of_old_checkpoints_are_left_out():
    masks = {"h.0.attn.bias": torch.ones(1, 1, 5, 5), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    assert torch.equal(from_gpt2(gpt2(**masks))([1, 2]), from_gpt2(gpt2())([1, 2]))


def test_b13_a_bias_of_the_mlp_alone_is_not_lost():
    """Only biases of attention were looked for."""
    bias = {"model.layers.0.mlp.up_proj.bias": torch.arange(10.0)}
    with_it, without = (from_hf((LLAMA, llama(**more))) for more in (bias, {}))
    assert with_it.layers[0].b_in.tolist() == list(range(10))
    assert not torch.equal(with_it([1, 2]), without([1, 2]))


def test_b12_a_tie_that_the_weights_do_not_have_is_refused():
    """The unembedding of the file was dropped for the embedding."""
    with pytest.raises(ValueError, match=r"said to be tied, but lm_head.weight is not the embed"):
        from_gpt2(gpt2(**{"lm_head.weight": torch.ones(6, 8)}))
    config, state = gpt2()
    assert from_gpt2((config, {**state, "lm_head.weight": state["wte.weight"]})).config.tied
    with pytest.raises(ValueError, match=r"said to be tied"):
        from_hf(({**LLAMA, "tie_word_embeddings": True}, llama()))


def test_b13_a_config_that_is_another_is_named():
    """Half-turned heads were turned whole; 0 heads ended in a division by zero."""
    for more in (
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"partial_rotary_factor": 0.5}},
    ):
        with pytest.raises(ValueError, match=r"partial_rotary_factor = 0.5: only 1.0 is built"):
            from_hf(({**LLAMA, **more}, llama()))
    for n_head in (0, "2", None, True):
        with pytest.raises(ValueError, match=rf"has n_head = {n_head!r}, but must have a whole"):
            from_gpt2(({**GPT2, "n_head": n_head}, {}))


def test_b13_a_pair_may_hold_a_config_object_and_nothing_else():
    class Given:
        def to_dict(self):
            return GPT2

    assert from_gpt2((Given(), gpt2()[1])).config.d_model == 8
    for wrong in ((GPT2, gpt2()[1], 1), (GPT2, [1]), MODEL):
        with pytest.raises(TypeError, match=r"is no model: give a folder"):
            from_gpt2(wrong)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, "float16"])
def test_b12_a_dtype_that_cannot_hold_weights_is_refused(dtype, tmp_path):
    """int8 rounded every weight to a whole number, and said nothing."""
    path = tmp_path / "model.safetensors"
    save_model(MODEL, path)
    for call in (
        lambda: save_model(MODEL, path, dtype=dtype),
        lambda: load_model(path, dtype=dtype),
        lambda: from_gpt2(gpt2(), dtype=dtype),
    ):
        with pytest.raises(ValueError, match=r"dtype is .*: give a floating one"):
            call()
    assert torch.equal(load_model(path).W_E, MODEL.W_E)


def test_b12_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(TypeError, match=r"a Run is no model: give a Transformer"):
        save_model(MODEL.run([1]), tmp_path / "m")
    with pytest.raises(TypeError, match=r"the note 'step' is 3: give a string"):
        save_model(MODEL, tmp_path / "m", step=3)
    with pytest.raises(FileNotFoundError, match=r"no folder .*gone: make it first"):
        save_model(MODEL, tmp_path / "gone" / "m")
    for name, t in (("W", [1.0]), ("W", torch.eye(2).to_sparse()), ("__metadata__", torch.ones(1))):
        with pytest.raises(ValueError, match=rf"{name} is "):
            write_weights(tmp_path / "m", {name: t})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "header",
    [[], 3, {"a": 3}, {"a": {}}, {"__metadata__": 3}, {"a": {"shape": 1, "data_offsets": 2}},
     {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4]}},
     {"a": {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]}},
     {"a": {"dtype": 3, "shape": [1], "data_offsets": [0, 4]}}],
)  # fmt: skip
def test_b13_a_damaged_header_is_named(header, tmp_path):
    """It ended in KeyError: 'data_offsets', or worse."""
    text, path = json.dumps(header).encode(), tmp_path / "w.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(ValueError, match=r"w\.safetensors is not a safetensors file"):
        read_weights(path)


@pytest.mark.parametrize("config", ["{}", "[]", "nope", json.dumps({**vars(CONFIG), "new": 1})])
def test_b13_a_damaged_config_is_named(config, tmp_path):
    write_weights(tmp_path / "m", dict(MODEL.state_dict()), {"config": config})
    with pytest.raises(ValueError, match=r"holds a config that is none \(.*\): damaged file"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("t", [torch.ones(6, 8, device="meta"), [1.0], torch.ones(6, 8) * 1j])
def test_b13_weights_without_numbers_are_named(t):
    """Complex ones lost their imaginary part."""
    with pytest.raises(ValueError, match=r"W_E is .*: give tensors of real numbers"):
        from_gpt2(gpt2(**{"wte.weight": t}))


def test_b10_two_norms_of_different_eps_are_refused():
    """The second norm took the eps of the first."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, norm_first=True)
    layer.norm2.eps = 0.5
    with pytest.raises(ValueError, match=r"norm1 has eps = 1e-05 and norm2 0.5"):
        from_torch(layer)
    layer.norm2 = torch.nn.RMSNorm(8)
    with pytest.raises(ValueError, match=r"norm2 is RMSNorm.*give a layer norm with weights"):
        from_torch(layer)


def test_a23_a_hidden_nan_has_no_gradient_either():
    """0 × NaN in the backward pass reached the scores of every row."""
    v = torch.tensor([[1.0], [2.0], [math.nan]], requires_grad=True)
    S = torch.zeros(3, 3, requires_grad=True)
    z = mix(pattern(S, causal_mask(3)), v)
    to_scores, to_values = torch.autograd.grad(z[:2].sum(), [S, v])
    assert to_scores.tolist() == [[0, 0, 0], [-0.25, 0.25, 0], [0, 0, 0]]
    assert to_values.flatten().tolist() == [1.5, 0.5, 0]


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
def test_a1_a_norm_that_would_divide_by_zero_is_refused(norm):
    """With eps = 0 a position of zeros became NaN, and its parts infinite."""
    x, zero = normal(0, 2, 4), torch.zeros(2, 4, dtype=torch.float64)
    for call in (lambda: norm(zero, eps=0.0), lambda: norm(x, eps=0.0, scale_of=zero)):
        with pytest.raises(ValueError, match=r"position 0 of float64\[2, 4\] is .*give eps = 1e-5"):
            call()
    assert norm(x, eps=0.0).isfinite().all()
    assert norm(zero).isfinite().all()


def test_a1_only_layer_norm_divides_by_zero_for_a_constant():
    ones = torch.ones(1, 4)
    assert rms_norm(ones, eps=0.0).tolist() == ones.tolist()
    with pytest.raises(ValueError, match=r"position 0 of float32\[1, 4\] is constant"):
        layer_norm(ones, eps=0.0)


def test_a17_small_whole_numbers_are_places_too():
    """100 + 100 is -56 in int8, and the keys were turned to another place."""
    t, near = normal(0, 3, 4), torch.tensor([100, 101, 102], dtype=torch.int8)
    assert torch.equal(rotary(t, places=near, start=100), rotary(t, places=near.long() + 100))
    assert torch.equal(rotary(t, start=100), rotary(t, places=torch.arange(100, 103)))


@pytest.mark.parametrize("other", [[1.0, 2.0], 2, None, torch.ones(2).numpy()])
def test_b1_the_other_side_of_a_product_is_named(other):
    """numpy said "gufunc core with signature (n?,k),(k,m?)", from either side."""
    m = LowRank(torch.ones(2, 1), torch.ones(1, 2))
    kind = type(other).__name__
    for product in (lambda: m @ other, lambda: other @ m):
        with pytest.raises(TypeError, match=rf"the other side of @ is a {kind}, but must be a ten"):
            product()


def test_b1_whole_numbers_are_converted_to_the_factors_dtype():
    m = LowRank(torch.ones(2, 1), torch.ones(1, 2))
    for product in (lambda: m @ torch.ones(2).long(), lambda: torch.ones(2).long() @ m):
        with pytest.raises(TypeError, match=r"convert one, \.to\(torch\.float32\)"):
            product()


def test_b27_a_trace_of_nan_is_refused_like_the_eigenvalues():
    m = LowRank(torch.tensor([[math.nan], [1.0]]), torch.ones(1, 2))
    with pytest.raises(ValueError, match=r"left\[0, 0\] is nan"):
        m.trace()


@pytest.mark.parametrize(
    ("dtype", "scale"), [(torch.float16, 1e2), (torch.float16, 1e-4), (torch.float32, 1e25),
                         (torch.float32, 1e-25)]
)  # fmt: skip
@pytest.mark.parametrize("kind", ["Q", "K", "V"])
def test_b26_the_size_of_the_weights_does_not_matter(dtype, scale, kind):
    """Small heads composed with nothing, large ones were called infinite."""
    first, second = (LowRank(normal(n, 64, 4), normal(n + 1, 4, 64)) for n in (0, 2))
    wanted = composition(first, second, kind).item()
    first, second = (
        LowRank((m.left * scale).to(dtype), (m.right * scale).to(dtype)) for m in (first, second)
    )
    found = composition(first, second, kind)
    assert found.dtype == dtype
    assert found.item() == pytest.approx(wanted, rel=0.05 if dtype == torch.float16 else 1e-5)


def test_f13_a_circuit_without_values_is_named():
    meta = LowRank(torch.ones(4, 2, device="meta"), torch.ones(2, 4, device="meta"))
    with pytest.raises(ValueError, match=r"svd_tokens: full is .* on meta and has no values"):
        svd_tokens(meta, 1)


def test_b7_a_ledger_made_at_once_is_checked_like_one_that_is_written():
    """Of two writes of one name the second could not be asked for."""
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"Stream: 'a' writes twice"):
        Stream(("a", "a"), (x, x))
    with pytest.raises(
        ValueError, match=r"'a' writes float32\[2, 3\] and 'b' writes float32\[3, 3"
    ):
        Stream(("a", "b"), (x, torch.ones(3, 3)))
    with pytest.raises(ValueError, match=r"Terms: a name is there twice among a, a"):
        Terms(("a", "a"), x)
    with pytest.raises(ValueError, match=r"Terms: 1 names for 0 values"):
        Terms(("a",), torch.tensor(1.0))


def test_b29_a_stack_of_no_heads_is_named():
    with pytest.raises(ValueError, match=r"pattern is float32\[0, 3, 3\] and holds no head"):
        detect(torch.zeros(0, 3, 3), torch.eye(3).bool())


def test_d17_a_function_may_give_no_position_back():
    assert depends(lambda x: x[:0], torch.zeros(3, 2)).shape == (0, 3)


@pytest.mark.parametrize("token", ["cat", None, 1j, [[1], [1, 2]]])
def test_b4_a_token_that_is_none_is_named(token):
    with pytest.raises(TypeError, match=r"answer is .*, but must be"):
        logit_attribution(MODEL.run([1, 2]), token)


def test_b4_the_token_that_is_not_in_the_vocabulary_is_named_alone():
    """All of them were printed, over several lines."""
    with pytest.raises(ValueError, match=r"answer = 9 is not in the vocabulary"):
        logit_attribution(MODEL.run([1, 2]), torch.tensor([1, 9]))
    with pytest.raises(TypeError, match=r"run is a Transformer: give model.run\(tokens\)"):
        logit_attribution(MODEL, 1)


WORDS = Vocabulary.learn("abacabad", 5)
TEXT = torch.tensor(WORDS.encode("abacabad"))


def test_b30_a_vocabulary_names_what_it_does_not_hold():
    """-1 was the last token, and a token too large an IndexError of a tuple."""
    assert WORDS.decode(torch.tensor([1, 2])) == "ab"
    for number in (-1, 5):
        with pytest.raises(ValueError, match=rf"no token {number}: there are 5, so tokens are 0"):
            WORDS.decode([number])
    for wrong in ([1.0], "12", 3, [True]):
        with pytest.raises(TypeError, match=r"must be one row of whole numbers"):
            WORDS.decode(wrong)
    for call in (lambda: WORDS.encode(["a"]), lambda: Vocabulary.learn(["a"], 5)):
        with pytest.raises(TypeError, match=r"a list is no text: give one string"):
            call()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"tokens": ["a"]}', '{"tokens": [], "merges": [[5, 6]]}']
)
def test_b13_a_damaged_vocabulary_is_named(text, tmp_path):
    (tmp_path / "v.json").write_text(text)
    with pytest.raises(ValueError, match=r"v\.json holds no vocabulary \(.*\): damaged file"):
        Vocabulary.read(tmp_path / "v.json")


@pytest.mark.parametrize("odd", [[-1.0], [math.nan], [math.inf], []])
def test_b29_rows_are_not_drawn_by_frequencies_that_are_none(odd):
    """A token of negative frequency stood in every block."""
    frequencies = torch.cat([torch.ones(8), torch.tensor(odd)])
    with pytest.raises(ValueError, match=r"frequencies is .*: give one finite number, 0 or more"):
        repeats(2, 12, 9, periods=(2, 4), generator=torch.Generator(), frequencies=frequencies)


def test_a25_rows_that_cannot_be_cut_are_named():
    generator = torch.Generator()
    with pytest.raises(ValueError, match=r"batch = -1: give 0 rows or more"):
        repeats(-1, 12, 9, periods=(2, 4), generator=generator)
    for batch, length in ((-1, 3), (1, 0)):
        with pytest.raises(ValueError, match=rf"batch = {batch} and length = {length}"):
            windows(TEXT, batch, length, generator=generator)
    for text, share in ((TEXT, 2.0), (TEXT[:0], 0.5), (-TEXT, 0.5)):
        with pytest.raises(ValueError, match=r"give tokens from 0 on, and a share from 0 to 1"):
            mixed(text, 4, 4, 5, repeated=share, periods=(1, 2))


def test_a1_a_count_of_nothing_is_refused():
    """A mean over no place was NaN."""
    model = Transformer(Config(4, 4, 1, 1, d_vocab=5, n_ctx=3))
    with pytest.raises(ValueError, match=r"'d' never stands before another token in int64\[8\]"):
        facts.skip_trigram(TEXT, WORDS, ["b", "d", "a"])
    none = facts.held_out_rows(TEXT, 100)
    with pytest.raises(ValueError, match=r"rows is int64\[0, 101\]: give one or more"):
        facts.counted_loss(none, facts.bigrams(TEXT, 5))
    with pytest.raises(ValueError, match=r"rows is int64\[0, 101\]: give one or more"):
        facts.model_loss(model, none)
    with pytest.raises(ValueError, match=r"places = 0: give 1 or more"):
        facts.chances(model, TEXT, WORDS, ["c", "a", "b"], places=0)
    with pytest.raises(ValueError, match=r"2 words: give source, destination and out"):
        facts.skip_trigram(TEXT, WORDS, ["b", "a"])


@pytest.mark.parametrize("count", [facts.unigrams, facts.bigrams])
def test_b30_tokens_of_another_vocabulary_are_not_counted(count):
    """Counts had as many entries as the largest token asked for."""
    with pytest.raises(ValueError, match=r"tokens are 1 to 9, but d_vocab = 5"):
        count(torch.tensor([1, 9]), 5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps = 0: give a finite number, 1 or more"),
        ({"steps": 2.5}, "steps = 2.5: give a whole number"),
        ({"steps": 3, "rate": math.nan}, "rate = nan: give a finite number"),
        ({"steps": 3, "warm_up": -1}, "warm_up = -1: give a finite number, 0"),
        ({"steps": 3, "decay": True}, "decay = True: give a number"),
    ],
)
def test_a25_a_schedule_that_is_none_is_named(wrong, message):
    """No steps gave an empty history; a warm-up below 0 walked up the slope."""
    with pytest.raises((TypeError, ValueError), match=message):
        Schedule(**wrong)


def test_a25_what_cannot_be_trained_is_named():
    def start(draw=lambda _: torch.ones(4, 8, dtype=torch.long), **more):
        train(other(), draw, Schedule(3), show_progress=False, **more)

    for more in ({"every": 0}, {"keep_every": 0}):
        with pytest.raises(ValueError, match=r"count steps from 1 on"):
            start(**more)
    with pytest.raises(ValueError, match=r"give the measure 'loss' another name"):
        start(measures={"loss": lambda _: 1.0})
    for rows in (None, [[1, 2]], torch.rand(4, 8), torch.ones(8, dtype=torch.long)):
        with pytest.raises(TypeError, match=r"draw gives .*, but must give whole numbers"):
            start(lambda _, rows=rows: rows)
    for shape in ((4, 1), (0, 8)):
        with pytest.raises(ValueError, match=r"rows are int64\[.*: give one or more"):
            start(lambda _, shape=shape: torch.ones(shape, dtype=torch.long))


def test_a25_a_fall_that_was_not_measured_is_named():
    with pytest.raises(KeyError, match=r"no 'x'; measured are loss"):
        History([0], {"loss": [1.0]}).steepest("x")
    for values in ([], [1.0], [math.nan, 1.0]):
        with pytest.raises(ValueError, match=rf"'loss' has {len(values)} values for 2 steps"):
            History([0, 1], {"loss": values}).steepest("loss")


def test_a5_true_is_no_token_and_no_position():
    run = MODEL.run([1, 2, 3])
    with pytest.raises(TypeError, match=r"Paths\.logit: token is bool\[\], but must be"):
        paths(run).logit(True)
    with pytest.raises(TypeError, match=r"Paths\.logit: token is 'cat', but must be"):
        paths(run).logit("cat")
    for place in (True, 0.5):
        with pytest.raises(TypeError, match=r"at: key is .*: give a whole number"):
            score_paths(run, 1, 0).at(0, place)


def test_b23_one_name_is_one_path():
    """Its letters were looked up one by one."""
    run = MODEL.run([1, 2, 3])
    terms, of_scores = paths(run), score_paths(run, 1, 0)
    assert torch.equal(terms.sum("0.1 → 1.0"), terms["0.1 → 1.0"])
    assert torch.equal(of_scores.sum("embed", "0.0"), of_scores["embed", "0.0"].dense())


def templated(**words: int) -> Tokenizer:
    """Words alone, "a" not among them, and a template that puts a start in front."""
    made = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "hello": 2, "world": 3, **words}))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def test_b17_a_start_is_found_where_a_is_no_word():
    """The template was tried on "a" alone; a vocabulary without it was said to have no start."""
    made = templated()
    made.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 0)])
    vocabulary = Tokens(made)
    assert vocabulary.encode("hello world").tolist() == [0, 2, 3]
    assert vocabulary.answer("hello") == 2


def test_b18_an_end_is_no_start():
    made = templated()
    made.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 1)])
    assert Tokens(made).encode("hello world").tolist() == [2, 3]
    made.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", None, [("<s>", 0), ("</s>", 1)]
    )
    assert Tokens(made).encode("hello world").tolist() == [0, 2, 3]


def test_b16_what_is_no_start_token_is_named(tmp_path):
    """0 and '' were taken for nothing said; a damaged file ended in KeyError: 'content'."""
    with pytest.raises(TypeError, match=r"start_token is 0: give it as it is written"):
        Tokens(templated(), start_token=0)
    with pytest.raises(ValueError, match=r"start_token = '' is not in the vocabulary"):
        Tokens(templated(), start_token="")
    templated().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": 3}')
    with pytest.raises(TypeError, match=r"start_token is 3"):
        Tokens(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": {}}')
    assert Tokens(tmp_path).start is None


def test_a5_true_is_no_token_of_a_vocabulary():
    vocabulary = Tokens(templated(), start_token="<s>")
    with pytest.raises(TypeError, match=r"tokens are \[True\], but must be one row of whole num"):
        vocabulary.words([True])
    assert vocabulary.words(iter([0, 1])) == vocabulary.words([0, 1])  # read once, not emptied
    with pytest.raises(TypeError, match=r"start is 'no': give True, False"):
        vocabulary.encode("hello", start="no")


def test_e3_a_curve_of_very_many_steps_stays_small():
    """Each of 100,000 steps had a point of its own: 4 MB."""
    steps = range(100_000)
    curve = draw_curve(steps, {"loss": [float(step % 7) for step in steps]})
    assert len(curve.svg) < 200_000
    peaks = [0.0] * 50_000
    peaks[31_415] = 9.0
    drawn = draw_curve(range(50_000), {"loss": peaks}).svg
    line = re.search(r'stroke-linejoin="round"[^>]* d="M([^"]*)"', drawn)
    assert line is not None
    heights = {point.split()[1] for point in line[1].split("L")}
    assert len(heights) == 2  # the one peak is among the points that are kept


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"values": [[1.0, 2.0]]}, "values are no lines by name"),
        ({"values": {1: [1.0, 2.0]}}, "values are no lines by name"),
        ({"values": {"a": ["1", "2"]}}, "'a' must be a list of numbers"),
        ({"values": {"a": [1.0, None]}}, "'a' must be a list of numbers"),
        ({"values": {"a": 3}}, "'a' must be a list of numbers"),
        ({"steps": ["0", "1"]}, "steps must be a list of numbers"),
        ({"steps": [False, True]}, "steps must be a list of numbers"),
        ({"mark": 3}, "mark is 3: give two of them"),
        ({"axes": ("step",)}, r"axes is \('step',\): give two of them"),
    ],
)
def test_e5_a_curve_of_what_are_no_numbers_is_named(wrong, message):
    """Strings were drawn as the numbers they spell."""
    with pytest.raises(TypeError, match=message):
        draw_curve(**{"steps": [0, 1], "values": {"a": [1.0, 2.0]}, **wrong})


def test_e5_all_heads_of_a_pattern_with_a_gradient_are_drawn_in_silence():
    """torch warned of a conversion to a scalar."""
    A = torch.eye(3, requires_grad=True).expand(2, 3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_heads(A)


def test_a25_kinds_are_named_in_words():
    with pytest.raises(TypeError, match=r"tokens is None, but must be a list of str$"):
        draw_pattern(torch.eye(2), None)
    with pytest.raises(
        TypeError, match=r"marks is \['0'\], but must be a dict of str by str or No"
    ):
        draw_heads(torch.eye(3).expand(2, 3, 3), marks=["0"])
    with pytest.raises(TypeError, match=r"must be Tensor: torch\.tensor\(matrix\)$"):
        show([[1.0]])


def test_a27_models_on_meta_are_read_changed_and_folded():
    with torch.device("meta"):
        model = other(norm="layer", biases=True, tied=True)
    run = model.run(torch.ones(2, 3, dtype=torch.long, device="meta"))
    for t in (
        logit_attribution(run, 1, heads=True).values,
        ablate(run, "0.head 1", "mean").logits,
        patch(run, run, "0.z", 1).logits,
        fold(model).W_U,
        untie(model)(run.tokens),
        model.generate(run.tokens, 2, show_progress=False),
    ):
        assert t.is_meta


def test_a4_a_ledger_under_autocast_is_of_the_streams_dtype():
    """Heads wrote bfloat16 to a stream of float32, and the ledger refused them."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run = other(d_mlp=4, norm="layer", biases=True).run([1, 2])
        ledger = run.ledger(heads=True)
        assert ledger.now.dtype == decomposed(run, heads=True).now.dtype == torch.float32
    assert (ledger.now - run.final).abs().max() < 0.1


def test_b10_what_is_no_model_is_named():
    run = MODEL.run([1])
    for call in (lambda: fold(run), lambda: untie(run), lambda: to_transformer_lens(run)):
        with pytest.raises(TypeError, match=r"a Run is no model: give a Transformer"):
            call()
    with pytest.raises(TypeError, match=r"a Transformer and a Config: give its state_dict\(\)"):
        from_transformer_lens(MODEL, CONFIG)


def test_e3_every_head_of_a_large_model_over_many_tokens_stays_small():
    """170 writers and 128 tokens: 2.6 MB, most of it names of attributes."""
    writes = normal(0, 170, 128)
    picture = draw_stream(writes, [f"w{n}" for n in range(170)], ["token"] * 128)
    assert len(picture.svg) < 2_000_000
    assert picture.svg.count("v8h-") == 171 * 128  # a bar for each write, and the sums


def test_b30_what_makes_no_model_is_named():
    """A seed in place of a generator was taken for none."""
    for wrong in (None, {"d_model": 8}):
        with pytest.raises(TypeError, match=r"Transformer: config is .*: give a Config"):
            Transformer(wrong)
    with pytest.raises(TypeError, match=r"Transformer: generator is 0: give a Generator"):
        Transformer(CONFIG, generator=0)


def test_a4_a_dtype_of_one_byte_and_rows_of_several_lengths_are_named():
    """Torch said "Internal error ... Please file an issue"."""
    with pytest.raises(TypeError, match=r"scores is float8_e4m3fn, but must be wider"):
        pattern(torch.zeros(2, 2).to(torch.float8_e4m3fn))
    rows = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)
    with pytest.raises(TypeError, match=r"x is nested, but must be of one length: pad it"):
        layer_norm(rows)


def test_e4_rows_of_small_patterns_that_do_not_sum_to_one_are_counted():
    """One picture of a pattern said so, many small ones did not."""
    stack = torch.eye(3).repeat(2, 1, 1)
    assert "sum to 1" not in draw_heads(stack).svg
    stack[0, 2] = 0.25
    assert "1 row does not sum to 1." in draw_heads(stack).svg
    stack[1, :2] = 0.25
    assert "3 rows do not sum to 1." in draw_heads(stack).svg


def test_e5_an_arrow_of_two_signs_is_refused():
    """The path was drawn as a source of that name, without a stop."""
    with pytest.raises(ValueError, match=r"'0.0 -> 1.0' has no arrow that is read: write '0.0 → 1"):
        draw_paths(["0.0 -> 1.0"], torch.ones(1))


def test_b7_scores_of_no_paths_are_refused():
    with pytest.raises(ValueError, match=r"ScorePaths: 0 queries and 1 keys: give one or more"):
        ScorePaths({}, {"embed": torch.ones(2, 1)})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "[]", r"config\.json holds a list in place of names"),
        (
            "model.safetensors.index.json",
            "{}",
            r"index\.json does not say which weight is in which",
        ),
        ("model.safetensors.index.json", '{"weight_map": {"a": 3}}', r"does not say which weight"),
    ],
)
def test_b13_a_damaged_folder_is_named(name, text, message, tmp_path):
    """It ended in "'list' object has no attribute 'get'"."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).write_text(text)
    write_weights(tmp_path / "model.safetensors", {})
    with pytest.raises(ValueError, match=message):
        from_hf(tmp_path)


def test_b30_a_path_that_is_none_is_said(tmp_path):
    """A raw error, and half a file beside the folder; or a folder was said to be missing."""
    for call in (lambda path: save_model(MODEL, path), load_model):
        with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
            call(tmp_path)
        with pytest.raises(TypeError, match="path is 3: give a string or a Path"):
            call(3)
    assert not list(tmp_path.parent.glob("*.partial"))


def test_a25_the_remedy_is_one_for_this_call():
    """The first spoke of tokens, the second of torch's step, the last of devices."""
    with pytest.raises(ValueError, match=r"float32\[1, 1\], .*: give two or more"):
        previous_token_score(torch.ones(1, 1))
    m = LowRank(torch.ones(3, 2), torch.ones(2, 3))
    with pytest.raises(IndexError, match="goes by -1, but can only go forwards: flip a factor"):
        m[::-1]
    assert m[::2, 1:].shape == (2, 2)
    with pytest.raises(TypeError, match=r"layers is \(False, True\): give two whole numbers"):
        composition(m, m, "V", layers=(False, True))
    wide = LowRank(torch.ones(3, 2).double(), torch.ones(2, 3).double())
    with pytest.raises(ShapeError, match=r"float32.*float64.* dtypes differ: convert"):
        composition(m, wide, "V")


def test_e3_what_a_picture_leaves_out_it_says():
    """All squares of fifty equal weights were blank, and nothing told why."""
    said = "Empty: a weight of 0.02 or less."
    assert said in draw_heads(torch.full((2, 64, 64), 1 / 64)).svg
    assert said not in draw_heads(torch.eye(4).expand(2, 4, 4)).svg


def test_e3_a_matrix_tells_of_its_infinities_and_its_small_numbers():
    """It said that entries lie between 0.00 and 0.00."""
    S = torch.tensor([[0.0, -math.inf], [1.39, 0.0]])
    assert "entries lie between 0.00 and 1.39; 1 of 4 are −∞." in draw_matrix(S).svg
    blocked = draw_matrix(torch.full((1, 2), -math.inf)).svg
    assert "1 row and 2 columns; all entries are −∞." in blocked
    assert "Darkest" not in blocked
    small = draw_matrix(-1e-4 * torch.eye(2)).svg
    assert "entries lie between −1.0e−04 and 0.00." in small
    assert "Darkest: 1.0e−04 from zero." in small
    many = torch.zeros(21, 21).fill_diagonal_(-math.inf)
    assert "Empty: −∞, or exactly 0." in draw_matrix(many).svg


def test_e8_a_curve_is_drawn_of_numbers():
    """Raw errors of Python and torch, a warning, and a generator that was emptied by a look."""
    loss = torch.tensor(2.0, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw_curve((step for step in (0, 1)), {"a": [loss, loss]}).svg
    assert drawn == draw_curve([0, 1], {"a": [2.0, 2.0]}).svg
    for steps, said in (
        ([0, 10**400], "list of numbers"),
        (b"ab", "list of numbers"),
        (torch.tensor([False, True]), "list of numbers"),
        (torch.arange(2, device="meta"), "list of numbers"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"draw_curve: .*({said})"):
            draw_curve(steps, {"a": [1.5, 2.0]})
    with pytest.raises(ValueError, match="'a' is too large at step 0"):
        draw_curve([0, 1], {"a": [1e308, -1e308]})
    with pytest.raises(TypeError, match="mark must be a list of numbers"):
        draw_curve([0, 1], {"a": [1.5, 2.0]}, mark=("0", "1"))
    for wrong in ({"title": 3}, {"axes": (1, 2)}):
        with pytest.raises(TypeError, match=r"a label or title is .: give a string"):
            draw_curve([0, 1], {"a": [1.5, 2.0]}, **wrong)


def test_b23_what_cannot_be_trained_is_refused():
    """The message came from autograd and named nothing."""
    rows = torch.tensor([[0, 1, 2]])
    frozen = other().requires_grad_(False)
    with pytest.raises(ValueError, match=r"frozen: model\.requires_grad_\(True\)"):
        train(frozen, lambda generator: rows, Schedule(2))
    for off in (torch.no_grad(), torch.inference_mode()):
        with off, pytest.raises(ValueError, match=r"call it outside of torch\.no_grad\(\)"):
            train(MODEL, lambda generator: rows, Schedule(2))
