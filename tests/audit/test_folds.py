from dataclasses import replace

import numpy as np
import pytest

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.audit import folds as audit_folds
from lacuner.audit.folds import MIN_PROBABILITY, name_groups, predict_by_folds, predict_with, without_names
from lacuner.corpus import Span
from lacuner.corpus.sentence import SourceAnnotation
from lacuner.inference import passages
from lacuner.models.model import Model
from lacuner.models.probabilities import predict_proba
from lacuner.supervision.posterior import SpanProbabilities
from lacuner.training.cross_fit import plan_folds
from lacuner.training.settings import RunSettings, resolve_settings

LABELS = ("O", "LOC", "PER")


@pytest.fixture
def settings(small_settings) -> RunSettings:
    return resolve_settings("uniform", overrides=small_settings | {"training.epochs": 1})


def as_dict(found: SpanProbabilities) -> dict[tuple[int, ...], list[float]]:
    spans = [tuple(span) for span in found.spans().tolist()]
    assert spans == sorted(set(spans))
    return dict(zip(spans, found.probabilities.tolist(), strict=True))


@pytest.mark.parametrize("folds", [2, 3])
def test_no_model_is_asked_about_words_that_it_has_learned_from(toy, settings, monkeypatch, folds):
    """A sentence that occurs twice is in one fold, complete or not."""
    learned: dict[Model, set[tuple[str, ...]]] = {}  # by model and not by id, which the next model may inherit
    asked: list[tuple[str, ...]] = []
    train = Recognizer.train.__func__

    def spy_train(cls, corpus, *arguments, **keywords):
        trained = train(cls, corpus, *arguments, **keywords)
        learned[trained.model] = {sentence.tokens for sentence in corpus}
        return trained

    def spy_predict(model, corpus, indices, *rest):
        words = [corpus[index].tokens for index in indices]
        assert learned[model].isdisjoint(words)
        asked.extend(words)
        return predict_proba(model, corpus, indices, *rest)

    monkeypatch.setattr(Recognizer, "train", classmethod(spy_train))
    monkeypatch.setattr(audit_folds, "predict_proba", spy_predict)
    again = [replace(sentence, complete=True) for sentence in toy[:10]]
    corpus = Corpus((*toy, Sentence(()), *again, *toy[5:10]))
    predict_by_folds(corpus, settings, folds, LABELS)
    assert len(learned) == folds
    assert sorted(asked) == sorted(sentence.tokens for sentence in corpus if sentence.tokens)


def named(name: str, complete: bool = False) -> Sentence:
    return Sentence((name, "sleeps"), (Entity(0, 1, "PER"),), complete=complete)


def test_every_name_is_in_one_of_ten_groups_of_the_same_size():
    corpus = Corpus(tuple(named(f"Name{number % 60}") for number in range(300)))
    group = name_groups(corpus, seed=1)
    assert len(group) == 60
    assert np.bincount(list(group.values())).tolist() == [6] * 10
    assert group == name_groups(corpus, seed=1) != name_groups(corpus, seed=2)


def test_a_few_names_are_all_learned_from():
    assert name_groups(Corpus(tuple(named(f"Name{number}") for number in range(49))), seed=1) == {}


def test_the_names_of_a_group_lose_their_labels_unless_they_would_become_negatives():
    group = {"Ada": 0, "Bo": 1}
    assert without_names(named("Ada"), group, 0).entities == ()
    assert without_names(named("Bo"), group, 0) == named("Bo")
    assert without_names(named("Ada", complete=True), group, 0) == named("Ada", complete=True)
    assert without_names(named("Ada"), {}, 0) == named("Ada")


def test_no_source_tells_about_the_names_of_a_group():
    ada, bo, nobody = (Entity(0, 1, "PER"), Entity(1, 2, "PER"), Entity(2, 3, "PER"))
    said = (SourceAnnotation("list", (ada, bo)), SourceAnnotation("model", (ada, nobody)))
    sentence = Sentence(("Ada", "Bo", "Nobody"), (ada, bo), by_source=said)
    found = without_names(sentence, {"Ada": 0, "Bo": 1}, 0)
    assert [e.start for e in found.entities] == [1]
    assert [[e.start for e in each.entities] for each in found.by_source] == [[1], [2]]


def test_a_name_is_new_to_a_model_that_was_not_taught_it(settings, monkeypatch):
    taught: list[set[str]] = []
    train = Recognizer.train.__func__

    def spy_train(cls, corpus, *arguments, **keywords):
        taught.append({sentence.tokens[0] for sentence in corpus if sentence.entities})
        return train(cls, corpus, *arguments, **keywords)

    monkeypatch.setattr(Recognizer, "train", classmethod(spy_train))
    corpus = Corpus(tuple(Sentence((f"Name{n % 50}", f"sleeps{n}"), (Entity(0, 1, "PER"),)) for n in range(150)))
    found = predict_by_folds(corpus, settings, 2, ("O", "PER"))
    asked = {
        index: fold.number - 1
        for fold in plan_folds(corpus, 2, settings.training.seed, range(len(corpus)))
        for index in fold.held_out
    }
    assert all(len(names) <= 45 for names in taught), "a tenth of the names is held back on purpose"
    spans = dict(zip(map(tuple, found.spans.spans().tolist()), found.new_names.tolist(), strict=True))
    for index in range(len(corpus)):
        assert spans[index, 0, 1] == (f"Name{index % 50}" not in taught[asked[index]])
    assert all(new for (_, start, end), new in spans.items() if (start, end) != (0, 1)), "nobody was taught such words"


def test_probabilities_are_those_of_the_sentences_with_their_own_numbers(model, toy):
    corpus = Corpus((Sentence(()), toy[3], toy[6], Sentence(("Oslo",))))
    found = as_dict(predict_with(model, corpus, [1, 3], LABELS))
    expected = as_dict(predict_proba(model.model, corpus, [1, 3], MIN_PROBABILITY))
    assert found == {span: pytest.approx(row, abs=1e-6) for span, row in expected.items()}
    assert {span[0] for span in found} == {1, 3}


def test_labels_that_a_model_does_not_know_have_no_probability_and_others_become_none(model, toy):
    known = as_dict(predict_with(model, toy, range(3), LABELS))
    more = as_dict(predict_with(model, toy, range(3), ("O", "LOC", "MISC", "PER")))
    fewer = as_dict(predict_with(model, toy, range(3), ("O", "PER")))
    for span, (outside, place, person) in known.items():
        assert more[span] == pytest.approx([outside, place, 0.0, person], abs=1e-6)
        assert fewer[span] == pytest.approx([outside + place, person], abs=1e-6)


def test_long_documents_are_looked_at_in_passages(model, toy, monkeypatch):
    """As models are trained on them, and as they predict: no model sees more, and each span is where it is."""
    tokens: list[str] = []
    entities: list[Entity] = []
    for sentence in toy[:6]:
        entities += [Entity(len(tokens) + e.start, len(tokens) + e.end, e.label) for e in sentence.entities]
        tokens += sentence.tokens
    rejected = Span(entities[1].start, entities[1].end)
    document = Sentence(tuple(tokens), (entities[0], *entities[2:]), (rejected,))
    corpus = Corpus((toy[7], document, toy[8]))
    short = Corpus((toy[7], *(Sentence(s.tokens, s.entities) for s in toy[:6]), toy[8]))
    expected = {}
    first = np.cumsum([0, *(len(sentence) for sentence in toy[:6])]).tolist()
    for (index, start, end), row in as_dict(predict_with(model, short, range(8), LABELS)).items():
        inside = 1 <= index <= 6
        begin = first[index - 1] if inside else 0
        expected[(1 if inside else 2 * (index == 7)), begin + start, begin + end] = row
    del expected[1, rejected.start, rejected.end]
    longest = []
    encode = type(model.model).encode

    def spy(self, sentences):
        longest.append(max(map(len, sentences)))
        return encode(self, sentences)

    monkeypatch.setattr(type(model.model), "encode", spy)
    monkeypatch.setattr(passages, "MAX_PASSAGE", 8)  # so each passage is a sentence
    found = as_dict(predict_with(model, corpus, range(3), LABELS))
    assert max(longest) <= 8
    assert found.keys() == expected.keys()
    for span, row in found.items():
        assert row == pytest.approx(expected[span], abs=1e-5)
