import numpy as np
import pytest

from lacuner.analysis.audit_quality import measure_audit, missing_entities, rank_by_cleanlab, token_probabilities
from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.supervision.posterior import SpanProbabilities

LABELS = ("O", "LOC", "PER")
WORDS = ("Ada", "Byron", "met", "Bo", "in", "Rome")
ALL = (Entity(0, 2, "PER"), Entity(3, 4, "PER"), Entity(5, 6, "LOC"))


def believed(*rows: tuple[int, int, int, tuple[float, float, float]]) -> SpanProbabilities:
    sentence, start, end = (np.array([row[place] for row in rows], dtype=np.int64) for place in range(3))
    return SpanProbabilities(sentence, start, end, np.array([row[3] for row in rows], dtype=np.float32).reshape(-1, 3))


def test_what_overlaps_something_annotated_is_wrong_but_not_missing() -> None:
    corpus = Corpus([Sentence(WORDS, (Entity(1, 2, "PER"),)), Sentence(WORDS, ALL)])
    assert missing_entities(corpus, Corpus([Sentence(WORDS, ALL)] * 2)) == {(0, 3, 4, "PER"), (0, 5, 6, "LOC")}


def test_average_precision_is_that_of_a_slow_obvious_count() -> None:
    generator = np.random.default_rng(1)
    corpus, complete = Corpus([Sentence(("x",))] * 60), Corpus([Sentence(("x",), (Entity(0, 1, "A"),))] * 60)
    order = generator.permutation(60)
    suggested = [(int(place), 0, 1, "A" if place % 3 else "B") for place in order[:50]]
    quality = measure_audit(suggested, corpus, complete)
    total, hits = 0.0, 0
    for rank, (*_, label) in enumerate(suggested, 1):
        if label == "A":
            hits += 1
            total += hits / rank
    assert quality.average_precision == pytest.approx(total / 60)
    assert (quality.missing, quality.found, quality.right) == (60, 50, hits)
    assert quality.precision == {100: hits / 100, 500: hits / 500, 1000: hits / 1000}


def test_where_nothing_is_missing_nothing_can_be_found() -> None:
    corpus = Corpus([Sentence(WORDS, ALL)])
    assert measure_audit([(0, 4, 5, "LOC")], corpus, corpus).average_precision == 0


def test_a_word_is_what_the_spans_around_it_say() -> None:
    predicted = believed((0, 0, 2, (0.2, 0.0, 0.8)), (0, 0, 1, (0.6, 0.3, 0.1)), (1, 0, 1, (0.1, 0.9, 0.0)))
    first, second = token_probabilities(predicted, Corpus([Sentence(WORDS[:3]), Sentence(("Rome",))]), len(LABELS))
    assert first == pytest.approx(np.array([[0.0, 0.25, 0.75], [0.2, 0.0, 0.8], [1.0, 0.0, 0.0]]), abs=1e-6)
    assert second == pytest.approx(np.array([[0.1, 0.9, 0.0]]))


def test_cleanlab_ranks_spans_by_the_words_that_it_doubts() -> None:
    person, place, none = (0.03, 0.02, 0.95), (0.03, 0.95, 0.02), (0.9, 0.05, 0.05)
    known = [Sentence(WORDS, ALL)] * 40
    corpus = Corpus([*known, Sentence(()), Sentence(WORDS, ALL[:2])])
    rows = [
        (number, *span)
        for number in (*range(40), 41)
        for span in ((0, 2, person), (2, 3, none), (3, 4, person), (5, 6, place))
    ]
    assert rank_by_cleanlab(believed(*rows), corpus, LABELS) == [(41, 5, 6, "LOC")]
