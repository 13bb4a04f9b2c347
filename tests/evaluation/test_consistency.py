from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence
from lacuner.evaluation.consistency import WrongNames

RIGHT, WRONG = "PER", "ORG"


def counted(*names: tuple[str, str]) -> dict[str, int]:
    """One sentence for each (name, label that a source gives it); the truth is always a person."""
    found = WrongNames()
    for name, label in names:
        found.add(Sentence((name, "left"), (Entity(0, 1, RIGHT),)), [Entity(0, 1, label)])
    return found.as_dict()


def test_a_name_that_always_has_the_wrong_label_is_no_slip() -> None:
    assert counted(*[("Ada", WRONG)] * 3) == {"wrong": 3, "always": 3, "once": 0, "sometimes": 0}


def test_a_slip_is_contradicted_by_other_occurrences() -> None:
    found = WrongNames()
    sentence = Sentence(("Ada", "met", "Ada"), (Entity(0, 1, RIGHT),))
    found.add(sentence, [Entity(0, 1, RIGHT), Entity(2, 3, RIGHT)])
    assert found.as_dict() == {"wrong": 1, "always": 0, "once": 0, "sometimes": 1}


def test_the_right_label_does_not_excuse_the_wrong_one_and_case_makes_no_other_name() -> None:
    assert counted(("Ada", RIGHT), ("ADA", WRONG), ("ada", WRONG))["always"] == 2


def test_one_right_of_five_is_still_nearly_always_wrong() -> None:
    for right, kind in ((1, "always"), (2, "sometimes")):
        found = WrongNames()
        for number in range(5):
            truth = (Entity(0, 1, RIGHT),) if number < right else ()
            found.add(Sentence(("Ada",), truth), [Entity(0, 1, RIGHT)])
        assert found.as_dict()[kind] == 5 - right


def test_what_nobody_looked_for_is_not_wrong() -> None:
    found = WrongNames()
    found.add(Sentence(("Ada",), (), annotated_labels=frozenset({"LOC"})), [Entity(0, 1, RIGHT)])
    assert found.as_dict()["wrong"] == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from((RIGHT, WRONG, "LOC"))), max_size=12))
def test_the_kinds_are_those_of_a_slow_count(names: list[tuple[str, str]]) -> None:
    occurrences = defaultdict(list)
    for name, label in names:
        occurrences[name, label].append(label != RIGHT)
    slow = {"wrong": sum(label != RIGHT for _, label in names), "always": 0, "once": 0, "sometimes": 0}
    for wrong in occurrences.values():
        kind = "once" if len(wrong) == 1 else "always" if sum(wrong) / len(wrong) >= 0.8 else "sometimes"
        slow[kind] += sum(wrong)
    assert counted(*names) == slow
