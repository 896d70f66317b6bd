"""What the shipped weights show: the claims of the circuits pages, found and not written."""

from typing import Any

import pytest
import torch

from tinyattn import (
    ablate,
    composition,
    draw_curve,
    draw_heads,
    induction_score,
    load,
    load_facts,
    load_history,
    load_vocabulary,
    model_card,
    ov_circuit,
    previous_token_score,
    qk_circuit,
    repeats,
)
from tinyattn.run import Run
from tinyattn.trained import MODELS
from tinyattn.training import MISSED, ONE_SOURCE, RECIPES, SKIP_TRIGRAMS

NAMES = ["induction-1l", "induction-2l", "text-0l", "text-1l", "text-2l"]
WITHIN = 48  # the previous-token head of the repeats model works where training needed it


def rows(periods: tuple[int, int], pos: int = WITHIN, batch: int = 64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(77)
    return repeats(batch, pos, 64, periods=periods, generator=generator, before=False)


def later_copies(length: int, first: torch.Tensor, period: torch.Tensor) -> torch.Tensor:
    """True where the next token is in a second copy or a later one, its first token aside."""
    return torch.arange(1, length) > (first + period).unsqueeze(-1)


def loss(run: Run, tokens: torch.Tensor, where: torch.Tensor) -> float:
    odds = run.logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return -odds[where].mean().item()


def patterns(run: Run) -> torch.Tensor:
    return torch.stack([run.pattern(layer) for layer in range(run.model.config.n_layers)])


def word_list(batch: int = 16, period: int = 30) -> tuple[torch.Tensor, ...]:
    """A list of random words, twice, drawn as a text would draw them."""
    return repeats(
        batch,
        1 + 2 * period,
        len(load_vocabulary()),
        periods=(period, period),
        generator=torch.Generator().manual_seed(5),
        frequencies=torch.tensor(load_facts()["tokens"]["counts"]).float(),
        before=False,
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_model_is_there_with_its_card_and_its_history(name):
    model = load(name)
    assert model.config == RECIPES[name].config
    assert all(weight.isfinite().all() for weight in model.parameters())
    assert (MODELS / f"{name}.safetensors").stat().st_size <= 1_500_000
    card = model_card(name)
    assert card.startswith(f"# {name}\n")
    for said in (f"python -m tinyattn.training {name}", "Licence", "Cannot"):
        assert said in card
    history = load_history(name)
    assert history.steps[-1] == RECIPES[name].schedule.steps
    assert draw_curve(history.steps, history.values).svg


def test_nothing_else_is_shipped_and_each_file_is_small():
    files = {path.name: path.stat().st_size for path in MODELS.iterdir()}
    weights_and_cards = {name + ending for name in NAMES for ending in (".safetensors", ".md")}
    assert set(files) == weights_and_cards | {"text-vocabulary.json", "text-facts.json"}
    assert max(files.values()) <= 1_500_000


@pytest.mark.parametrize("periods", [(4, 20), (21, 23), (25, 26)])
def test_two_layers_have_induction_heads_on_periods_seen_and_unseen(periods):
    tokens = rows(periods, pos=WITHIN if periods[1] < 25 else 54)[0]
    scores = induction_score(patterns(load("induction-2l").run(tokens)), tokens)
    assert scores[1].max() > 0.9
    assert scores[0].max() < 0.3


def test_two_layers_repeat_and_one_does_not():
    tokens, first, period = rows((4, 23))
    where = later_copies(WITHIN, first, period)
    two, one = (loss(load(f"induction-{n}l").run(tokens), tokens, where) for n in (2, 1))
    assert two <= 0.05
    assert one > 2


def test_the_induction_heads_of_the_repeats_model_need_the_previous_token_head():
    model = load("induction-2l")
    tokens, first, period = rows((4, 23))
    where = later_copies(WITHIN, first, period)
    run = model.run(tokens)
    before = previous_token_score(patterns(run)[:, 0])[0]
    best = int(before.argmax())
    assert before[best] > 0.9
    without = ablate(run, f"0.head {best}")
    assert loss(without, tokens, where) > loss(run, tokens, where) + 1
    assert induction_score(patterns(without), tokens)[1].max() < 0.2
    others = [f"0.head {head}" for head in range(4) if before[head] < 0.5]
    assert len(others) == 2
    assert loss(ablate(run, others), tokens, where) < 0.1


@pytest.mark.parametrize("name", ["induction-2l", "text-2l"])
def test_the_pair_composes_above_every_baseline_draw(name):
    model = load(name)
    tokens = (rows((4, 23)) if name == "induction-2l" else word_list())[0]
    A = patterns(model.run(tokens))
    first = int(previous_token_score(A[:, 0])[0].argmax())
    second = int(induction_score(A, tokens)[1].argmax())
    writer, reader = model.heads(0)[first], model.heads(1)[second]
    ov, qk = ov_circuit(writer.W_V, writer.W_O), qk_circuit(reader.W_Q, reader.W_K)
    d_model, d_head = writer.W_V.shape
    generator = torch.Generator().manual_seed(0)

    def chance() -> float:
        W_V, W_Q, W_K = torch.randn(3, d_model, d_head, generator=generator)
        W_O = torch.randn(d_head, d_model, generator=generator)
        return float(composition(ov_circuit(W_V, W_O), qk_circuit(W_Q, W_K), "K"))

    assert composition(ov, qk, "K").item() > max(chance() for _ in range(200))


def test_two_layers_of_text_repeat_a_list_of_words_by_their_previous_token_head():
    tokens, first, period = word_list()
    p = int(period[0])
    run = load("text-2l").run(tokens)
    where = later_copies(1 + 2 * p, first, period)
    in_first_copy = (torch.arange(1, 1 + 2 * p) < p).expand_as(where)
    assert loss(run, tokens, in_first_copy) - loss(run, tokens, where) > 5
    best = int(previous_token_score(patterns(run)[:, 0])[0].argmax())
    assert loss(ablate(run, f"0.head {best}"), tokens, where) > loss(run, tokens, where) + 1


def test_text_models_beat_the_counts_they_can_beat():
    found = load_facts()["held out"]
    assert found["text-0l"] < found["unigram"]
    assert abs(found["text-0l"] - found["bigram"]) < 0.3
    assert found["text-1l"] < found["bigram"]


def named(facts: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(fact["source"], fact["destination"], fact["out"]) for fact in facts]


def test_skip_trigrams_are_likelier_than_their_bigrams():
    found = load_facts()["skip-trigrams"]
    assert named(found) == SKIP_TRIGRAMS
    for fact in found:
        assert fact["with_source"] > 5 * fact["bigram"], fact
        assert fact["model_with_source"] > 5 * fact["model_without_source"], fact
        assert fact["places"] >= 10


def test_what_the_model_of_one_layer_misses_and_what_it_cannot_tell_apart():
    facts = load_facts()
    assert named(facts["missed"]) == MISSED
    for fact in facts["missed"]:
        assert fact["with_source"] > 10 * fact["model_with_source"], fact
    assert named(facts["one source"]) == ONE_SOURCE
    said = dict(zip(ONE_SOURCE, facts["one source"], strict=True))
    for destination in (" him", " thee"):
        fact = said[" deliver", destination, " out"]
        assert fact["with_source"] < 1.5 * fact["bigram"]
        assert fact["model_with_source"] > 5 * fact["with_source"]


def test_all_heads_of_a_shipped_model_are_drawn():
    tokens = rows((4, 23), batch=1)[0][0]
    assert draw_heads(patterns(load("induction-2l").run(tokens))).svg.count('class="head"') == 8


def test_what_is_not_shipped_is_named_with_what_is():
    with pytest.raises(ValueError, match="choose among induction-1l, induction-2l, text-0l"):
        load("induction")
