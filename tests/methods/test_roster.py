import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.errors import ConfigError
from lacuner.heads import CrfConfig
from lacuner.methods.gce import GeneralizedTokenLoss
from lacuner.methods.method import TokenMethod
from lacuner.methods.parts import Step, TrainingData
from lacuner.methods.registry import registry
from lacuner.methods.roster import (
    METHODS,
    Ensemble,
    EntityAndTypeConfig,
    Roster,
    RosterModel,
    SelfTraining,
    SoftTagTargets,
    as_known,
    distillation_loss,
    drop_untagged,
    sharpened,
)
from lacuner.methods.stages import StageContext
from lacuner.models.model import Model
from lacuner.supervision.tags import TagScheme, TagSet, TokenSupervision
from lacuner.training.loop import Observer
from lacuner.training.settings import resolve_settings, settings_from_dict
from tiny_models import BATCHES, batch_loss, encoded, tiny_model
from tiny_taggers import QUICK

(METHOD,) = METHODS
LABELS = ("O", "LOC", "PER")
TAGS = TagSet("io", LABELS)
SENTENCES = (
    Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),)),
    Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"),), complete=True),
    Sentence(("Ada", "Turin"), (), (Span(0, 1),)),
)
GENERATOR = torch.Generator()


def prepared(sentences: Sequence[Sentence] = SENTENCES, labels: Sequence[str] = LABELS) -> tuple[Roster, RosterModel]:
    """The method, and a model of it that has begun to be trained."""
    model = tiny_model(METHOD, labels)
    METHOD.begin_training(model, len(sentences), [len(sentence) for sentence in sentences])
    return METHOD, model


def decisions_of(model: RosterModel, sentence: Sentence) -> Tensor:
    with torch.no_grad():
        return model.decisions(model.encode([sentence.tokens]))[0]


# Formulas.


def test_decisions_are_the_logs_of_entity_or_not_times_the_type() -> None:
    _, model = prepared()
    batch = encoded(model, SENTENCES[:1])
    output = model.head.output(batch.words.first)[0]
    for word, row in enumerate(model.decisions(batch)[0].exp().tolist()):
        entity = 1 / (1 + math.exp(-output[word, 0].item()))
        weights = [math.exp(value) for value in output[word, 1:].tolist()]
        assert row == pytest.approx([1 - entity, *(entity * weight / sum(weights) for weight in weights)], abs=1e-5)
        assert sum(row) == pytest.approx(1, abs=1e-5)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 999))
def test_targets_are_squared_and_divided_by_how_frequent_a_type_is(words: int, types: int, seed: int) -> None:
    p = torch.rand(words, types, generator=torch.Generator().manual_seed(seed), dtype=torch.double) + 0.01
    p = p / p.sum(-1, keepdim=True)
    for word, row in enumerate(sharpened(p).tolist()):
        weighed = [p[word, k].item() ** 2 / sum(p[:, k].tolist()) for k in range(types)]
        assert row == pytest.approx([value / sum(weighed) for value in weighed])


@given(st.integers(1, 5), st.integers(0, 999))
def test_a_student_learns_entity_or_not_and_the_type_of_every_word(words: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    decisions, soft = torch.randn(2, words, 4, generator=generator, dtype=torch.double).unbind()
    soft = soft.softmax(-1)
    binary, divergence = [], []
    for word in range(words):
        p, wanted = decisions[word].softmax(-1).tolist(), soft[word].tolist()
        binary.append(-wanted[0] * math.log(p[0]) - (1 - wanted[0]) * math.log(1 - p[0]))
        types = [value / sum(wanted[1:]) for value in wanted[1:]]
        found = [value / sum(p[1:]) for value in p[1:]]
        divergence.append(sum(t * math.log(t / f) for t, f in zip(types, found, strict=True)))
    expected = sum(binary) / words + sum(divergence) / words
    assert distillation_loss(decisions, soft).item() == pytest.approx(expected)


def test_a_student_that_says_what_it_is_taught_has_no_gradient_left() -> None:
    soft = torch.tensor([[1.0, 0.0, 0.0], [0.3, 0.5, 0.2]])
    decisions = soft.clamp(min=1e-12).log().requires_grad_()
    distillation_loss(decisions, soft).backward()
    assert decisions.grad is not None
    assert_close(decisions.grad, torch.zeros_like(decisions), atol=1e-6, rtol=0)


# The ensemble.


@given(BATCHES, st.sampled_from([0.0, 0.5, 0.99]), st.integers(0, 99))
def test_only_words_that_nobody_has_said_anything_about_are_dropped(
    batch: list[Sentence], fraction: float, seed: int
) -> None:
    found = drop_untagged(Corpus(tuple(batch)), fraction, np.random.default_rng(seed))
    for index, sentence in enumerate(batch):
        free = set(range(len(sentence))) if not sentence.complete else set(sentence.unknown_tokens)
        free -= {word for e in sentence.entities for word in range(e.start, e.end)}
        free -= {span.start for span in sentence.non_entities if span.end - span.start == 1}
        assert set(found[index].ignored) <= free
    if fraction == 0:
        assert not any(known.ignored for known in found.values())


def test_about_the_wanted_fraction_is_dropped() -> None:
    corpus = Corpus((Sentence(("w",) * 2000),))
    assert len(drop_untagged(corpus, 0.5, np.random.default_rng(1))[0].ignored) == pytest.approx(1000, abs=100)


def test_what_is_known_for_sure_stays_known() -> None:
    def masked(sentence: Sentence) -> list[list[float]]:
        table = torch.tensor([[0.5, 0.3, 0.2]]).repeat(len(sentence), 1)
        found: list[list[float]] = as_known(table, sentence, TAGS).tolist()
        return [[round(value, 6) for value in row] for row in found]

    given_by_models = [0.5, 0.3, 0.2]
    assert masked(SENTENCES[0]) == [given_by_models] * 4, "an annotated label may be wrong"
    assert masked(SENTENCES[1]) == [[0, 1, 0], [1, 0, 0], [1, 0, 0]], "unless the sentence is complete"
    assert masked(SENTENCES[2]) == [[1, 0, 0], given_by_models], "a rejected word is in no entity"


@pytest.mark.parametrize("scheme", ["io", "bio2", "bioes"])
def test_an_annotated_label_with_gaps_excludes_nothing_around_it(scheme: TagScheme) -> None:
    """In BIO2, too, where a tag could continue it: it may be too short."""
    tags = TagSet(scheme, LABELS)
    table = torch.full((4, len(tags)), 1 / len(tags))
    assert_close(as_known(table, SENTENCES[0], tags), table)
    rejecting = Sentence(SENTENCES[0].tokens, SENTENCES[0].entities, (Span(2, 3),))
    excluded = (as_known(table, rejecting, tags) == 0).nonzero().tolist()
    assert excluded == [[2, tag] for tag in tags.single_word_tags]


class Member:
    """Stands for training: remembers what a model would have learned from, and gives a fresh one."""

    def __init__(self) -> None:
        self.taught: list[Mapping[int, TokenSupervision]] = []
        self.models: list[RosterModel] = []
        self.offsets: list[int] = []
        self.methods: list[Roster] = []

    def fit(self, name: str, title: str, method: Roster, **more: Any) -> Model:
        assert method.self_training is None
        self.taught.append(more["supervision"])
        self.offsets.append(more["seed_offset"])
        self.methods.append(method)
        model: RosterModel = tiny_model(method, LABELS)
        with torch.no_grad():
            model.head.output.bias.add_(len(self.models))
        self.models.append(model)
        return model


def staged(models: int) -> tuple[Member, Mapping[int, TokenSupervision]]:
    member = Member()

    def cached(name: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        return compute()

    never = partial(pytest.fail, "there are no folds")
    context = StageContext(Corpus(SENTENCES), LABELS, METHOD, member.fit, never, cached, 1)
    return member, Ensemble(models=models).run(context).tokens


def test_the_mean_of_models_that_differ_is_taught() -> None:
    member, found = staged(3)
    assert len(set(member.offsets)) == 3
    dropped = [{index: known.ignored for index, known in taught.items()} for taught in member.taught]
    assert dropped[0] != dropped[1], "each leaves out words of its own"
    for index, sentence in enumerate(SENTENCES):
        tables = [decisions_of(model, sentence).softmax(-1) for model in member.models]
        mean = sum(tables[1:], tables[0]) / 3
        weights = found[index].tag_weights
        assert weights is not None
        assert_close(weights.exp(), as_known(mean, sentence, TAGS))


# The student, and self-training.


def soft_tables(sentences: Sequence[Sentence], seed: int = 0) -> list[TokenSupervision | None]:
    generator = torch.Generator().manual_seed(seed)
    tables = [torch.randn(len(sentence), len(TAGS), generator=generator).softmax(-1) for sentence in sentences]
    return [TokenSupervision(tag_weights=table.log()) for table in tables]


def test_an_ensemble_outranks_annotation() -> None:
    method, model = prepared()
    known = soft_tables(SENTENCES)
    targets = model.targets(SENTENCES, known)
    assert targets.soft is not None
    for row, table in enumerate(known):
        assert table is not None
        assert table.tag_weights is not None
        assert_close(targets.soft[row, : len(SENTENCES[row])], table.tag_weights.exp())
        assert targets.soft[row, len(SENTENCES[row]) :].eq(0).all()
    moved = targets.to(torch.device("meta"))
    assert moved.soft is not None
    assert {moved.soft.device.type, moved.allowed.device.type} == {"meta"}
    assert moved.tokens == targets.tokens
    early = method.model_copy(update={"self_training": None})
    found = batch_loss(early, model, SENTENCES, known, indices=[0, 1, 2])
    decisions = torch.cat([decisions_of(model, sentence) for sentence in SENTENCES])
    soft = torch.cat([table.tag_weights.exp() for table in known])
    assert_close(found, distillation_loss(decisions, soft))


def test_what_words_are_told_moves_to_a_device_with_the_rest() -> None:
    _, model = prepared()
    numbers = TokenSupervision(numbers={"mine": torch.ones(4)})
    moved = model.targets(SENTENCES[:1], [numbers]).to(torch.device("meta"))
    assert isinstance(moved, SoftTagTargets)
    assert moved.numbers["mine"].device.type == "meta"


def test_a_student_does_not_ask_itself_about_labels_that_it_does_not_learn() -> None:
    """Only a model of the ensemble, or one without an ensemble, leaves out labels."""
    at_loss, at_both = Step(0, 10, GENERATOR, number=199), Step(7, 10, GENERATOR)
    alone = METHOD.model_copy(update={"stage": None, "self_training": None})
    assert alone.rescores_at(at_loss)
    assert not METHOD.rescores_at(at_loss)
    every = METHOD.model_copy(update={"loss": GeneralizedTokenLoss(interval=1)})
    assert list(every.rescored_parts(at_both)) == ["self_training"]
    member, _ = staged(1)
    assert member.methods[0].rescores_at(at_loss)


def test_without_an_ensemble_labels_are_learned() -> None:
    method, model = prepared()
    plain = TokenMethod(
        name="plain", paper="-", summary="-", head=method.head, unlabeled=method.unlabeled, loss=method.loss
    )
    assert model.targets(SENTENCES).soft is None
    costs = [batch_loss(one, model, SENTENCES, indices=[0, 1, 2]) for one in (method, plain)]
    assert_close(*costs)


def test_a_model_teaches_itself_late_and_asks_itself_now_and_then() -> None:
    part = SelfTraining(fraction=0.3, interval=4)
    assert [part.first_epoch(epochs) for epochs in (1, 2, 3, 10, 20)] == [1, 1, 2, 7, 14]
    asked = [
        (epoch, batch)
        for epoch in range(10)
        for batch in range(3)
        if part.rescores_at(Step(epoch, 10, GENERATOR, batch=batch, number=3 * epoch + batch))
    ]
    assert asked == [(7, 0), (8, 0), (9, 1)]


@pytest.mark.parametrize("min_entity", [0.3, 0.5])
def test_self_training_teaches_sharpened_types_and_those_of_changed_copies(min_entity: float) -> None:
    _, model = prepared()
    part = SelfTraining(min_entity=min_entity, replaced=0.5, fraction=0.9)
    method = METHOD.model_copy(update={"self_training": part})
    known = soft_tables(SENTENCES)
    method.rescore(model, SENTENCES, known, Step(1, 3, GENERATOR))
    chosen, types = [], []
    for index, sentence in enumerate(SENTENCES):
        annotated = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
        table = annotated if sentence.complete else decisions_of(model, sentence).softmax(-1)
        for word, row in enumerate(table):
            if 1 - row[0] > min_entity:
                chosen.append((index, word))
                types.append(row[1:] / row[1:].sum())
    assert len(chosen) > 2, "or this test says nothing"
    wanted = dict(zip(chosen, sharpened(torch.stack(types)), strict=True))
    state = model.state_of("self_training")
    offsets = [0, 4, 7]
    for index, sentence in enumerate(SENTENCES):
        for word in range(len(sentence)):
            expected = wanted.get((index, word), torch.zeros(2))
            assert_close(state["targets"][offsets[index] + word], expected)

    order = [2, 0, 1]
    copies = part.copies([SENTENCES[index].tokens for index in order], torch.Generator().manual_seed(0))
    assert copies != [list(SENTENCES[index].tokens) for index in order]
    binary, own, copied = [], [], []
    for row, index in enumerate(order):
        decisions, others = decisions_of(model, SENTENCES[index]), decisions_of(model, Sentence(tuple(copies[row])))
        taught = known[index]
        assert taught is not None
        assert taught.tag_weights is not None
        for word in range(len(SENTENCES[index])):
            entity, p = 1 - taught.tag_weights[word, 0].exp(), decisions[word].softmax(-1)
            binary.append(-(entity * (1 - p[0]).log() + (1 - entity) * p[0].log()))
            target = wanted.get((index, word))
            if target is None:
                continue
            for vector, costs in ((decisions[word], own), (others[word], copied)):
                q = vector[1:].softmax(-1)
                if costs is own or vector[1:].argmax() == decisions[word, 1:].argmax():
                    costs.append(sum(t * (t / f).log() if t else t for t, f in zip(target, q, strict=True)))
    assert copied
    expected = sum(sum(costs) / len(costs) for costs in (binary, own, copied))
    found = batch_loss(method, model, [SENTENCES[i] for i in order], [known[i] for i in order], indices=order, seed=0)
    assert_close(found.detach(), torch.as_tensor(expected), atol=1e-5, rtol=1e-4)


@given(st.lists(st.lists(st.sampled_from(["Ada", "to", "Turin", "moved", "1"]), max_size=6), max_size=4), st.booleans())
def test_copies_have_as_many_words_and_only_words_of_the_batch(sentences: list[list[str]], same_case: bool) -> None:
    part = SelfTraining(replaced=0.5, same_case=same_case)
    copies = part.copies(sentences, torch.Generator().manual_seed(1))
    assert [len(copy) for copy in copies] == [len(sentence) for sentence in sentences]
    pool = {word for sentence in sentences for word in sentence}
    for copy, sentence in zip(copies, sentences, strict=True):
        assert set(copy) <= pool
        if same_case:
            assert [word[0].isupper() for word in copy] == [word[0].isupper() for word in sentence]


def test_about_the_wanted_fraction_of_words_is_replaced() -> None:
    sentence = [f"w{number}" for number in range(2000)]
    (copy,) = SelfTraining(replaced=0.15).copies([sentence], torch.Generator().manual_seed(1))
    assert sum(a != b for a, b in zip(copy, sentence, strict=True)) == pytest.approx(300, abs=50)


# As a method.


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    assert METHOD.head == EntityAndTypeConfig(scheme="io")
    assert METHOD.loss == GeneralizedTokenLoss(q=0.7, min_probability=0.7, interval=200, warm_start=0)
    assert METHOD.stage == Ensemble(models=5, dropped=0.5)
    assert METHOD.self_training == SelfTraining(min_entity=0.8, replaced=0.15, interval=100)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stage": "none"}, "self_training=augmented continues from an ensemble"),
        ({"head.scheme": "bio2"}, "set head.scheme=io"),
        ({"head": "crf"}, "does not train transitions"),
    ],
)
def test_parts_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_settings("roster", overrides=settings).method.check(TrainingData(Corpus(SENTENCES), None))


def test_an_ensemble_is_refused_where_nobody_learns_from_it() -> None:
    other = resolve_settings("token", overrides={"stage": "ensemble"}).method
    with pytest.raises(ConfigError, match="only roster can learn from an ensemble"):
        other.check(TrainingData(Corpus(SENTENCES), None))


def test_its_settings_are_stored_and_read() -> None:
    settings = resolve_settings("roster", overrides={"stage.models": 2, "self_training.replaced": 0.3})
    assert settings.method.self_training == SelfTraining(replaced=0.3)
    assert settings_from_dict(settings.model_dump(mode="json")) == settings
    assert CrfConfig in registry().choices("head", METHOD).values()
    assert set(registry().choices("self_training", METHOD)) == {"augmented"}


TINY = QUICK | {"stage.models": 2, "loss.interval": 10, "self_training.interval": 5}


def test_labels_that_are_missing_or_wrong_do_not_keep_it_from_learning(toy: Corpus, tmp_path: Path) -> None:
    """A loss that forgives wrong labels begins slowly, so it starts with the cross-entropy."""
    gaps = list(toy.mask(0.2, seed=1))
    wrong = Sentence(gaps[0].tokens, (Entity(0, 1, "LOC"),))
    settings = TINY | {"loss.warm_start": 8}
    model = Recognizer.train(Corpus((wrong, *gaps[1:])), toy, method="roster", epochs=12, settings=settings)
    assert isinstance(model.model, RosterModel)
    assert model.evaluate(toy).f1 > 0.8
    model.save_pretrained(tmp_path / "model")
    text = "Grace Hopper moved to New York ."
    assert Recognizer.from_pretrained(tmp_path / "model").predict(text) == model.predict(text)


class StopLate(Observer):
    """Interrupted after the first epoch of a model, by its title, in which it teaches itself or not."""

    def __init__(self, title: str, epoch: int) -> None:
        self.title, self.epoch, self.now = title, epoch, ""

    def stage_started(self, title: str) -> None:
        self.now = title

    def epoch_ended(self, record: dict[str, Any]) -> None:
        if (self.now, record["epoch"]) == (self.title, self.epoch):
            raise KeyboardInterrupt


@pytest.mark.parametrize("stop", [("model 2/2", 2), ("", 3)], ids=["in the ensemble", "in self-training"])
def test_a_run_that_is_resumed_ends_with_the_same_weights(toy: Corpus, tmp_path: Path, stop: tuple[str, int]) -> None:
    arguments: dict[str, Any] = {"method": "roster", "epochs": 4, "settings": TINY | {"self_training.fraction": 0.5}}
    gaps = toy.mask(0.2, seed=1)[:12]
    whole = Recognizer.train(gaps, toy[:4], **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(gaps, toy[:4], out=tmp_path / "model", observer=StopLate(*stop), **arguments)
    resumed = Recognizer.train(gaps, toy[:4], out=tmp_path / "model", resume=True, **arguments)
    for name, weight in whole.model.state_dict().items():
        assert weight.equal(resumed.model.state_dict()[name]), name


def test_it_works_with_a_transformer(toy_bert: str, toy: Corpus, tmp_path: Path) -> None:
    settings = {"stage.models": 2, "loss.interval": 2, "self_training.interval": 1}
    model = Recognizer.train(toy[:6], method="roster", encoder=toy_bert, epochs=2, settings=settings)
    model.save_pretrained(tmp_path / "model")
    text = "Ada moved to Turin ."
    assert Recognizer.from_pretrained(tmp_path / "model").predict(text) == model.predict(text)


@pytest.mark.slow
def test_it_learns_the_sample_with_most_labels_hidden(sample: dict[str, Corpus]) -> None:
    """If most labels are hidden, most untagged words have to be dropped, or entities are so few that they are forgiven."""
    settings = {"encoder.hidden": 64, "stage.models": 2, "stage.dropped": 0.9, "loss.interval": 100}
    model = Recognizer.train(
        sample["train"].mask(0.7, seed=1), sample["dev"], method="roster", epochs=8, settings=settings
    )
    assert model.evaluate(sample["test"]).f1 > 0.35
