"""Channels are estimated from what sources say, and believed accordingly."""

from dataclasses import replace

import numpy as np
import pytest

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.sentence import SourceAnnotation
from lacuner.supervision.channel import (
    NOT_ASKED,
    Said,
    _believed,
    _counted,
    _prior,
    channel_posterior,
    fit_channels,
    labels_by_source,
)
from lacuner.supervision.posterior import SpanProbabilities

LABELS = ("O", "LOC", "PER")
FORGETFUL = np.array([[0.98, 0.01, 0.01], [0.5, 0.45, 0.05], [0.7, 0.05, 0.25]])
INVENTIVE = np.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.05, 0.15, 0.8]])


def of_all(labels: np.ndarray, count: int = 3) -> Said:
    """What a source says that has looked for all labels."""
    return Said(labels, np.ones((len(labels), count), dtype=bool))


def simulated(count: int, *channels: np.ndarray, seed: int = 1) -> tuple[np.ndarray, np.ndarray, list[Said]]:
    """True labels, what a calibrated model says of them, and what sources say."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet([0.5, 0.3, 0.3], size=count)
    truth = np.array([generator.choice(3, p=row) for row in probabilities])
    said = [of_all(np.array([generator.choice(3, p=channel[true]) for true in truth])) for channel in channels]
    return truth, probabilities, said


def test_bayes_rule_is_that_of_a_loop() -> None:
    _, probabilities, said = simulated(30, FORGETFUL, INVENTIVE)
    said[1].labels[::3] = NOT_ASKED
    said[0].looked_for[::2, 1] = False
    found = _believed(probabilities, said, [FORGETFUL, INVENTIVE])

    def likelihood(channel: np.ndarray, source: Said, row: int, true: int) -> float:
        label = source.labels[row]
        silent = label == 0 and not source.looked_for[row, true]
        return 1.0 if label == NOT_ASKED or silent else channel[true, label]

    for row in range(30):
        weights = [
            probabilities[row, true]
            * likelihood(FORGETFUL, said[0], row, true)
            * likelihood(INVENTIVE, said[1], row, true)
            for true in range(3)
        ]
        assert found[row] == pytest.approx(np.array(weights) / sum(weights))


def test_counting_is_that_of_a_loop() -> None:
    _, posterior, (said,) = simulated(40, FORGETFUL)
    said.labels[::4] = NOT_ASKED
    said.looked_for[::3, 2] = False
    counted = _counted(posterior, said, _prior(3))
    expected = 20 * _prior(3)
    for row, label in enumerate(said.labels.tolist()):
        for true in range(3):
            if label != NOT_ASKED and said.looked_for[row, true]:
                expected[true, label] += posterior[row, true]
    assert counted == pytest.approx(expected / expected.sum(1, keepdims=True))


def test_silence_about_a_label_that_nobody_looked_for_means_nothing() -> None:
    """In half of the sentences the source has looked for the second label only."""
    careful = np.array([[0.98, 0.01, 0.01], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]])
    truth, probabilities, (said,) = simulated(4000, careful)
    said.looked_for[::2, 1] = False
    said.labels[::2][said.labels[::2] == 1] = 0
    found = fit_channels(probabilities, [said])
    assert found.tables[0][[0, 2]] == pytest.approx(careful[[0, 2]], abs=0.05)
    assert found.tables[0][1, 1] > 0.85, "it hardly overlooks what it looks for"
    silent = (said.labels == 0) & ~said.looked_for[:, 1]
    assert found.posterior[silent, 1].mean() == pytest.approx((truth[silent] == 1).mean(), abs=0.03)


@pytest.mark.parametrize("channel", [FORGETFUL, INVENTIVE], ids=["forgetful", "inventive"])
def test_a_channel_is_found_again(channel: np.ndarray) -> None:
    _, probabilities, said = simulated(20_000, channel)
    found = fit_channels(probabilities, said)
    assert found.tables[0] == pytest.approx(channel, abs=0.03)


def test_the_estimate_is_where_the_probability_of_what_is_said_has_its_maximum() -> None:
    """With the pseudo-counts, as in a loop; any other channel explains what is said worse."""
    _, probabilities, (said,) = simulated(60, FORGETFUL)
    prior = _prior(3)

    def explained(table: np.ndarray) -> float:
        value = float((20 * prior * np.log(table)).sum())
        for row, label in zip(probabilities, said.labels.tolist(), strict=True):
            value += np.log(sum(row[true] * table[true, label] for true in range(3)))
        return value

    table = fit_channels(probabilities, [said]).tables[0]
    generator = np.random.default_rng(3)
    for _ in range(50):
        other = table * np.exp(0.05 * generator.normal(size=(3, 3)))
        assert explained(other / other.sum(1, keepdims=True)) < explained(table)


def test_two_sources_tell_more_than_either() -> None:
    truth, probabilities, said = simulated(5000, FORGETFUL, INVENTIVE)

    def right(posterior: np.ndarray) -> float:
        return float((posterior.argmax(1) == truth).mean())

    alone = [right(fit_channels(probabilities, [each]).posterior) for each in said]
    assert right(fit_channels(probabilities, said).posterior) > max(alone) + 0.01
    assert min(alone) > right(probabilities) + 0.01


def test_the_truth_is_believed_where_it_is_known_and_sharpens_the_channel() -> None:
    truth, probabilities, said = simulated(2000, INVENTIVE)
    blurred = 0.5 * probabilities + 0.5 / 3  # a model that hardly knows anything
    found = fit_channels(blurred, said, truth)
    assert (found.posterior.argmax(1) == truth).all()
    assert found.tables[0] == pytest.approx(INVENTIVE, abs=0.05)
    unsure = fit_channels(blurred, said)
    assert np.abs(found.tables[0] - INVENTIVE).sum() < np.abs(unsure.tables[0] - INVENTIVE).sum()


def test_a_source_that_has_not_looked_changes_nothing() -> None:
    _, probabilities, _ = simulated(50, FORGETFUL)
    found = fit_channels(probabilities, [of_all(np.full(50, NOT_ASKED))])
    assert found.posterior == pytest.approx(probabilities)
    assert found.tables[0] == pytest.approx(_prior(3)), "and nothing is learned about it"


def test_without_spans_there_is_nothing_to_believe() -> None:
    found = fit_channels(np.zeros((0, 3)), [of_all(np.zeros(0, dtype=np.int64))])
    assert found.posterior.shape == (0, 3)


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_every_row_of_the_prior_is_a_distribution(labels: int) -> None:
    prior = _prior(labels)
    assert prior.sum(1) == pytest.approx(np.ones(labels))
    assert (prior.argmax(1) == np.arange(labels)).all()
    assert (prior > 0).all()


def test_each_source_says_what_it_says_where_it_has_looked() -> None:
    spans = SpanProbabilities(
        np.array([0, 0, 1]), np.array([0, 2, 0]), np.array([1, 3, 1]), np.full((3, 3), 1 / 3, dtype=np.float32)
    )
    dictionary = SourceAnnotation("dictionary", (Entity(0, 1, "PER"),))
    model = SourceAnnotation("model", (Entity(0, 1, "LOC"), Entity(2, 3, "MISC")))  # MISC: nobody asks for it
    corpus = Corpus(
        [
            Sentence(("Ada", "met", "Bo"), (Entity(0, 1, "PER"),), by_source=(dictionary, model)),
            Sentence(("Turin",), by_source=(SourceAnnotation("dictionary"),)),
        ]
    )
    said = labels_by_source(spans, corpus, LABELS)
    assert {name: own.labels.tolist() for name, own in said.items()} == {
        "dictionary": [2, 0, 0],
        "model": [1, 0, NOT_ASKED],
    }


def test_a_corpus_that_tells_no_sources_apart_has_one() -> None:
    spans = SpanProbabilities(
        np.array([0, 1]), np.array([0, 0]), np.array([1, 1]), np.full((2, 3), 1 / 3, dtype=np.float32)
    )
    corpus = Corpus([Sentence(("Ada",), (Entity(0, 1, "PER"),)), Sentence(("sleeps",))])
    (said,) = labels_by_source(spans, corpus, LABELS).values()
    assert said.labels.tolist() == [2, 0]
    assert said.looked_for.all()


def test_a_source_says_nothing_of_labels_and_words_that_it_has_not_looked_at() -> None:
    spans = SpanProbabilities(
        np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([1, 2, 1]), np.full((3, 3), 1 / 3, dtype=np.float32)
    )
    persons = Sentence(("Ada",), annotated_labels=frozenset({"PER"}))
    corpus = Corpus([Sentence(("Ada", "sleeps"), unknown_tokens=frozenset({0})), persons])
    (said,) = labels_by_source(spans, corpus, LABELS).values()
    assert said.labels.tolist() == [NOT_ASKED, 0, 0]
    assert said.looked_for.tolist() == [[True] * 3, [True] * 3, [True, False, True]]


def test_the_posterior_of_spans_is_that_of_their_sources_and_a_reviewer_is_right() -> None:
    generator = np.random.default_rng(1)
    probabilities = generator.dirichlet([1, 1, 1], size=40).astype(np.float32)
    spans = SpanProbabilities(np.arange(40), np.zeros(40, dtype=np.int64), np.ones(40, dtype=np.int64), probabilities)
    one, other = generator.integers(0, 3, (2, 40))

    def annotation(source: str, number: int) -> SourceAnnotation:
        return SourceAnnotation(source, (Entity(0, 1, LABELS[number]),) if number else ())

    told = [
        Sentence(("w",), by_source=(annotation("a", a), annotation("b", b))) for a, b in zip(one, other, strict=True)
    ]
    found = channel_posterior(spans, Corpus(told), LABELS)
    assert found.probabilities == pytest.approx(
        fit_channels(probabilities.astype(float), [of_all(one), of_all(other)]).posterior, abs=1e-6
    )
    assert (found.start == spans.start).all()
    reviewed = [replace(told[0], entities=(Entity(0, 1, "LOC", source="reviewer"),)), *told[1:]]
    found = channel_posterior(spans, Corpus(reviewed), LABELS)
    assert found.probabilities[0] == pytest.approx([0, 1, 0], abs=1e-6)
