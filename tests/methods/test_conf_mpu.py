from dataclasses import replace
from functools import partial
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
from lacuner.methods.bnpu import BoundedNonNegative, type_fractions
from lacuner.methods.conf_mpu import (
    CONFIDENCE,
    METHODS,
    ClassWords,
    ConfidenceRisk,
    EntityConfidence,
    confidence_risk,
    words_of_class,
)
from lacuner.methods.method import TokenMethod
from lacuner.methods.parts import Step, TrainingData
from lacuner.methods.registry import registry
from lacuner.methods.stages import StageContext
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TagSet, TokenSupervision, build_tag_targets
from lacuner.training.loop import Observer
from lacuner.training.settings import resolve_settings
from tiny_models import batch_loss, tiny_model
from tiny_taggers import QUICK

(METHOD,) = METHODS
LABELS = ("O", "LOC", "PER")


# The risk.


def slow_risk(
    words: list[tuple[int, float, list[float]]], prior: list[float], m: float, eta: float, per_word: bool
) -> float:
    """Word by word; each has a status, a confidence λ and probabilities, that of ``O`` first.

    A status of 1 or more is the type that a word is annotated with, 0 known to be no entity, -1 unknown, -2 ignored.
    """

    def error(probabilities: list[float], truth: int) -> float:
        return abs(1 - probabilities[truth])

    positive_risk = 0.0
    for i, pi in enumerate(prior, start=1):
        annotated = [(confidence, p) for status, confidence, p in words if status == i]
        if not annotated:
            continue
        if per_word:
            costs = []
            for confidence, p in annotated:
                hidden = error(p, 0) / confidence if confidence > eta else 0.0
                costs.append(max(0.0, error(p, i) + hidden - error(p, 0)))
            positive_risk += pi * sum(costs) / len(costs)
        else:
            sure = [error(p, 0) / confidence for confidence, p in annotated if confidence > eta]
            bracket = sum(sure) / len(sure) if sure else 0.0
            bracket += sum(error(p, i) - error(p, 0) for _, p in annotated) / len(annotated)
            positive_risk += pi * bracket
    outside = [(status, confidence, p) for status, confidence, p in words if status in (0, -1)]
    taught = [error(p, 0) for status, confidence, p in outside if status == 0 or confidence <= eta]
    count = len(outside) if per_word else len(taught)
    negative_risk = sum(taught) / count if count else 0.0
    if positive_risk < 0:
        return negative_risk
    return m * positive_risk + negative_risk


@given(
    st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 5), st.sampled_from([0.0, 0.3, 0.5, 0.9]), st.booleans()
)
def test_the_risk_is_that_of_the_paper_word_by_word(
    seed: int, rows: int, longest: int, eta: float, per_word: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    probability = torch.rand((rows, longest, 3), generator=generator, dtype=torch.float64).softmax(-1)
    confidence = torch.rand((rows, longest), generator=generator, dtype=torch.float64)
    status = torch.randint(-2, 3, (rows, longest), generator=generator)
    prior = torch.rand(2, generator=generator, dtype=torch.float64)
    positive = torch.stack([status == 1, status == 2], dim=-1)
    found = confidence_risk(
        probability, ClassWords(positive, status == -1, status == 0, confidence), 15 * prior, eta, per_word
    )
    words = list(
        zip(status.flatten().tolist(), confidence.flatten().tolist(), probability.flatten(0, 1).tolist(), strict=True)
    )
    expected = slow_risk(words, prior.tolist(), 15, eta, per_word)
    assert_close(found, torch.tensor(expected, dtype=torch.float64))


def one_batch(status: list[int], confidence: list[float], outside: list[float]) -> tuple[torch.Tensor, ClassWords]:
    """One sentence and one type: probabilities, and what is known."""
    free = torch.tensor([outside])
    kinds = torch.tensor([status])
    words = ClassWords((kinds == 1)[..., None], kinds == -1, kinds == 0, torch.tensor([confidence]))
    return torch.stack([free, 1 - free], dim=-1).requires_grad_(), words


def test_unknown_words_that_look_like_entities_teach_nothing() -> None:
    probability, words = one_batch([-1, -1], [0.9, 0.1], [0.5, 0.5])
    confidence_risk(probability, words, torch.tensor([1.0]), 0.5).backward()
    assert probability.grad is not None
    assert probability.grad[0, 0].tolist() == [0, 0]
    assert probability.grad[0, 1, 0] < 0, "the other one shall be O"


def test_with_a_perfect_confidence_the_risk_is_that_of_complete_annotation() -> None:
    """An annotated word with λ = 1 costs what a wrong type costs, and a word with λ = 0 what a wrong ``O`` costs."""
    probability, words = one_batch([1, -1], [1.0, 0.0], [0.3, 0.6])
    assert confidence_risk(probability, words, torch.tensor([2.0]), 0.5).item() == pytest.approx(2 * 0.3 + 0.4)


def test_an_annotated_word_that_looks_like_no_entity_teaches_until_its_type_is_as_likely_as_none() -> None:
    for outside, moved in ((0.7, True), (0.3, False)):
        probability, words = one_batch([1], [0.2], [outside])
        confidence_risk(probability, words, torch.tensor([1.0]), 0.5).backward()
        assert probability.grad is not None
        assert bool(probability.grad.any()) == moved


@pytest.mark.parametrize("per_word", [True, False])
@pytest.mark.parametrize("status", [(1, 1), (-1, -1), (0, 0), (-2, -2), (0, 1)])
def test_a_batch_that_lacks_words_of_a_kind_gives_numbers(status: tuple[int, int], per_word: bool) -> None:
    probability, words = one_batch(list(status), [0.0, 1.0], [0.5, 0.7])
    risk = confidence_risk(probability, words, torch.tensor([2.0]), 0.0, per_word)
    risk.backward()
    assert risk.isfinite()
    assert probability.grad is not None
    assert probability.grad.isfinite().all()


# What is known about words.


GAPS = Sentence(("Grace", "Hopper", "moved", "to", "Turin"), (Entity(0, 2, "PER"),))
NUMBERS = torch.tensor([0.1, 0.9, 0.2, 0.3, 0.8])


def status_of(sentence: Sentence, **known: Any) -> tuple[str, list[float]]:
    """A letter a word (L, P, U, N, or a dot where nothing is taught), and its confidence."""
    longer = Sentence(tuple("abcdefg"), complete=True)
    supervision = [None, TokenSupervision(numbers={CONFIDENCE: NUMBERS}, **known)]
    targets = build_tag_targets([longer, sentence], TagSet("io", LABELS), supervision)
    found = words_of_class(targets.possible, targets)
    masks = {
        "L": found.positive[1, :, 0],
        "P": found.positive[1, :, 1],
        "U": found.unknown[1],
        "N": found.negative[1],
    }
    letters = ["".join(letter for letter, mask in masks.items() if mask[word]) or "." for word in range(7)]
    assert letters[len(sentence) :] == ["."] * (7 - len(sentence)), "padding"
    return "".join(letters[: len(sentence)]), found.confidence[1, : len(sentence)].tolist()


def test_words_without_annotation_are_unknown_with_the_confidence_of_the_stage() -> None:
    letters, confidence = status_of(GAPS)
    assert letters == "PPUUU"
    assert confidence == pytest.approx(NUMBERS.tolist())


def test_complete_sentences_need_no_confidence() -> None:
    letters, confidence = status_of(replace(GAPS, complete=True, unknown_tokens=frozenset({4})))
    assert letters == "PPNNU"
    assert confidence == pytest.approx([1, 1, 0.2, 0.3, 0.8])


def test_rejected_words_are_known_and_ignored_ones_teach_nothing() -> None:
    assert status_of(replace(GAPS, non_entities=(Span(2, 3),)))[0] == "PPNUU"
    assert status_of(GAPS, ignored=(3,))[0] == "PPU.U"


def test_words_that_may_have_a_label_nobody_looked_for_are_unknown() -> None:
    assert status_of(replace(GAPS, complete=True, annotated_labels=frozenset({"PER"})))[0] == "PPUUU"


def test_the_loss_of_a_batch_is_the_risk_of_its_words() -> None:
    loss = ConfidenceRisk(weight=4.0, prior={"LOC": 0.1, "PER": 0.2}, threshold=0.25)
    tags = TagSet("io", LABELS)
    torch.manual_seed(0)
    decisions = torch.randn(2, 5, 3, dtype=torch.float64)
    sentences = [GAPS, Sentence(("to", "Turin"), (Entity(1, 2, "LOC"),), complete=True)]
    known = [TokenSupervision(numbers={CONFIDENCE: NUMBERS}), None]
    targets = build_tag_targets(sentences, tags, known)
    weights = torch.zeros(decisions.shape).masked_fill(~targets.possible, float("-inf"))
    found = loss(
        SoftmaxConfig(scheme="io").build(4, tags), decisions, weights, targets, Step(0, 1, torch.Generator()), {}
    )
    p = decisions.softmax(-1).tolist()
    words = [(2, 0.1, p[0][0]), (2, 0.9, p[0][1]), (-1, 0.2, p[0][2]), (-1, 0.3, p[0][3]), (-1, 0.8, p[0][4])]
    words += [(0, 0.0, p[1][0]), (1, 1.0, p[1][1])]
    assert found.item() == pytest.approx(slow_risk(words, [0.1, 0.2], 4.0, 0.25, True))


def test_without_a_weight_annotated_words_count_twice_as_much_as_all_others() -> None:
    """With the paper's priors of CoNLL-03 the weight is 16.7, where the paper has 15."""
    known = [TokenSupervision(numbers={CONFIDENCE: torch.ones(5)})]
    tags = TagSet("io", LABELS)
    targets = build_tag_targets([GAPS], tags, known)
    weights = torch.zeros(1, 5, 3).masked_fill(~targets.possible, float("-inf"))
    head, step = SoftmaxConfig(scheme="io").build(4, tags), Step(0, 1, torch.Generator())
    loss = ConfidenceRisk(prior={"LOC": 0.1, "PER": 0.3})
    found = loss(head, torch.zeros(1, 5, 3), weights, targets, step, {})
    assert found.item() == pytest.approx(2 / 0.4 * 0.3 * 2 / 3)


# The stage.


class Judge(TagModel):
    """Knows how probably each word is part of an entity."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)

    def tag_weights(self, corpus: Corpus, indices: Any, hard: bool = False, any_tag: bool = False) -> Any:
        assert any_tag, "what is annotated shall be judged, too"
        return {
            index: torch.tensor([[1 - number / 10, number / 10] for number in range(len(corpus[index]))])
            for index in indices
        }


def run_stage(stage: EntityConfidence, corpus: Corpus, method: TokenMethod) -> tuple[dict[int, Any], dict[str, Any]]:
    asked: dict[str, Any] = {}

    def fit(name: str, title: str, method: TokenMethod, **more: Any) -> Judge:
        asked.update(more, method=method)
        return Judge()

    def cross_fit(name: str, title: str, indices: Any, folds: int, predict: Any, **more: Any) -> list[Any]:
        asked.update(more, folds=folds)
        return [predict(Judge(), [index for index in indices if index % folds == fold]) for fold in range(folds)]

    context = StageContext(corpus, ("O", *corpus.labels), method, fit, cross_fit, lambda name, compute: compute())
    result = stage.run(context)
    assert result is not None
    return {index: known.numbers for index, known in result.tokens.items()}, asked


@pytest.mark.parametrize("folds", [None, 2])
def test_every_word_of_every_sentence_gets_a_confidence(toy: Corpus, folds: int | None) -> None:
    corpus = Corpus((*toy[:4].mask(0.5), replace(toy[4], complete=True)))
    found, asked = run_stage(EntityConfidence(folds=folds), corpus, METHOD.for_data(TrainingData(corpus, None)))
    assert sorted(found) == list(range(5))
    for index, sentence in enumerate(corpus):
        assert_close(found[index][CONFIDENCE], torch.arange(len(sentence)) / 10)
    assert asked["labels"] == {"LOC": "entity", "PER": "entity"}
    assert asked.get("folds") == folds


def test_entity_or_not_expects_as_many_words_in_entities_as_all_types_together(toy: Corpus) -> None:
    method = METHOD.model_copy(update={"loss": ConfidenceRisk(prior={"LOC": 0.1, "PER": 0.3})})
    _, asked = run_stage(EntityConfidence(weight=7.0), toy, method)
    assert isinstance(asked["method"].loss, BoundedNonNegative)
    assert asked["method"].loss.weight == 7
    assert asked["method"].loss.prior == {"entity": pytest.approx(0.4)}


# As a method.


def test_the_preset_is_the_papers() -> None:
    assert registry().method("conf-mpu") is METHOD
    assert (METHOD.level, METHOD.head, METHOD.loss) == ("token", SoftmaxConfig(scheme="io"), ConfidenceRisk())
    assert (METHOD.sampling, METHOD.regularizer, METHOD.stage) == (None, None, EntityConfidence())
    assert METHOD.loss.threshold == 0.5


def test_priors_are_estimated_as_for_bnpu_or_given(toy: Corpus) -> None:
    gaps = toy.mask(0.5, seed=1)
    assert ConfidenceRisk().for_data(TrainingData(gaps, toy)).prior == pytest.approx(type_fractions(toy, toy.labels))
    given = ConfidenceRisk(prior={"LOC": 0.4, "PER": 0.5})
    assert given.for_data(TrainingData(gaps, toy)).prior == {"LOC": 0.4, "PER": 0.5}


def test_a_type_that_only_few_complete_sentences_have_is_learned(toy: Corpus) -> None:
    """They are too few to count how frequent types are, but a prior of 0 would mean that there are none."""
    few = toy[:8].as_complete()
    prior = ConfidenceRisk().for_data(TrainingData(few, None)).prior
    assert prior == pytest.approx(type_fractions(few, few.labels))
    assert min(prior.values()) > 0.1
    assert Recognizer.train(few, None, method="conf-mpu", epochs=60, settings=QUICK).evaluate(few).f1 > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head.scheme": "bioes"}, r"loss=conf-mpu classifies whole types, but head\.scheme=bioes"),
        ({"head": "crf", "head.scheme": "io"}, "loss=conf-mpu does not train transitions"),
        ({"sampling": "spans"}, "loss=conf-mpu has no label for sampled non-entities"),
        ({"stage": "tag-weights"}, "loss=conf-mpu does not weigh tags"),
        ({"stage": "none"}, "needs the entity probabilities of words — set stage=entity-confidence"),
        ({"loss.prior": {"LOC": 0.1}}, r"loss\.prior says nothing about PER"),
    ],
)
def test_parts_that_make_no_sense_together_are_refused(toy: Corpus, settings: dict[str, object], message: str) -> None:
    method = resolve_settings("conf-mpu", overrides=settings).method
    with pytest.raises(ConfigError, match=message):
        method.check(TrainingData(toy, None))


def test_every_parameter_learns(toy: Corpus) -> None:
    method = METHOD.for_data(TrainingData(toy, None))
    model = tiny_model(method, ("O", *toy.labels))
    known = [TokenSupervision(numbers={CONFIDENCE: torch.full((len(sentence),), 0.4)}) for sentence in toy[:3]]
    batch_loss(method, model, toy[:3], known).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_it_learns_from_gaps_what_a_tagger_overlooks(toy: Corpus, tmp_path) -> None:
    train = partial(Recognizer.train, toy.mask(0.5, seed=1), toy, epochs=12, settings=QUICK)
    model = train(method="conf-mpu")
    assert model.evaluate(toy).f1 > max(0.85, train(method="token").evaluate(toy).f1)
    model.save_pretrained(tmp_path / "model")
    loaded = Recognizer.from_pretrained(tmp_path / "model")
    assert loaded.settings == model.settings, "with the priors that were estimated"
    assert loaded.evaluate(toy).f1 == model.evaluate(toy).f1


class StopIn(Observer):
    """Interrupts training when the second epoch of the model with this title has ended."""

    def __init__(self, title: str) -> None:
        self.title, self.current = title, ""

    def stage_started(self, title: str) -> None:
        self.current = title

    def epoch_ended(self, record: dict[str, Any]) -> None:
        if self.current == self.title and record["epoch"] == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("title", ["entity or not", ""])
def test_a_run_that_is_interrupted_in_either_model_ends_as_if_it_had_not_been(
    toy: Corpus, tmp_path, title: str
) -> None:
    train = partial(Recognizer.train, toy[:12].mask(0.3), toy[:4], method="conf-mpu", epochs=3, settings=QUICK)
    whole = train()
    with pytest.raises(KeyboardInterrupt):
        train(out=tmp_path / "model", observer=StopIn(title))
    resumed = train(out=tmp_path / "model", resume=True)
    for name, value in whole.model.state_dict().items():
        assert value.equal(resumed.model.state_dict()[name]), name


@pytest.mark.parametrize("folds", ["none", 2])
def test_a_transformer_learns_with_trusted_sentences_too(toy: Corpus, toy_bert: str, folds: object) -> None:
    settings = {"stage.folds": folds, "training.batch_tokens": 64}
    model = Recognizer.train(
        toy[5:].mask(0.5), toy[:3], method="conf-mpu", encoder=toy_bert, trusted=toy[:5], epochs=2, settings=settings
    )
    assert len(model.predict([sentence.tokens for sentence in toy])) == len(toy)
    assert all(parameter.isfinite().all() for parameter in model.model.parameters())


@pytest.mark.slow
def test_on_the_sample_it_finds_entities_of_which_most_labels_are_hidden(sample: dict[str, Corpus]) -> None:
    """70 % of the labels are hidden. In a third of the epochs it learns hardly more than one type."""
    gaps = sample["train"].mask(0.7, seed=1)
    model = Recognizer.train(gaps, sample["dev"], method="conf-mpu", epochs=24, settings={"encoder.vectors": "none"})
    assert model.evaluate(sample["test"]).f1 > 0.2
