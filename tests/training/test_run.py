from dataclasses import dataclass, field, replace

import pytest
import torch

from lacuner import Corpus, Recognizer, Sentence, TrainingError
from lacuner.methods import lacuner as lacuner_method
from lacuner.models.model import Model
from lacuner.models.probabilities import predict_proba
from lacuner.models.span_model import SpanModel
from lacuner.supervision.posterior import SpanProbabilities
from lacuner.training import run as training_run
from lacuner.training.checkpoints import RunFolder
from lacuner.training.epochs import EpochSampler
from lacuner.training.loop import Observer, TrainingResult
from lacuner.training.run import TrainingRun
from lacuner.training.settings import TrainingConfig, resolve_settings
from watching import Log

TEACHER = {"teacher": "folds", "teacher.folds": 2, "teacher.train_on": "all"}


@dataclass
class School:
    """Who was trained on what, and what they were asked about."""

    models: list[SpanModel] = field(default_factory=list)
    samplers: list[EpochSampler] = field(default_factory=list)
    configs: list[TrainingConfig] = field(default_factory=list)
    asked: list[tuple[SpanModel, list[int]]] = field(default_factory=list)
    predicted: list[SpanProbabilities] = field(default_factory=list)

    def learned_from(self, model: SpanModel) -> Corpus:
        (number,) = (number for number, known in enumerate(self.models) if known is model)
        return self.samplers[number].corpus


@pytest.fixture
def school(monkeypatch) -> School:
    """Nobody learns anything here, but it is written down who would learn from what."""
    seen = School()

    def fit(model, method, sampler, config, *rest):
        seen.models.append(model)
        seen.samplers.append(sampler)
        seen.configs.append(config)
        return TrainingResult(1, ({"epoch": 1, "loss": 0.0},))

    def spy(model, corpus, indices, min_probability, use_threshold=True):
        seen.asked.append((model, list(indices)))
        seen.predicted.append(predict_proba(model.eval(), corpus, indices, min_probability, use_threshold))
        return seen.predicted[-1]

    monkeypatch.setattr(training_run, "fit", fit)
    monkeypatch.setattr(lacuner_method, "predict_proba", spy)
    return seen


def run(corpus: Corpus, settings: dict[str, object], observer: Observer | None = None, **more) -> SpanModel:
    resolved = resolve_settings("uniform", overrides=settings | TEACHER | {"training.epochs": 2} | more)
    return TrainingRun(corpus, None, resolved, None, False, observer or Observer()).train()[0]


def mixed(toy: Corpus, trusted: int) -> Corpus:
    """The toy corpus, of which some sentences, scattered over it, are complete."""
    places = [(7 * number) % len(toy) for number in range(trusted)]
    return Corpus(tuple(replace(s, complete=index in places) for index, s in enumerate(toy)))


def incomplete(corpus: Corpus) -> list[int]:
    return [index for index, sentence in enumerate(corpus) if not sentence.complete]


@pytest.mark.parametrize("folds", [2, 3])
@pytest.mark.parametrize("trusted", [0, 4])
def test_nobody_is_asked_about_what_they_have_learned_from(toy, small_settings, school, folds, trusted):
    corpus = mixed(toy, trusted)
    run(corpus, small_settings, **{"teacher.folds": folds})
    assert len(school.asked) == folds
    assert len(school.models) == folds + 1
    for model, indices in school.asked:
        learned = {sentence.tokens for sentence in school.learned_from(model)}
        asked = {corpus[index].tokens for index in indices}
        assert learned.isdisjoint(asked)
        assert learned | asked == {sentence.tokens for sentence in corpus}
        assert abs(len(indices) - len(incomplete(corpus)) / folds) < 1
    assert sorted(index for _, indices in school.asked for index in indices) == incomplete(corpus)


def with_repetitions(toy: Corpus) -> Corpus:
    """Sentences that occur two or three times: complete or not, next to each other or far apart."""
    again = [replace(sentence, entities=sentence.entities[:1]) for sentence in (*toy[:20], *toy[5:15])]
    return mixed(toy, 10) + Corpus(tuple(again))


@pytest.mark.parametrize("folds", [2, 3, 5])
@pytest.mark.parametrize("train_on", ["all", "trusted"])
def test_nobody_is_asked_about_words_that_they_have_learned_from(toy, small_settings, school, folds, train_on):
    corpus = with_repetitions(toy)
    run(
        corpus,
        small_settings,
        **{"teacher.folds": folds, "teacher.train_on": train_on, "teacher.min_entities": 1},
    )
    assert len(school.asked) == folds
    for model, indices in school.asked:
        learned = {sentence.tokens for sentence in school.learned_from(model)}
        assert learned
        assert learned.isdisjoint(corpus[index].tokens for index in indices)
    asked = [index for _, indices in school.asked for index in indices]
    assert set(asked) == set(incomplete(corpus))
    repeated = {sentence.tokens for sentence in corpus if sentence.complete} if train_on == "trusted" else set()
    for index in incomplete(corpus):  # whoever has not learned from these words is asked
        once = train_on == "all" or corpus[index].tokens in repeated
        assert asked.count(index) == (1 if once else folds)


def test_the_mean_is_over_the_teachers_that_were_asked(toy, small_settings, school):
    """About a sentence that is also a trusted one, only the teacher that has not learned from it is asked."""
    corpus = with_repetitions(toy)
    run(corpus, small_settings, **TRUSTED | {"teacher.folds": 3, "teacher.label_odds": 1})
    expected: dict[tuple[int, int, int], list[torch.Tensor]] = {}
    spans = {tuple(span) for found in school.predicted for span in found.spans().tolist()}
    outside = torch.tensor([1.0, 0.0, 0.0]).numpy()
    for (_, indices), found in zip(school.asked, school.predicted, strict=True):
        rows = dict(zip(map(tuple, found.spans().tolist()), found.probabilities, strict=True))
        for span in spans:
            if span[0] in indices:
                expected.setdefault(span, []).append(rows.get(span, outside))
    taught = school.samplers[-1].posterior
    assert {len(rows) for rows in expected.values()} == {1, 3}
    assert {tuple(span) for span in taught.spans().tolist()} == spans
    for span, probabilities in zip(map(tuple, taught.spans().tolist()), taught.probabilities, strict=True):
        assert probabilities == pytest.approx(sum(expected[span]) / len(expected[span]), abs=1e-6)


def test_the_final_model_learns_from_all_sentences_and_what_teachers_say_of_them(toy, small_settings, school):
    corpus = mixed(toy, 4)
    model = run(
        corpus, small_settings, **{"teacher.rest_as_negative": True, "teacher.label_odds": 1, "trusted.fraction": 0.5}
    )
    assert school.models[-1] is model
    final = school.samplers[-1]
    assert final.corpus is corpus
    assert (final.rest_as_negative, final.labels, final.complete_fraction) == (True, ("O", "LOC", "PER"), 0.5)
    thoughts = {}
    for found in school.predicted:
        keys = zip(found.sentence.tolist(), found.start.tolist(), found.end.tolist(), strict=True)
        thoughts |= dict(zip(keys, found.probabilities.tolist(), strict=True))
    taught = final.posterior
    keys = zip(taught.sentence.tolist(), taught.start.tolist(), taught.end.tolist(), strict=True)
    for key, probabilities in zip(keys, taught.probabilities.tolist(), strict=True):
        assert probabilities == pytest.approx(thoughts.pop(key), abs=1e-6)
    assert not thoughts


def test_teachers_take_sentences_as_they_are(toy, small_settings, school):
    run(mixed(toy, 4), small_settings, **{"trusted.fraction": 0.5})
    assert all((sampler.posterior, sampler.complete_fraction) == (None, None) for sampler in school.samplers[:-1])


TRUSTED = {"teacher.train_on": "trusted", "teacher.min_entities": 12}


def test_trusted_teachers_learn_from_complete_sentences_alone_and_all_are_asked_about_the_rest(
    toy, small_settings, school
):
    corpus = mixed(toy, 6)  # 12 entities
    run(corpus, small_settings, **TRUSTED | {"teacher.folds": 3})
    schools = []
    for model, indices in school.asked:
        assert indices == incomplete(corpus)
        learned = school.learned_from(model)
        assert all(sentence.complete for sentence in learned)
        assert len(learned) == 4
        schools.append({sentence.tokens for sentence in learned})
    assert len(schools) == 3
    assert set.union(*schools) == {sentence.tokens for sentence in corpus if sentence.complete}
    assert set.intersection(*schools) == set()


def test_what_the_trusted_teachers_think_is_averaged(toy, small_settings, school):
    run(mixed(toy, 6), small_settings, **TRUSTED | {"teacher.label_odds": 1})
    one, other = (
        dict(zip(zip(b.sentence, b.start, b.end, strict=True), b.probabilities, strict=True)) for b in school.predicted
    )
    taught = school.samplers[-1].posterior
    keys = list(zip(taught.sentence, taught.start, taught.end, strict=True))
    assert set(keys) == one.keys() | other.keys()
    outside = torch.tensor([1.0, 0.0, 0.0]).numpy()
    for key, probabilities in zip(keys, taught.probabilities, strict=True):
        expected = (one.get(key, outside) + other.get(key, outside)) / 2
        assert probabilities == pytest.approx(expected, abs=1e-6)


def test_complete_sentences_with_too_few_entities_are_no_teachers(toy, small_settings, school, caplog):
    caplog.set_level("INFO")
    run(mixed(toy, 6), small_settings, **TRUSTED | {"teacher.min_entities": 13})
    assert len(school.models) == 1
    assert not school.asked
    assert school.samplers[0].posterior is None
    assert caplog.text.count("The trusted sentences contain 12 entities.") == 1
    assert "at least 13 are required (--set teacher.min_entities)" in caplog.text


def test_without_complete_sentences_there_are_no_trusted_teachers(toy, small_settings, school):
    run(toy, small_settings, **TRUSTED)
    assert len(school.models) == 1
    assert not school.asked


def test_all_sentences_teach_if_that_is_wanted_however_many_are_complete(toy, small_settings, school):
    run(mixed(toy, 6), small_settings, **{"teacher.min_entities": 1})
    for model, _ in school.asked:
        assert {sentence.complete for sentence in school.learned_from(model)} == {True, False}


def test_a_fold_without_entities_to_teach_with_is_refused(toy, small_settings):
    corpus = Corpus((toy[0], Sentence(("nothing", "here")), Sentence(("nor", "there"))))
    with pytest.raises(TrainingError, match=r"no annotated entity is left to learn from — .*teacher=none"):
        run(corpus, small_settings)


def test_a_single_sentence_with_gaps_can_be_asked_about(toy, small_settings, school):
    corpus = Corpus((replace(toy[0], complete=True), replace(toy[1], complete=True), toy[2]))
    run(corpus, small_settings)
    assert [index for _, indices in school.asked for index in indices] == [2]


def test_where_everything_is_complete_there_is_nothing_to_ask(toy, small_settings, school):
    run(toy.as_complete(), small_settings)
    assert len(school.models) == 1
    assert not school.asked
    assert school.samplers[0].posterior is None


def test_without_a_teacher_one_model_is_trained(toy, small_settings, school):
    settings = resolve_settings("uniform", overrides=small_settings | {"training.epochs": 2})
    TrainingRun(toy, None, settings, None, False, Observer()).train()
    assert len(school.models) == 1
    assert not school.asked


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_teachers_read_what_they_have_more_often_up_to_twice(toy, small_settings, school, folds):
    corpus = mixed(toy, 10)
    settings = {"training.epochs": 40, "training.patience": 10, "teacher.folds": folds}
    for more in ({"teacher.train_on": "all"}, {"teacher.train_on": "trusted", "teacher.min_entities": 1}):
        school.models.clear(), school.configs.clear(), school.samplers.clear()
        run(corpus, small_settings, **settings | more)
        *teachers, final = school.configs
        assert len(teachers) == folds
        for config, sampler in zip(teachers, school.samplers, strict=False):
            times = min(2, sum(map(len, corpus)) / sum(map(len, sampler.corpus)))
            assert (config.epochs, config.patience) == (round(40 * times), round(10 * times))
            assert config.model_copy(update={"epochs": 40, "patience": 10, "seed": final.seed}) == final
        assert (final.epochs, final.patience) == (40, 10)


def test_in_a_second_round_the_pupil_teaches(toy, small_settings, school):
    log = Log()
    corpus = mixed(toy, 4)
    run(corpus, small_settings, log, **{"teacher.max_rounds": 2, "teacher.folds": 3, "teacher.label_odds": 1})
    assert log.stages == ["teacher 1/3", "teacher 2/3", "teacher 3/3", "", "round 2"]
    assert len(school.models) == 3 + 2
    pupil, indices = school.asked[-1]
    assert pupil is school.models[3]
    assert indices == incomplete(corpus)
    assert len(school.samplers[3].posterior) == sum(map(len, school.predicted[:3]))
    assert school.samplers[3].corpus is school.samplers[4].corpus is corpus
    assert school.samplers[4].posterior.probabilities == pytest.approx(school.predicted[3].probabilities, abs=1e-6)


def test_what_the_teachers_think_is_weighed_against_the_annotation(toy, small_settings, school):
    run(toy, small_settings, **{"teacher.label_odds": 7, "teacher.max_rounds": 2})
    for thoughts, sampler in ((school.predicted[:2], school.samplers[2]), (school.predicted[2:], school.samplers[3])):
        expected = {}
        for b in thoughts:
            for place, start, end, row in zip(b.sentence, b.start, b.end, b.probabilities, strict=True):
                given = {e.label for e in toy[place].entities if (e.start, e.end) == (start, end)}
                weights = [p * (7 if label in given else 1) for p, label in zip(row, ("O", "LOC", "PER"), strict=True)]
                expected[place, start, end] = [weight / sum(weights) for weight in weights]
        taught = sampler.posterior
        keys = zip(taught.sentence, taught.start, taught.end, strict=True)
        assert {
            key: pytest.approx(row.tolist(), abs=1e-6) for key, row in zip(keys, taught.probabilities, strict=True)
        } == (expected)


def test_teachers_begin_with_different_weights_and_the_model_with_its_own(toy, small_settings, school):
    run(toy, small_settings, **{"teacher.folds": 3, "training.seed": 5})
    assert [config.seed for config in school.configs] == [5, 6, 7, 5]
    first = [model.head.classifier.weight for model in school.models]
    assert torch.equal(first[0], first[3])
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[1], first[2])


@pytest.mark.parametrize(
    ("qualities", "trained", "kept"),
    [([0.5, 0.6, 0.7], 3, 3), ([0.5, 0.6, 0.4], 3, 2), ([0.5, 0.5, 0.7], 2, 1), ([0.5, 0.4, 0.7], 2, 1)],
)
def test_rounds_go_on_while_dev_data_improves(toy, small_settings, school, monkeypatch, qualities, trained, kept):
    untaught, coming = training_run.fit, iter([0.0, 0.0, *qualities])
    monkeypatch.setattr(training_run, "fit", lambda *given: replace(untaught(*given), best_quality=next(coming)))
    settings = resolve_settings("uniform", overrides=small_settings | TEACHER | {"teacher.max_rounds": 3})
    training = settings.training.model_copy(update={"epochs": 2})
    settings = settings.model_copy(update={"training": training})
    model, result, _, name = TrainingRun(toy, toy, settings, None, False, Observer()).train()
    assert len(school.models) == 2 + trained
    assert model is school.models[1 + kept]
    assert name == ("model" if kept == 1 else f"model-{kept}")
    assert result.best_quality == qualities[kept - 1]


def test_without_dev_data_all_rounds_run_and_the_last_is_kept(toy, small_settings, school):
    model = run(toy, small_settings, **{"teacher.max_rounds": 3})
    assert len(school.models) == 2 + 3
    assert model is school.models[-1]


@pytest.mark.parametrize("epochs", [1, 2, 3, 8])
def test_what_teachers_say_is_read_before_training_ends_on_complete_sentences(toy, small_settings, school, epochs):
    corpus = mixed(toy, 6)
    run(corpus, small_settings, **TRUSTED | {"training.epochs": epochs})
    read = [set(school.samplers[-1].indices(epoch)) for epoch in range(epochs)]
    assert read[0] == set(range(len(corpus)))
    assert epochs == 1 or read[-1].isdisjoint(incomplete(corpus))


def test_folds_depend_on_the_seed(toy, small_settings, school):
    for seed in (1, 1, 2):
        run(toy, small_settings, **{"training.seed": seed})
    one, again, other = (school.asked[number][1] for number in (0, 2, 4))
    assert one == again != other
    assert one == sorted(one)


def same(one: Recognizer, other: Recognizer) -> bool:
    weights, others = one.model.state_dict(), other.model.state_dict()
    alike = all(torch.equal(value, others[name]) for name, value in weights.items())
    return alike and one.model.threshold == other.model.threshold


TAUGHT = TEACHER | {"teacher.max_rounds": 2, "training.fit_threshold": True, "training.ema_epochs": 0.5}


def train(toy: Corpus, small_settings: dict[str, object], **more) -> Recognizer:
    settings = small_settings | TAUGHT | more.pop("settings", {})
    return Recognizer.train(toy[5:], toy[:10], method="uniform", epochs=2, trusted=toy[:5], settings=settings, **more)


@pytest.fixture(scope="module")
def whole(toy, small_settings) -> Recognizer:
    """A run that nobody disturbed."""
    return train(toy, small_settings)


def test_the_same_seed_gives_the_same_taught_model(toy, small_settings, whole):
    assert same(whole, train(toy, small_settings, seed=1))
    assert whole.model.threshold != 0, "otherwise this says little about thresholds"
    assert not same(whole, train(toy, small_settings, seed=2))


EPOCHS = {"teacher 1/2": 3, "teacher 2/2": 3, "": 2, "round 2": 2}
STAGES = {name: [(name, epoch) for epoch in range(1, epochs + 1)] for name, epochs in EPOCHS.items()}
AFTER_TEACHER_1 = [*STAGES["teacher 2/2"], *STAGES[""], *STAGES["round 2"]]


@pytest.mark.parametrize(
    ("kill", "left"),
    [
        (("teacher 1/2", 1), [*STAGES["teacher 1/2"][1:], *AFTER_TEACHER_1]),
        (("teacher 2/2", 0), AFTER_TEACHER_1),
        (("teacher 2/2", 1), AFTER_TEACHER_1[1:]),
        (("", 2), STAGES["round 2"]),
        (("round 2", 1), STAGES["round 2"][1:]),
        (("round 2", 2), []),
    ],
)
def test_a_taught_run_that_was_killed_ends_as_if_it_had_not_been(toy, small_settings, tmp_path, whole, kill, left):
    out = tmp_path / "killed"
    with pytest.raises(KeyboardInterrupt):
        train(toy, small_settings, out=out, observer=Log(kill))
    assert not out.exists()
    assert (tmp_path / "killed.training").exists()
    log = Log()
    resumed = train(toy, small_settings, out=out, resume=True, observer=log)
    assert same(whole, resumed)
    assert same(whole, Recognizer.from_pretrained(out))
    assert resumed.record.dev == whole.record.dev
    assert log.epochs == left
    assert [path.name for path in tmp_path.iterdir()] == ["killed"]


@pytest.mark.parametrize("kill", [("teacher 2/2", 0), ("round 2", 1)])
def test_a_taught_run_is_not_resumed_with_other_settings_or_data(toy, small_settings, tmp_path, kill):
    out = tmp_path / "m"
    with pytest.raises(KeyboardInterrupt):
        train(toy, small_settings, out=out, observer=Log(kill))
    for more, corpus in (({"settings": {"teacher.label_odds": 2}}, toy), ({"seed": 9}, toy), ({}, toy[:20])):
        with pytest.raises(TrainingError, match="other data or settings"):
            train(corpus, small_settings, out=out, resume=True, **more)
    train(toy, small_settings, out=out, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_taught_run_leaves_nothing_but_the_model(toy, small_settings, tmp_path):
    log = Log()
    train(toy, small_settings, out=tmp_path / "m", observer=log)
    assert log.stages == ["teacher 1/2", "teacher 2/2", "", "round 2"]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_round_that_dev_data_does_not_like_is_not_kept(toy, small_settings, school, monkeypatch):
    qualities = iter([0.5, 0.5, 0.6, 0.7, 0.65, 0.9])  # two teachers, then rounds
    real = TrainingRun._fit

    def fit(self, *arguments, **named):
        model, result = real(self, *arguments, **named)
        return model, replace(result, best_quality=next(qualities))

    monkeypatch.setattr(TrainingRun, "_fit", fit)
    settings = resolve_settings(
        "uniform", overrides=small_settings | TEACHER | {"teacher.max_rounds": 4, "training.epochs": 2}
    )
    model, result, _, name = TrainingRun(toy, toy[:5], settings, None, False, Observer()).train()
    assert result.best_quality == 0.7
    assert name == "model-2"
    assert model is school.models[3]
    assert len(school.models) == 2 + 3


class Epochs(Observer):
    count = 0

    def epoch_started(self, epoch, epochs, words):
        self.count += 1


@pytest.mark.parametrize("better", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_a_model_of_a_stage_is_kept_if_it_is_better_on_dev_data(
    toy, small_settings, tmp_path, monkeypatch, better, stored
):
    scores = iter([0.2, 0.6, 0.5 if better else 0.6])  # spans, tagger, what learned from both
    monkeypatch.setattr(TrainingRun, "_score", lambda self, dev, model: next(scores))
    fitted: dict[str, Model] = {}
    real = TrainingRun._fit

    def fit(self, name, *arguments, **named):
        fitted[name], result = real(self, name, *arguments, **named)
        return fitted[name], result

    monkeypatch.setattr(TrainingRun, "_fit", fit)
    settings = resolve_settings("lacuner", overrides=small_settings | {"training.epochs": 2}).for_data(toy, toy[:5])
    folder, epochs = None, Epochs()
    if stored:  # as if other processes had trained them
        folder = RunFolder(tmp_path / "run", "key")
        folder.folder.mkdir()
        monkeypatch.setattr(TrainingRun, "_forget_models", lambda self, needed: self.stage_models.clear())
    model, _, method, name = TrainingRun(toy, toy[:5], settings, folder, False, epochs).train()
    assert method.level == "token"
    assert name == ("distilled-2" if better else "model")
    assert epochs.count == 3 * 2, "none is trained again"
    assert model is fitted["distilled-2" if better else "model"]
    assert fitted.keys() == {"distilled-1", "distilled-2", "model"}
