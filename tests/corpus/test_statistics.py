import json
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.statistics import Gaps, Statistics, aligned
from lacuner.errors import DataError
from lacuner.evaluation import score_entities

CORPUS = Corpus(
    [
        Sentence(
            ("Ada", "left", "New", "York"),
            (Entity(0, 1, "PER", source="human"), Entity(2, 4, "LOC", source="dictionary")),
            non_entities=(Span(1, 2),),
            complete=True,
        ),
        Sentence(("rain",), annotated_labels=frozenset({"PER"})),
        Sentence(()),
        Sentence(
            tuple("abcdefghi"),
            (Entity(0, 9, "ORG"), Entity(1, 2, "PER"), Entity(4, 5, "LOC", source="human")),
        ),
        Sentence(("rain",)),
    ]
)


def test_everything_is_counted():
    statistics = CORPUS.statistics()
    assert statistics.as_dict() == {
        "sentences": 5,
        "tokens": 15,
        "entities": 5,
        "labels": {"LOC": 2, "ORG": 1, "PER": 2},
        "widths": {"1": 3, "2": 1, "9": 1},
        "longest_sentence": 9,
        "sparsity": pytest.approx((2 / sqrt(4) + 3 / sqrt(9) + 0 + 0) / 4),
        "sources": {"dictionary": 1, "human": 2},
        "non_entities": 1,
        "complete_sentences": 1,
        "partially_labeled_sentences": 1,
        "empty_sentences": 1,
        "sentences_without_entities": 3,
        "overlapping_entities": 2,
        "repeated_sentences": 1,
    }
    assert json.loads(json.dumps(statistics.as_dict())) == statistics.as_dict()


def test_a_stream_is_counted_like_a_corpus():
    assert Statistics.count(sentence for sentence in CORPUS) == CORPUS.statistics()


def test_an_empty_corpus_has_statistics():
    statistics = Statistics.count([])
    assert statistics.as_dict()["longest_sentence"] == statistics.sparsity == statistics.width_covering(0.99) == 0


def test_sparsity_compares_with_the_root_of_the_length():
    entities = tuple(Entity(start, start + 1, "X") for start in range(4))
    assert Statistics.count([Sentence(("w",) * 16, entities)]).sparsity == 1.0
    assert Statistics.count([Sentence(("w",) * 16, entities), Sentence(("w",) * 4)]).sparsity == 0.5


@pytest.mark.parametrize(("share", "width"), [(0.5, 1), (0.6, 1), (0.61, 2), (0.8, 2), (0.81, 9), (1.0, 9)])
def test_a_width_covers_a_share_of_the_entities(share, width):
    assert CORPUS.statistics().width_covering(share) == width


def gaps(distant, gold):
    tokens = tuple("abcdef")
    pair = (Sentence(tokens, [Entity(*e) for e in distant]), Sentence(tokens, [Entity(*e) for e in gold]))
    return vars(Gaps.count([pair]))


NO_GAPS = {"correct": 0, "missing": 0, "wrong_label": 0, "wrong_boundary": 0, "spurious": 0}


@pytest.mark.parametrize(
    ("distant", "gold", "found"),
    [
        ([], [], {}),
        ([(0, 2, "PER")], [(0, 2, "PER")], {"correct": 1}),
        ([], [(0, 2, "PER")], {"missing": 1}),
        ([(2, 3, "PER")], [(0, 2, "PER")], {"missing": 1, "spurious": 1}),
        ([(0, 2, "LOC")], [(0, 2, "PER")], {"wrong_label": 1}),
        ([(0, 1, "PER")], [(0, 2, "PER")], {"wrong_boundary": 1}),
        ([(1, 4, "LOC")], [(0, 2, "PER")], {"wrong_boundary": 1}),
        ([(0, 6, "PER")], [(0, 2, "PER"), (3, 4, "PER")], {"wrong_boundary": 2}),
        ([(0, 2, "PER"), (0, 2, "LOC")], [(0, 2, "PER")], {"correct": 1}),
        ([(4, 5, "PER")], [], {"spurious": 1}),
    ],
)
def test_each_gold_entity_is_right_or_wrong_in_one_way(distant, gold, found):
    assert gaps(distant, gold) == NO_GAPS | found


def test_sentences_are_paired_in_order():
    distant, gold = [Sentence(("a",)), Sentence(("b",))], [Sentence(("a",)), Sentence(("b",), complete=True)]
    assert list(aligned(distant, gold, "gold.conll")) == list(zip(distant, gold, strict=True))


@pytest.mark.parametrize(
    ("gold", "what"),
    [
        ([Sentence(("a",))], "the two files have different numbers of sentences (one ends before sentence 2)"),
        (
            [Sentence(("a",)), Sentence(("b",)), Sentence(("c",))],
            "the two files have different numbers of sentences (one ends before sentence 3)",
        ),
        ([Sentence(("a",)), Sentence(("c", "d"))], "sentence 2 has other words (c d …)"),
    ],
)
def test_only_annotations_of_the_same_words_can_be_compared(gold, what):
    with pytest.raises(DataError) as raised:
        list(aligned([Sentence(("a",)), Sentence(("b",))], gold, "gold.conll"))
    assert str(raised.value) == f"gold.conll: {what} — compare annotations of the same sentences"


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "precision", "recall", "correct", "missing", "wrong_label", "wrong_boundary", "spurious"),
    [
        ("conll03", 82.38, 62.33, 14648, 5953, 702, 2196, 241),
        ("wikigold", 47.90, 47.63, 1093, 549, 219, 434, 495),
        ("wnut16", 46.98, 31.58, 467, 681, 188, 143, 195),
    ],
)
def test_distant_labels_of_real_corpora_are_as_good_as_published(
    data_folder, name, precision, recall, correct, missing, wrong_label, wrong_boundary, spurious
):
    distant = Corpus.read(data_folder / name / "train.conll")
    gold = Corpus.read(data_folder / name / "train.gold.conll")
    pairs = list(aligned(distant, gold, "train.gold.conll"))
    scores = score_entities((theirs, ours.entities) for ours, theirs in pairs)
    assert (round(100 * scores.precision, 2), round(100 * scores.recall, 2)) == (precision, recall)
    assert Gaps.count(pairs) == Gaps(correct, missing, wrong_label, wrong_boundary, spurious)


SOME = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 6), st.sampled_from(["PER", "LOC"])).map(
        lambda parts: (parts[0], min(6, parts[0] + parts[1]), parts[2])
    ),
    max_size=4,
)


@given(SOME, SOME)
def test_gaps_are_those_of_comparing_each_entity_with_each(distant, gold):
    ours, theirs = ({Entity(*entity) for entity in entities} for entities in (distant, gold))
    found = dict(NO_GAPS)
    for entity in sorted(Entity(*entity) for entity in gold):
        touching = [other for other in ours if other.overlaps(entity)]
        same = [other for other in touching if other.span == entity.span]
        kind = "correct" if entity in ours else "wrong_label" if same else "wrong_boundary" if touching else "missing"
        found[kind] += 1
    found["spurious"] = sum(not any(entity.overlaps(other) for other in theirs) for entity in ours)
    assert gaps(distant, gold) == found


def test_comparing_a_long_sentence_with_gold_takes_time_that_is_linear():
    def prepare(size):
        words = ("w",) * (4 * size)
        gold = Sentence(words, tuple(Entity(4 * n, 4 * n + 2, "PER") for n in range(size)))
        distant = Sentence(words, tuple(Entity(4 * n + n % 3, 4 * n + 2 + n % 3, "PER") for n in range(size)))
        return lambda: (Gaps.count([(distant, gold)]), Statistics.count([distant]))

    assert_linear(prepare, 150)
