import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, SourceAnnotation
from lacuner.evaluation.agreement import Agreement, PairAgreement

WORDS = ("Ada", "left", "New", "York", "Times")
ADA, CITY, PAPER = Entity(0, 1, "PER"), Entity(2, 4, "LOC"), Entity(2, 5, "ORG")


def compared(*pairs: tuple[tuple[Entity, ...], tuple[Entity, ...]], **known) -> PairAgreement:
    pair = PairAgreement("a", "b")
    for ours, theirs in pairs:
        pair.add(Sentence(WORDS), SourceAnnotation("a", ours), SourceAnnotation("b", theirs, **known))
    return pair


def test_what_both_have_is_in_common_and_each_disagreement_has_its_kind() -> None:
    pair = compared(
        ((ADA, CITY), (ADA, PAPER)),
        ((Entity(0, 1, "ORG"),), (ADA,)),
        ((), (CITY,)),
        ((Entity(1, 2, "X"),), (ADA,)),
    ).as_dict()
    assert pair["sentences"] == 4
    assert (pair["entities"], pair["common"], pair["f1"]) == ([4, 5], 1, pytest.approx(2 / 9))
    assert pair["boundaries"] == [{"labels": ["LOC", "ORG"], "count": 1, "example": ["New York", "New York Times"]}]
    assert pair["labels"] == [{"labels": ["ORG", "PER"], "count": 1, "example": ["Ada", "Ada"]}]
    assert pair["alone"] == [{"X": 1}, {"LOC": 1, "PER": 1}]


def test_only_labels_that_both_looked_for_are_compared() -> None:
    pair = compared(((ADA, CITY), (ADA,)), annotated_labels={"PER"})
    assert (pair.counts.predicted, pair.counts.correct, pair.counts.f1) == (1, 1, 1.0)


def test_kappa_is_that_of_the_words() -> None:
    pair = compared(((ADA,), (ADA, CITY)))  # agreed on 3 of 5 words; by chance 1/25 PER and 4/5 · 2/5 O
    assert pair.kappa == pytest.approx((0.6 - 0.36) / (1 - 0.36))
    assert compared(((ADA,), (ADA,))).kappa == pytest.approx(1)
    assert compared(((), ())).kappa is None
    assert PairAgreement("a", "b").kappa is None


LABELS = st.lists(st.sampled_from("OXY"), min_size=4, max_size=4)


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=4))
def test_kappa_is_that_of_scikit_learn(drawn) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    pair = PairAgreement("a", "b")

    def said(source: str, labels: list[str]) -> SourceAnnotation:
        return SourceAnnotation(
            source, tuple(Entity(n, n + 1, label) for n, label in enumerate(labels) if label != "O")
        )

    for ours, theirs in drawn:
        pair.add(Sentence(("w",) * 4), said("a", ours), said("b", theirs))
    one, other = ([label for labels in side for label in labels] for side in zip(*drawn, strict=True))
    if len({*one, *other}) > 1:
        assert pair.kappa == pytest.approx(metrics.cohen_kappa_score(one, other))


def test_each_source_is_compared_with_gold_where_it_looked_and_for_what() -> None:
    agreement = Agreement()
    gold = Sentence(WORDS, (ADA, PAPER))
    said = SourceAnnotation("a", (ADA,)), SourceAnnotation("b", (ADA, CITY), annotated_labels={"PER", "LOC"})
    agreement.add(Sentence(WORDS, by_source=said), gold)
    agreement.add(Sentence(WORDS, by_source=said[1:]), gold)
    scores = agreement.as_dict()["gold"]
    assert (scores["a"]["precision"], scores["a"]["recall"], scores["a"]["support"]) == (1.0, 0.5, 2)
    assert (scores["b"]["precision"], scores["b"]["recall"], scores["b"]["support"]) == (0.5, 1.0, 2)
    assert agreement.as_dict()["pairs"][0]["sentences"] == 1
    assert "each source against gold" in agreement.table()
