import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from lacuner.audit.exports import write_exports
from lacuner.audit.finding import Finding
from lacuner.audit.model import AuditModel, _against, _agree
from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.supervision.posterior import SpanProbabilities

LABELS = ("O", "LOC", "PER")


def believed(*rows: tuple[int, int, int, tuple[float, float, float]]) -> SpanProbabilities:
    """Sentence, start, end, and the probabilities of O, LOC and PER."""
    sentence, start, end = (np.array([row[place] for row in rows], dtype=np.int64) for place in range(3))
    return SpanProbabilities(sentence, start, end, np.array([row[3] for row in rows], dtype=np.float32).reshape(-1, 3))


def many(annotated: int, hidden: int, nothing: int) -> tuple[Corpus, SpanProbabilities]:
    """Sentences of one word: annotated persons, persons that nobody annotated, and words that are no entity."""
    person = Sentence(("Ada",), (Entity(0, 1, "PER"),))
    corpus = Corpus([person] * annotated + [Sentence(("Ada",))] * hidden + [Sentence(("sleeps",))] * nothing)
    rows = [(n, 0, 1, (0.02, 0.01, 0.97)) for n in range(annotated + hidden)]
    rows += [(n, 0, 1, (0.95, 0.03, 0.02)) for n in range(annotated + hidden, len(corpus))]
    return corpus, believed(*rows)


def test_what_looks_like_an_entity_and_is_not_annotated_is_missing() -> None:
    corpus, predicted = many(60, 40, 200)
    fitted = AuditModel.of(predicted, corpus, LABELS)
    found = fitted.findings(corpus, 0.5)
    assert {finding.sentence for finding in found} == set(range(60, 100))
    assert {(f.start, f.end, f.label, f.kind, f.text) for f in found} == {(0, 1, "PER", "missing", "Ada")}


@pytest.mark.parametrize(("annotated", "hidden"), [(70, 30), (50, 50), (30, 70)])
def test_the_missing_are_counted_and_the_truth_is_inside_the_interval(annotated: int, hidden: int) -> None:
    corpus, predicted = many(annotated, hidden, 300)
    estimate = AuditModel.of(predicted, corpus, LABELS).estimate()
    assert estimate.total == pytest.approx(hidden, rel=0.2)
    assert estimate.low <= hidden <= estimate.high
    assert estimate.labels["PER"][0] == pytest.approx(hidden, rel=0.25)
    assert estimate.labels["LOC"][0] < 0.2 * hidden
    assert estimate.annotated_share == pytest.approx(annotated / (annotated + hidden), abs=0.07)


def test_entities_that_no_model_notices_are_counted_and_do_not_mislead() -> None:
    """Spans with low scores are in the table only if they are annotated: that all of them are says nothing."""
    corpus, predicted = many(60, 40, 200)
    unseen = Sentence(("Zyx",), (Entity(0, 1, "PER"),))
    more = Corpus([*corpus, *[unseen] * 30, *[Sentence(("Zyx",))] * 20])
    below = believed(*((300 + n, 0, 1, (0.995, 0.0, 0.005)) for n in range(30)))
    together = SpanProbabilities(*(np.concatenate([getattr(predicted, n), getattr(below, n)]) for n in vars(predicted)))
    plain, fitted = AuditModel.of(predicted, corpus, LABELS), AuditModel.of(together, more, LABELS)
    assert fitted.calibrations[0] == plain.calibrations[0]
    assert fitted.estimate().total == pytest.approx(1.5 * plain.estimate().total)
    assert fitted.estimate().total == pytest.approx(60, rel=0.2)


@pytest.mark.parametrize("unseen", [0, 20])
def test_what_models_find_of_the_annotated_entities_says_whether_they_can_be_believed(unseen: int) -> None:
    corpus, predicted = many(60, 40, 200)
    more = Corpus([*corpus, *[Sentence(("Zyx",), (Entity(0, 1, "PER"),))] * unseen])
    below = believed(*((300 + n, 0, 1, (0.9, 0.0, 0.1)) for n in range(unseen)))
    together = SpanProbabilities(*(np.concatenate([getattr(predicted, n), getattr(below, n)]) for n in vars(predicted)))
    assert AuditModel.of(together, more, LABELS).recovered == 60 / (60 + unseen)
    new_names = np.arange(300 + unseen) >= 300
    assert AuditModel.of(together, more, LABELS, new_names=new_names).recovered == 1, "names that no model was taught"


def dictionary_labels(listed: int, unlisted: int, nothing: int) -> tuple[Corpus, SpanProbabilities, np.ndarray]:
    """Names that are always annotated, others that never are; a tenth of the listed ones was not taught to the model.

    The model is sure of what it was taught, and less sure of any other name, listed or not.
    """
    annotated = [Sentence(("Ada",), (Entity(0, 1, "PER"),))] * listed
    corpus = Corpus([*annotated, *[Sentence(("Bo",))] * unlisted, *[Sentence(("sleeps",))] * nothing])
    new = np.array([n >= listed - listed // 10 for n in range(len(corpus))])
    entity = [0.98] * (listed - listed // 10) + [0.85] * (listed // 10 + unlisted) + [0.05] * nothing
    rows = [(n, 0, 1, (1 - score, 0.1 * score, 0.9 * score)) for n, score in enumerate(entity)]
    return corpus, believed(*rows), new


def test_names_that_a_dictionary_never_has_are_missed_by_the_hundred() -> None:
    corpus, predicted, new = dictionary_labels(listed=400, unlisted=600, nothing=2000)
    alike = AuditModel.of(predicted, corpus, LABELS)
    told_apart = AuditModel.of(predicted, corpus, LABELS, new_names=new)
    estimate = told_apart.estimate()
    assert estimate.at_least
    assert 300 <= estimate.low <= 600 <= estimate.high
    assert estimate.total == pytest.approx(600, rel=0.3)
    assert alike.estimate().total < 300
    assert not alike.estimate().at_least


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(1, 3)), max_size=7, unique=True))
def test_at_most_so_many_are_missing_as_there_are_spans_that_do_not_overlap(places: list[tuple[int, int, int]]) -> None:
    corpus = Corpus(
        [Sentence(tuple("abcdefgh")), Sentence(tuple("abcdefgh")), *[Sentence(("Ada",), (Entity(0, 1, "PER"),))] * 5]
    )
    spans = [(sentence, start, start + width) for sentence, start, width in sorted(places)]
    rows = [(*span, (0.4, 0.2, 0.4)) for span in spans] + [(n, 0, 1, (0.1, 0.1, 0.8)) for n in range(2, 7)]
    fitted = AuditModel.of(believed(*rows), corpus, LABELS)

    def apart(chosen: tuple[tuple[int, int, int], ...]) -> bool:
        return all(one[0] != two[0] or one[2] <= two[1] or two[2] <= one[1] for one, two in combinations(chosen, 2))

    largest = max(size for size in range(len(spans) + 1) for chosen in combinations(spans, size) if apart(chosen))
    assert fitted._at_most() == fitted._at_most(2) == largest
    assert fitted._at_most(1) == 0


def test_what_looks_like_an_entity_is_listed_whatever_the_estimate_says() -> None:
    corpus, predicted, _ = dictionary_labels(listed=1000, unlisted=20, nothing=2000)
    fitted = AuditModel.of(predicted, corpus, LABELS)
    found = [finding for finding in fitted.findings(corpus, 0.99) if finding.kind == "missing"]
    assert [finding.text for finding in found] == ["Bo"] * 20
    assert all(finding.probability < 0.99 for finding in found)


def test_as_many_findings_are_listed_as_entities_seem_to_be_missing() -> None:
    corpus, predicted = many(60, 40, 2000)
    predicted.probabilities[100:, 0] = np.linspace(0.92, 0.99, 2000)
    predicted.probabilities[100:, 2] = 1 - predicted.probabilities[100:].sum(1) + predicted.probabilities[100:, 2]
    fitted = AuditModel.of(predicted, corpus, LABELS)
    expected = fitted.estimate().total
    asked, default = fitted.findings(corpus, 0.1), fitted.findings(corpus)
    assert len(asked) < expected <= len(default) < expected + 1
    assert default[: len(asked)] == asked
    scores = fitted.scores[[finding.sentence for finding in default]]
    assert scores.min() >= np.delete(fitted.scores, [*range(60), *(finding.sentence for finding in default)]).max()


@given(st.lists(st.tuples(st.floats(0.001, 0.999), st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
def test_spans_with_the_same_words_decide_together_which_come_first(spans: list[tuple[float, int, bool]]) -> None:
    probability, words, detected = (np.array(column) for column in zip(*spans, strict=True))
    agreed = _agree(probability, words, detected)
    assert sorted(agreed) == sorted(probability)
    odds = np.log(probability / (1 - probability))

    def together(row: int) -> float:
        others = [odds[other] for other in range(len(spans)) if words[other] == words[row] and detected[other]]
        return float(odds[row] + (np.mean(others) * np.log(len(others)) if others else 0))

    pairs = [(together(row), agreed[row]) for row in range(len(spans))]
    assert all(one[0] < other[0] + 1e-9 for one in pairs for other in pairs if one[1] < other[1])


def test_a_name_that_is_noticed_again_and_again_comes_before_one_that_is_noticed_once() -> None:
    corpus, predicted = many(60, 40, 200)
    more = Corpus([*corpus, Sentence(("Bo", "met", "bo")), Sentence(("Bo", "met", "Cy")), Sentence(("Cy",))])
    rows = [(300, 0, 1), (300, 2, 3), (301, 0, 1), (301, 2, 3)]
    seen = believed(*((*span, (0.1, 0.01, 0.89)) for span in rows), (302, 0, 1, (0.999, 0.0005, 0.0005)))
    together = SpanProbabilities(
        *(np.concatenate([getattr(predicted, name), getattr(seen, name)]) for name in ("sentence", "start", "end")),
        np.concatenate([predicted.probabilities, seen.probabilities]),
    )
    found = [f for f in AuditModel.of(together, more, LABELS).findings(more, 0.0) if f.sentence >= 300]
    assert [f.text for f in found if f.text != "Cy"] == ["Bo", "bo", "Bo"]
    assert [f.text for f in found][-2:] == ["Cy", "Cy"]


def test_an_estimate_from_a_given_model_is_of_one_kind_of_span() -> None:
    corpus, predicted = many(60, 40, 200)
    told_apart = AuditModel.of(predicted, corpus, LABELS, new_names=np.zeros(300, dtype=bool))
    assert told_apart.estimate() == AuditModel.of(predicted, corpus, LABELS).estimate()
    assert not told_apart.estimate().at_least


def test_nothing_is_missing_in_complete_sentences() -> None:
    corpus, predicted = many(60, 40, 200)
    complete = Corpus([*corpus[:60], *(Sentence(s.tokens, s.entities, complete=True) for s in corpus[60:])])
    fitted = AuditModel.of(predicted, complete, LABELS)
    assert fitted.findings(complete, 0.1) == []
    assert fitted.estimate().total == 0


def annotated_differently() -> tuple[list[Sentence], list[tuple[int, int, int, tuple[float, float, float]]]]:
    """All places are annotated, and half of the persons."""
    place, person = Sentence(("Turin",), (Entity(0, 1, "LOC"),)), Sentence(("Ada",), (Entity(0, 1, "PER"),))
    sentences = [place] * 100 + [person] * 100 + [Sentence(("Bo",))] * 100 + [Sentence(("sleeps",))] * 300
    rows = [(n, 0, 1, (0.02, 0.97, 0.01)) for n in range(100)] + [
        (n, 0, 1, (0.02, 0.01, 0.97)) for n in range(100, 300)
    ]
    return sentences, rows + [(n, 0, 1, (0.96, 0.02, 0.02)) for n in range(300, 600)]


def test_what_is_missing_probably_has_a_label_that_is_seldom_annotated() -> None:
    sentences, rows = annotated_differently()
    corpus = Corpus([*sentences, Sentence(("Jordan",))])
    fitted = AuditModel.of(believed(*rows, (600, 0, 1, (0.02, 0.6, 0.38))), corpus, LABELS)
    (found,) = [finding for finding in fitted.findings(corpus, 0.3) if finding.sentence == 600]
    assert found.label == "PER"
    _, place, person = fitted.missing()[-1]
    assert person > 3 * place


def test_where_one_label_was_looked_for_and_is_not_there_it_is_probably_another() -> None:
    sentences, rows = annotated_differently()
    some = Sentence(("Jordan",), complete=True, annotated_labels=frozenset({"PER"}))
    fitted = AuditModel.of(believed(*rows, (600, 0, 1, (0.02, 0.3, 0.68))), Corpus([*sentences, some]), LABELS)
    _, place, person = fitted.missing()[-1]
    entity = fitted.calibrations[0].entity(fitted.scores[-1:])[0]
    among = 0.3 / 0.98
    assert person == 0
    assert place == pytest.approx(entity * among / (entity * among + 1 - entity), rel=1e-4)


def test_of_overlapping_spans_the_best_is_reported() -> None:
    corpus, predicted = many(50, 50, 100)
    words = Sentence(("New", "York", "City"))
    more = Corpus([*corpus, words])
    rows = [(200, 0, 2, (0.1, 0.85, 0.05)), (200, 0, 3, (0.3, 0.6, 0.1)), (200, 1, 3, (0.6, 0.3, 0.1))]
    both = believed(*rows)
    together = SpanProbabilities(*(np.concatenate([getattr(predicted, n), getattr(both, n)]) for n in vars(predicted)))
    found = [f for f in AuditModel.of(together, more, LABELS).findings(more, 0.0) if f.sentence == 200]
    assert [(f.start, f.end, f.label) for f in found] == [(0, 2, "LOC")]


def test_labels_and_borders_that_look_wrong_are_found() -> None:
    corpus, predicted = many(50, 50, 100)
    wrong = [
        Sentence(("Turin",), (Entity(0, 1, "PER"),)),
        Sentence(("New", "York"), (Entity(0, 1, "LOC"),)),
        Sentence(("sleeps",), (Entity(0, 1, "PER"),)),
    ]
    more = Corpus([*corpus, *wrong])
    rows = believed(
        (200, 0, 1, (0.05, 0.9, 0.05)),
        (201, 0, 1, (0.9, 0.08, 0.02)),
        (201, 0, 2, (0.05, 0.93, 0.02)),
        (202, 0, 1, (0.97, 0.01, 0.02)),
    )
    together = SpanProbabilities(*(np.concatenate([getattr(predicted, n), getattr(rows, n)]) for n in vars(predicted)))
    found = {f.sentence: f for f in AuditModel.of(together, more, LABELS).findings(more, 0.1) if f.sentence >= 200}
    assert (found[200].kind, found[200].label, found[200].annotated.label) == ("label", "LOC", "PER")
    assert (found[201].kind, found[201].start, found[201].end, found[201].label) == ("boundary", 0, 2, "LOC")
    assert found[201].annotated == Entity(0, 1, "LOC")
    assert (found[202].kind, found[202].label) == ("label", "O")


def with_rows(
    corpus: Corpus, predicted: SpanProbabilities, sentence: Sentence, *spans
) -> tuple[Corpus, SpanProbabilities]:
    """One more sentence, with the probabilities of its spans."""
    rows = believed(*((len(corpus), *span) for span in spans))
    both = SpanProbabilities(*(np.concatenate([getattr(predicted, n), getattr(rows, n)]) for n in vars(predicted)))
    return Corpus([*corpus, sentence]), both


@pytest.mark.parametrize(
    ("source", "doubted"), [(None, True), ("human", True), ("dictionary", True), ("reviewer", False)]
)
def test_what_a_reviewer_decided_is_not_doubted(source: str | None, doubted: bool) -> None:
    sentence = Sentence(("Turin",), (Entity(0, 1, "PER", source=source),))
    corpus, predicted = with_rows(*many(50, 50, 100), sentence, (0, 1, (0.05, 0.9, 0.05)))
    found = [f for f in AuditModel.of(predicted, corpus, LABELS).findings(corpus, 0.1) if f.sentence == 200]
    assert [(f.kind, f.label) for f in found] == ([("label", "LOC")] if doubted else [])


@pytest.mark.parametrize(("start", "end"), [(0, 1), (2, 3)], ids=["before", "after"])
def test_a_missing_entity_may_touch_an_annotated_one(start: int, end: int) -> None:
    """Spans are half-open: what ends where an annotated entity begins does not overlap it, nor does what begins at its end."""
    sentence = Sentence(("Turin", "Ada", "Oslo"), (Entity(1, 2, "PER"),))
    rows = ((start, end, (0.03, 0.95, 0.02)), (1, 2, (0.02, 0.01, 0.97)))
    corpus, predicted = with_rows(*many(50, 50, 100), sentence, *sorted(rows))
    found = [f for f in AuditModel.of(predicted, corpus, LABELS).findings(corpus, 0.3) if f.sentence == 200]
    assert [(f.kind, f.start, f.end, f.label) for f in found] == [("missing", start, end, "LOC")]


def test_findings_come_best_first() -> None:
    corpus, predicted = many(60, 40, 200)
    found = AuditModel.of(predicted, corpus, LABELS).findings(corpus, 0.0)
    probabilities = [finding.probability for finding in found]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(finding.kind == "missing" for finding in found) == 240


def test_what_is_annotated_with_a_label_that_the_models_do_not_know_is_not_judged() -> None:
    """Neither as a mistake nor as a word about how often entities are annotated; what overlaps it is not missing."""
    corpus, found = many(60, 40, 200)
    unknown = [Sentence(("Euro", "note"), (Entity(0, 1, "MISC"),))] * 30
    more = Corpus([*corpus, *unknown])
    rows = believed(
        *(row for n in range(300, 330) for row in ((n, 0, 1, (0.99, 0.0, 0.01)), (n, 0, 2, (0.5, 0.1, 0.4))))
    )
    together = SpanProbabilities(*(np.concatenate([getattr(found, n), getattr(rows, n)]) for n in vars(found)))
    with_misc = SpanProbabilities(
        together.sentence, together.start, together.end, np.insert(together.probabilities, 2, 0, axis=1)
    )
    labels = ("O", "LOC", "MISC", "PER")
    judged = AuditModel.of(with_misc, more, labels, known={"LOC", "PER"})
    assert {finding.sentence for finding in judged.findings(more, 0.05)} == set(range(60, 100))
    plain = AuditModel.of(found, corpus, LABELS)
    assert judged.estimate().total == pytest.approx(plain.estimate().total, rel=0.01)
    assert judged.estimate().labels["MISC"][0] == 0
    mistaken = AuditModel.of(with_misc, more, labels).findings(more, 0.05)
    assert {finding.sentence for finding in mistaken} >= set(range(300, 330)), "so they would be reported"


def test_annotation_tools_get_what_they_import(tmp_path: Path) -> None:
    corpus = Corpus([
        Sentence(("Ada", "likes", "Turin"), (Entity(0, 1, "PER"),), text="Ada  likes Turin"),
        Sentence(("Bo",), (Entity(0, 1, "LOC"),)),
    ])  # fmt: skip
    findings = [
        Finding(0, 2, 3, "LOC", 0.9, "missing", "Turin"),
        Finding(1, 0, 1, "PER", 0.8, "label", "Bo", Entity(0, 1, "LOC")),
    ]
    written = {path.name: path for path in write_exports(tmp_path / "exports", corpus, findings)}
    tasks = json.loads(written["label-studio.json"].read_text(encoding="utf-8"))
    values = [result["value"] for result in tasks[0]["predictions"][0]["result"]]
    assert [(v["text"], v["labels"]) for v in values] == [("Ada", ["PER"]), ("Turin", ["LOC"])]
    assert all(tasks[0]["data"]["text"][v["start"] : v["end"]] == v["text"] for v in values)
    assert [r["value"]["labels"] for r in tasks[1]["predictions"][0]["result"]] == [["PER"]]
    lines = {
        name: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for name, path in written.items()
        if name.endswith("jsonl")
    }
    assert lines["doccano.jsonl"][0]["label"] == [[0, 3, "PER"], [11, 16, "LOC"]]
    assert [span["token_start"] for span in lines["prodigy.jsonl"][0]["spans"]] == [0, 2]
    suggestion = json.loads(written["argilla.json"].read_text(encoding="utf-8"))[0]["suggestions"]["entities"]
    assert [(s["start"], s["end"], s["label"]) for s in suggestion["value"]] == [(0, 3, "PER"), (11, 16, "LOC")]


def test_an_emoji_counts_as_two_characters_where_the_tool_counts_so(tmp_path: Path) -> None:
    corpus = Corpus([Sentence(("😀", "Turin"), text="😀 Turin")])
    write_exports(tmp_path, corpus, [Finding(0, 1, 2, "LOC", 0.9, "missing", "Turin")])
    (doccano,) = json.loads((tmp_path / "doccano.jsonl").read_text(encoding="utf-8"))["label"]
    (prodigy,) = json.loads((tmp_path / "prodigy.jsonl").read_text(encoding="utf-8"))["spans"]
    assert doccano == [3, 8, "LOC"]
    assert (prodigy["start"], prodigy["end"]) == (2, 7)


PLACES = st.tuples(st.integers(0, 7), st.integers(1, 4)).map(lambda pair: (pair[0], min(8, pair[0] + pair[1])))


@given(st.sets(PLACES, max_size=6), st.lists(st.tuples(PLACES, st.sampled_from(LABELS[1:])), max_size=4))
def test_predictions_are_compared_with_every_annotated_span(
    spans: set[tuple[int, int]], entities: list[tuple[tuple[int, int], str]]
) -> None:
    sentence = Sentence(("w",) * 8, tuple(Entity(*place, label) for place, label in entities))
    predicted = believed(*((0, *place, (0.5, 0.3, 0.2)) for place in sorted(spans)))
    annotated, free = _against(predicted, Corpus((sentence,)), LABELS)
    labels = {(entity.start, entity.end): entity.label for entity in sentence.entities}
    assert [LABELS[number] for number in annotated] == [labels.get(place, "O") for place in sorted(spans)]
    assert free.tolist() == [
        not any(start < entity.end and entity.start < end for entity in sentence.entities)
        for start, end in sorted(spans)
    ]


def test_of_the_spans_that_overlap_an_annotated_one_the_most_probable_is_its_rival() -> None:
    corpus, predicted = many(50, 50, 100)
    sentence = Sentence(("The", "New", "York", "Times", "wrote"), (Entity(1, 3, "LOC"), Entity(4, 5, "PER")))
    rows = believed(
        (200, 0, 4, (0.2, 0.7, 0.1)),
        (200, 1, 3, (0.9, 0.08, 0.02)),
        (200, 1, 4, (0.03, 0.02, 0.95)),
        (200, 3, 4, (0.01, 0.98, 0.01)),
        (200, 4, 5, (0.01, 0.01, 0.98)),
    )
    together = SpanProbabilities(*(np.concatenate([getattr(predicted, n), getattr(rows, n)]) for n in vars(predicted)))
    more = Corpus([*corpus, sentence])
    found = [f for f in AuditModel.of(together, more, LABELS).findings(more, 0.1) if f.sentence == 200]
    assert [(f.kind, f.start, f.end, f.text) for f in found if f.annotated == Entity(1, 3, "LOC")] == [
        ("boundary", 1, 4, "New York Times")
    ]


class Counted(np.ndarray):
    """An array that counts the elements of everything that is computed with it."""

    elements = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        keywords["out"] = tuple(np.asarray(each) for each in keywords.get("out", ())) or None
        plain = [np.asarray(each) if isinstance(each, Counted) else each for each in inputs]
        result = getattr(ufunc, method)(*plain, **keywords)
        Counted.elements += np.size(result)
        return result


def long_audit(size: int) -> tuple[SpanProbabilities, Corpus]:
    """One sentence in which every second entity is annotated, and something overlaps each of them."""
    words = ("Ada", "Bo", "likes", ".") * size
    entities = tuple(Entity(4 * n, 4 * n + 1, "PER") for n in range(0, size, 2))
    rows = [(0, 4 * n, 4 * n + 1, (0.05, 0.02, 0.93) if n % 2 else (0.6, 0.1, 0.3)) for n in range(size)]
    rows += [(0, 4 * n, 4 * n + 2, (0.02, 0.01, 0.97)) for n in range(0, size, 2)]
    return believed(*sorted(rows)), Corpus((Sentence(words, entities, text=" ".join(words)),))


def test_an_audit_of_a_long_sentence_takes_time_that_is_linear() -> None:
    def prepare(size: int) -> Callable[[], list[Finding]]:
        predicted, corpus = long_audit(size)
        fitted = AuditModel.of(predicted, corpus, LABELS)
        return lambda: fitted.findings(corpus, 0.0)

    assert {finding.kind for finding in prepare(10)()} >= {"missing", "boundary"}
    assert_linear(prepare, 100)


def test_comparing_a_long_sentence_with_its_annotation_looks_at_each_span_some_times_only() -> None:
    predicted, corpus = long_audit(500)
    counted = SpanProbabilities(
        predicted.sentence, predicted.start.view(Counted), predicted.end.view(Counted), predicted.probabilities
    )
    Counted.elements = 0
    _against(counted, corpus, LABELS)
    assert len(predicted) <= Counted.elements <= 20 * len(predicted)
