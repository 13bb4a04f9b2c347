import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.sentence import SourceAnnotation
from lacuner.corpus.voting import decide
from lacuner.errors import ConfigError
from lacuner.heads import WidthConfig
from lacuner.methods import lacuner as module
from lacuner.methods.crf import CRF
from lacuner.methods.full import CrossEntropy
from lacuner.methods.lacuner import METHODS, Distillation, FoldTeacher, with_everything_said
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import TrainingData
from lacuner.methods.registry import registry
from lacuner.methods.stages import StageContext, StageResult
from lacuner.methods.uniform import Uniform
from lacuner.parts import build_part
from lacuner.supervision.channel import channel_posterior
from lacuner.supervision.posterior import SpanProbabilities

(METHOD,) = METHODS
LABELS = ("O", "LOC", "PER")
Predicted = dict[tuple[int, int, int], list[float]]
PREDICTED: Predicted = {
    (0, 0, 1): [0.2, 0.1, 0.7],  # annotated as PER
    (0, 3, 4): [0.9, 0.05, 0.05],  # annotated as LOC
    (1, 0, 1): [0.3, 0.3, 0.4],  # not annotated
    (2, 0, 2): [0.6, 0.4, 0.0],  # annotated as PER, which the teacher rules out
    (2, 3, 4): [0.4, 0.5, 0.1],  # annotated as either
}
WORDS = tuple("abcde")
INCOMPLETE = (
    Sentence(WORDS, (Entity(0, 1, "PER"), Entity(3, 4, "LOC"), Entity(1, 5, "PER"))),  # the last: no probabilities
    Sentence(tuple("fghij")),
    Sentence(tuple("klmno"), (Entity(0, 2, "PER"), Entity(3, 4, "LOC"), Entity(3, 4, "PER"))),
    Sentence(tuple("pqrst"), (Entity(0, 1, "PER"),)),  # no probabilities at all
)
COMPLETE = tuple(Sentence((f"name{n}", "sleeps"), (Entity(0, 1, "PER"),), complete=True) for n in range(6))
CORPUS = Corpus((*INCOMPLETE, *COMPLETE))
DISTANT = Corpus(INCOMPLETE)
FLAT = Corpus((Sentence(WORDS, (Entity(0, 1, "PER"), Entity(3, 4, "LOC"))), *INCOMPLETE[1:2] * 2))
DESCRIBED = {name: getattr(CRF, name) for name in ("name", "paper", "summary")}


def as_probabilities(predicted: Predicted) -> SpanProbabilities:
    spans = np.array(sorted(predicted), dtype=np.int64).reshape(-1, 3)
    rows = np.array([predicted[span] for span in sorted(predicted)], dtype=np.float32).reshape(-1, len(LABELS))
    return SpanProbabilities(spans[:, 0], spans[:, 1], spans[:, 2], rows)


def as_dict(found: SpanProbabilities | None) -> Predicted:
    assert found is not None
    spans = [tuple(span) for span in found.spans().tolist()]
    assert spans == sorted(spans)
    return dict(zip(spans, found.probabilities.tolist(), strict=True))


def assert_same(found: SpanProbabilities | None, expected: Predicted) -> None:
    table = as_dict(found)
    assert table.keys() == expected.keys()
    for span, row in expected.items():
        assert table[span] == pytest.approx(row, abs=1e-6), span


def run(
    teacher: FoldTeacher,
    corpus: Corpus = CORPUS,
    folds: Sequence[tuple[Predicted, list[int]]] = (),
    asked: list[dict[str, Any]] | None = None,
) -> StageResult | None:
    """What the teacher finds out if the models of its folds predict this, about these sentences."""

    def cross_fit(
        name: str, title: str, indices: Sequence[int], count: int, predict: Any, **more: Any
    ) -> list[dict[str, Tensor]]:
        if asked is not None:
            asked.append({"name": name, "indices": list(indices), "folds": count, "predict": predict, **more})
        return [as_probabilities(found).tensors() | {"asked": torch.tensor(about)} for found, about in folds]

    return teacher.run(context_of(corpus, cross_fit))


def context_of(corpus: Corpus, cross_fit: Any = None) -> StageContext:
    never = partial(pytest.fail, "a teacher only asks models that leave out a fold")
    return StageContext(corpus, LABELS, METHOD, never, cross_fit, never)


def posterior(predicted: Predicted, odds: float, labels: Sequence[str] = LABELS) -> Predicted:
    """Bayes' rule by hand."""
    expected = {}
    for (index, start, end), row in predicted.items():
        given = {e.label for e in CORPUS[index].entities if (e.start, e.end) == (start, end)}
        weights = [p * (odds if label in given else 1) for p, label in zip(row, labels, strict=True)]
        expected[index, start, end] = [weight / sum(weights) for weight in weights]
    return expected


INDICES = [0, 1, 2, 3]


@pytest.mark.parametrize("odds", [0.25, 1.0, 3.0, 10.0])
def test_an_annotated_label_is_as_many_times_more_probable_as_its_odds_say(odds: float) -> None:
    teacher = FoldTeacher(label_odds=odds, min_entities=1)
    found = run(teacher, folds=[(PREDICTED, INDICES)])
    assert_same(found.spans, posterior(PREDICTED, odds))


def test_odds_of_one_listen_to_the_teacher_alone() -> None:
    assert_same(run(FoldTeacher(label_odds=1, min_entities=1), folds=[(PREDICTED, INDICES)]).spans, PREDICTED)


def test_a_label_that_the_teacher_rules_out_stays_ruled_out() -> None:
    found = run(FoldTeacher(label_odds=1_000, min_entities=1), folds=[(PREDICTED, INDICES)])
    assert as_dict(found.spans)[2, 0, 2] == pytest.approx([0.6, 0.4, 0.0])


def test_the_labels_are_those_of_the_model() -> None:
    """With the labels the other way round, the other columns are weighed."""
    corpus = Corpus([Sentence(("Turin",), (Entity(0, 1, "LOC"),))])
    teacher = FoldTeacher(label_odds=5)
    one = teacher.posterior(as_probabilities({(0, 0, 1): [0.2, 0.1, 0.7]}), corpus, ("O", "LOC", "PER"))
    other = teacher.posterior(as_probabilities({(0, 0, 1): [0.2, 0.7, 0.1]}), corpus, ("O", "PER", "LOC"))
    np.testing.assert_allclose(one, other[:, [0, 2, 1]])
    np.testing.assert_allclose(one, np.array([[0.2, 0.5, 0.7]]) / 1.4, rtol=1e-6)


def test_without_odds_the_channel_of_each_source_is_estimated() -> None:
    """A source that calls everything LOC says nothing; one that is right wherever models are sure says much."""
    rows: Predicted = {}
    sentences = []
    for index in range(200):
        truth = "PER" if index % 2 else "LOC"
        unsure = index < 20
        right, wrong = (0.45, 0.45) if unsure else (0.9, 0.05)
        rows[index, 0, 1] = [0.1, wrong, right] if truth == "PER" else [0.1, right, wrong]
        said = {"good": truth, "blind": "LOC"}
        by_source = tuple(SourceAnnotation(name, (Entity(0, 1, label),)) for name, label in said.items())
        sentences.append(Sentence((f"name{index}",), (Entity(0, 1, truth),), by_source=by_source))
    taught = FoldTeacher(label_odds=None).posterior(as_probabilities(rows), Corpus(sentences), LABELS)
    np.testing.assert_allclose(taught.sum(1), 1, rtol=1e-5)
    assert all(taught[index, 2 if index % 2 else 1] > 0.85 for index in range(20))


def test_what_several_teachers_predict_is_averaged_over_those_that_were_asked() -> None:
    """A span that a teacher leaves out is O to it; one that has read the sentence is not asked about it."""
    first = {(0, 0, 1): [0.2, 0.1, 0.7], (1, 0, 1): [0.4, 0.6, 0.0]}
    second = {(0, 0, 1): [0.4, 0.3, 0.3]}
    found = run(FoldTeacher(label_odds=1, min_entities=1), folds=[(first, [0, 1, 2]), (second, [0, 2, 3])])
    assert_same(found.spans, {(0, 0, 1): [0.3, 0.2, 0.5], (1, 0, 1): [0.4, 0.6, 0.0]})
    found = run(FoldTeacher(label_odds=1, min_entities=1), folds=[(first, INDICES), (second, INDICES)])
    assert_same(found.spans, {(0, 0, 1): [0.3, 0.2, 0.5], (1, 0, 1): [0.7, 0.3, 0.0]})


def test_teachers_that_leave_out_what_they_predict_each_have_the_last_word_on_it() -> None:
    first, second = {(0, 0, 1): [0.2, 0.1, 0.7]}, {(2, 3, 4): [0.4, 0.5, 0.1]}
    teacher = FoldTeacher(label_odds=1, train_on="all")
    found = run(teacher, folds=[(second, [2, 3]), (first, [0, 1])])
    assert_same(found.spans, first | second)


@pytest.mark.parametrize("train_on", ["trusted", "all"])
def test_teachers_learn_from_trusted_sentences_or_from_all_but_what_they_predict(
    train_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    teacher = FoldTeacher(train_on=train_on, folds=3, min_entities=6, min_probability=0.2)
    run(teacher, folds=[(PREDICTED, INDICES)], asked=asked)
    (call,) = asked
    predict = call.pop("predict")
    complete = list(range(4, 10))
    on_trusted = {"indices": complete, "train_on": complete, "predict_on": INDICES}
    on_all = {"indices": INDICES, "train_on": None, "predict_on": None}
    assert call == {"name": "teacher", "folds": 3, "vary_seed": True} | (
        on_trusted if train_on == "trusted" else on_all
    )

    def predict_proba(*arguments: Any, **more: Any) -> SpanProbabilities:
        assert arguments == ("model", CORPUS, [1, 3], 0.2)
        assert more == {"use_threshold": train_on == "all"}, "who was trained on all negatives needs no threshold"
        return as_probabilities({(1, 0, 1): [0.3, 0.3, 0.4]})

    monkeypatch.setattr(module, "predict_proba", predict_proba)
    found = predict("model", [1, 3])
    assert found.pop("asked").tolist() == [1, 3]
    assert_same(SpanProbabilities.from_tensors(found), {(1, 0, 1): [0.3, 0.3, 0.4]})


def test_what_is_done_with_the_rest_is_a_setting() -> None:
    for rest, clean in ((True, 0.5), (False, 0.0)):
        teacher = FoldTeacher(rest_as_negative=rest, clean_fraction=clean, min_entities=1)
        found = run(teacher, folds=[(PREDICTED, INDICES)])
        assert (found.rest_as_negative, found.clean_fraction) == (rest, clean)
        assert (found.tokens, found.reports) == ({}, {})


def test_too_few_trusted_entities_teach_nothing_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lacuner"):
        assert run(FoldTeacher(min_entities=7)) is None
    assert caplog.text.count("The trusted sentences contain 6 entities.") == 1
    assert "at least 7 are required (--set teacher.min_entities)" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, "lacuner"):
        assert run(FoldTeacher(min_entities=7), Corpus(INCOMPLETE)) is None
    assert not caplog.text, "nobody who has no trusted data wants to hear of it"
    assert run(FoldTeacher(min_entities=6), folds=[(PREDICTED, INDICES)]) is not None
    assert run(FoldTeacher(min_entities=7, train_on="all"), folds=[(PREDICTED, INDICES)]) is not None


def test_where_everything_is_complete_there_is_nothing_to_teach_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert run(FoldTeacher(min_entities=1), Corpus(COMPLETE)) is None
    with caplog.at_level(logging.INFO, "lacuner"):
        METHOD.check(TrainingData(CORPUS, None))
        assert not caplog.text
        METHOD.check(TrainingData(Corpus(COMPLETE), None))
    assert "All sentences are complete, so there is nothing for a teacher to predict." in caplog.text


@pytest.mark.parametrize("rest", [True, False])
def test_each_round_teaches_what_the_model_of_the_one_before_predicts(
    rest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    def predict_proba(*arguments: Any) -> SpanProbabilities:
        calls.append(arguments)
        return as_probabilities(PREDICTED)

    monkeypatch.setattr(module, "predict_proba", predict_proba)
    teacher = FoldTeacher(max_rounds=3, rest_as_negative=rest, label_odds=3.0)
    context = context_of(CORPUS)
    for number in (2, 3):
        found = teacher.next_round(context, "model", number)
        assert_same(found.spans, posterior(PREDICTED, 3.0))
        assert found.rest_as_negative is rest
    assert teacher.next_round(context, "model", 4) is None
    assert FoldTeacher().next_round(context, "model", 2) is None, "by default there is one round"
    assert calls == [("model", CORPUS, INDICES, 0.05, not rest)] * 2


def test_rejected_spans_of_a_sentence_do_not_change_its_posterior() -> None:
    rejecting = Corpus((replace(CORPUS[0], non_entities=(Span(2, 3),)), *CORPUS[1:]))
    teacher = FoldTeacher(min_entities=1)
    plain, other = (run(teacher, corpus, folds=[(PREDICTED, INDICES)]) for corpus in (CORPUS, rejecting))
    assert_same(other.spans, as_dict(plain.spans))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("folds", 1),
        ("train_on", "nothing"),
        ("min_entities", 0),
        ("max_rounds", 0),
        ("min_probability", 1.1),
        ("clean_fraction", 1),
        ("label_odds", 0),
    ],
)
def test_a_teacher_without_sense_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"teacher\.{key}"):
        build_part("teacher", {"name": "folds", key: value}, registry().choices("teacher", SpanMethod))


def test_the_preset_is_uniform_with_a_threshold_an_ensemble_and_a_teacher() -> None:
    assert (METHOD.name, METHOD.head, METHOD.negatives) == ("lacuner", WidthConfig(), Uniform())
    assert (METHOD.loss, METHOD.contrast, METHOD.inference) == (CrossEntropy(), None, None)
    assert (METHOD.stage, METHOD.teacher) == (Distillation(), FoldTeacher())
    assert METHOD.training == {"fit_threshold": True, "width_quantile": 0.995}


def run_distillation(
    stage: Distillation,
    monkeypatch: pytest.MonkeyPatch,
    predicted: Sequence[Predicted],
    corpus: Corpus = DISTANT,
    scores: Sequence[float] | None = (0.6, 0.5, 0.5, 0.5),
    **more: Any,
) -> tuple[StageResult | None, list[dict[str, Any]], list[str]]:
    """What an ensemble finds out if its models predict this; how they were trained, and what was kept."""
    trained: list[dict[str, Any]] = []
    kept: list[str] = []

    def fit(name: str, title: str, method: Any, **more: Any) -> Any:
        trained.append({"name": name, "method": method, **more})
        return len(trained) - 1

    def cached(name: str, compute: Any) -> dict[str, Tensor]:
        kept.append(name)
        return compute()

    def predict(model: int, corpus: Corpus, indices: Sequence[int], least: float) -> SpanProbabilities:
        asked.append((list(indices), least))
        return as_probabilities(predicted[model])

    asked: list[tuple[list[int], float]] = []
    monkeypatch.setattr(module, "predict_proba", predict)
    never = partial(pytest.fail, "nobody asks for that")
    score: Any = None if scores is None else scores.__getitem__
    found = stage.run(StageContext(corpus, LABELS, METHOD, fit, never, cached, 1, score, **more))
    incomplete = [index for index, sentence in enumerate(corpus) if not sentence.complete]
    assert all(indices == incomplete and least < stage.min_probability for indices, least in asked)
    return found, trained, kept


def test_an_ensemble_teaches_the_mean_of_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {(0, 0, 1): [0.2, 0.0, 0.8], (1, 0, 1): [0.9, 0.1, 0.0], (1, 2, 3): [0.97, 0.03, 0.0]}
    second = {(0, 0, 1): [0.6, 0.2, 0.2], (0, 3, 4): [0.99, 0.01, 0.0], (1, 2, 3): [0.96, 0.04, 0.0]}
    found, trained, kept = run_distillation(Distillation(), monkeypatch, [first, second])
    assert found is not None
    assert_same(
        found.spans,
        {
            (0, 0, 1): [0.4, 0.1, 0.5],
            (0, 3, 4): [0.995, 0.005, 0.0],  # annotated, so it is asked about whatever they say
            (1, 0, 1): [0.95, 0.05, 0.0],  # to the second model, it is no entity
        },
    )
    assert (found.rest_as_negative, found.clean_fraction) == (True, 0.0)
    assert [model["seed_offset"] for model in trained] == [1, 2], "no two are alike, and none is like the model itself"
    assert len(set(kept)) == 2


def test_an_ensemble_has_as_many_models_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _, trained, _ = run_distillation(Distillation(models=4), monkeypatch, [PREDICTED] * 4)
    assert [model["seed_offset"] for model in trained] == [1, 2, 3, 4]


def test_one_model_of_an_ensemble_is_a_tagger_where_that_can_learn_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def methods(corpus: Corpus, tagger: bool) -> list[str]:
        _, trained, _ = run_distillation(Distillation(tagger=tagger), monkeypatch, [PREDICTED] * 2, corpus)
        return [model["method"].name for model in trained]

    assert methods(FLAT, tagger=True) == ["lacuner", "crf"]
    assert methods(FLAT, tagger=False) == ["lacuner", "lacuner"]
    assert methods(DISTANT, tagger=True) == ["lacuner", "lacuner"], "entities overlap"
    assert methods(Corpus((*DISTANT, *FLAT.sentences[:1] * 50)), tagger=True) == ["lacuner", "crf"], "hardly any does"


@pytest.mark.parametrize(
    ("student", "scores", "tags"),
    [
        ("auto", (0.6, 0.5), False),
        ("auto", (0.5, 0.6), True),
        ("auto", (0.5, 0.5), False),
        ("tagger", (0.6, 0.5), True),
        ("spans", (0.5, 0.6), False),
    ],
)
def test_the_model_becomes_what_the_best_of_the_ensemble_is(
    monkeypatch: pytest.MonkeyPatch, student: Any, scores: Sequence[float], tags: bool
) -> None:
    stage = Distillation(student=student)
    found, _, _ = run_distillation(stage, monkeypatch, [PREDICTED] * 2, FLAT, scores)
    assert found is not None
    assert found.method is not None
    if tags:
        assert (found.method.name, found.method.level, found.method.stage) == ("lacuner", "token", stage)
        assert found.method.model_copy(update={"stage": None, **DESCRIBED}) == CRF
    else:
        assert found.method is METHOD
    best = max(scores)
    if student == "auto":
        assert found.rival is not None
        assert (found.rival.method, found.rival.dev_score) == (found.method, best)
    else:
        assert found.rival is None, "the best is of the other kind"
    nested, trained, _ = run_distillation(stage, monkeypatch, [PREDICTED] * 2, FLAT, scores, nested=True)
    assert nested is not None
    assert nested.method is METHOD, "it has to find nested entities"
    assert [model["method"].level for model in trained] == ["span", "span"]


def told_by(*everybody: tuple[Entity, ...]) -> Sentence:
    said = tuple(SourceAnnotation(name, entities) for name, entities in zip("ab", everybody, strict=True))
    return Sentence(WORDS, tuple(one.entity for one in decide(said)), by_source=said)


ADA, TURIN = Entity(0, 1, "PER"), Entity(3, 4, "LOC")
TOLD = Corpus([told_by((ADA, TURIN), (ADA,)), told_by((), ()), *[told_by((ADA, TURIN), (ADA, TURIN))] * 50])


def test_what_sources_do_not_agree_about_teaches_the_first_models_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    predicted = {(0, 0, 1): [0.1, 0.1, 0.8], (0, 3, 4): [0.5, 0.4, 0.1], (2, 0, 1): [0.2, 0.1, 0.7]}
    with caplog.at_level(logging.INFO, "lacuner"):
        found, trained, _ = run_distillation(Distillation(), monkeypatch, [predicted] * 2, TOLD)
    assert "Sources disagree about 1 spans" in caplog.text
    for model in trained:
        assert {index: known.undecided for index, known in model["supervision"].items()} == {0: (TURIN.span,)}
    assert found is not None
    assert found.tokens == {}, "the model itself learns the posterior of all spans"
    assert_same(found.spans, as_dict(channel_posterior(as_probabilities(predicted), TOLD, LABELS)))


def test_the_vote_decides_if_one_wants_so_and_one_source_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    predicted = {(0, 0, 1): [0.1, 0.1, 0.8], (0, 3, 4): [0.5, 0.4, 0.1]}
    alone = Corpus(replace(sentence, by_source=()) for sentence in TOLD)
    for stage, corpus in ((Distillation(sources="vote"), TOLD), (Distillation(), alone)):
        found, trained, _ = run_distillation(stage, monkeypatch, [predicted] * 2, corpus)
        assert [model["supervision"] for model in trained] == [{}, {}]
        assert found is not None
        assert_same(found.spans, predicted)


def test_labels_that_sources_hardly_ever_agree_about_are_left_to_the_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(*more: Sentence) -> list[int]:
        _, trained, _ = run_distillation(Distillation(), monkeypatch, [PREDICTED] * 2, Corpus([*TOLD, *more]))
        return sorted(trained[0]["supervision"])

    assert undecided() == [0]
    assert undecided(*[told_by((ADA,), ())] * 10) == [0, *range(52, 62)]
    assert undecided(*[told_by((ADA,), ())] * 2_000) == [0], "one of them has not looked for persons there"
    assert undecided(told_by((Entity(1, 2, "ORG"),), ())) == [0], "a label of one source only"


def test_models_are_asked_about_everything_that_anybody_says() -> None:
    outvoted = Entity(1, 3, "PER")
    sentence = replace(told_by((TURIN,), (outvoted,)), non_entities=(ADA.span,))
    (asked,) = with_everything_said(Corpus([sentence]))
    assert asked.entities == (outvoted, TURIN)
    assert asked.non_entities == (ADA.span,)


def test_without_dev_data_there_is_no_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    found, trained, _ = run_distillation(Distillation(), monkeypatch, [], scores=None)
    assert (found, trained) == (None, [])


def test_an_ensemble_leaves_the_work_to_a_teacher_with_trusted_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = Corpus((*INCOMPLETE, *(replace(each) for each in COMPLETE * 100)))
    assert run_distillation(Distillation(), monkeypatch, [], trusted)[0] is None
    assert run_distillation(Distillation(), monkeypatch, [], Corpus(COMPLETE))[0] is None, (
        "and there may be nothing to say"
    )
    assert run_distillation(Distillation(), monkeypatch, [PREDICTED] * 2, CORPUS)[0] is not None, "few trusted entities"
