import pytest

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.evaluation import score_entities
from lacuner.evaluation.comparison import (
    MIN_SCORES,
    choose_dictionary_use,
    combine_pairs,
    compare_with_dictionary,
    match_corpus,
)
from lacuner.matching import Dictionary

NAMES = Dictionary.of([("Ada", "PER"), ("Turin", "LOC")])


def sentence(words: str, *entities: Entity) -> Sentence:
    return Sentence(tuple(words.split()), entities)


def guess(start: int, end: int, label: str, score: float) -> Entity:
    return Entity(start, end, label, score=score, source="model")


def test_each_is_scored_alone_and_both_together() -> None:
    gold = sentence("Ada left Turin for Oslo", Entity(0, 1, "PER"), Entity(2, 3, "LOC"), Entity(4, 5, "LOC"))
    pairs = [(gold, [guess(0, 1, "PER", 0.9), guess(4, 5, "LOC", 0.8), guess(1, 2, "LOC", 0.6)])]
    matches = match_corpus(NAMES, [gold])
    compared = compare_with_dictionary(pairs, matches)
    assert (compared.model.precision, compared.model.recall) == pytest.approx((2 / 3, 2 / 3))
    assert (compared.dictionary.precision, compared.dictionary.recall) == pytest.approx((1, 2 / 3))
    assert (compared.both.precision, compared.both.recall) == pytest.approx((3 / 4, 1))
    assert compared.both == score_entities(combine_pairs(pairs, matches))


def test_json_has_the_scores_of_both_where_those_of_a_model_are_and_the_others_beside_them() -> None:
    gold = sentence("Ada left", Entity(0, 1, "PER"))
    compared = compare_with_dictionary([(gold, [])], match_corpus(NAMES, [gold]))
    shown = compared.as_dict()
    assert shown.items() >= score_entities([(gold, [Entity(0, 1, "PER")])]).as_dict().items()
    assert (shown["f1"], shown["model"]["f1"], shown["dictionary"]["f1"]) == (1.0, 0.0, 1.0)
    assert [line.split()[-1] for line in compared.table().splitlines()[1:4]] == ["0.00", "100.00", "100.00"]


def test_a_list_is_matched_whatever_is_annotated() -> None:
    known = Corpus([sentence("Ada left", Entity(0, 2, "ORG")), Sentence(("Turin",), complete=True)])
    assert match_corpus(NAMES, known) == [[Entity(0, 1, "PER")], [Entity(0, 1, "LOC")]]


def test_dev_data_chooses_the_case_and_the_least_score() -> None:
    """The list is right in any case; beyond it, the model is right where its score is at least 0.85."""
    gold = [
        sentence("ADA sleeps", Entity(0, 1, "PER")),
        sentence("Grace sleeps", Entity(0, 1, "PER")),
        sentence("nobody sleeps"),
    ]
    found = [[], [guess(0, 1, "PER", 0.85)], [guess(0, 1, "PER", 0.82)]]
    choice = choose_dictionary_use(NAMES, list(zip(gold, found, strict=True)))
    assert (choice.ignore_case, choice.min_score, choice.names) == (True, 0.85, 2)
    assert (choice.scores.both.f1, choice.scores.dictionary.f1) == (1.0, pytest.approx(2 / 3))
    assert choice.scores.model == score_entities(zip(gold, found, strict=True))  # without the least score
    assert choice.as_dict().keys() == {"names", "ignore_case", "min_score", "model", "dictionary", "both"}
    assert choice.as_dict()["both"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0}


def test_the_list_alone_is_shown_as_it_is_best_whatever_is_best_for_both() -> None:
    """In any case the list finds a person more, and a month; beside a model that knows the person, the exact case is best."""
    gold = [
        sentence("ADA sleeps", Entity(0, 1, "PER")),
        sentence("ADA left", Entity(0, 1, "PER")),
        sentence("ada sleeps"),
    ]
    found = [[guess(0, 1, "PER", 0.9)], [guess(0, 1, "PER", 0.9)], []]
    choice = choose_dictionary_use(Dictionary.of([("Ada", "PER")]), list(zip(gold, found, strict=True)))
    assert (choice.ignore_case, choice.scores.both.f1) == (False, 1.0)
    assert choice.alone_ignores_case
    assert choice.scores.dictionary.f1 == pytest.approx(0.8)


def test_of_equals_the_exact_case_and_the_lowest_score_are_chosen() -> None:
    gold = sentence("Ada sleeps", Entity(0, 1, "PER"))
    choice = choose_dictionary_use(NAMES, [(gold, [guess(0, 1, "PER", 0.99)])])
    assert (choice.ignore_case, choice.min_score) == (False, MIN_SCORES[0]) == (False, 0.0)


def test_data_in_characters_is_matched_in_characters() -> None:
    gold = Sentence(tuple("我在上海"), (Entity(2, 4, "LOC"),))
    choice = choose_dictionary_use(Dictionary.of([("上海", "LOC")]), [(gold, [])])
    assert choice.scores.dictionary.f1 == 1.0
