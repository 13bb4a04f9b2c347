import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lacuner.methods.tagging import Findings, Outside, RandomSpans, StageContext
from torch import Tensor

from lacuner.corpus import Corpus, Sentence
from lacuner.errors import ConfigError
from lacuner.methods.method import Method
from lacuner.methods.registry import registry
from lacuner.methods.two_step import METHODS, OValues
from lacuner.parts import build_part
from lacuner.supervision.tags import TokenSupervision

(METHOD,) = METHODS
Words = list[tuple[int, int, float]]  # sentence, token, O-value


def corpus_of(lengths: list[int]) -> Corpus:
    return Corpus(tuple(Sentence(tuple(f"w{row}.{place}" for place in range(n))) for row, n in enumerate(lengths)))


@dataclass
class Explorer:
    """A model with these O-values."""

    words: Words
    asked: list[Corpus] = field(default_factory=list)

    def o_values(self, corpus: Corpus) -> dict[str, Tensor]:
        self.asked.append(corpus)
        sentence, token, value = zip(*self.words, strict=True) if self.words else ((), (), ())
        return {
            "sentence": torch.tensor(sentence, dtype=torch.long),
            "token": torch.tensor(token, dtype=torch.long),
            "value": torch.tensor(value, dtype=torch.float32),
        }


def run(stage: OValues, corpus: Corpus, words: Words, fits: list[Any] | None = None) -> Findings:
    explorer = Explorer(words)

    def fit(name: str, title: str, method: Method, **more: Any) -> Explorer:
        if fits is not None:
            fits.append((method, more, explorer))
        return explorer

    return stage.run(StageContext(corpus, METHOD, 1, fit, lambda name, find_out: find_out()))


def removed(findings: Findings) -> set[tuple[int, int]]:
    return {(place, word) for place, advice in findings.advice.items() for word in (*advice.removed, *advice.open)}


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.sampled_from(["0", "0.003125", "0.1", "0.3", "0.5", "0.99"]),
    st.data(),
)
def test_the_ceiling_of_lambda_m_words_with_the_smallest_o_values_are_removed(
    lengths: list[int], share: str, data: st.DataObject
) -> None:
    everywhere = [(row, place) for row, length in enumerate(lengths) for place in range(length)]
    untagged = [place for place in everywhere if data.draw(st.booleans())]
    values = data.draw(st.permutations(range(len(untagged))))
    words = [(row, place, value / 8) for (row, place), value in zip(untagged, values, strict=True)]
    findings = run(OValues(share=float(share)), corpus_of(lengths), words)
    count = math.ceil(Fraction(share) * len(words))
    expected = sorted(words, key=lambda word: word[2])[:count]
    assert removed(findings) == {(row, place) for row, place, _ in expected}
    assert [(r["sentence"], r["token"], r["o_value"]) for r in findings.reports["removed"]] == [
        (row, place, round(value, 4)) for row, place, value in expected
    ]


def test_the_count_is_exact_however_many_words_there_are() -> None:
    words = [(0, place, float(place)) for place in range(2000)]
    findings = run(OValues(share=0.500000005), corpus_of([2000]), words)
    assert len(removed(findings)) == 1001


def test_of_equal_o_values_the_first_goes_first() -> None:
    words = [(row, place, 0.0) for row in range(3) for place in range(3)]
    assert removed(run(OValues(share=0.5), corpus_of([3, 3, 3]), words)) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)}


def test_a_removed_word_is_dropped_or_may_be_anything() -> None:
    words = [(0, 1, -1.0), (0, 0, 1.0), (1, 2, -2.0), (1, 0, -3.0)]
    dropped = run(OValues(share=0.7), corpus_of([3, 3]), words).advice
    assert {place: (set(a.removed), a.open) for place, a in dropped.items()} == {0: ({1}, ()), 1: ({0, 2}, ())}
    opened = run(OValues(share=0.7, removed="marginalize"), corpus_of([3, 3]), words).advice
    assert {place: (a.removed, set(a.open)) for place, a in opened.items()} == {0: ((), {1}), 1: ((), {0, 2})}
    assert all(isinstance(a, TokenSupervision) and a.weights is None for a in (*dropped.values(), *opened.values()))


def test_the_report_shows_a_word_with_its_neighbours() -> None:
    words = [(0, 5, -1.5), (0, 0, -0.123456), (1, 0, 2.0)]
    findings = run(OValues(share=0.6), corpus_of([11, 1]), words)
    assert findings.reports["removed"] == [
        {
            "sentence": 0,
            "token": 5,
            "o_value": -1.5,
            "text": "w0.5",
            "context": "w0.1 w0.2 w0.3 w0.4 w0.5 w0.6 w0.7 w0.8 w0.9",
        },
        {"sentence": 0, "token": 0, "o_value": -0.1235, "text": "w0.0", "context": "w0.0 w0.1 w0.2 w0.3 w0.4"},
    ]


def test_nothing_is_removed_where_nothing_is_untagged_or_the_share_is_zero() -> None:
    for share, words in ((0.5, []), (0.0, [(0, 0, -9.0)])):
        findings = run(OValues(share=share), corpus_of([2]), words)
        assert findings.advice == {}
        assert findings.reports == {"removed": []}


def test_exploration_takes_the_data_as_it_is_for_a_few_epochs() -> None:
    fits: list[Any] = []
    corpus = corpus_of([2, 1])
    run(OValues(epochs=2), corpus, [(0, 0, 1.0)], fits)
    ((method, more, explorer),) = fits
    assert method == METHOD.model_copy(update={"unlabeled": Outside(), "sampling": None})
    assert method.head == METHOD.head
    assert more == {"epochs": 2}
    assert explorer.asked == [corpus]


def test_what_exploration_found_before_a_kill_is_not_looked_for_again() -> None:
    kept = Explorer([(0, 1, -1.0), (0, 0, 1.0)]).o_values(corpus_of([2]))

    def fit(*arguments: Any, **more: Any) -> None:
        raise AssertionError("it was trained again")

    findings = OValues().run(StageContext(corpus_of([2]), METHOD, 1, fit, lambda name, find_out: kept))
    assert removed(findings) == {(0, 1)}


@pytest.mark.parametrize(("key", "value"), [("epochs", 0), ("share", 1), ("share", -0.1), ("removed", "keep")])
def test_a_stage_without_sense_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"stage\.{key}"):
        build_part("stage", {"name": "o-values", key: value}, registry().choices("stage"))


def test_the_preset_is_the_papers_method() -> None:
    assert METHOD.name == "two-step"
    assert METHOD.untagged == Outside()
    assert METHOD.sampling == RandomSpans(ratio=0.2, label="NON", widest=None)
    assert METHOD.stage == OValues(share=0.1, removed="drop")
    assert METHOD.stage.epochs in (1, 2, 3)
    assert METHOD.head.angle
