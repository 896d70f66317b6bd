"""Paths sum to the logits and to the scores, and each is what its name says."""

import json
import math
import time
import warnings
from xml.etree import ElementTree

import pytest
import torch
from draws import sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from models import filled
from torch.testing import assert_close

from tinyattn import (
    Config,
    Head,
    Run,
    ShapeError,
    Transformer,
    draw_paths,
    full_ov,
    head_write,
    ov_circuit,
    paths,
    paths_by_length,
    qk_circuit,
    score_paths,
)

SVG = "{http://www.w3.org/2000/svg}"
few = settings(max_examples=15)  # each is a whole model and all of its paths
POSITIONS = ["learned", "sinusoidal", "shortformer", "rotary", None]


@st.composite
def runs(draw, layers: int = 0, dtype: torch.dtype = torch.float64) -> Run:
    """A run of an attention-only model: up to three layers of up to three heads."""
    n_heads = draw(st.integers(1, 3))
    biases = draw(st.booleans())
    config = Config(
        d_model=2 * draw(sizes),
        d_head=2 * draw(st.integers(1, 2)),
        n_heads=n_heads,
        n_layers=draw(st.integers(layers, 3)),
        d_vocab=draw(st.integers(2, 7)),
        n_ctx=6,
        n_kv_heads=draw(st.sampled_from([n for n in (1, 2, 3) if n_heads % n == 0])),
        positions=draw(st.sampled_from(POSITIONS)),
        biases=biases,
        unembed_bias=draw(st.booleans()),
        tied=draw(st.booleans()),
        causal=draw(st.booleans()),
        theta=draw(st.sampled_from([10.0, 1000.0])),
        rotary_layout=draw(st.sampled_from(["halves", "interleaved"])),
    )
    seed = draw(st.integers(0, 1000))
    shape = (*draw(st.lists(st.integers(1, 2), max_size=2)), draw(st.integers(1, 5)))
    tokens = torch.randint(config.d_vocab, shape, generator=torch.Generator().manual_seed(seed))
    return filled(config, seed, dtype).run(tokens)


def drawn(n_heads: int = 3, n_layers: int = 2, **choices) -> Run:
    config = Config(8, 4, n_heads, n_layers, 11, 9, **{"positions": None, **choices})
    return filled(config).run([[1, 2, 3, 4], [5, 6, 7, 8]])


# the logits


@few
@given(runs())
def test_paths_sum_to_the_logits(run):
    terms = paths(run)
    assert_close(sum(terms[name] for name in terms), run.logits)
    assert_close(terms.sum(), run.logits)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("n_layers", [0, 1, 2, 3])
def test_in_float32_within_a_hundred_thousandth(n_layers, positions):
    config = Config(32, 8, 4, n_layers, 20, 16, positions=positions)
    run = Transformer(config).run(torch.arange(32).reshape(2, 16) % 20)
    terms = paths(run)
    assert (sum(terms[name] for name in terms) - run.logits).abs().max() < 1e-5


@few
@given(runs(), st.data())
def test_shares_of_one_token_are_entries_of_the_terms(run, data):
    terms, d_vocab = paths(run), run.model.config.d_vocab
    token = data.draw(st.integers(0, d_vocab - 1))
    for name, share in terms.logit(token).items():
        assert_close(share, terms[name][..., token])
    each = (run.tokens + 1) % d_vocab
    for name, share in terms.logit(each).items():
        assert_close(share, terms[name].gather(-1, each[..., None])[..., 0])
    assert list(terms.logit(token)) == list(terms.names)


@few
@given(runs())
def test_short_paths_and_the_rest_still_sum(run):
    for longest in range(run.model.config.n_layers + 2):
        terms = paths(run, longest=longest)
        assert_close(sum(terms[name] for name in terms), run.logits)
        assert_close(sum(terms.logit(1).values()), run.logits[..., 1])
        assert ("longer" in terms) == (longest < run.model.config.n_layers)


@few
@given(runs())
def test_by_length_are_the_same_paths_counted(run):
    terms, parts = paths(run), paths_by_length(run)
    assert_close(parts.sum(dim=0), run.logits)
    for length in range(len(parts)):
        names = [name for name in terms if passed(name) == length]
        assert_close(parts[length], terms.sum(names))


def passed(name: str) -> int:
    """How many heads a path goes through."""
    return sum(stop.replace(".", "").isdigit() for stop in name.split(" → "))


@few
@given(runs())
def test_a_path_is_pattern_times_source_times_circuit(run):
    """A virtual head: the product of the patterns, and the product of the OV circuits."""
    terms = paths(run)
    for name in terms:
        if name == "b_U":
            continue
        source = name.split(" → ")[0]
        A, x = terms.pattern(name), terms.sources[source if source in terms.sources else "embed"]
        assert_close(A @ x @ terms.circuit(name).dense(), terms.stream(name))
        assert_close(A @ x @ terms.circuit(name).dense() @ run.model.W_U.detach(), terms[name])


def test_a_virtual_head_is_made_of_its_two_heads():
    run = drawn()
    terms, one, two = paths(run), run.model.heads(0)[2], run.model.heads(1)[1]
    A = run.pattern(1)[:, 1] @ run.pattern(0)[:, 2]
    first, second = ov_circuit(one.W_V, one.W_O), ov_circuit(two.W_V, two.W_O)
    assert_close(terms.pattern("0.2 → 1.1"), A)
    assert_close(terms.circuit("0.2 → 1.1").dense(), (first @ second).dense())
    assert terms.circuit("0.2 → 1.1").rank == 4
    assert_close(terms["0.2 → 1.1"], head_write(A, run.stream[0], first @ second) @ run.model.W_U)


def test_zero_layers_are_a_table_of_bigrams():
    run = drawn(n_layers=0)
    assert paths(run).names == ("embed",)
    assert_close(paths(run)["embed"], (run.model.W_E @ run.model.W_U)[run.tokens])


def test_one_layer_is_bigrams_and_skip_trigrams():
    run = drawn(n_layers=1)
    terms, model = paths(run), run.model
    assert terms.names == ("embed", "0.0", "0.1", "0.2")
    for number in range(3):
        head = model.heads(0)[number]
        table = full_ov(model.W_E, ov_circuit(head.W_V, head.W_O), model.W_U).dense()
        assert_close(terms[f"0.{number}"], run.pattern(0)[:, number] @ table[run.tokens])


@few
@given(runs(layers=1), st.data())
def test_zeroing_a_head_removes_exactly_its_paths(run, data):
    """With the later patterns held where they were: that is what a frozen pattern means."""
    config, terms = run.model.config, paths(run)
    layer = data.draw(st.integers(0, config.n_layers - 1))
    head = data.draw(st.integers(0, config.n_heads - 1))
    held = {f"{later}.pattern": run.pattern(later) for later in range(layer + 1, config.n_layers)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a pattern that no head before it moves stays as it was
        without = run.with_({f"{layer}.head {head}": torch.zeros_like, **held})
    gone = terms.sum(terms.through(f"{layer}.{head}"))
    if config.biases:  # b_V is a source of its own, and so on no path through the head
        gone = gone + share_of_its_bias(run, layer, run.model.heads(layer)[head])
    assert_close(run.logits - without.logits, gone)


def share_of_its_bias(run: Run, layer: int, head: Head) -> torch.Tensor:
    """What one head's b_V comes to in the logits, on its own and through later heads."""
    assert head.b_V is not None
    x = (head.b_V @ head.W_O).expand_as(run.final)
    for later in range(layer + 1, run.model.config.n_layers):
        heads = run.model.heads(later)
        ovs = ov_circuit(heads.W_V, heads.W_O)
        x = x + head_write(run.pattern(later), x, ovs).sum(dim=-3)
    return (x @ run.model.W_U).detach()


def test_positions_are_a_source_only_where_they_are_in_the_stream():
    assert paths(drawn(1, 1, positions="learned")).names == ("embed", "0.0", "pos", "pos → 0.0")
    assert paths(drawn(1, 1, positions="sinusoidal")).names == ("embed", "0.0", "pos", "pos → 0.0")
    for positions in ("shortformer", "rotary", None):
        assert paths(drawn(1, 1, positions=positions)).names == ("embed", "0.0")


def test_each_layer_of_biases_is_a_source():
    terms = paths(drawn(1, 2, biases=True, unembed_bias=True))
    assert terms.names == (
        "embed", "0.0", "1.0", "0.0 → 1.0", "0.bias", "0.bias → 1.0", "1.bias", "b_U",
    )  # fmt: skip
    assert terms.through("0.bias") == ("0.bias", "0.bias → 1.0")
    assert terms.through("embed") == ("embed", "0.0", "1.0", "0.0 → 1.0")


def test_padding_is_on_no_path():
    model = filled(Config(8, 4, 3, 2, 11, 9))
    real = torch.tensor([[False, True, True, True]])
    padded, alone = model.run([[0, 1, 2, 3]], real=real), model.run([[1, 2, 3]])
    for name in paths(padded):
        assert_close(paths(padded)[name][:, 1:], paths(alone)[name])


def test_edited_patterns_are_the_patterns_of_the_paths():
    run = drawn()
    even = torch.full((3, 4, 4), 0.25, dtype=torch.float64).expand_as(run.pattern(0))
    edited = run.with_({"0.pattern": even})
    assert_close(paths(edited).sum(), edited.logits)
    assert_close(paths(edited).pattern("0.1"), even[:, 1])


def test_gradients_are_those_of_the_logits_where_the_run_keeps_them():
    model = filled(Config(8, 4, 2, 2, 11, 9))
    weights = list(model.parameters())
    run = model.run([1, 2, 3], grad=True)
    terms = paths(run)
    for wanted, found in (
        (run.logits, terms.sum()),
        (run.logits[:, 4], torch.stack([*terms.logit(4).values()]).sum(dim=0)),
    ):
        slopes = [
            torch.autograd.grad(t.square().sum(), weights, retain_graph=True)
            for t in (wanted, found)
        ]
        for one, other in zip(*slopes, strict=True):
            assert_close(one, other)
    quiet = model.run([1, 2, 3])
    terms, asked = paths(quiet), score_paths(quiet, 1, 0)
    for t in (
        terms["0.1"],
        terms.sum(),
        terms.logit(0)["0.1"],
        asked.sum(),
        terms.circuit("0.1").left,
    ):
        assert not t.requires_grad


# how many


@pytest.mark.parametrize(("n_heads", "n_layers", "count"), [(4, 1, 5), (4, 2, 25), (4, 3, 125)])
def test_every_layer_multiplies_their_number(n_heads, n_layers, count):
    assert len(paths(drawn(n_heads, n_layers))) == count == (n_heads + 1) ** n_layers


def test_only_paths_that_have_a_name_are_followed():
    terms = paths(drawn(2, 3, positions="learned", biases=True))
    assert set(terms.each(torch.Tensor.sum)) == set(terms)


def test_too_many_paths_are_counted_and_none_is_made():
    model = Transformer(Config(12, 1, 12, 12, 5, 4))
    run, start = model.run([1, 2]), time.perf_counter()
    with pytest.raises(ValueError, match=f"make {2 * 13**12} terms, more than limit = 4096"):
        paths(run)
    assert time.perf_counter() - start < 5
    with pytest.raises(ValueError, match=f"longest = 1, which makes {2 * (1 + 144) + 1}$"):
        paths(run)
    assert len(paths(run, longest=1)) == 2 * (1 + 144) + 1
    assert_close(paths_by_length(run).sum(dim=0), run.logits)


def test_the_limit_itself_is_allowed():
    assert len(paths(drawn(), limit=16)) == 16
    with pytest.raises(
        ValueError, match=r"2 layers of 3 heads make 16 terms, more than limit = 15"
    ):
        paths(drawn(), limit=15)
    with pytest.raises(ValueError, match=r"set longest = 1, which makes 8"):
        paths(drawn(), limit=15)
    assert len(paths(drawn(), longest=1)) == 8
    with pytest.raises(ValueError, match=r"set longest = 0, which makes 3$"):
        paths(drawn(unembed_bias=True), limit=7)
    with pytest.raises(ValueError, match=r"limit = 1: raise the limit$"):
        paths(drawn(), limit=1)
    with pytest.raises(ValueError, match=r"score_paths: 1 layers of 3 heads make 4 terms"):
        score_paths(drawn(), 1, 0, limit=3)


# the scores


@few
@given(runs(layers=1), st.data())
def test_pairs_of_paths_sum_to_the_scores(run, data):
    config = run.model.config
    layer = data.draw(st.integers(0, config.n_layers - 1))
    head = data.draw(st.integers(0, config.n_heads - 1))
    terms, S = score_paths(run, layer, head), run.scores(layer)[..., head, :, :]
    seen = S.isfinite()
    assert_close(terms.sum()[seen], S[seen])
    pairs = [terms[a, b].dense() for a in terms.queries for b in terms.keys]
    assert len(pairs) == len(terms)
    assert_close(sum(pairs), terms.sum())


@few
@given(runs(layers=1), st.data())
def test_one_score_taken_apart_is_entries_of_the_pairs(run, data):
    last, pos = run.model.config.n_layers - 1, run.tokens.shape[-1]
    terms = score_paths(run, last, 0)
    i, j = (data.draw(st.integers(-pos, pos - 1)) for _ in range(2))
    table = terms.at(i, j)
    assert_close(table.sum(dim=(-2, -1)), terms.sum()[..., i, j])
    for row, a in enumerate(terms.queries):
        for column, b in enumerate(terms.keys):
            assert_close(table[..., row, column], terms[a, b].dense()[..., i, j])


def test_a_pair_through_a_head_is_its_composition():
    """Keys through an earlier head: its pattern, its OV circuit, then the reader's W_QK."""
    run = drawn()
    terms, one, two = score_paths(run, 1, 2), run.model.heads(0)[1], run.model.heads(1)[2]
    x, A = run.stream[0], run.pattern(0)[:, 1]
    ov, qk = ov_circuit(one.W_V, one.W_O).dense(), qk_circuit(two.W_Q, two.W_K).dense()
    assert_close(terms["embed", "0.1"].dense(), x @ (qk @ ov.T) @ x.mT @ A.mT / 2)
    assert_close(terms["0.1", "embed"].dense(), A @ x @ (ov @ qk) @ x.mT / 2)
    assert terms.through("0.1") == ("0.1",)
    assert_close(terms.sum(keys=["0.1"]), sum(terms[a, "0.1"].dense() for a in terms.queries))
    assert terms["embed", "0.1"].rank == 4


def test_shortformer_positions_reach_scores_and_nothing_else():
    run = drawn(positions="shortformer", biases=True)
    terms = score_paths(run, 1, 0)
    assert list(terms.queries) == ["embed", "0.0", "0.1", "0.2", "0.bias", "pos", "b_Q"]
    assert list(terms.keys) == ["embed", "0.0", "0.1", "0.2", "0.bias", "pos", "b_K"]
    head = run.model.heads(1)[0]
    assert run.scene.added is not None
    q, k = run.scene.added @ head.W_Q, run.scene.added @ head.W_K
    assert_close(terms["pos", "pos"].dense(), (q @ k.T / 2).expand(2, 4, 4))
    assert terms.through("pos", side="query") == ("pos",)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_rotary_turns_every_part(layout):
    run = drawn(positions="rotary", rotary_layout=layout, theta=10.0, biases=True)
    S = run.scores(1)[:, 0]
    assert_close(score_paths(run, 1, 0).sum()[S.isfinite()], S[S.isfinite()])


# bad input


@pytest.mark.parametrize("ask", [paths, paths_by_length, lambda run: score_paths(run, 0, 0)])
@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"norm": "layer"}, "norm = 'layer'"),
        ({"norm": "rms"}, "'rms'"),
        ({"d_mlp": 5}, "d_mlp = 5"),
    ],
)
def test_norms_and_neurons_are_refused(ask, choices, said):
    with pytest.raises(ValueError, match=rf"{said}.*only attention is linear"):
        ask(drawn(**choices))


@pytest.mark.parametrize("name", ["0.head 1", "0.z", "0.v", "0.out", "0.attn_out", "1.resid_pre"])
def test_edits_that_are_no_paths_are_refused(name):
    run = drawn().with_({name: torch.zeros_like})
    for ask in (paths, paths_by_length, lambda run: score_paths(run, 1, 0)):
        with pytest.raises(ValueError, match=rf"'{name}' was edited, which is no path"):
            ask(run)


def test_scores_that_were_edited_are_refused_and_what_comes_later_does_not_matter():
    for name in ("1.q", "1.k", "1.scores"):
        run = drawn().with_({name: lambda t: 2 * t})
        with pytest.raises(ValueError, match=rf"'{name}' was edited"):
            score_paths(run, 1, 0)
        assert_close(paths(run).sum(), run.logits)
    run = drawn().with_({"1.z": torch.zeros_like})
    assert_close(score_paths(run, 1, 0).sum().tril(), run.scores(1)[:, 0].nan_to_num(neginf=0))


def test_names_that_are_none_are_refused():
    terms, asked = paths(drawn(unembed_bias=True)), score_paths(drawn(), 1, 0)
    for wrong in ("0.7", "1.0 → 0.0", "", "0.head 1"):
        for ask in (terms.__getitem__, terms.stream, terms.pattern, terms.circuit, terms.through):
            with pytest.raises(KeyError, match="no path"):
                ask(wrong)
        with pytest.raises(KeyError, match="no path"):
            terms.sum(["embed", wrong])
        for pair in ((wrong, "embed"), ("embed", wrong)):
            with pytest.raises(KeyError, match=r"no (query|key) path"):
                asked[pair]
        with pytest.raises(KeyError, match="no key path through"):
            asked.through(wrong)
    with pytest.raises(KeyError, match="two names"):
        asked["embed"]
    with pytest.raises(KeyError, match="never in the stream"):
        terms.stream("b_U")
    for name in ("b_U", "longer"):
        with pytest.raises(KeyError, match="no single chain"):
            paths(drawn(unembed_bias=True), longest=1).pattern(name)


def test_other_bad_input_is_refused():
    run = drawn()
    with pytest.raises(IndexError, match="no layer 2 among n_layers = 2"):
        score_paths(run, 2, 0)
    with pytest.raises(IndexError, match="no head 3 among n_heads = 3"):
        score_paths(run, 1, 3)
    assert_close(score_paths(run, -1, -1).sum(), score_paths(run, 1, 2).sum())
    with pytest.raises(ValueError, match="longest = -1: give 0 or more"):
        paths(run, longest=-1)
    for token in (-1, 11, 0.5):
        with pytest.raises((ValueError, TypeError), match=r"d_vocab = 11|must be"):
            paths(run).logit(token)
    with pytest.raises(ShapeError, match=r"int64\[3\].*one for each position"):
        paths(run).logit(torch.tensor([1, 2, 3]))
    with pytest.raises(IndexError, match="no key 4 among 4 positions"):
        score_paths(run, 1, 0).at(0, 4)
    with pytest.raises(ValueError, match="'query' or 'key'"):
        score_paths(run, 1, 0).through("0.1", side="value")
    with pytest.raises(ShapeError, match="run is"):
        paths("run")


# the picture


def parsed(names, shares, **more) -> ElementTree.Element:
    return ElementTree.fromstring(draw_paths(names, torch.tensor(shares), **more).svg)


def test_a_picture_of_paths_shows_stops_and_shares():
    root = parsed(["embed", "0.1 → 2.0", "pos → 1.3"], [0.5, -2.0, 1.0])
    marks = [one for one in root.iter(f"{SVG}rect") if "data-row" in one.attrib]
    stops = {(one.attrib["data-row"], one.attrib["data-column"]) for one in marks}
    assert stops == {
        ("0", "3"),
        ("1", "0"),
        ("1", "2"),
        ("1", "3"),
        ("2", "1"),
        ("2", "3"),
        ("3", "3"),
    }
    words = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"0.1", "2.0", "1.3", "pos", "embed", "0.50", "-2.00", "1.00", "-0.50"} <= set(words)
    data = json.loads(root.findtext(f"{SVG}metadata", ""))
    assert data["values"] == [[0.5], [-2.0], [1.0], [-0.5]]
    assert data["rows"] == ["embed", "0.1 → 2.0", "pos → 1.3", "sum"]
    assert "0.1 → 2.0 -2.00" in root.findtext(f"{SVG}desc", "")


def test_a_bar_is_as_long_as_its_share():
    root = parsed(["embed", "0.0", "1.0"], [0.5, -2.0, 1.0])
    wide = [float(one.attrib["width"]) for one in root.iter(f"{SVG}rect")
            if one.attrib.get("data-column") == "2"]  # fmt: skip
    shortest, longest = min(wide), max(wide)
    assert math.isclose(longest / shortest, 4, abs_tol=0.01)


def test_small_shares_are_one_row_together_and_the_sum_stays():
    root = parsed(["embed", "0.0", "0.1", "0.2"], [3.0, 0.25, -2.0, 0.5], most=2)
    data = json.loads(root.findtext(f"{SVG}metadata", ""))
    assert data["rows"] == ["embed", "0.1", "2 others", "sum"]
    assert data["values"] == [[3.0], [-2.0], [0.75], [1.75]]


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30), st.text(max_size=20))
def test_whatever_is_drawn_is_well_formed_and_inside(shares, title):
    names = [f"0.{i}" if i % 3 else f"pos → 0.{i} → 12.{i}" for i in range(len(shares))]
    root = parsed(names, shares, title=title)
    assert (
        draw_paths(names, torch.tensor(shares), title=title).svg
        == draw_paths(names, torch.tensor(shares), title=title).svg
    )
    wide, tall = map(float, root.attrib["viewBox"].split()[2:])
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) <= wide
        assert 0 <= float(text.attrib["y"]) <= tall
    for one in root.iter(f"{SVG}rect"):
        if "data-row" in one.attrib:
            assert 0 <= float(one.attrib["x"]) <= wide - float(one.attrib["width"])


def test_a_picture_refuses_what_is_no_path():
    one = torch.ones(1)
    for name, said in (
        ("1.0 → 0.0", "later layer"),
        ("0.0 → 0.1", "later layer"),
        ("0.0 → MLP", "no head"),
    ):
        with pytest.raises(ValueError, match=said):
            draw_paths([name], one)
    with pytest.raises(ValueError, match=r"shares\[1\] is nan"):
        draw_paths(["a", "b"], torch.tensor([1.0, math.nan]))
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_paths([], torch.ones(0))
    with pytest.raises(ValueError, match="1 label for 2 shares"):
        draw_paths(["a"], torch.ones(2))
    with pytest.raises(TypeError, match="names is one string"):
        draw_paths("a", one)
    with pytest.raises(ValueError, match="most = 0"):
        draw_paths(["a"], one, most=0)
    with pytest.raises(ShapeError, match="exactly 1"):
        draw_paths(["a"], torch.ones(1, 1))


def test_paths_of_a_run_are_drawn_as_they_are_named():
    shares = paths(drawn(positions="learned")).logit(3)
    picture = draw_paths(list(shares), torch.stack([share[0, -1] for share in shares.values()]))
    total = float(drawn(positions="learned").logits[0, -1, 3])
    assert picture.title == f"32 paths that sum to {total:.2f}"
