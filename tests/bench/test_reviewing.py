from pathlib import Path

import numpy as np

from lacuner.audit.audit import Audit
from lacuner.audit.finding import Finding
from lacuner.audit.model import Estimate
from lacuner.bench.reviewing import review_perfectly
from lacuner.corpus import Corpus, Entity, Sentence

WORDS = ("Ada", "Byron", "left", "New", "York", "in", "May")
GOLD = Corpus([Sentence(WORDS, (Entity(0, 2, "PER"), Entity(3, 5, "LOC")))] * 2)


def finding(
    place: int, start: int, end: int, label: str, annotated: Entity | None = None, sentence: int = 0
) -> Finding:
    kind = (
        "missing" if annotated is None else "label" if (annotated.start, annotated.end) == (start, end) else "boundary"
    )
    text = " ".join(WORDS[start:end])
    return Finding(sentence, start, end, label, 0.9 - place / 100, kind, text, annotated)


def reviewed(tmp_path: Path, entities: tuple[Entity, ...], *findings: Finding, most: int = 9) -> Corpus:
    corpus = Corpus([Sentence(WORDS, entities)] * 2)
    estimate = Estimate(1.0, 0.0, 2.0, {"LOC": (1.0, 0.0, 2.0)}, 0.5)
    Audit(corpus, findings, estimate, {"sentences": 2, "entities": 2, "version": "0"}).write(tmp_path)
    return review_perfectly(tmp_path, GOLD, most)


def test_what_is_right_is_accepted_and_what_is_wrong_is_known_to_be_wrong(tmp_path: Path) -> None:
    after = reviewed(tmp_path, (), finding(0, 0, 2, "PER"), finding(1, 6, 7, "PER"))
    assert after[0].entities == (Entity(0, 2, "PER"),)
    assert after[0].entities[0].source == "reviewer"
    assert [(span.start, span.end) for span in after[0].non_entities] == [(6, 7)]
    assert after[1] == Sentence(WORDS)


def test_borders_and_labels_are_put_right(tmp_path: Path) -> None:
    after = reviewed(tmp_path, (), finding(0, 4, 5, "PER"))
    assert after[0].entities == (Entity(3, 5, "LOC"),)


def test_what_is_annotated_is_confirmed_corrected_or_removed(tmp_path: Path) -> None:
    old = (Entity(0, 2, "PER"), Entity(3, 4, "LOC"), Entity(6, 7, "PER"))
    after = reviewed(
        tmp_path, old, finding(0, 0, 2, "LOC", old[0]), finding(1, 3, 5, "LOC", old[1]), finding(2, 6, 7, "O", old[2])
    )
    assert after[0].entities == (Entity(0, 2, "PER"), Entity(3, 5, "LOC"))
    assert {entity.source for entity in after[0].entities} == {"reviewer"}
    assert after[1].entities == old


def test_no_more_is_looked_at_than_was_said(tmp_path: Path) -> None:
    after = reviewed(tmp_path, (), finding(0, 0, 2, "PER"), finding(1, 3, 5, "LOC"), most=1)
    assert np.sum([len(sentence.entities) for sentence in after]) == 1
