import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import classification_report

from lacuner.corpus import Entity, Sentence
from lacuner.corpus.formats.tag_schemes import Scheme, decode_tags, encode_tags
from lacuner.evaluation import LabelScores, Scores, score_entities

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG")
PER, LOC = Entity(0, 1, "PER"), Entity(1, 3, "LOC")


@st.composite
def tagged_sentences(draw: st.DrawFn) -> tuple[list[list[str]], list[list[str]]]:
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
    tags = [st.lists(st.sampled_from(TAGS), min_size=length, max_size=length) for length in lengths]
    return draw(st.tuples(*tags)), draw(st.tuples(*tags))


def scores_of_tags(gold: list[list[str]], predicted: list[list[str]], scheme: Scheme = "bio2") -> Scores:
    return score_entities(
        (Sentence(("w",) * len(tags), tuple(decode_tags(tags, scheme).entities)), decode_tags(guesses, scheme).entities)
        for tags, guesses in zip(gold, predicted, strict=True)
    )


def assert_agrees_with_seqeval(scores: Scores, gold: list[list[str]], predicted: list[list[str]]) -> None:
    report = classification_report(gold, predicted, output_dict=True, zero_division=0)
    averages = {"micro avg": scores.as_dict(), "macro avg": scores.macro}
    labels = {name: label.as_dict() for name, label in scores.labels.items()}
    assert set(report) == set(labels) | {"micro avg", "macro avg", "weighted avg"}
    for name, ours in (averages | labels).items():
        for quantity, key in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
            assert ours[quantity] == pytest.approx(report[name][key]), (name, quantity)
        if "support" in ours:
            assert ours["support"] == report[name]["support"]


@settings(deadline=None)
@given(tagged_sentences())
def test_scores_are_seqevals_even_where_tags_are_broken(tags: tuple[list[list[str]], list[list[str]]]) -> None:
    gold, predicted = map(list, tags)
    scores = scores_of_tags(gold, predicted)
    if scores.labels:  # seqeval cannot report on nothing at all
        assert_agrees_with_seqeval(scores, gold, predicted)


@settings(deadline=None)
@given(tagged_sentences())
def test_the_tag_scheme_makes_no_difference(tags: tuple[list[list[str]], list[list[str]]]) -> None:
    gold, predicted = map(list, tags)
    as_bioes = [
        [encode_tags(decode_tags(row, "bio2").entities, len(row), "bioes") for row in rows]
        for rows in (gold, predicted)
    ]
    assert scores_of_tags(*as_bioes, scheme="bioes") == scores_of_tags(gold, predicted)


def test_a_worked_example() -> None:
    gold = Sentence(("a", "b", "c", "d"), (PER, LOC))
    scores = score_entities([(gold, [PER, Entity(1, 2, "LOC"), Entity(3, 4, "LOC")])])
    assert (scores.correct, scores.predicted, scores.support) == (1, 3, 2)
    assert scores.precision == pytest.approx(1 / 3)
    assert scores.recall == pytest.approx(1 / 2)
    assert scores.f1 == pytest.approx(2 / 5)
    assert scores.labels == {"LOC": LabelScores(0, 2, 1), "PER": LabelScores(1, 1, 1)}
    assert scores.macro == pytest.approx({"precision": 0.5, "recall": 0.5, "f1": 0.5})


def test_labels_that_were_only_predicted_count_in_the_macro_mean() -> None:
    scores = score_entities([(Sentence(("a", "b", "c"), (PER,)), [PER, LOC])])
    assert scores.macro == pytest.approx({"precision": 0.5, "recall": 0.5, "f1": 0.5})


@pytest.mark.parametrize(("gold", "found"), [((), ()), ((PER,), ()), ((), (PER,))])
def test_a_ratio_without_denominator_is_zero(gold: tuple[Entity, ...], found: tuple[Entity, ...]) -> None:
    scores = score_entities([(Sentence(("a", "b", "c"), gold), found)])
    assert (scores.precision, scores.recall, scores.f1) == (0.0, 0.0, 0.0)
    assert set(scores.macro.values()) == {0.0}


def test_no_sentences_score_zero() -> None:
    assert score_entities([]) == Scores()


def test_an_entity_counts_once_however_often_it_is_predicted() -> None:
    twice = [PER, Entity(0, 1, "PER", score=0.5)]
    assert score_entities([(Sentence(("a",), (PER,)), twice)]).precision == 1.0


def test_score_and_source_do_not_matter() -> None:
    gold = Sentence(("a",), (Entity(0, 1, "PER", source="human"),))
    assert score_entities([(gold, [Entity(0, 1, "PER", score=0.3, source="model")])]).f1 == 1.0


def test_the_same_entity_in_another_sentence_is_no_match() -> None:
    scores = score_entities([(Sentence(("a",), (PER,)), []), (Sentence(("a",)), [PER])])
    assert scores.correct == 0


def test_predictions_of_labels_that_nobody_looked_for_are_left_out() -> None:
    only_persons = Sentence(("a", "b", "c"), (PER,), annotated_labels=frozenset({"PER"}))
    everything = Sentence(("a", "b", "c"), (PER,))
    found = [PER, LOC, Entity(2, 3, "PER")]
    assert score_entities([(only_persons, found)]).labels == {"PER": LabelScores(1, 2, 1)}
    assert score_entities([(everything, found)]).predicted == 3


def test_json_has_fractions_and_the_promised_keys() -> None:
    scores = score_entities([(Sentence(("a", "b", "c"), (PER, LOC)), [PER])])
    written = json.loads(json.dumps(scores.as_dict()))
    assert {"precision", "recall", "f1", "support", "labels"} <= set(written)
    assert written["precision"] == 1.0
    assert written["support"] == 2
    assert written["pu_estimate"] == scores.pu_estimate == 0.5
    assert written["labels"]["PER"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1}
    assert set(written["labels"]) == {"PER", "LOC"}


def test_the_table_can_be_read_in_columns() -> None:
    gold = Sentence(("a", "b", "c"), (PER, Entity(1, 3, "ORGANISATION")))
    heading, *rows = score_entities([(gold, [PER])]).table().splitlines()
    assert heading.split() == ["precision", "recall", "F1", "support"]
    assert [row.split() for row in rows] == [
        ["ORGANISATION", "0.00", "0.00", "0.00", "1"],
        ["PER", "100.00", "100.00", "100.00", "1"],
        ["micro", "100.00", "50.00", "66.67", "2"],
        ["macro", "50.00", "50.00", "50.00", "2"],
    ]
    assert {len(row) for row in rows} == {len(heading)}
    for name in ("precision", "recall", "F1"):
        column = heading.index(name) + len(name)
        assert all(row[column - 3] == "." for row in rows)


def test_the_table_of_nothing_has_its_two_means() -> None:
    assert [line.split()[0] for line in Scores().table().splitlines()[1:]] == ["micro", "macro"]


def test_words_that_are_marked_unknown_are_not_held_against_a_prediction():
    sentence = Sentence(("Ada", "met", "Bo"), (Entity(2, 3, "PER"),), complete=True, unknown_tokens=frozenset({0}))
    scores = score_entities([(sentence, [Entity(0, 1, "PER"), Entity(2, 3, "PER")])])
    assert (scores.precision, scores.recall) == (1.0, 1.0)
    assert score_entities([(sentence, [Entity(0, 2, "PER"), Entity(2, 3, "PER")])]).precision == 0.5


counts = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)).map(
    lambda parts: (parts[0], parts[0] + parts[1], parts[0] + parts[2])
)
"""Correct, predicted and annotated entities."""


@given(counts)
def test_the_pu_estimate_is_recall_squared_by_predictions_for_each_annotated_entity(
    numbers: tuple[int, int, int],
) -> None:
    correct, predicted, support = numbers
    scores = LabelScores(correct, predicted, support)
    if predicted == 0 or support == 0:
        assert scores.pu_estimate == 0.0
    else:
        assert scores.pu_estimate == pytest.approx((correct / support) ** 2 / (predicted / support))
        assert scores.pu_estimate == pytest.approx(scores.precision * scores.recall)


def test_who_finds_nothing_has_a_pu_estimate_of_zero() -> None:
    assert score_entities([(Sentence(("a", "b", "c"), (PER,)), [])]).pu_estimate == 0.0
    assert score_entities([(Sentence(("a", "b", "c")), [PER])]).pu_estimate == 0.0
    assert Scores().pu_estimate == 0.0


def test_with_gaps_the_pu_estimate_is_proportional_to_what_precision_times_recall_truly_is() -> None:
    """Every entity is annotated with a probability of 0.3; models differ in how many entities and others they find."""
    generator = random.Random(1)
    length = 100
    gold = [Sentence(("w",) * length, tuple(Entity(n, n + 1, "X") for n in range(0, length, 2))) for _ in range(400)]
    kept = [Sentence(s.tokens, tuple(e for e in s.entities if generator.random() < 0.3)) for s in gold]
    true_quality, estimate = [], []
    for found_share, wrong_share in ((0.9, 0.3), (0.7, 0.05), (0.5, 0.5), (0.3, 0.0)):
        shares = [found_share, wrong_share] * (length // 2)  # every second word is an entity
        found = [[Entity(n, n + 1, "X") for n in range(length) if generator.random() < shares[n]] for _ in gold]
        truth = score_entities(zip(gold, found, strict=True))
        measured = score_entities(zip(kept, found, strict=True))
        true_quality.append(truth.precision * truth.recall)
        estimate.append(measured.pu_estimate)
        assert measured.precision < 0.5 * truth.precision, "precision is what cannot be measured"
    ratios = [one / other for one, other in zip(estimate, true_quality, strict=True)]
    assert ratios == pytest.approx([0.3] * 4, rel=0.06)


EITHER = Sentence(("Turin", "won"), (Entity(0, 1, "LOC"), Entity(0, 1, "ORG")))


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        ([Entity(0, 1, "LOC")], (1, 1, 1)),
        ([Entity(0, 1, "ORG")], (1, 1, 1)),
        ([Entity(0, 1, "PER")], (0, 1, 1)),
        ([], (0, 0, 1)),
        (EITHER.entities, (1, 1, 1)),
        ([*EITHER.entities, Entity(0, 1, "PER")], (1, 2, 1)),
    ],
    ids=["one", "the other", "neither", "nothing", "both", "both and another"],
)
def test_a_span_with_two_labels_is_one_entity_that_either_label_finds(
    found: Sequence[Entity], counts: tuple[int, int, int]
) -> None:
    scores = score_entities([(EITHER, found)])
    assert (scores.correct, scores.predicted, scores.support) == counts


def test_a_span_with_two_labels_counts_for_the_label_that_found_it() -> None:
    scores = score_entities([(EITHER, [Entity(0, 1, "ORG")])])
    assert scores.labels == {"ORG": LabelScores(1, 1, 1)}


def test_nested_entities_are_scored_like_others() -> None:
    nested = (Entity(0, 3, "ORG"), Entity(2, 3, "LOC"))
    sentence = Sentence(("University", "of", "Turin"), nested)
    assert score_entities([(sentence, nested)]).f1 == 1.0
    flat = score_entities([(sentence, nested[:1])])
    assert (flat.precision, flat.recall) == (1.0, 0.5)
    extra = score_entities([(Sentence(sentence.tokens, nested[:1]), nested)])
    assert (extra.precision, extra.recall) == (0.5, 1.0)
