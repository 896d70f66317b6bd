"""Training draws what it says, can be stopped anywhere, and refuses what cannot work."""

import json
import signal
import string

import pytest
import torch
from draws import normal
from hypothesis import given
from hypothesis import strategies as st

from tinyattn import Config, History, Schedule, Transformer, Vocabulary, repeats, train, training
from tinyattn.batches import mixed, windows
from tinyattn.corpus import king_james, split
from tinyattn.facts import bigrams, counted_loss, held_out_rows, model_loss, skip_trigram, unigrams
from tinyattn.learning import checkpoints, load_checkpoint, next_token_loss
from tinyattn.training import RECIPES, Recipe, main, new_model, rows_of

SMALL = Config(8, 4, 2, 2, d_vocab=9, n_ctx=12, positions="shortformer")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_rows(g: torch.Generator) -> torch.Tensor:
    return repeats(4, 13, 9, periods=(2, 5), generator=g)[0]


# what is drawn


@given(
    st.integers(1, 5).flatmap(lambda p: st.tuples(st.just(p), st.integers(p, 7))),
    st.integers(10, 30),
    st.integers(8, 40),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_a_block_of_distinct_tokens_comes_again_to_the_end(periods, pos, d_vocab, seed, before):
    rows, first, period = repeats(
        6, pos, d_vocab, periods=periods, generator=generator(seed), before=before
    )
    assert rows.shape == (6, pos)
    assert (rows[:, 0] == 0).all()
    assert (rows[:, 1:] > 0).all()
    assert (rows < d_vocab).all()
    for row, u, p in zip(rows.tolist(), first.tolist(), period.tolist(), strict=True):
        assert periods[0] <= p <= periods[1]
        assert 1 <= u < u + p < pos
        assert before or u == 1
        assert len(set(row[: u + p])) == u + p
        assert row[u + p :] == row[u:-p]


def test_periods_differ_and_half_of_the_rows_begin_with_the_block():
    rows, first, period = repeats(2000, 65, 64, periods=(4, 24), generator=generator())
    counts = torch.bincount(period, minlength=25)
    assert (counts[4:] > 50).all()
    assert counts[:4].sum() == 0
    assert 0.48 < (first == 1).float().mean() < 0.56
    assert len(rows.unique()) == 64


def test_words_are_drawn_as_often_as_they_are_given():
    often = torch.tensor([5.0, 0.0, 1.0, 1.0, 2.0])
    rows, first, _ = repeats(
        4000, 6, 5, periods=(1, 1), generator=generator(), frequencies=often, before=False
    )
    assert (first == 1).all()
    share = torch.bincount(rows[:, 1], minlength=5) / 4000
    torch.testing.assert_close(share, torch.tensor([0, 0, 0.25, 0.25, 0.5]), atol=0.03, rtol=0)


def test_repeats_that_cannot_be_are_refused():
    for arguments, periods, message in [
        ((4, 13, 9), (0, 3), "1 or more"),
        ((4, 13, 9), (4, 3), "then the longest"),
        ((4, 30, 9), (2, 9), "9 distinct tokens, but only 8 can be drawn"),
        ((4, 6, 9), (2, 5), "does not begin again within pos = 6: shorten periods to 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            repeats(*arguments, periods=periods, generator=generator())
    with pytest.raises(ValueError, match="only 1 can be drawn"):
        repeats(
            4, 9, 3, periods=(2, 2), generator=generator(), frequencies=torch.tensor([1.0, 0, 1])
        )


def test_windows_are_pieces_of_the_text_behind_a_start():
    text = torch.arange(1, 51)
    rows = windows(text, 200, 9, generator=generator())
    assert (rows[:, 0] == 0).all()
    assert (rows[:, 2:] - rows[:, 1:-1] == 1).all()
    assert (rows[:, 1].min(), rows[:, -1].max()) == (1, 50)
    with pytest.raises(ValueError, match="too short for rows of 9"):
        windows(text[:7], 1, 9, generator=generator())


def test_a_share_of_the_rows_is_repeated_words():
    text = torch.arange(1, 51).repeat(4)
    rows = mixed(text, 8, 20, 51, repeated=0.25, periods=(3, 5))(generator())
    rising = (rows[:, 2:] - rows[:, 1:-1]) % 50 == 1
    assert rising.all(dim=1).tolist() == [True] * 6 + [False] * 2
    with pytest.raises(ValueError, match="its vocabulary is larger than the model's"):
        mixed(text, 8, 20, 50, repeated=0.25, periods=(3, 5))


# the loop


@pytest.mark.parametrize("stop", [3, 20])
def test_a_training_stopped_anywhere_ends_with_the_same_weights(tmp_path, stop):
    before = signal.getsignal(signal.SIGINT)  # a shell's background job ignores it
    whole = Transformer(SMALL)
    history = train(whole, small_rows, Schedule(30), seed=3, every=10)
    calls = 0

    def interrupted(g: torch.Generator) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == stop:
            signal.raise_signal(signal.SIGINT)
        return small_rows(g)

    model = Transformer(SMALL)
    with pytest.raises(KeyboardInterrupt, match="of 30"):
        train(model, interrupted, Schedule(30), seed=3, every=10, folder=tmp_path)
    assert max(checkpoints(tmp_path)) == stop - 1  # the first call only looks whether rows fit
    again = Transformer(SMALL, generator=generator(5))
    assert train(again, small_rows, Schedule(30), seed=3, every=10, folder=tmp_path) == history
    for name, weight in whole.state_dict().items():
        assert (again.state_dict()[name] == weight).all(), name
    assert signal.getsignal(signal.SIGINT) is before


def test_checkpoints_show_the_way_and_a_finished_training_does_nothing_more(tmp_path):
    model = Transformer(SMALL)
    history = train(model, small_rows, Schedule(20), every=5, folder=tmp_path, keep_every=8)
    assert list(checkpoints(tmp_path)) == [8, 16, 20]
    assert history.steps == [0, 5, 10, 15, 20]
    at_the_end = Transformer(SMALL, generator=generator(1))
    load_checkpoint(at_the_end, checkpoints(tmp_path)[20])
    assert (at_the_end.W_E == model.W_E).all()

    def no_rows_again(g: torch.Generator) -> torch.Tensor:
        return small_rows(g)

    assert train(at_the_end, no_rows_again, Schedule(20), every=5, folder=tmp_path) == history
    assert not list(tmp_path.glob("*.partial"))


def test_a_folder_of_another_training_is_refused(tmp_path):
    train(Transformer(SMALL), small_rows, Schedule(2), folder=tmp_path)
    with pytest.raises(ValueError, match="from another training"):
        train(Transformer(SMALL), small_rows, Schedule(2), seed=1, folder=tmp_path)


def test_the_seed_decides_what_is_drawn():
    models = [Transformer(SMALL) for _ in range(3)]
    for model, seed in zip(models, (0, 0, 1), strict=True):
        train(model, small_rows, Schedule(3), seed=seed)
    assert (models[0].W_U == models[1].W_U).all()
    assert (models[0].W_U != models[2].W_U).any()


def test_what_cannot_work_is_refused_before_it_starts(tmp_path):
    def too_long(g: torch.Generator) -> torch.Tensor:
        return repeats(2, 14, 9, periods=(2, 5), generator=g)[0]

    def unknown(g: torch.Generator) -> torch.Tensor:
        return small_rows(g) + 5

    model = Transformer(SMALL)
    before = model.W_E.clone()
    with pytest.raises(ValueError, match="n_ctx = 12 positions: make rows of 13 or fewer"):
        train(model, too_long, Schedule(5), folder=tmp_path)
    with pytest.raises(ValueError, match="d_vocab = 9: tokens are 0 to 8"):
        train(model, unknown, Schedule(5), folder=tmp_path)
    assert torch.equal(model.W_E, before)
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_no_number_stops_the_training():
    model = Transformer(SMALL)
    with torch.no_grad():
        model.W_U[0, 0] = torch.nan
    with pytest.raises(FloatingPointError, match="at step 0"):
        train(model, small_rows, Schedule(5))


def test_the_rate_rises_and_falls():
    schedule = Schedule(100, rate=0.02, warm_up=10)
    assert schedule.at(0) == pytest.approx(0.002)
    assert schedule.at(50) == pytest.approx(0.02 * 0.51)
    assert schedule.at(100) == pytest.approx(0.02 / 50)
    assert Schedule(100, warm_up=0).at(0) == 0.01


def test_the_loss_of_each_token_stands_at_its_place():
    rows = small_rows(generator())
    model = Transformer(SMALL)
    losses = next_token_loss(model, rows)
    assert losses.shape == (4, 12)
    expected = -model(rows[:, :-1]).log_softmax(-1)[2, 7, rows[2, 8]]
    torch.testing.assert_close(losses[2, 7], expected)


# the vocabulary and the text


@given(st.text(string.ascii_letters + " '.,\n", max_size=40))
def test_encoding_loses_nothing(text):
    known = string.ascii_letters + " '.,\nthe cat sat on the mat, the hat"
    words = Vocabulary.learn(known, len(set(known)) + 4)
    assert words.decode(words.encode(text)) == text


def test_the_most_frequent_pair_becomes_one_token_and_borders_of_words_hold():
    words = Vocabulary.learn("ab ab ab cd", 9)
    assert words.tokens == ("<start>", " ", "a", "b", "c", "d", "ab", " ab", " c")
    assert words.encode("abcd") == [6, 4, 5]
    assert words.encode(" ab") == [7]


def test_a_vocabulary_is_read_as_it_was_saved(tmp_path):
    words = Vocabulary.learn("the cat, the hat, the mat", 14)
    words.save(tmp_path / "words.json")
    assert Vocabulary.read(tmp_path / "words.json") == words
    assert set(json.loads((tmp_path / "words.json").read_text())) == {"tokens", "merges"}


def test_vocabularies_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="already: ask for more than 3"):
        Vocabulary.learn("abc", 3)
    with pytest.raises(ValueError, match="every word is one token at 4"):
        Vocabulary.learn("ab", 9)
    with pytest.raises(ValueError, match="'é' in 'é' did not occur"):
        Vocabulary.learn("an an", 5).encode(" né")
    with pytest.raises(ValueError, match="what its merges make"):
        Vocabulary(("<start>", "a", "b", "ba"), ((1, 2),))


def test_the_missing_text_is_named_with_its_remedy(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="apt install bible-kjv bible-kjv-text"):
        king_james()
    assert main(["text-1l", "--folder", str(tmp_path)]) == 1
    assert "apt install bible-kjv" in capsys.readouterr().err


def test_the_text_is_read_chapter_by_chapter(monkeypatch, tmp_path):
    """By a program of the same name, since the text is not installed everywhere."""
    program = tmp_path / "bible"
    lines = "".join(f"echo 'Ge{n}:1 First of {n}.'; echo 'Ge{n}:2 Second.';" for n in (1, 2))
    program.write_text(f"#!/bin/sh\n{lines}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(FileNotFoundError, match="gave 2 chapters of 1189"):
        king_james()


def test_every_twentieth_chapter_is_held_out():
    kept, held_out = split({str(n): f"{n}\n" for n in range(1, 60)})
    assert held_out.split() == ["20", "40"]
    assert len(kept.split()) == 57


# what is counted


def test_counts_are_what_a_bigram_table_can_know():
    text = torch.tensor([1, 2, 1, 2, 1, 3] * 200)
    table = bigrams(text, 4).exp()
    torch.testing.assert_close(table.sum(dim=1), torch.ones(4))
    assert table[1, 2] == pytest.approx(2 / 3, abs=0.03)
    assert table[2, 1] == pytest.approx(1, abs=0.06)
    assert unigrams(text, 4).exp()[1] == pytest.approx(1 / 2, abs=0.01)
    rows = held_out_rows(text, 6)
    assert rows[0].tolist() == [0, 1, 2, 1, 2, 1, 3]
    expected = [-table[a, b].log() for a, b in [(1, 2), (2, 1), (1, 2), (2, 1), (1, 3)]]
    assert counted_loss(rows, table.log()) == pytest.approx(float(sum(expected)) / 5, abs=1e-5)


def test_a_model_and_a_table_are_measured_on_the_same_tokens():
    """A model whose logits are a table of bigrams has the loss of the table."""
    table = normal(0, 5, 5, dtype=torch.float32).log_softmax(-1)
    model = Transformer(Config(5, 1, 1, 0, d_vocab=5, n_ctx=8, positions=None))
    with torch.no_grad():
        model.W_E.copy_(torch.eye(5))
        model.W_U.copy_(table)
    rows = held_out_rows(torch.randint(1, 5, (50,), generator=generator()), 8)
    assert model_loss(model, rows) == pytest.approx(counted_loss(rows, table), abs=1e-5)


def test_a_skip_trigram_is_counted_within_its_reach():
    words = Vocabulary(("<start>", "s", "d", "o", "x"), ())
    far = [4] * 40
    text = torch.tensor([1, 2, 3, *far, 2, 3, 2, 4, 1, *far[:39], 2, 4])
    found = skip_trigram(text, words, "sdo")
    assert (found.places, found.with_source) == (2, 0.5)
    assert found.without_source == 0.5
    assert found.bigram == 0.5
    with pytest.raises(ValueError, match="'burn' is not one token"):
        skip_trigram(text, words, ["burn", "d", "o"])


# the recipes


def test_the_command_trains_saves_and_says(monkeypatch, tmp_path, capsys):
    tiny = Recipe(SMALL, Schedule(12), periods=(2, 5))
    monkeypatch.setitem(RECIPES, "induction-2l", tiny)
    assert main(["induction-2l", "--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "induction-2l, step 10: loss " in said
    assert (tmp_path / "induction-2l-seed-0" / "induction-2l.safetensors").exists()
    assert main(["induction-2l", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out == said


def test_ctrl_c_leaves_with_a_sentence(monkeypatch, tmp_path, capsys):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt("stopped after step 3 of 12")

    monkeypatch.setattr(training, "train", stop)
    assert main(["induction-1l", "--folder", str(tmp_path)]) == 130
    assert "step 3 of 12. The same command goes on from there." in capsys.readouterr().err


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_fits_its_model(name):
    recipe = RECIPES[name]
    text = torch.randint(1, recipe.config.d_vocab, (4000,), generator=generator())
    rows = rows_of(recipe, text)(generator())
    assert rows.shape[1] == recipe.config.n_ctx + 1
    with torch.no_grad():
        losses = next_token_loss(new_model(recipe, 0), rows)
    assert losses.isfinite().all()


def test_a_recipe_for_text_asks_for_one():
    with pytest.raises(ValueError, match="give the tokens of one"):
        rows_of(RECIPES["text-1l"])


def test_a_history_grows_by_whole_measurements():
    history = History()
    history.note(0, {"loss": 4.0})
    history.note(5, {"loss": 2.0})
    assert history == History([0, 5], {"loss": [4.0, 2.0]})


def test_the_steepest_stretch_is_the_shortest_that_holds_half_of_the_fall():
    history = History([0, 10, 20, 30, 40], {"loss": [4.0, 3.9, 2.0, 0.5, 0.0], "flat": [1.0] * 5})
    assert history.steepest("loss") == (10, 30)
    assert history.steepest("loss", share=0.4) == (10, 20)
    with pytest.raises(ValueError, match="'flat' does not fall"):
        history.steepest("flat")
