from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner import Corpus, Entity, Sentence
from lacuner.corpus import Span
from lacuner.supervision.posterior import SpanProbabilities
from lacuner.training.epochs import EpochSampler

LABELS = ("O", "LOC", "PER")
WORDS = ("Ada", "met", "Grace", "Hopper", "in", "Oslo")
MANY = 2_000
"""Epochs that are enough to see with what probability something is drawn."""
UNLIKELY = {1: 19.5, 2: 23.0, 4: 28.5, 8: 37.3}
"""Chi-squared with so many degrees of freedom is greater once in 100,000 times."""

Row = tuple[int, int, int, Sequence[float]]


def probable(*rows: Row) -> SpanProbabilities:
    """From ``(sentence, start, end, probabilities)``."""
    sentence, start, end, probabilities = zip(*rows, strict=True)
    places = (np.array(column, dtype=np.int64) for column in (sentence, start, end))
    return SpanProbabilities(*places, np.array(probabilities, dtype=np.float32))


def taught_by(sentences: Iterable[Sentence], posterior: SpanProbabilities, **more) -> EpochSampler:
    return EpochSampler(Corpus(tuple(sentences)), posterior=posterior, labels=LABELS, **more)


def label_of(sentence: Sentence, start: int, end: int) -> str:
    """What a sentence says about a span, which it must say something about."""
    (label,) = sentence.possible_labels(start, end, LABELS)
    return label


def chi_squared(counts: Counter, expected: dict) -> float:
    assert counts.keys() <= expected.keys()
    return sum((counts[key] - much) ** 2 / much for key, much in expected.items())


def test_a_label_is_as_likely_as_the_teacher_thinks_it_is():
    chances = {(0, 1): (0.2, 0.1, 0.7), (2, 4): (0.5, 0.5, 0.0), (5, 6): (0.05, 0.9, 0.05)}
    taught = taught_by([Sentence(WORDS)], probable(*((0, *span, chance) for span, chance in chances.items())))
    drawn = [taught.sentence(0, epoch) for epoch in range(MANY)]
    for span, chance in chances.items():
        counts = Counter(label_of(sentence, *span) for sentence in drawn)
        possible = {label: MANY * share for label, share in zip(LABELS, chance, strict=True) if share}
        assert chi_squared(counts, possible) < UNLIKELY[len(possible) - 1]


def test_spans_and_epochs_are_drawn_independently_of_each_other():
    first, second = (0.3, 0.3, 0.4), (0.6, 0.2, 0.2)
    taught = taught_by([Sentence(WORDS), Sentence(WORDS)], probable((0, 0, 1, first), (1, 2, 4, second)))
    drawn = [
        (label_of(taught.sentence(0, epoch), 0, 1), label_of(taught.sentence(1, epoch), 2, 4)) for epoch in range(MANY)
    ]
    shares = [dict(zip(LABELS, chance, strict=True)) for chance in (first, second)]
    both = {(a, b): MANY * shares[0][a] * shares[1][b] for a in LABELS for b in LABELS}
    assert chi_squared(Counter(drawn), both) < UNLIKELY[8]
    pairs = Counter((drawn[epoch][0], drawn[epoch + 1][0]) for epoch in range(0, MANY, 2))
    in_a_row = {(a, b): MANY / 2 * shares[0][a] * shares[0][b] for a in LABELS for b in LABELS}
    assert chi_squared(pairs, in_a_row) < UNLIKELY[8]


def test_an_epoch_is_the_same_whenever_it_is_looked_at_and_another_seed_gives_another():
    rows = [(0, start, start + 1, (0.4, 0.3, 0.3)) for start in range(len(WORDS))]
    one, again = (taught_by([Sentence(WORDS)], probable(*rows), seed=5) for _ in range(2))
    expected = [one.sentence(0, epoch) for epoch in range(20)]
    assert [again.sentence(0, epoch) for epoch in reversed(range(20))] == expected[::-1]
    other = taught_by([Sentence(WORDS)], probable(*rows), seed=6)
    assert sum(other.sentence(0, epoch) != expected[epoch] for epoch in range(20)) > 15
    assert len(set(expected)) > 15


def test_what_the_teacher_takes_for_no_entity_is_known_to_be_none_and_what_it_labels_is_the_models():
    sentence = Sentence(WORDS, (Entity(0, 1, "PER", source="dictionary"),))
    sure = probable((0, 0, 1, (1, 0, 0)), (0, 2, 4, (0, 0, 1)), (0, 4, 5, (1, 0, 0)), (0, 5, 6, (0, 1, 0)))
    read = taught_by([sentence], sure).sentence(0, 3)
    assert read.entities == (Entity(2, 4, "PER"), Entity(5, 6, "LOC"))
    assert {entity.source for entity in read.entities} == {"model"}
    assert read.non_entities == (Span(0, 1), Span(4, 5))
    assert read.tokens == WORDS


def test_an_annotated_label_gives_way_to_the_one_that_is_drawn():
    sentence = Sentence(WORDS, (Entity(5, 6, "PER", source="dictionary"), Entity(5, 6, "LOC", source="dictionary")))
    read = taught_by([sentence], probable((0, 5, 6, (0, 1, 0)))).sentence(0, 0)
    assert [(entity.label, entity.source) for entity in read.entities] == [("LOC", "model")]


def test_what_the_teacher_does_not_speak_of_stays_as_it_was():
    wide, rejected = Entity(0, 6, "PER", source="dictionary"), Span(1, 2, source="reviewer")
    sentence = Sentence(
        WORDS, (wide, Entity(5, 6, "LOC")), (rejected,), annotated_labels={"PER"}, unknown_tokens={4}, text="x"
    )
    read = taught_by([sentence], probable((0, 5, 6, (1, 0, 0)), (0, 2, 4, (0, 0, 1)))).sentence(0, 0)
    assert read.entities == (wide, Entity(2, 4, "PER"))
    assert read.entities[0].source == "dictionary"
    assert read.non_entities == (rejected, Span(5, 6))
    assert next(span.source for span in read.non_entities if span == rejected) == "reviewer"
    unchanged = replace(read, entities=sentence.entities, non_entities=sentence.non_entities)
    assert unchanged == sentence


def test_each_sentence_gets_what_was_said_of_it():
    sentences = [Sentence(WORDS), Sentence(WORDS), Sentence(WORDS), Sentence(WORDS)]
    sure = probable((0, 0, 1, (0, 0, 1)), (2, 5, 6, (0, 1, 0)), (2, 2, 4, (0, 0, 1)))
    taught = taught_by(sentences, sure)
    assert [taught.sentence(index, 0).entities for index in range(4)] == [
        (Entity(0, 1, "PER"),),
        (),
        (Entity(2, 4, "PER"), Entity(5, 6, "LOC")),
        (),
    ]


@pytest.mark.parametrize("negative", [False, True])
def test_complete_sentences_are_never_touched(negative):
    trusted = Sentence(WORDS, (Entity(0, 1, "PER"),), complete=True)
    taught = taught_by([trusted], probable((0, 0, 1, (1, 0, 0)), (0, 5, 6, (0, 1, 0))), rest_as_negative=negative)
    assert all(taught.sentence(0, epoch) is trusted for epoch in range(5))


@pytest.mark.parametrize("negative", [False, True])
def test_what_has_no_probabilities_is_unknown_unless_the_rest_is_negative(negative):
    taught = taught_by([Sentence(WORDS), Sentence(WORDS)], probable((0, 0, 1, (0, 0, 1))), rest_as_negative=negative)
    for index in range(2):  # nothing was said of the second
        read = taught.sentence(index, 0)
        assert read.complete is negative
        assert read.possible_labels(1, 3, LABELS[1:]) == (frozenset("O") if negative else frozenset(LABELS))


def test_without_a_teacher_a_sentence_is_what_it_is():
    corpus = Corpus((Sentence(WORDS), Sentence(WORDS, complete=True)))
    assert all(EpochSampler(corpus, rest_as_negative=True).sentence(index, 0) is corpus[index] for index in range(2))


def mixed(complete: int, others: int) -> Corpus:
    """Complete sentences scattered among others."""
    flags = np.random.default_rng(0).permutation([True] * complete + [False] * others)
    return Corpus(tuple(Sentence((str(number),), complete=bool(flag)) for number, flag in enumerate(flags)))


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.01, 0.99), st.integers(0, 50), st.integers(0, 50))
def test_a_share_says_how_much_of_an_epoch_is_complete(complete, others, share, seed, epoch):
    corpus = mixed(complete, others)
    counts = Counter(EpochSampler(corpus, seed, share).indices(epoch))
    assert counts.total() == len(corpus)
    for part, wanted in ((True, round(share * len(corpus))), (False, len(corpus) - round(share * len(corpus)))):
        often = [counts[index] for index, sentence in enumerate(corpus) if sentence.complete is part]
        assert sum(often) == wanted
        assert max(often) - min(often) <= 1


def test_who_comes_once_more_is_drawn_again_in_every_epoch_and_fairly():
    corpus = mixed(6, 10)
    drawn = EpochSampler(corpus, 1, 0.5)  # 8 of 6, and 8 of 10
    total = Counter(index for epoch in range(600) for index in drawn.indices(epoch))
    for part, much in ((True, 600 * 8 / 6), (False, 600 * 8 / 10)):
        expected = {index: much for index, sentence in enumerate(corpus) if sentence.complete is part}
        assert chi_squared(Counter({index: total[index] for index in expected}), expected) < 40
    assert drawn.indices(3) == EpochSampler(corpus, 1, 0.5).indices(3)
    assert len({tuple(sorted(drawn.indices(epoch))) for epoch in range(20)}) > 10
    assert sorted(drawn.indices(3)) != sorted(EpochSampler(corpus, 2, 0.5).indices(3))


def test_without_a_share_every_sentence_comes_once():
    for corpus in (mixed(3, 4), mixed(0, 5), mixed(5, 0)):
        assert EpochSampler(corpus).indices(2) == list(range(len(corpus)))


def test_where_all_sentences_are_of_one_kind_a_share_changes_nothing():
    for corpus in (mixed(0, 5), mixed(5, 0)):
        assert EpochSampler(corpus, 1, 0.3).indices(2) == list(range(5))


def test_in_the_end_only_complete_sentences_are_read():
    corpus = mixed(3, 8)
    taught = EpochSampler(corpus, clean_from=2)
    assert [taught.indices(epoch) for epoch in (0, 1)] == [list(range(11))] * 2
    for epoch in (2, 3):
        counts = Counter(taught.indices(epoch))
        assert all(corpus[index].complete for index in counts)
        assert sorted(counts.values()) == [3, 4, 4]
    assert EpochSampler(corpus, complete_fraction=0.5, clean_from=1).indices(0) == EpochSampler(
        corpus, complete_fraction=0.5
    ).indices(0)
    for one_kind in (mixed(0, 4), mixed(4, 0)):
        assert EpochSampler(one_kind, clean_from=0).indices(0) == [0, 1, 2, 3]
