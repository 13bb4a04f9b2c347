"""Taggers that are trained in stages: what each stage learns from, and what is left of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from lacuner import Corpus, Entity, Recognizer, Sentence, TrainingError
from lacuner.corpus import Span
from lacuner.methods.method import TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.token import Outside
from lacuner.methods.two_step import RandomSpans
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TokenSupervision
from lacuner.training import run as training_run
from lacuner.training.epochs import EpochSampler
from lacuner.training.loop import Observer, TrainingResult
from lacuner.training.run import TrainingRun
from lacuner.training.settings import TrainingConfig, resolve_settings
from watching import Log

EXPLORATION = {"stage.epochs": 2, "stage.fraction": 0.2}
FOLDS = {"stage.folds": 2, "stage.rounds": 2}


@dataclass
class School:
    """What was taught to whom, before anybody learned anything."""

    models: list[TagModel] = field(default_factory=list)
    methods: list[TokenMethod] = field(default_factory=list)
    weights: list[dict[str, torch.Tensor]] = field(default_factory=list)
    samplers: list[EpochSampler] = field(default_factory=list)
    configs: list[TrainingConfig] = field(default_factory=list)


@pytest.fixture
def school(monkeypatch) -> School:
    """Nobody learns anything here, but it is written down who would learn from what."""
    seen = School()

    def fit(model, method, sampler, config, *rest):
        seen.models.append(model)
        seen.weights.append({name: value.clone() for name, value in model.state_dict().items()})
        seen.samplers.append(sampler)
        seen.methods.append(method)
        seen.configs.append(config)
        with torch.no_grad():
            for parameter in model.parameters():  # whoever goes on with this model would be noticed
                parameter.add_(0.01)
        model.eval()
        return TrainingResult(1, ({"epoch": 1, "loss": 0.0},))

    monkeypatch.setattr(training_run, "fit", fit)
    return seen


@pytest.fixture(scope="module")
def quick(small_settings) -> dict[str, object]:
    """Settings of a tagger that is trained in a moment."""
    return {key: value for key, value in small_settings.items() if not key.startswith("head")} | {
        "encoder.hidden": 8,
        "encoder.word_size": 8,
        "encoder.character_filters": 8,
        "encoder.character_size": 6,
    }


@pytest.fixture(scope="module")
def corpus(toy) -> Corpus:
    """Few sentences, some of which are complete, some with a rejected span, most with a gap."""
    gaps = [replace(sentence, entities=sentence.entities[:1]) for sentence in toy[:12]]
    gaps[1] = replace(toy[1], complete=True)
    gaps[4] = replace(toy[4], complete=True)
    gaps[6] = replace(gaps[6], non_entities=(Span(2, 3),))
    return Corpus(tuple(gaps))


def build(corpus: Corpus, settings: Mapping[str, Any], method: str = "two-step", **more: Any) -> TrainingRun:
    resolved = resolve_settings(method, overrides={**settings, "training.epochs": 3, **more}).for_data(corpus)
    return TrainingRun(corpus, None, resolved, None, False, Observer())


def untagged(corpus: Corpus) -> set[tuple[int, int]]:
    """The words that nobody has tagged; that one of them is no entity by itself leaves open what it is."""
    return {
        (place, word)
        for place, sentence in enumerate(corpus)
        for word in range(len(sentence))
        if not sentence.complete and not any(entity.start <= word < entity.end for entity in sentence.entities)
    }


@pytest.mark.parametrize("share", [0.003125, 0.1, 0.5])
def test_the_words_with_the_smallest_o_values_of_the_whole_corpus_are_removed(corpus, quick, school, share):
    work = build(corpus, quick, **{"stage.fraction": share})
    work.train()
    explorer, _ = school.models
    values = explorer.o_values(corpus)
    words = zip(values["sentence"].tolist(), values["token"].tolist(), values["value"].tolist(), strict=True)
    ranked = sorted(words, key=lambda word: word[2])
    assert {(place, word) for place, word, _ in ranked} == untagged(corpus)
    expected = ranked[: math.ceil(share * len(ranked))]
    supervision = school.samplers[-1].supervision
    found = {(place, word) for place, known in supervision.items() for word in known.ignored}
    assert found == {(place, word) for place, word, _ in expected}
    assert [(r["sentence"], r["token"]) for r in work.reports["removed"]] == [(p, w) for p, w, _ in expected]


def test_exploration_reads_everything_for_a_few_epochs_and_is_thrown_away(corpus, quick, school):
    build(corpus, quick, **EXPLORATION).train()
    exploring, final = school.configs
    assert (exploring.epochs, final.epochs) == (2, 3)
    assert exploring.model_copy(update={"epochs": 3}) == final
    assert [sampler.corpus for sampler in school.samplers] == [corpus, corpus]
    assert not school.samplers[0].supervision
    assert not school.models[0].tags.non_entity_class
    assert school.models[1].tags.non_entity_class
    plain = build(corpus, quick, stage="none")
    plain.train()
    assert school.weights[1].keys() == school.weights[2].keys()
    assert all(torch.equal(value, school.weights[2][name]) for name, value in school.weights[1].items())


def same(one: Recognizer, other: Recognizer) -> bool:
    weights, others = one.model.state_dict(), other.model.state_dict()
    return weights.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in weights.items())


def train(corpus: Corpus, quick: dict[str, object], method: str = "two-step", **more: Any) -> Recognizer:
    settings = quick | more.pop("settings", {})
    return Recognizer.train(
        corpus[4:], corpus[:6], method=method, epochs=2, trusted=corpus[:4], settings=settings, **more
    )


def test_if_nothing_is_removed_the_model_is_that_of_the_method_without_a_stage(corpus, quick):
    stage = train(corpus, quick, settings={"stage.fraction": 0, "stage.epochs": 1})
    plain = train(corpus, quick, "crf", settings={"head.angle": True, "sampling": "spans"})
    assert plain.settings.method.sampling == RandomSpans() == stage.settings.method.sampling
    assert same(stage, plain)
    assert not same(stage, train(corpus, quick, settings={"stage.fraction": 0.3, "stage.epochs": 1}))


@pytest.mark.parametrize("rounds", [1, 2])
def test_sentences_with_gaps_get_weights_from_models_that_have_not_seen_them(corpus, quick, school, rounds):
    build(corpus, quick, "weighted-partial-crf", **FOLDS | {"stage.rounds": rounds}).train()
    assert len(school.models) == 2 * rounds + 1
    with_gaps = {sentence.tokens for sentence in corpus if not sentence.complete}
    complete = {sentence.tokens for sentence in corpus if sentence.complete}
    for number in range(rounds):
        parts = [{s.tokens for s in sampler.corpus} for sampler in school.samplers[2 * number : 2 * number + 2]]
        assert parts[0] & parts[1] == complete
        assert parts[0] | parts[1] == with_gaps | complete
    assert {method.unlabeled for method in school.methods[:2]} == {Outside()}
    assert {method.unlabeled for method in school.methods[2:]} == {Marginalize()}
    assert school.samplers[-1].corpus is corpus
    assert {corpus[place].tokens for place in school.samplers[-1].supervision} == with_gaps


@pytest.mark.parametrize("folds", [2, 3])
def test_nobody_gives_weights_to_words_that_they_have_learned_from(corpus, quick, school, monkeypatch, folds):
    """Neither to a sentence that occurs twice, nor to one whose words are those of a complete one."""
    asked, tag_weights = [], TagModel.tag_weights

    def spy(self, corpus, indices, hard=False):
        asked.append((self, list(indices)))
        return tag_weights(self, corpus, indices, hard)

    monkeypatch.setattr(TagModel, "tag_weights", spy)
    again = [replace(sentence, complete=False) for sentence in corpus]
    repeated = Corpus((*corpus, *again, *again[:5]))
    build(repeated, quick, "weighted-partial-crf", **FOLDS | {"stage.folds": folds}).train()
    assert len(asked) == 2 * folds
    for model, indices in asked:
        (number,) = (number for number, known in enumerate(school.models) if known is model)
        learned = {sentence.tokens for sentence in school.samplers[number].corpus}
        assert learned
        assert learned.isdisjoint(repeated[index].tokens for index in indices)
    incomplete = [index for index, sentence in enumerate(repeated) if not sentence.complete]
    assert sorted(index for _, indices in asked for index in indices) == sorted(2 * incomplete)


@pytest.mark.parametrize("hard", [False, True])
def test_weights_follow_the_annotation(corpus, quick, school, hard):
    build(corpus, quick, "weighted-partial-crf", **FOLDS | {"stage.hard": hard}).train()
    tags = school.models[-1].tags
    for place, known in school.samplers[-1].supervision.items():
        weights, sentence = known.tag_weights.exp(), corpus[place]
        assert weights.shape == (len(sentence), len(tags))
        assert weights.sum(-1).tolist() == pytest.approx([1.0] * len(sentence), abs=1e-4)
        for entity in sentence.entities:
            written = tags.write(entity.end - entity.start, tags.labels.index(entity.label))
            for word, tag in zip(range(entity.start, entity.end), written, strict=True):
                assert weights[word, tag].item() == pytest.approx(1.0, abs=1e-4)
        for span in sentence.non_entities:
            assert span.end - span.start == 1, "tags cannot say that a wider one is no entity"
            single = weights[span.start, list(tags.single_word_tags)]
            assert single.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
            assert hard or weights[span.start, 0].item() < 0.999, "it may be a word of a wider entity"
        if hard:
            best = weights.argmax(-1).tolist()
            assert weights.amax(-1).tolist() == pytest.approx([1.0] * len(sentence), abs=1e-4)
            assert all(tags.steps[one, other] == 0 for one, other in pairwise(best))
        else:
            free = [word for word in range(len(sentence)) if (place, word) in untagged(corpus)]
            assert (weights[free].amax(-1) < 0.999).any()


def test_weights_go_with_their_sentence_into_every_part_of_the_corpus(corpus, quick, school):
    build(corpus, quick, "weighted-partial-crf", **FOLDS).train()
    for sampler in school.samplers[2:4]:  # the second round learns from the weights of the first
        assert {sampler.corpus[number].tokens for number in sampler.supervision} == {
            sentence.tokens for sentence in sampler.corpus if not sentence.complete
        }
        for number, known in sampler.supervision.items():
            assert len(known.tag_weights) == len(sampler.corpus[number])
            for entity in sampler.corpus[number].entities:
                first = school.models[0].tags.write(entity.end - entity.start, 1 + ("LOC", "PER").index(entity.label))[
                    0
                ]
                assert known.tag_weights[entity.start, first].item() == pytest.approx(0.0, abs=1e-4)


def test_each_sentence_of_a_batch_gets_what_is_known_about_it(corpus):
    three, five = TokenSupervision(ignored=(3,)), TokenSupervision(ignored=(5,))
    sampler = EpochSampler(corpus, supervision={3: three, 5: five})
    assert sampler.supervision_of([5, 0, 3, 5]) == [five, None, three, five]
    assert EpochSampler(corpus).supervision_of([5, 0]) is None


def test_complete_sentences_keep_their_share_in_every_stage(corpus, quick, school):
    for method, more in (("two-step", EXPLORATION), ("weighted-partial-crf", FOLDS)):
        build(corpus, quick, method, **more | {"trusted.fraction": 0.5}).train()
    assert {sampler.complete_fraction for sampler in school.samplers} == {0.5}


# Interruptions.


@pytest.fixture(scope="module")
def undisturbed(corpus, quick) -> dict[str, Recognizer]:
    return {
        "two-step": train(corpus, quick, settings=EXPLORATION),
        "weighted-partial-crf": train(corpus, quick, "weighted-partial-crf", settings=FOLDS),
    }


def epochs(*titles: str) -> list[tuple[str, int]]:
    return [(title, epoch) for title in titles for epoch in (1, 2)]


ROUNDS = [f"round {number}, fold {fold}/2" for number in (1, 2) for fold in (1, 2)]


@pytest.mark.parametrize(
    ("method", "kill", "left"),
    [
        ("two-step", ("exploration", 1), epochs("exploration", "")[1:]),
        ("two-step", ("exploration", 2), epochs("")),
        ("two-step", ("", 0), epochs("")),
        ("two-step", ("", 1), epochs("")[1:]),
        ("two-step", ("", 2), []),
        ("weighted-partial-crf", (ROUNDS[1], 1), epochs(*ROUNDS[1:], "")[1:]),
        ("weighted-partial-crf", (ROUNDS[2], 0), epochs(*ROUNDS[2:], "")),
        ("weighted-partial-crf", ("", 1), epochs("")[1:]),
    ],
)
def test_a_run_that_was_killed_ends_as_if_it_had_not_been(corpus, quick, tmp_path, undisturbed, method, kill, left):
    out, settings = tmp_path / "killed", EXPLORATION if method == "two-step" else FOLDS
    with pytest.raises(KeyboardInterrupt):
        train(corpus, quick, method, settings=settings, out=out, observer=Log(kill))
    assert not out.exists()
    log = Log()
    resumed = train(corpus, quick, method, settings=settings, out=out, resume=True, observer=log)
    whole = undisturbed[method]
    assert log.epochs == left
    assert same(whole, resumed)
    assert resumed.record.reports == whole.record.reports
    loaded = Recognizer.from_pretrained(out)
    assert same(whole, loaded)
    assert loaded.record.reports == whole.record.reports
    assert [path.name for path in tmp_path.iterdir()] == ["killed"]


def test_a_run_in_stages_is_not_resumed_with_other_settings_or_data(corpus, quick, tmp_path):
    out = tmp_path / "m"
    with pytest.raises(KeyboardInterrupt):
        train(corpus, quick, settings=EXPLORATION, out=out, observer=Log(("", 0)))
    for settings, data in ((EXPLORATION | {"stage.fraction": 0.3}, corpus), (EXPLORATION, corpus[:11])):
        with pytest.raises(TrainingError, match="other data or settings"):
            train(data, quick, settings=settings, out=out, resume=True)


def test_checkpoints_of_a_stage_that_has_ended_are_thrown_away(corpus, quick, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(corpus, quick, settings=EXPLORATION, out=tmp_path / "m", observer=Log(("", 0)))
    left = {path.name for path in (tmp_path / "m.training").iterdir() if not path.name.startswith(".")}
    assert left == {"exploration.safetensors"}


def test_the_same_seed_gives_the_same_model_and_another_one_another(corpus, quick, undisturbed):
    again = train(corpus, quick, settings=EXPLORATION, seed=1)
    assert same(undisturbed["two-step"], again)
    assert again.record.reports == undisturbed["two-step"].record.reports
    other = train(corpus, quick, settings=EXPLORATION, seed=2)
    assert not same(again, other)


def test_stages_are_named_while_they_run(corpus, quick):
    for method, settings, stages in (
        ("two-step", EXPLORATION, ["exploration", ""]),
        ("weighted-partial-crf", FOLDS, [*ROUNDS, ""]),
        ("crf", {}, [""]),
    ):
        log = Log()
        train(corpus, quick, method, settings=settings, observer=log)
        assert log.stages == stages


def test_a_single_sentence_with_gaps_gets_weights_from_the_complete_ones(toy, quick):
    corpus = Corpus((replace(toy[0], complete=True), toy[1]))
    Recognizer.train(corpus, method="weighted-partial-crf", epochs=1, settings=quick)
    with pytest.raises(TrainingError, match="no annotated entity is left to learn from"):
        Recognizer.train(toy[:1], method="weighted-partial-crf", epochs=1, settings=quick)


def test_where_nothing_is_unknown_there_is_nothing_to_remove(toy, quick):
    model = Recognizer.train(toy[:4].as_complete(), method="two-step", epochs=1, settings=quick)
    assert model.record.reports == {"removed": ()}


# What the report says about the sentences that were given.


def test_removed_words_are_told_as_places_in_the_training_data(corpus, quick, tmp_path):
    """Sentences without words count, trusted ones do not."""
    empty = Sentence(())
    data = Corpus((empty, *corpus[4:7], empty, *corpus[7:]))
    trusted = Corpus((empty, *corpus[:2].as_complete()))
    model = Recognizer.train(
        data,
        method="two-step",
        trusted=trusted,
        epochs=1,
        settings=quick | {"stage.fraction": 0.6, "stage.epochs": 1},
        out=tmp_path / "m",
    )
    removed = model.record.reports["removed"]
    words = untagged(data)
    assert len(removed) == math.ceil(0.6 * len(words)) == len({(r["sentence"], r["token"]) for r in removed})
    for record in removed:
        assert (record["sentence"], record["token"]) in words
        assert data[record["sentence"]].tokens[record["token"]] == record["text"]
    values = [record["o_value"] for record in removed]
    assert values == sorted(values)


def test_removed_words_of_long_sentences_are_told_as_words_of_the_whole(corpus, quick, monkeypatch):
    """Training reads them in passages; nobody who looks at the report knows of them."""
    monkeypatch.setattr("lacuner.inference.passages.MAX_PASSAGE", 6)
    tokens = [word for sentence in corpus[:5] for word in sentence.tokens]
    data = Corpus((corpus[5], Sentence(tuple(tokens), (Entity(0, 1, "PER"), Entity(3, 4, "LOC"))), corpus[6]))
    trusted = Corpus((corpus[1], Sentence((*corpus[4].tokens, *corpus[2].tokens), corpus[4].entities)))
    model = Recognizer.train(
        data,
        method="two-step",
        trusted=trusted,
        epochs=1,
        settings=quick | {"stage.fraction": 0.999, "stage.epochs": 1},
    )
    removed = model.record.reports["removed"]
    assert {(record["sentence"], record["token"]) for record in removed} == untagged(data)
    assert len(removed) == len(untagged(data))
    assert all(data[record["sentence"]].tokens[record["token"]] == record["text"] for record in removed)


def test_removed_words_of_trusted_sentences_are_told_apart(corpus, quick):
    """A trusted sentence may say itself that nothing is known about some of its words."""
    unsure = replace(corpus[0], unknown_tokens=frozenset(range(len(corpus[0]))))
    trusted = Corpus((corpus[1], unsure))
    model = Recognizer.train(
        corpus[4:].as_complete(),
        method="two-step",
        trusted=trusted,
        epochs=1,
        settings=quick | {"stage.fraction": 0.9, "stage.epochs": 1},
    )
    removed = model.record.reports["removed"]
    assert removed
    for record in removed:
        assert (record["sentence"], record["trusted"]) == (1, True)
        assert unsure.tokens[record["token"]] == record["text"]
