import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.errors import ConfigError
from lacuner.heads import SoftmaxConfig
from lacuner.methods.bond import METHODS, SelfTraining, divergence, soft_targets
from lacuner.methods.method import TokenMethod
from lacuner.methods.parts import StateSizes, Step, TrainingData
from lacuner.methods.registry import registry
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TagScheme, TagSet, TokenSupervision, build_tag_targets
from lacuner.training.settings import resolve_settings
from tiny_models import batch_loss, tiny_model
from tiny_taggers import QUICK
from watching import StopAfter

(METHOD,) = METHODS
LABELS = ("O", "LOC", "PER")


# Targets.


def slow_targets(rows: list[list[list[float]]], lengths: list[int]) -> list[list[list[float]]]:
    """p² / Σ_batch p, normalized, word by word and tag by tag."""
    tags = len(rows[0][0])
    frequency = [0.0] * tags
    for row, length in zip(rows, lengths, strict=True):
        for word in row[:length]:
            for tag in range(tags):
                frequency[tag] += word[tag]
    found = []
    for row in rows:
        words = []
        for word in row:
            weights = [word[tag] ** 2 / frequency[tag] for tag in range(tags)]
            words.append([weight / sum(weights) for weight in weights])
        found.append(words)
    return found


@given(st.integers(0, 10_000), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_targets_are_squares_divided_by_the_frequency_of_tags_in_the_batch(seed: int, lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths), 3)
    probability = (3 * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(-1)
    inside = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    found = soft_targets(probability, inside)
    assert_close(found, torch.tensor(slow_targets(probability.tolist(), lengths), dtype=torch.float64))
    assert_close(found.sum(-1), torch.ones(shape[:2], dtype=torch.float64))


def test_a_tag_that_no_word_has_is_no_problem() -> None:
    found = soft_targets(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), torch.ones(1, 2).bool())
    assert found.tolist() == [[[1, 0], [1, 0]]]


def slow_divergence(scores: list[float], goal: list[float], linear: bool) -> float:
    total = sum(math.exp(score) for score in scores)
    cost = 0.0
    for score, target in zip(scores, goal, strict=True):
        learned = score if linear else math.log(math.exp(score) / total)
        cost += target * (math.log(target) - learned) if target else 0.0
    return cost


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("goal", [[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
def test_the_divergence_is_that_of_kullback_and_leibler_or_linear_in_the_scores(
    goal: list[float], linear: bool
) -> None:
    scores = [0.5, -1.0, 2.0]
    found = divergence(torch.tensor([[scores]]), torch.tensor([[goal]]), linear)
    assert found.item() == pytest.approx(slow_divergence(scores, goal, linear))


def test_a_student_that_agrees_with_its_target_costs_nothing() -> None:
    goal = torch.tensor([[[0.2, 0.3, 0.5]]])
    assert divergence(goal.log() + 7, goal).item() == pytest.approx(0, abs=1e-6)


# The loss.


def taught_model(**settings: Any) -> tuple[TokenMethod, TagModel]:
    """A model without dropout that has a teacher whose weights are not its own."""
    method = METHOD.model_copy(update={"loss": SelfTraining(**settings), "head": SoftmaxConfig(scheme="io")})
    model = tiny_model(method, LABELS).double()
    method.begin_training(model, 5)
    state = model.state_of("loss")
    state["number"].fill_(1)
    generator = torch.Generator().manual_seed(1)
    for name, value in state.items():
        if name.startswith("teacher."):
            value.copy_(torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return method, model


def other_scores(model: TagModel, words: tuple[str, ...]) -> Tensor:
    """What the teacher says, with its weights put into another model."""
    other = tiny_model(METHOD.model_copy(update={"head": SoftmaxConfig(scheme="io")}), LABELS).double().eval()
    state = model.state_of("loss")
    other.load_state_dict(
        {name: state.get(f"teacher.{name}", value) for name, value in other.state_dict().items()}, strict=True
    )
    with torch.no_grad():
        (scores,) = other.decisions(other.encode([words]))
    return scores


GAPS = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),))
SHORT = Sentence(("Turin", "to"), (Entity(0, 1, "LOC"),), complete=True)


@pytest.mark.parametrize(
    "settings", [{"confidence": 0.0}, {"confidence": 0.9}, {"confidence": 0.9, "divergence": "linear"}]
)
def test_a_batch_costs_what_each_confident_word_costs_and_known_words_their_annotation(
    settings: dict[str, Any],
) -> None:
    method, model = taught_model(**settings)
    found = batch_loss(method, model, [GAPS, SHORT])
    teacher = [other_scores(model, sentence.tokens).softmax(-1).tolist() for sentence in (GAPS, SHORT)]
    teacher[1] += [[1.0, 0.0, 0.0]] * 2  # padding
    goal = slow_targets(teacher, [4, 2])
    with torch.no_grad():
        scores = [model.decisions(model.encode([sentence.tokens]))[0].tolist() for sentence in (GAPS, SHORT)]
    linear = settings.get("divergence") == "linear"
    costs = [
        slow_divergence(scores[0][word], goal[0][word], linear)
        for word in range(4)
        if max(goal[0][word]) > settings["confidence"]
    ]
    assert settings["confidence"] == 0 or 0 < len(costs) < 4, "or else the test says little"
    costs += [
        slow_divergence(scores[1][0], [0.0, 1.0, 0.0], False),
        slow_divergence(scores[1][1], [1.0, 0.0, 0.0], False),
    ]
    assert found.item() == pytest.approx(sum(costs) / len(costs))


def test_an_annotation_with_gaps_is_not_learned_once_there_is_a_teacher() -> None:
    method, model = taught_model(confidence=0.0)
    other = replace(GAPS, entities=(Entity(1, 4, "LOC"),))
    assert batch_loss(method, model, [GAPS]).item() == batch_loss(method, model, [other]).item()


def test_a_word_that_a_reviewer_has_rejected_is_never_taught_as_an_entity() -> None:
    method, model = taught_model(confidence=0.0)
    rejected = replace(GAPS, entities=(), non_entities=tuple(Span(word, word + 1) for word in range(4)))
    with torch.no_grad():
        (scores,) = model.decisions(model.encode([GAPS.tokens]))
    expected = [slow_divergence(word, [1.0, 0.0, 0.0], False) for word in scores.tolist()]
    assert batch_loss(method, model, [rejected]).item() == pytest.approx(sum(expected) / 4)


@pytest.mark.parametrize("scheme", ["io", "bio2", "bioes"])
def test_the_teacher_may_say_that_an_annotated_entity_goes_on(scheme: TagScheme) -> None:
    """Only what a reviewer has rejected is excluded."""
    tags = TagSet(scheme, LABELS)
    targets = build_tag_targets([GAPS, replace(GAPS, non_entities=(Span(2, 3),))], tags)
    loss, step = SelfTraining(), step_at(0.9)._replace(score_with=lambda _: torch.zeros(2, 4, len(tags)))
    found = loss.teacher_probabilities(SoftmaxConfig().build(3, tags), targets, step, {"number": torch.tensor(1)})
    assert found is not None
    assert (found == 0).nonzero().tolist() == [[1, 2, tag] for tag in tags.single_word_tags]


def test_words_that_are_ignored_teach_nothing_and_a_batch_without_others_costs_nothing() -> None:
    method, model = taught_model(confidence=0.0)
    loss = batch_loss(method, model, [GAPS], [TokenSupervision(ignored=(0, 1, 2, 3))])
    loss.backward()
    assert loss.item() == 0
    assert all(weight.grad is None or not weight.grad.any() for weight in model.parameters())


def test_the_teacher_learns_nothing_and_the_student_does() -> None:
    method, model = taught_model(confidence=0.0)
    before = {name: value.clone() for name, value in model.state_of("loss").items()}
    model.train()
    batch_loss(method, model, [GAPS]).backward()
    assert model.training, "asking the teacher leaves the student in training mode"
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
    assert all(value.equal(before[name]) for name, value in model.state_of("loss").items())


def test_without_a_teacher_the_annotation_is_learned() -> None:
    method, model = taught_model()
    model.state_of("loss")["number"].fill_(0)
    token = registry().method("token").model_copy(update={"head": SoftmaxConfig(scheme="io")})
    assert batch_loss(method, model, [GAPS, SHORT]).item() == batch_loss(token, model, [GAPS, SHORT]).item()


# Teachers.


def step_at(progress: float) -> Step:
    return Step(0, 1, torch.Generator(), progress=progress)


def test_teachers_follow_each_other_at_equal_intervals_after_the_first_stage() -> None:
    loss = SelfTraining(begin=0.2, teachers=4)
    numbers = [loss.teacher_number(progress) for progress in (0.0, 0.19, 0.2, 0.39, 0.41, 0.61, 0.81, 0.999)]
    assert numbers == [0, 0, 1, 1, 2, 3, 4, 4]


@pytest.mark.parametrize("again", [False, True])
def test_a_new_teacher_is_the_model_as_it_is_then(again: bool) -> None:
    loss = SelfTraining(begin=0.5, teachers=1, reinitialize=again)
    weights = {"encoder.weight": torch.tensor([1.0]), "head.bias": torch.tensor([2.0])}
    state = loss.training_state(StateSizes(3, 4, weights), 5)
    for weight in weights.values():
        weight.add_(10)
    loss.before_step(weights, step_at(0.4), state)
    assert state["number"] == 0
    loss.before_step(weights, step_at(0.5), state)
    assert state["number"] == 1
    assert (state["teacher.encoder.weight"].item(), state["teacher.head.bias"].item()) == (11, 12)
    assert [weight.item() for weight in weights.values()] == ([1, 2] if again else [11, 12]), "or as at first"
    for weight in weights.values():
        weight.add_(10)
    loss.before_step(weights, step_at(0.9), state)
    assert state["teacher.encoder.weight"].item() == 11, "there is no other teacher"


def test_the_teacher_is_kept_while_a_model_is_trained_only() -> None:
    _, model = taught_model()
    names = {f"teacher.{name}" for name, _ in model.named_parameters()}
    assert set(model.state_of("loss")) == {"number", *names}
    assert not any("teacher" in name for name in model.state_dict())


# As a method.


def test_the_preset_is_the_papers() -> None:
    assert registry().method("bond") is METHOD
    assert (METHOD.level, METHOD.head, METHOD.loss) == ("token", SoftmaxConfig(), SelfTraining())
    loss = METHOD.loss
    assert (loss.confidence, loss.divergence, loss.reinitialize) == (0.9, "kl", False)
    assert (METHOD.sampling, METHOD.regularizer, METHOD.stage) == (None, None, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head": "crf"}, "loss=self-training does not train transitions — set head=softmax"),
        ({"sampling": "spans"}, r"no label for sampled non-entities — set sampling\.label=O"),
    ],
)
def test_parts_that_make_no_sense_together_are_refused(toy: Corpus, settings: dict[str, object], message: str) -> None:
    method = resolve_settings("bond", overrides=settings).method
    with pytest.raises(ConfigError, match=message):
        method.check(TrainingData(toy, None))


@pytest.mark.parametrize(("epoch", "again"), [(1, False), (3, False), (3, True)])
def test_a_run_that_is_resumed_has_the_teacher_that_it_had(toy: Corpus, tmp_path, epoch: int, again: bool) -> None:
    """Interrupted before there is one, or between two."""
    settings = QUICK | {"loss.begin": 0.3, "loss.teachers": 3, "loss.confidence": 0.4, "loss.reinitialize": again}
    train = partial(Recognizer.train, toy[:12].mask(0.3), toy[:4], method="bond", epochs=5, settings=settings)
    whole = train()
    with pytest.raises(KeyboardInterrupt):
        train(out=tmp_path / "model", observer=StopAfter(epoch))
    resumed = train(out=tmp_path / "model", resume=True)
    assert [record["loss"] for record in whole.record.history] == [record["loss"] for record in resumed.record.history]
    for name, value in whole.model.state_dict().items():
        assert value.equal(resumed.model.state_dict()[name]), name
    saved = Recognizer.from_pretrained(tmp_path / "model")
    assert saved.evaluate(toy) == resumed.evaluate(toy)


def test_it_learns_although_some_labels_are_wrong_or_missing(toy: Corpus) -> None:
    """Every seventh sentence has no label, the one after it a wrong one."""
    noisy = [replace(sentence, entities=()) if number % 7 == 0 else sentence for number, sentence in enumerate(toy)]
    for number in range(1, len(noisy), 7):
        noisy[number] = replace(noisy[number], entities=tuple(replace(e, label="PER") for e in noisy[number].entities))
    settings = QUICK | {"loss.begin": 0.5}
    model = Recognizer.train(Corpus(tuple(noisy)), toy, method="bond", epochs=16, settings=settings)
    assert model.evaluate(toy).f1 > 0.9
    assert model.record.best_epoch > 8, "the teachers have taught it something"


def test_a_transformer_learns_with_trusted_sentences_too(toy: Corpus, toy_bert: str) -> None:
    settings = {"training.batch_tokens": 64, "loss.confidence": 0.4, "loss.begin": 0.4, "loss.teachers": 2}
    model = Recognizer.train(
        toy[5:].mask(0.5), toy[:3], method="bond", encoder=toy_bert, trusted=toy[:5], epochs=3, settings=settings
    )
    assert len(model.predict([sentence.tokens for sentence in toy])) == len(toy)
    assert all(parameter.isfinite().all() for parameter in model.model.parameters())


@pytest.mark.slow
def test_on_the_sample_it_finds_entities_of_which_most_labels_are_hidden(sample: dict[str, Corpus]) -> None:
    """70 % of the labels are hidden; small batches, so that few epochs are many steps."""
    settings = {"encoder.vectors": "none", "encoder.hidden": 64, "training.batch_tokens": 96}
    rates = dict.fromkeys(("training.encoder_learning_rate", "training.head_learning_rate"), 0.004)
    gaps = sample["train"].mask(0.7, seed=1)
    model = Recognizer.train(gaps, sample["dev"], method="bond", epochs=12, settings=settings | rates)
    assert model.evaluate(sample["test"]).f1 > 0.2
