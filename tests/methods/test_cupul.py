import math
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.errors import ConfigError
from lacuner.heads import SoftmaxConfig
from lacuner.methods.conf_mpu import CONFIDENCE, ConfidenceRisk
from lacuner.methods.cupul import DIFFICULTY, METHODS, Curriculum, Voters, disagreement, entity_targets, ranks
from lacuner.methods.parts import TrainingData
from lacuner.methods.registry import registry
from lacuner.methods.stages import StageContext
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TokenSupervision
from lacuner.training.settings import resolve_settings
from tiny_models import batch_loss, tiny_model
from tiny_taggers import QUICK
from watching import Log

(METHOD,) = METHODS
LABELS = ("O", "LOC", "PER")
SENTENCE = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),))


# Voters.


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 3))
def test_a_word_is_difficult_if_voters_disagree(seed: int, voters: int, words: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    votes = torch.randn((voters, words, 3), generator=generator, dtype=torch.float64).softmax(-1)
    expected = []
    for word in range(words):
        costs = []
        for one, other in combinations(range(voters), 2):
            p, q = votes[one, word].tolist(), votes[other, word].tolist()
            forth = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
            back = sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
            costs.append(forth + back)
        expected.append(sum(costs) / len(costs))
    assert_close(disagreement(votes), torch.tensor(expected, dtype=torch.float64))


def test_voters_that_exclude_a_tag_give_numbers() -> None:
    found = disagreement(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]]))
    assert found.isfinite().all()
    assert found.item() > 1


def test_difficulty_is_the_fraction_of_words_that_are_easier() -> None:
    assert ranks(torch.tensor([0.3, 0.1, 0.9, 0.1])).tolist() == [0.5, 0.0, 0.75, 0.25]
    assert ranks(torch.tensor([])).tolist() == []


class Voter(TagModel):
    """Is the less sure of ``O`` the higher its number, but only at first words."""

    def __init__(self, number: int) -> None:
        torch.nn.Module.__init__(self)
        self.number = number

    def tag_weights(self, corpus: Corpus, indices: Any, hard: bool = False, any_tag: bool = False) -> Any:
        assert any_tag
        return {index: torch.tensor([self._word(word) for word in range(len(corpus[index]))]) for index in indices}

    def _word(self, word: int) -> list[float]:
        entity = 0.1 * self.number if word == 0 else 0.1
        return [1 - entity, entity / 2, entity / 2]


def run_stage(stage: Voters, corpus: Corpus, seed: int = 1) -> tuple[dict[int, Any], list[dict[str, Any]]]:
    asked: list[dict[str, Any]] = []

    def fit(name: str, title: str, method: Any, **more: Any) -> Voter:
        asked.append({"name": name, "method": method, **more})
        return Voter(len(asked))

    method = METHOD.for_data(TrainingData(corpus, None))
    never: Any = partial(pytest.fail, "there are no folds")
    context = StageContext(corpus, LABELS, method, fit, never, lambda name, compute: compute(), seed)
    result = stage.run(context)
    assert result is not None
    return {index: known.numbers for index, known in result.tokens.items()}, asked


CORPUS = Corpus((SENTENCE, replace(SENTENCE, complete=True), Sentence(("Turin",), (Entity(0, 1, "LOC"),))))


def test_words_get_the_mean_of_what_voters_say_and_where_they_differ_is_most_difficult() -> None:
    found, _ = run_stage(Voters(voters=3), CORPUS)
    assert sorted(found) == [0, 1, 2]
    assert found[0][CONFIDENCE].tolist() == pytest.approx([0.2, 0.1, 0.1, 0.1])
    difficulty = torch.cat([found[index][DIFFICULTY] for index in range(3)])
    assert sorted(difficulty.tolist()) == pytest.approx([number / 9 for number in range(9)])
    first_words = [found[index][DIFFICULTY][0].item() for index in range(3)]
    assert min(first_words) == pytest.approx(6 / 9)


def test_each_voter_leaves_out_other_untagged_words_and_takes_the_rest_as_annotated() -> None:
    corpus = Corpus((*[replace(SENTENCE, tokens=(*SENTENCE.tokens, str(n))) for n in range(40)], CORPUS[1]))
    _, asked = run_stage(Voters(voters=2, dropped=0.5, epochs=4), corpus)
    one, other = (voter["supervision"] for voter in asked)
    assert [voter["seed_offset"] for voter in asked] == [0, 1]
    assert {voter["epochs"] for voter in asked} == {4}
    assert all(type(voter["method"].loss) is ConfidenceRisk for voter in asked)
    ignored = [sum(len(known.ignored) for known in part.values()) for part in (one, other)]
    assert all(50 < count < 110 for count in ignored), "about half of 160"
    assert [known.ignored for known in one.values()] != [known.ignored for known in other.values()]
    for index, sentence in enumerate(corpus):
        assert 0 not in one[index].ignored, "an annotated word"
        assert one[index].numbers[CONFIDENCE].tolist() == [1.0] + [0.0] * (len(sentence) - 1)
    assert one[40].ignored == (), "complete sentences lack nothing"
    again, elsewhere = (run_stage(Voters(voters=2, dropped=0.5), corpus, seed)[1][0]["supervision"] for seed in (1, 2))
    assert [known.ignored for known in one.values()] == [known.ignored for known in again.values()]
    assert [known.ignored for known in one.values()] != [known.ignored for known in elsewhere.values()]


def test_voters_leave_out_only_words_that_nobody_has_said_anything_about() -> None:
    """Not what a reviewer has rejected, but words of a complete sentence that are marked as unknown."""
    words = tuple("abcdefghij")
    rejecting = Sentence(words, (), tuple(Span(word, word + 1) for word in range(5)))
    marked = Sentence(words, complete=True, unknown_tokens=frozenset(range(5)))
    _, asked = run_stage(Voters(dropped=0.95), Corpus((CORPUS[0], rejecting, marked)))
    known = asked[0]["supervision"]
    assert set(known[1].ignored) <= set(range(5, 10))
    assert known[2].ignored
    assert set(known[2].ignored) <= set(range(5))


# The loss.


def test_five_stages_take_the_easiest_words_first() -> None:
    loss = Curriculum(begin=0.5)
    shares = [loss.easiest(progress) for progress in (0.0, 0.09, 0.1, 0.2, 0.3, 0.4, 0.49)]
    assert shares == pytest.approx([16 / 31, 16 / 31, 24 / 31, 28 / 31, 30 / 31, 1, 1])
    assert Curriculum(stages=1).easiest(0.0) == 1


def slow_entity_targets(words: list[list[float]], threshold: float) -> list[list[float]]:
    entities = [word for word in words if 1 - word[0] > threshold]
    frequency = [sum(word[tag] for word in entities) for tag in range(len(words[0]))]
    found = []
    for word in words:
        if 1 - word[0] > threshold:
            weights = [word[tag] ** 2 / frequency[tag] for tag in range(1, len(word))]
            found.append([0.0, *(weight / sum(weights) for weight in weights)])
        else:
            found.append([word[0], *[0.0] * (len(word) - 1)])
    return found


@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([0.2, 0.5, 0.8]))
def test_types_of_entities_are_sharpened_and_other_words_are_outside(seed: int, words: int, threshold: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    probability = (2 * torch.randn((1, words, 3), generator=generator, dtype=torch.float64)).softmax(-1)
    found = entity_targets(probability, torch.ones(1, words).bool(), threshold)
    assert_close(found[0], torch.tensor(slow_entity_targets(probability[0].tolist(), threshold), dtype=torch.float64))


def known_words(confidence: float, difficulty: list[float]) -> TokenSupervision:
    numbers = {CONFIDENCE: torch.full((len(difficulty),), confidence), DIFFICULTY: torch.tensor(difficulty)}
    return TokenSupervision(numbers=numbers)


def test_difficult_words_teach_nothing_at_first() -> None:
    method = METHOD.for_data(TrainingData(Corpus((SENTENCE,)), None))
    model = tiny_model(method, ("O", "PER"))
    method.begin_training(model, 1)
    risk = method.model_copy(update={"loss": ConfidenceRisk(prior=method.loss.prior)})
    found = batch_loss(method, model, [SENTENCE], [known_words(0.4, [0.1, 0.2, 0.6, 0.9])])
    easy = replace(known_words(0.4, [0.0] * 4), ignored=(2, 3))
    assert found.item() == pytest.approx(batch_loss(risk, model, [SENTENCE], [easy]).item())
    complete = replace(SENTENCE, complete=True)
    found = batch_loss(method, model, [complete], [known_words(0.4, [0.9] * 4)])
    assert found.item() == pytest.approx(batch_loss(risk, model, [complete], [known_words(0.4, [0.0] * 4)]).item())
    marked = replace(complete, unknown_tokens=frozenset({3}))
    found = batch_loss(method, model, [marked], [known_words(0.4, [0.9] * 4)])
    easy = replace(known_words(0.4, [0.0] * 4), ignored=(3,))
    assert found.item() == pytest.approx(batch_loss(risk, model, [marked], [easy]).item())


def test_then_the_model_is_its_own_teacher() -> None:
    method = METHOD.for_data(TrainingData(Corpus((SENTENCE,)), None))
    model = tiny_model(method, ("O", "PER"))
    method.begin_training(model, 1)
    model.state_of("loss")["number"].fill_(1)
    with torch.no_grad():
        (scores,) = model.decisions(model.encode([SENTENCE.tokens]))
    expected = []
    p = scores.softmax(-1).tolist()
    for word, goal in zip(p, slow_entity_targets(p, 0.8), strict=True):
        expected.append(sum(g * math.log(g / q) for g, q in zip(goal, word, strict=True) if g))
    found = batch_loss(method, model, [SENTENCE], [known_words(0.4, [0.9] * 4)])
    assert found.item() == pytest.approx(sum(expected) / 4, abs=1e-6)


# As a method.


def test_the_preset_is_the_papers() -> None:
    assert registry().method("cupul") is METHOD
    assert (METHOD.level, METHOD.head, METHOD.loss) == ("token", SoftmaxConfig(scheme="io"), Curriculum())
    assert (METHOD.stage, Voters().voters, Curriculum().entity_confidence) == (Voters(), 5, 0.8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head.scheme": "bioes"}, "loss=curriculum classifies whole types"),
        ({"stage": "none"}, "needs the entity probabilities of words"),
        ({"stage": "entity-confidence"}, "which words are easy — set stage=voters"),
        (
            {"loss": "likelihood", "unlabeled": "outside"},
            "requires a loss that uses confidences — set loss=curriculum",
        ),
    ],
)
def test_parts_that_make_no_sense_together_are_refused(toy: Corpus, settings: dict[str, object], message: str) -> None:
    method = resolve_settings("cupul", overrides=settings).method
    with pytest.raises(ConfigError, match=message):
        method.check(TrainingData(toy, None))


def test_it_learns_from_gaps(toy: Corpus, tmp_path) -> None:
    settings = QUICK | {"stage.voters": 2, "stage.epochs": 12, "loss.begin": 0.7}
    model = Recognizer.train(toy.mask(0.5, seed=1), toy, method="cupul", epochs=20, settings=settings)
    assert model.evaluate(toy).f1 > 0.8
    model.save_pretrained(tmp_path / "model")
    assert Recognizer.from_pretrained(tmp_path / "model").evaluate(toy) == model.evaluate(toy)


@pytest.mark.parametrize("kill", [("voter 2/2", 1), ("", 2), ("", 3)], ids=["voter", "curriculum", "self-training"])
def test_a_run_that_is_resumed_ends_with_the_same_weights(toy: Corpus, tmp_path: Path, kill: tuple[str, int]) -> None:
    settings = QUICK | {"stage.voters": 2, "stage.epochs": 2, "loss.teachers": 2}
    train = partial(Recognizer.train, toy[:12].mask(0.3), toy[:4], method="cupul", epochs=5, settings=settings)
    whole = train()
    with pytest.raises(KeyboardInterrupt):
        train(out=tmp_path / "model", observer=Log(kill))
    resumed = train(out=tmp_path / "model", resume=True)
    for name, value in whole.model.state_dict().items():
        assert value.equal(resumed.model.state_dict()[name]), name


def test_a_transformer_learns_with_trusted_sentences_too(toy: Corpus, toy_bert: str) -> None:
    settings = {"stage.voters": 2, "stage.epochs": 1, "training.batch_tokens": 64}
    model = Recognizer.train(
        toy[5:].mask(0.5), toy[:3], method="cupul", encoder=toy_bert, trusted=toy[:5], epochs=2, settings=settings
    )
    assert all(parameter.isfinite().all() for parameter in model.model.parameters())


@pytest.mark.slow
def test_on_the_sample_it_finds_entities_of_which_most_labels_are_hidden(sample: dict[str, Corpus]) -> None:
    """70 % of the labels are hidden."""
    settings = {"encoder.vectors": "none", "encoder.hidden": 64, "training.batch_tokens": 96, "stage.voters": 2}
    gaps = sample["train"].mask(0.7, seed=1)
    model = Recognizer.train(gaps, sample["dev"], method="cupul", epochs=8, settings=settings)
    assert model.evaluate(sample["test"]).f1 > 0.15
