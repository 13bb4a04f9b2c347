from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from lacuner.corpus import Entity, Sentence
from lacuner.evaluation import score_entities
from lacuner.evaluation.mistakes import find_mistakes

TOKENS = ("Ada", "Lovelace", "moved", "to", "Turin")
LABELS = ("PER", "LOC", "ORG")
Triple = tuple[int, int, str]


def triple(shown: dict[str, Any] | None) -> Triple | None:
    return None if shown is None else (shown["start"], shown["end"], shown["label"])


def mistakes(gold: list[Triple], found: list[Triple]) -> list[tuple[str, Triple | None, Triple | None]]:
    sentence = Sentence(TOKENS, tuple(Entity(*entity) for entity in gold))
    records = find_mistakes([(sentence, [Entity(*entity) for entity in found])])
    return [(record["kind"], triple(record["gold"]), triple(record["predicted"])) for record in records]


entities = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 3), st.sampled_from(LABELS)).map(
        lambda parts: (parts[0], min(5, parts[0] + parts[1]), parts[2])
    ),
    max_size=5,
)


def test_what_is_right_is_no_mistake() -> None:
    assert mistakes([(0, 2, "PER"), (4, 5, "LOC")], [(4, 5, "LOC"), (0, 2, "PER")]) == []


def test_an_entity_that_nothing_touches_was_missed() -> None:
    assert mistakes([(0, 2, "PER")], [(0, 2, "PER")]) == []
    assert mistakes([(0, 2, "PER"), (4, 5, "LOC")], [(0, 2, "PER")]) == [("missed", (4, 5, "LOC"), None)]


def test_a_prediction_that_touches_nothing_is_spurious() -> None:
    assert mistakes([], [(2, 3, "LOC")]) == [("spurious", None, (2, 3, "LOC"))]
    assert mistakes([(0, 2, "PER")], [(2, 3, "PER")]) == [
        ("spurious", None, (2, 3, "PER")),
        ("missed", (0, 2, "PER"), None),
    ]


def test_the_same_span_with_another_label_is_a_wrong_label() -> None:
    assert mistakes([(4, 5, "LOC")], [(4, 5, "ORG")]) == [("wrong-label", (4, 5, "LOC"), (4, 5, "ORG"))]


def test_an_overlapping_span_is_a_wrong_boundary_whatever_its_label() -> None:
    assert mistakes([(0, 2, "PER")], [(0, 1, "PER")]) == [("wrong-boundary", (0, 2, "PER"), (0, 1, "PER"))]
    assert mistakes([(0, 2, "PER")], [(1, 3, "ORG")]) == [("wrong-boundary", (0, 2, "PER"), (1, 3, "ORG"))]


def test_a_prediction_is_compared_with_what_it_shares_most_words_with() -> None:
    found = mistakes([(0, 1, "PER"), (1, 4, "ORG")], [(0, 3, "PER")])
    assert found == [("wrong-boundary", (1, 4, "ORG"), (0, 3, "PER")), ("missed", (0, 1, "PER"), None)]


def test_of_two_that_share_as_many_words_the_same_span_counts() -> None:
    found = mistakes([(0, 3, "ORG"), (1, 3, "PER")], [(1, 3, "LOC")])
    assert found == [("wrong-label", (1, 3, "PER"), (1, 3, "LOC")), ("missed", (0, 3, "ORG"), None)]


def test_two_halves_of_one_entity_are_two_wrong_boundaries() -> None:
    found = mistakes([(0, 2, "PER")], [(0, 1, "PER"), (1, 2, "PER")])
    assert [kind for kind, _, _ in found] == ["wrong-boundary", "wrong-boundary"]


@given(entities, entities)
def test_mistakes_add_up_to_the_scores(gold: list[Triple], found: list[Triple]) -> None:
    sentence = Sentence(TOKENS, tuple(Entity(*entity) for entity in gold))
    scores = score_entities([(sentence, [Entity(*entity) for entity in found])])
    records = mistakes(gold, found)
    wrong = [predicted for _, _, predicted in records if predicted is not None]
    unmatched = {entity for _, entity, _ in records if entity is not None}
    assert len(wrong) == len(set(wrong)) == scores.predicted - scores.correct
    assert len(unmatched) == scores.support - scores.correct
    found_spans = {entity[:2] for entity in set(gold) & set(found)}  # one of several labels is enough
    assert unmatched <= set(gold) - set(found)
    assert sorted(entity[:2] for entity in unmatched) == sorted({entity[:2] for entity in gold} - found_spans)


@given(entities, entities)
def test_every_kind_says_what_it_is(gold: list[Triple], found: list[Triple]) -> None:
    for kind, expected, predicted in mistakes(gold, found):
        if kind == "missed":
            assert predicted is None
        elif kind == "spurious":
            assert expected is None
        elif kind == "wrong-label":
            assert expected[:2] == predicted[:2]
            assert expected[2] != predicted[2]
        else:
            assert kind == "wrong-boundary"
            assert expected[:2] != predicted[:2]
            assert max(expected[0], predicted[0]) < min(expected[1], predicted[1])


def test_a_record_shows_where_and_what() -> None:
    sentence = Sentence(TOKENS, (Entity(0, 2, "PER"),))
    (record,) = find_mistakes([(sentence, [Entity(1, 2, "PER", score=0.87654)])])
    assert record == {
        "sentence": 0,
        "kind": "wrong-boundary",
        "gold": {"start": 0, "end": 2, "label": "PER", "text": "Ada Lovelace"},
        "predicted": {"start": 1, "end": 2, "label": "PER", "text": "Lovelace", "score": 0.8765},
        "context": "Ada Lovelace moved to Turin",
    }


def test_sentences_are_counted_from_zero() -> None:
    pairs = [(Sentence(TOKENS), []), (Sentence(TOKENS), [Entity(0, 1, "PER")])]
    assert [record["sentence"] for record in find_mistakes(pairs)] == [1]


def test_predictions_of_labels_that_nobody_looked_for_are_no_mistakes() -> None:
    sentence = Sentence(TOKENS, (Entity(0, 2, "PER"),), annotated_labels=frozenset({"PER"}))
    assert list(find_mistakes([(sentence, [Entity(0, 2, "PER"), Entity(4, 5, "LOC")])])) == []


@pytest.mark.parametrize("label", ["LOC", "ORG"])
def test_either_label_of_a_span_with_two_is_no_mistake(label: str) -> None:
    sentence = Sentence(("Turin", "won"), (Entity(0, 1, "LOC"), Entity(0, 1, "ORG")))
    assert list(find_mistakes([(sentence, [Entity(0, 1, label)])])) == []
    (missed,) = find_mistakes([(sentence, [])])
    assert (missed["kind"], missed["gold"]["label"]) == ("missed", "LOC")


def test_a_nested_entity_that_was_not_found_was_missed() -> None:
    nested = (Entity(0, 3, "ORG"), Entity(2, 3, "LOC"))
    sentence = Sentence(("University", "of", "Turin"), nested)
    assert list(find_mistakes([(sentence, nested)])) == []
    assert [mistake["kind"] for mistake in find_mistakes([(sentence, nested[:1])])] == ["missed"]


@given(entities, entities)
def test_a_prediction_is_compared_with_the_best_of_everything_that_was_missed(
    gold: list[Triple], found: list[Triple]
) -> None:
    annotated = {Entity(*entity) for entity in gold}
    guesses = {Entity(*entity) for entity in found}
    if len({entity.span for entity in annotated}) < len(annotated):
        return  # of several labels of a span, one counts
    expected = {}
    for guess in guesses - annotated:
        shared = {
            other: (min(other.end, guess.end) - max(other.start, guess.start), other.span == guess.span, -other.start)
            for other in sorted(annotated - guesses)
            if other.overlaps(guess)
        }
        best = max(shared, key=lambda other: shared[other], default=None)
        expected[guess.start, guess.end, guess.label] = best and (best.start, best.end, best.label)
    assert {guess: other for _, other, guess in mistakes(gold, found) if guess is not None} == expected


def test_mistakes_in_a_long_sentence_take_time_and_room_that_are_linear() -> None:
    def prepare(size: int) -> Callable[[], list[dict[str, Any]]]:
        words = ("word",) * (4 * size)
        gold = Sentence(words, tuple(Entity(4 * n, 4 * n + 2, "PER") for n in range(size)), text=" ".join(words))
        guesses = [Entity(4 * n + n % 3, 4 * n + 2 + n % 3, "LOC") for n in range(size)]
        return lambda: list(find_mistakes([(gold, guesses)]))

    assert_linear(prepare, 300, more=0.1)
    shown = [sum(len(record["context"]) for record in prepare(size)()) for size in (1000, 2000)]
    assert shown[1] < 2.2 * shown[0]


def test_of_a_long_sentence_the_words_around_a_mistake_are_shown() -> None:
    words = tuple(f"w{number}" for number in range(2000))
    sentence = Sentence(words, (Entity(0, 1, "PER"), Entity(1000, 1002, "PER")))
    first, second, last = find_mistakes([(sentence, [Entity(1001, 1004, "PER"), Entity(1999, 2000, "PER")])])
    assert first["context"] == f"… {' '.join(words[744:1260])} …"
    assert second["context"] == f"… {' '.join(words[1743:])}"
    assert last["context"] == f"{' '.join(words[:257])} …"
