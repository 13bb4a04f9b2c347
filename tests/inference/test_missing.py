import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner import Corpus, Recognizer
from lacuner.inference.missing import chance_of_any, missing_probability

SPANS = st.tuples(st.integers(0, 8), st.integers(1, 3)).map(lambda span: (span[0], span[0] + span[1]))
CANDIDATES = st.lists(st.tuples(SPANS, st.floats(0, 1)).map(lambda pair: (*pair[0], pair[1])), max_size=6)


@given(CANDIDATES, st.lists(SPANS, max_size=3))
def test_it_is_a_probability_and_falls_with_what_is_marked(candidates, marked) -> None:
    chance = chance_of_any(candidates, marked)
    assert 0 <= chance <= 1
    assert chance_of_any(candidates, [(0, 20)]) == 0
    free = [p for start, end, p in candidates if not any(start < e and s < end for s, e in marked)]
    assert chance >= max(free, default=0.0) - 1e-9
    assert chance <= sum(free) + 1e-9


def test_a_marked_entity_is_not_missing_and_an_unmarked_one_is(model: Recognizer) -> None:
    words = ("Ada", "moved", "to", "Turin", ".")
    found = [(entity.start, entity.end) for entity in model.predict(words, tokens=True)]
    assert found == [(0, 1), (3, 4)]
    everything = missing_probability(model.model, words, [])
    half = missing_probability(model.model, words, found[:1])
    nothing = missing_probability(model.model, words, found)
    assert everything >= half > 0.5 > nothing
    assert missing_probability(model.model, (), []) == 0


def test_taggers_are_asked_about_what_they_nearly_find(toy: Corpus, small_settings) -> None:
    small = {key: value for key, value in small_settings.items() if not key.startswith("head")}
    tagger = Recognizer.train(toy, toy, method="crf", epochs=12, settings=small)
    words = ("Ada", "moved", "to", "Turin", ".")
    marked = [(entity.start, entity.end) for entity in tagger.predict(words, tokens=True)]
    assert marked
    assert missing_probability(tagger.model, words, []) > missing_probability(tagger.model, words, marked)


@pytest.mark.parametrize("at", [0, 99])
def test_long_texts_are_searched_in_passages(model: Recognizer, at: int) -> None:
    sentences = [["Ada", "moved", "to", "Turin", "."]] * 100
    words = [word for sentence in sentences for word in sentence]
    marked = [(5 * index + start, 5 * index + start + 1) for index in range(100) for start in (0, 3)]
    assert missing_probability(model.model, words, [span for span in marked if span[0] // 5 != at]) > 0.5


def test_without_candidates_the_chance_is_zero_and_not_minus_zero() -> None:
    assert str(chance_of_any([], [])) == str(chance_of_any([(0, 1, 0.0)], [])) == "0.0"
