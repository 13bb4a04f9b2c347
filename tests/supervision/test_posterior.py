import numpy as np
import pytest

from lacuner import Corpus, Entity, Sentence
from lacuner.supervision.posterior import SpanProbabilities, annotated_labels, concatenate, mean

Table = dict[tuple[int, int, int], list[float]]
"""Probabilities of the labels by sentence, start and end."""


def as_dict(found: SpanProbabilities) -> Table:
    keys = list(zip(found.sentence.tolist(), found.start.tolist(), found.end.tolist(), strict=True))
    assert len(set(keys)) == len(keys) == len(found.probabilities)
    return dict(zip(keys, found.probabilities.tolist(), strict=True))


def from_dict(table: Table, labels: int = 3) -> SpanProbabilities:
    keys = np.array(list(table), dtype=np.int64).reshape(-1, 3)
    probabilities = np.array(list(table.values()), dtype=np.float32).reshape(-1, labels)
    return SpanProbabilities(keys[:, 0], keys[:, 1], keys[:, 2], probabilities)


def assert_same(found: SpanProbabilities, expected: Table) -> None:
    assert list(as_dict(found)) == sorted(expected)
    for key, probabilities in as_dict(found).items():
        assert probabilities == pytest.approx(expected[key], abs=1e-5), key


def test_concatenated_probabilities_stand_sentence_by_sentence():
    one = {(0, 0, 1): [0.1, 0.2, 0.7], (3, 0, 2): [0.5, 0.2, 0.3], (3, 4, 5): [0.0, 0.0, 1.0]}
    other = {(1, 0, 1): [0.9, 0.1, 0.0], (2, 5, 7): [0.4, 0.4, 0.2], (7, 0, 1): [0.6, 0.2, 0.2]}
    assert_same(concatenate([from_dict(one), from_dict({}), from_dict(other)]), one | other)
    assert_same(concatenate([from_dict(other)]), other)


@pytest.mark.parametrize("models", [1, 2, 3])
def test_the_mean_takes_what_a_model_leaves_out_as_no_entity(models):
    generator = np.random.default_rng(models)
    spans = [(sentence, start, end) for sentence in range(4) for start in range(3) for end in range(start + 1, 4)]
    tables: list[Table] = []
    for _ in range(models):
        kept = [span for span in spans if generator.random() < 0.6]
        tables.append({span: generator.dirichlet(np.ones(3)).tolist() for span in kept})
    expected = {}
    for span in spans:
        if any(span in table for table in tables):
            rows = [table.get(span, [1.0, 0.0, 0.0]) for table in tables]
            expected[span] = [sum(row[label] for row in rows) / models for label in range(3)]
    assert_same(mean([from_dict(table) for table in tables]), expected)
    assert_same(mean([from_dict(table) for table in tables], [range(4)] * models), expected)


def test_one_model_may_have_nothing_to_say():
    sure = {(2, 0, 1): [0.0, 1.0, 0.0]}
    assert_same(mean([from_dict({}), from_dict(sure)]), {(2, 0, 1): [0.5, 0.5, 0.0]})
    assert_same(mean([from_dict({}), from_dict({})]), {})


def test_a_model_that_was_not_asked_about_a_sentence_does_not_count_there():
    one = {(0, 0, 1): [0.0, 1.0, 0.0], (2, 0, 1): [0.2, 0.8, 0.0]}
    other = {(1, 0, 1): [0.4, 0.0, 0.6], (2, 0, 1): [0.0, 0.0, 1.0]}
    found = mean([from_dict(one), from_dict(other), from_dict({})], [[0, 2], [1, 2], [1]])
    expected = {(0, 0, 1): [0.0, 1.0, 0.0], (1, 0, 1): [0.7, 0.0, 0.3], (2, 0, 1): [0.1, 0.4, 0.5]}
    assert_same(found, expected)


def test_annotated_labels_are_those_of_the_corpus_and_of_the_models():
    words = tuple("abcde")
    corpus = Corpus(
        (
            Sentence(words, (Entity(0, 1, "PER"), Entity(3, 4, "LOC"), Entity(1, 5, "PER"))),  # the last: not asked
            Sentence(words),
            Sentence(words, (Entity(0, 2, "PER"), Entity(3, 4, "LOC"), Entity(3, 4, "PER"))),
            Sentence(words, (Entity(0, 1, "MISC"),)),  # a label that the models do not know
        )
    )
    spans = [(0, 0, 1), (0, 3, 4), (1, 0, 1), (2, 0, 2), (2, 3, 4), (3, 0, 1)]
    found = annotated_labels(from_dict({span: [1.0, 0.0, 0.0] for span in spans}), corpus, ("O", "LOC", "PER"))
    assert found.int().tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 0, 0]]
    turned = annotated_labels(from_dict({span: [1.0, 0.0, 0.0] for span in spans}), corpus, ("O", "PER", "LOC"))
    assert turned.tolist() == found[:, [0, 2, 1]].tolist()


def test_probabilities_need_not_sum_to_exactly_one():
    """Rounding never makes a label number that there is none of."""
    probabilities = np.full((1, 3), np.float32(0.99999 / 3))
    spans = SpanProbabilities(*np.zeros((3, 1), dtype=np.int64), probabilities)
    generator = type("Highest", (), {"random": staticmethod(lambda shape: np.full(shape, np.nextafter(1.0, 0.0)))})()
    assert spans.sample(generator).tolist() == [2]


def test_probabilities_survive_being_stored():
    table = {(0, 0, 1): [0.1, 0.2, 0.7], (3, 0, 2): [0.5, 0.2, 0.3]}
    for spans in (from_dict(table), SpanProbabilities.empty(3)):
        loaded = SpanProbabilities.from_tensors(spans.tensors())
        assert all(np.array_equal(value, getattr(loaded, name)) for name, value in vars(spans).items())
