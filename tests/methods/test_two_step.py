import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import product
from statistics import NormalDist
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lacuner.corpus import Corpus, Sentence
from lacuner.errors import ConfigError
from lacuner.methods.method import Method, TokenMethod
from lacuner.methods.parts import Step
from lacuner.methods.registry import registry
from lacuner.methods.stages import StageContext, StageResult
from lacuner.methods.token import Likelihood, Outside
from lacuner.methods.two_step import METHODS, OValues, RandomSpans
from lacuner.models.tag_model import TagModel
from lacuner.parts import build_part
from lacuner.supervision.tags import TokenSupervision

(METHOD,) = METHODS
Words = list[tuple[int, int, float]]  # sentence, token, O-value


def corpus_of(lengths: list[int]) -> Corpus:
    return Corpus(tuple(Sentence(tuple(f"w{row}.{place}" for place in range(n))) for row, n in enumerate(lengths)))


class Explorer(TagModel):
    """A model with these O-values."""

    def __init__(self, words: Words) -> None:
        nn.Module.__init__(self)
        self.words = words
        self.asked: list[Corpus] = []

    def o_values(self, corpus: Corpus) -> dict[str, Tensor]:
        self.asked.append(corpus)
        sentence, token, value = zip(*self.words, strict=True) if self.words else ((), (), ())
        return {
            "sentence": torch.tensor(sentence, dtype=torch.long),
            "token": torch.tensor(token, dtype=torch.long),
            "value": torch.tensor(value, dtype=torch.float32),
        }


def run(stage: OValues, corpus: Corpus, words: Words, fits: list[Any] | None = None) -> StageResult:
    explorer = Explorer(words)

    def fit(name: str, title: str, method: Method, **more: Any) -> Explorer:
        if fits is not None:
            fits.append((method, more, explorer))
        return explorer

    return stage.run(context_of(corpus, fit, lambda name, compute: compute()))


def context_of(corpus: Corpus, fit: Any, cached: Any) -> StageContext:
    return StageContext(corpus, ("O", "PER"), METHOD, fit, partial(pytest.fail, "there are no folds"), cached)


def removed(result: StageResult) -> set[tuple[int, int]]:
    return {(index, word) for index, known in result.tokens.items() for word in (*known.ignored, *known.unconstrained)}


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.sampled_from(["0", "0.003125", "0.1", "0.3", "0.5", "0.99"]),
    st.data(),
)
def test_the_ceiling_of_lambda_m_words_with_the_smallest_o_values_are_removed(
    lengths: list[int], fraction: str, data: st.DataObject
) -> None:
    everywhere = [(row, place) for row, length in enumerate(lengths) for place in range(length)]
    untagged = [place for place in everywhere if data.draw(st.booleans())]
    values = data.draw(st.permutations(range(len(untagged))))
    words = [(row, place, value / 8) for (row, place), value in zip(untagged, values, strict=True)]
    result = run(OValues(fraction=float(fraction)), corpus_of(lengths), words)
    count = math.ceil(Fraction(fraction) * len(words))
    expected = sorted(words, key=lambda word: word[2])[:count]
    assert removed(result) == {(row, place) for row, place, _ in expected}
    assert [(r["sentence"], r["token"], r["o_value"]) for r in result.reports["removed"]] == [
        (row, place, round(value, 4)) for row, place, value in expected
    ]


def test_the_count_is_exact_however_many_words_there_are() -> None:
    words = [(0, place, float(place)) for place in range(2000)]
    result = run(OValues(fraction=0.500000005), corpus_of([2000]), words)
    assert len(removed(result)) == 1001


def test_of_equal_o_values_the_first_goes_first() -> None:
    words = [(row, place, 0.0) for row in range(3) for place in range(3)]
    assert removed(run(OValues(fraction=0.5), corpus_of([3, 3, 3]), words)) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)}


def test_a_removed_word_is_dropped_or_may_be_anything() -> None:
    words = [(0, 1, -1.0), (0, 0, 1.0), (1, 2, -2.0), (1, 0, -3.0)]
    dropped = run(OValues(fraction=0.7), corpus_of([3, 3]), words).tokens
    assert {index: (set(known.ignored), known.unconstrained) for index, known in dropped.items()} == {
        0: ({1}, ()),
        1: ({0, 2}, ()),
    }
    opened = run(OValues(fraction=0.7, removed="marginalize"), corpus_of([3, 3]), words).tokens
    assert {index: (known.ignored, set(known.unconstrained)) for index, known in opened.items()} == {
        0: ((), {1}),
        1: ((), {0, 2}),
    }
    assert all(
        isinstance(known, TokenSupervision) and known.tag_weights is None
        for known in (*dropped.values(), *opened.values())
    )


def test_the_report_shows_a_word_with_its_neighbours() -> None:
    words = [(0, 5, -1.5), (0, 0, -0.123456), (1, 0, 2.0)]
    result = run(OValues(fraction=0.6), corpus_of([11, 1]), words)
    assert result.reports["removed"] == [
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
    for fraction, words in ((0.5, []), (0.0, [(0, 0, -9.0)])):
        result = run(OValues(fraction=fraction), corpus_of([2]), words)
        assert result.tokens == {}
        assert result.reports == {"removed": []}


def test_exploration_takes_the_data_as_it_is_for_a_few_epochs() -> None:
    fits: list[Any] = []
    corpus = corpus_of([2, 1])
    run(OValues(epochs=2), corpus, [(0, 0, 1.0)], fits)
    ((method, more, explorer),) = fits
    assert method == METHOD.model_copy(update={"unlabeled": Outside(), "sampling": None})
    assert method.head == METHOD.head
    assert more == {"epochs": 2}
    assert explorer.asked == [corpus]


def test_what_exploration_found_before_an_interruption_is_not_looked_for_again() -> None:
    kept = Explorer([(0, 1, -1.0), (0, 0, 1.0)]).o_values(corpus_of([2]))

    def fit(*arguments: Any, **more: Any) -> None:
        raise AssertionError("it was trained again")

    result = OValues().run(context_of(corpus_of([2]), fit, lambda name, compute: kept))
    assert removed(result) == {(0, 1)}


Place = tuple[int, int]


def step(seed: int = 0, epoch: int = 0) -> Step:
    return Step(epoch, 3, torch.Generator().manual_seed(seed))


def drawn(sampling: RandomSpans, free: list[list[bool]], lengths: list[int], at: Step) -> list[list[Place]]:
    """What is drawn of each sentence."""
    spans = sampling.sample(torch.tensor(free), torch.tensor(lengths), at)
    found: list[list[Place]] = [[] for _ in lengths]
    for row, start, end in zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True):
        found[row].append((start, end))
    return found


def candidates(free: list[bool], max_width: int | None) -> list[Place]:
    """Spans of free words."""
    return [
        (start, end)
        for start in range(len(free))
        for end in range(start + 1, len(free) + 1)
        if all(free[start:end]) and (max_width is None or end - start <= max_width)
    ]


FREE = st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=4)
RATIOS = st.sampled_from(["0.1", "0.2", "0.3", "1.1", "5"])
MAX_WIDTH = st.sampled_from([None, 1, 2, 4])


@settings(max_examples=200)
@given(FREE, RATIOS, MAX_WIDTH, st.integers(0, 999), st.data())
def test_drawn_spans_are_few_lie_in_free_words_and_never_overlap(
    free: list[list[bool]], ratio: str, max_width: int | None, seed: int, data: st.DataObject
) -> None:
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=len(free), max_size=len(free)))
    free = [
        [word and place < length for place, word in enumerate(row)] for row, length in zip(free, lengths, strict=True)
    ]
    found = drawn(RandomSpans(ratio=float(ratio), max_width=max_width), free, lengths, step(seed))
    for row, length, spans in zip(free, lengths, found, strict=True):
        assert len(spans) <= math.ceil(Fraction(ratio) * length)
        assert set(spans) <= set(candidates(row, max_width))
        words = [place for start, end in spans for place in range(start, end)]
        assert len(words) == len(set(words))
        if ratio != "0":
            assert bool(spans) == any(row)


def assert_follows(counts: Counter[object], expected: dict[object, float]) -> None:
    """A chi-squared test (Wilson and Hilferty's percentile) that fails by chance once in 100,000 times."""
    total = sum(counts.values())
    assert set(counts) <= set(expected)
    assert min(expected.values()) * total > 5
    statistic = sum((counts[key] - total * share) ** 2 / (total * share) for key, share in expected.items())
    spread = 2 / (9 * (len(expected) - 1))
    assert statistic < (len(expected) - 1) * (1 - spread + NormalDist().inv_cdf(1 - 1e-5) * spread**0.5) ** 3


MANY = 4_000


@pytest.mark.parametrize("max_width", [None, 1, 2, 3])
def test_a_single_span_is_any_of_the_candidates_equally_likely(max_width: int | None) -> None:
    free = [True, True, False, True, True, True, True, False]
    found = drawn(RandomSpans(ratio=0.1, max_width=max_width), [free] * MANY, [8] * MANY, step(1))
    assert all(len(spans) == 1 for spans in found)
    possible = candidates(free, max_width)
    assert len(possible) == {None: 3 + 10, 1: 6, 2: 3 + 7, 3: 3 + 9}[max_width]
    assert_follows(Counter(spans[0] for spans in found), {span: 1 / len(possible) for span in possible})


def test_of_two_that_overlap_the_later_one_is_left_out() -> None:
    free = [True, True, True]
    found = drawn(RandomSpans(ratio=0.5), [free] * MANY, [3] * MANY, step(2))
    expected: Counter[object] = Counter()
    possible = candidates(free, None)
    for first, second in product(possible, repeat=2):
        both = (first, second) if first[1] <= second[0] or second[1] <= first[0] else (first,)
        expected[both] += 1 / len(possible) ** 2
    assert_follows(Counter(tuple(spans) for spans in found), dict(expected))


def test_spans_are_drawn_again_from_a_generator_that_continues_and_the_same_from_the_same() -> None:
    free, lengths = [[True] * 9] * 20, [9] * 20
    at = step(3)
    first, second = (drawn(RandomSpans(), free, lengths, at) for _ in range(2))
    again = drawn(RandomSpans(), free, lengths, step(3))
    assert first == again != second


def test_more_spans_than_there_are_cannot_be_wanted() -> None:
    (spans,) = drawn(RandomSpans(ratio=1e9), [[True, False, True, True]], [4], step())
    assert set(spans) <= {(0, 1), (2, 3), (3, 4), (2, 4)}
    assert spans


def test_where_no_word_is_free_nothing_is_drawn() -> None:
    assert drawn(RandomSpans(ratio=3), [[False, False], [False, False]], [2, 1], step()) == [[], []]
    with pytest.raises(ConfigError, match=r"sampling\.ratio=0: .* to sample none, set sampling=none"):
        build_part("sampling", {"name": "spans", "ratio": 0}, registry().choices("sampling", TokenMethod))


def test_what_is_drawn_has_a_label_of_its_own_or_is_outside() -> None:
    assert RandomSpans().non_entity_class
    assert not RandomSpans(label="O").non_entity_class


@pytest.mark.parametrize(("key", "value"), [("ratio", -0.1), ("ratio", math.inf), ("max_width", 0), ("label", "PER")])
def test_a_sampling_without_sense_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"sampling\.{key}"):
        build_part("sampling", {"name": "spans", key: value}, registry().choices("sampling", TokenMethod))


@pytest.mark.parametrize(("key", "value"), [("epochs", 0), ("fraction", 1), ("fraction", -0.1), ("removed", "keep")])
def test_a_stage_without_sense_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"stage\.{key}"):
        build_part("stage", {"name": "o-values", key: value}, registry().choices("stage", TokenMethod))


def test_the_preset_is_the_papers_method() -> None:
    assert METHOD.name == "two-step"
    assert METHOD.unlabeled == Outside()
    assert METHOD.sampling == RandomSpans(ratio=0.2, label="NON", max_width=None)
    assert METHOD.stage == OValues(fraction=0.1, removed="drop")
    assert METHOD.stage.epochs in (1, 2, 3)
    assert METHOD.head.angle
    assert (METHOD.loss, METHOD.regularizer) == (Likelihood(), None)
