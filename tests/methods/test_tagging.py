import math
from collections import Counter
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lacuner.methods.tagging import METHODS, Anything, Outside, RandomSpans

from lacuner.corpus import Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.methods.method import Step
from lacuner.methods.registry import registry
from lacuner.parts import build_part
from lacuner.supervision.tags import TagSet, build_tag_targets

Place = tuple[int, int]


def step(seed: int = 0, epoch: int = 0) -> Step:
    return Step(epoch, 3, torch.Generator().manual_seed(seed))


def drawn(sampling: RandomSpans, free: list[list[bool]], lengths: list[int], at: Step) -> list[list[Place]]:
    """What is drawn of each sentence."""
    spans = sampling.draw(torch.tensor(free), torch.tensor(lengths), at)
    found: list[list[Place]] = [[] for _ in lengths]
    for row, start, end in zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True):
        found[row].append((start, end))
    return found


def candidates(free: list[bool], widest: int | None) -> list[Place]:
    """Spans of free words."""
    return [
        (start, end)
        for start in range(len(free))
        for end in range(start + 1, len(free) + 1)
        if all(free[start:end]) and (widest is None or end - start <= widest)
    ]


FREE = st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=4)
RATIOS = st.sampled_from(["0.1", "0.2", "0.3", "1.1", "5"])
WIDEST = st.sampled_from([None, 1, 2, 4])


@settings(max_examples=200)
@given(FREE, RATIOS, WIDEST, st.integers(0, 999), st.data())
def test_drawn_spans_are_few_lie_in_free_words_and_never_overlap(
    free: list[list[bool]], ratio: str, widest: int | None, seed: int, data: st.DataObject
) -> None:
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=len(free), max_size=len(free)))
    free = [
        [word and place < length for place, word in enumerate(row)] for row, length in zip(free, lengths, strict=True)
    ]
    found = drawn(RandomSpans(ratio=float(ratio), widest=widest), free, lengths, step(seed))
    for row, length, spans in zip(free, lengths, found, strict=True):
        assert len(spans) <= math.ceil(Fraction(ratio) * length)
        assert set(spans) <= set(candidates(row, widest))
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


@pytest.mark.parametrize("widest", [None, 1, 2, 3])
def test_a_single_span_is_any_of_the_candidates_equally_likely(widest: int | None) -> None:
    free = [True, True, False, True, True, True, True, False]
    found = drawn(RandomSpans(ratio=0.1, widest=widest), [free] * MANY, [8] * MANY, step(1))
    assert all(len(spans) == 1 for spans in found)
    possible = candidates(free, widest)
    assert len(possible) == {None: 3 + 10, 1: 6, 2: 3 + 7, 3: 3 + 9}[widest]
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


def test_spans_are_drawn_anew_from_a_generator_that_goes_on_and_again_from_the_same() -> None:
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
    with pytest.raises(ConfigError, match=r"sampling\.ratio=0: .* for none at all, sampling=none"):
        build_part("sampling", {"name": "spans", "ratio": 0}, registry().choices("sampling"))


def test_what_is_drawn_has_a_label_of_its_own_or_is_outside() -> None:
    assert RandomSpans().extra
    assert not RandomSpans(label="O").extra


@pytest.mark.parametrize(("key", "value"), [("ratio", -0.1), ("ratio", math.inf), ("widest", 0), ("label", "PER")])
def test_a_sampling_without_sense_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"sampling\.{key}"):
        build_part("sampling", {"name": "spans", key: value}, registry().choices("sampling"))


def test_an_untagged_word_is_outside_or_may_be_anything() -> None:
    tags = TagSet("bioes", ("O", "LOC", "PER"))
    sentence = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),))
    partly = Sentence(sentence.tokens, complete=True, unknown_tokens=frozenset({2}))
    targets = build_tag_targets([sentence, partly], tags)
    outside, anything = Outside().allow(targets), Anything().allow(targets)
    assert outside[0].nonzero().tolist() == [[0, tags.tag("S", 2)], [1, 0], [2, 0], [3, 0]]
    assert outside[1].nonzero().tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]
    assert anything.all(-1).tolist() == [[False, True, True, True], [False, False, True, False]]
    known = ~targets.unknown
    assert anything[known].equal(outside[known])


def test_the_naive_taggers_take_every_untagged_word_as_outside() -> None:
    presets = {method.name: method for method in METHODS}
    assert set(presets) == {"token", "crf"}
    assert presets["token"].head.name == "softmax"
    assert presets["crf"].head.name == "crf"
    for method in METHODS:
        assert (method.level, method.untagged) == ("token", Outside())
        assert (method.sampling, method.balance, method.stage) == (None, None, None)
        assert (method.head.scheme, method.head.angle) == ("bioes", False)
