from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Entity, Sentence, Span
from lacuner.matching import Dictionary, Entry, Matcher
from lacuner.matching.annotation import annotate_sentences, cut_into_words
from lacuner.matching.case import CaseEstimate, SpreadSample, estimate_ignoring_case

NAMES = Dictionary.of([("Ada", "PER"), ("New York", "LOC"), ("Al-Qaeda", "ORG"), ("Nobody", "PER")])


def more(matcher: Matcher, texts: Sequence[str | Sentence]) -> int:
    estimate = estimate_ignoring_case(matcher, texts, "words")
    assert estimate is not None
    return estimate.more


def test_names_in_another_case_are_counted() -> None:
    texts = ["ADA met Ada in new york .", "nobody was there"]
    assert estimate_ignoring_case(Matcher(NAMES), texts, "words") == CaseEstimate(3, 10)


def test_names_that_must_be_written_exactly_are_not() -> None:
    names = Dictionary((Entry("IT", "ORG", "exact"), Entry("May", "PER")))
    assert more(Matcher(names), ["it may be IT"]) == 1


def test_what_annotate_would_not_label_is_not_counted() -> None:
    annotated = Sentence(("ada", "ada", "ada"), (Entity(0, 1, "ORG"),), (Span(1, 2),))
    assert more(Matcher(NAMES), [annotated]) == 1


def test_names_that_get_several_labels_are_matched_less_often() -> None:
    assert more(Matcher(Dictionary.of([("May", "PER"), ("MAY", "ORG")])), ["May sleeps"]) == -1


SURFACES = [
    "Al-Qaeda",
    "AL QAEDA",
    "US",
    "U.S.",
    "T恤",
    "O'Brien & Co",
    "obrien and co",
    "ß",
    "SS",
    "É",
    "e\u0301",
    "_a",
    "A",
]


@pytest.mark.parametrize("variants", [False, True])
@pytest.mark.parametrize("split", ["words", "characters"])
@given(st.lists(st.sampled_from(SURFACES), max_size=4), st.lists(st.sampled_from(SURFACES), max_size=5))
def test_names_that_are_left_out_beforehand_are_not_in_the_text(split, variants, surfaces, pieces) -> None:
    names = Dictionary.of([(surface, "X") for surface in surfaces] + [("Zoe", "PER")])
    texts = [" ".join(pieces), "".join(pieces).lower()]
    exact, ignoring = (Matcher(names, case, variants=variants, characters=split == "characters") for case in (0, 1))
    sentences = [cut_into_words(text, split) for text in texts]
    expected = annotate_sentences(ignoring, sentences)[1].matches - annotate_sentences(exact, sentences)[1].matches
    estimate = estimate_ignoring_case(exact, texts, split)
    assert estimate is not None
    assert estimate.more == expected


def test_a_second_search_for_too_many_names_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuner.matching.case._FEW", 1)
    assert estimate_ignoring_case(Matcher(NAMES), ["Ada in New York"], "words") is None
    assert more(Matcher(NAMES), ["ADA"]) == 1  # the others are not in the text


def test_an_estimate_is_scaled_to_the_whole() -> None:
    assert (CaseEstimate(3, 100) + CaseEstimate(1, 100)).scaled_to(1000) == 20
    assert CaseEstimate().scaled_to(0) == 0


@pytest.mark.parametrize("count", [0, 1, 5, 99, 1000])
def test_a_sample_passes_everything_on_and_is_spread_over_the_stream(count: int) -> None:
    sample = SpreadSample(max_characters=50)
    numbers = [f"{number:05}" for number in range(count)]
    assert list(sample.watch(iter(numbers))) == numbers
    assert len("".join(map(str, sample.texts))) <= 50
    assert len(sample.texts) >= min(count, 5)
    kept = [int(str(text)) for text in sample.texts]
    assert len({after - before for before, after in pairwise(kept)}) <= 1
    assert not kept or (kept[0] == 0 and kept[-1] > 0.75 * (count - 1) - 1)


def test_a_sample_holds_one_text_however_long_it_is() -> None:
    sample = SpreadSample(max_characters=3)
    list(sample.watch(["a long text", Sentence(("words", "too"))]))
    assert sample.texts == ["a long text"]
