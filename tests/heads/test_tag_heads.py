import math
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lacuner.corpus import Entity
from lacuner.encoders.words import EncodedWords
from lacuner.heads import TAG_HEADS, CrfConfig, SoftmaxConfig, TagHead
from lacuner.heads.crf import CrfHead
from lacuner.heads.linear_chain import marginals
from lacuner.heads.softmax import SoftmaxHead
from lacuner.heads.tagging import simplex
from lacuner.supervision.tags import TAG_SCHEMES, TagScheme, TagSet

NEVER = float("-inf")
SIZE = 5
TAGS = {
    "bioes": TagSet("bioes", ("O", "PER")),
    "bio2": TagSet("bio2", ("O", "LOC", "PER")),
    "io": TagSet("io", ("O", "LOC", "MISC", "ORG", "PER")),
}
"""Five tags each."""


@cache
def all_sequences(tags: int, length: int) -> Tensor:
    return torch.tensor(list(product(range(tags), repeat=length)))


@cache
def all_entities(scheme: TagScheme, length: int) -> list[list[tuple[int, int, int]]]:
    """The entities of every sequence, also of those that are not legal, which do not matter."""
    tags = TAGS[scheme]
    legal = tags.steps == 0
    return [
        tags.read(sequence) if all(legal[a, b] for a, b in pairwise(sequence)) and tags.begins[sequence[0]] == 0 else []
        for sequence in all_sequences(len(tags), length).tolist()
    ]


def build(name: str, tags: TagSet, angle: bool = False, seed: int = 0) -> TagHead:
    """A head in double precision, whose steps differ enough to matter."""
    torch.manual_seed(seed)
    head = TAG_HEADS[name](scheme=tags.scheme, angle=angle).build(SIZE, tags).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.mul_(15 if parameter.dim() < 2 or name == "crf" else 1)
    return head


def random_decisions(lengths: list[int], tags: int, seed: int, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(len(lengths), max(lengths), tags, generator=generator, dtype=torch.float64)


def random_weights(decisions: Tensor, seed: int, soft: bool) -> Tensor:
    """Some tags forbidden, but never ``O``; the others count 1, or as much as chance has it."""
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(decisions.shape, generator=generator) < 0.6
    kept[..., 0] = True
    if soft:
        weights = torch.rand(decisions.shape, generator=generator, dtype=torch.float64).log()
    else:
        weights = torch.zeros_like(decisions)
    return weights.masked_fill(~kept, NEVER)


def scores_of(head: TagHead, decisions: Tensor, kept: list[int], length: int) -> tuple[Tensor, Tensor]:
    """All sequences of tags at the words that are ``kept``, and their scores; a step is one between neighbors."""
    sequences = all_sequences(len(head.tags), len(kept))
    score = torch.zeros(len(sequences), dtype=torch.float64)
    crf = isinstance(head, CrfHead)
    begins = head.tags.begins.double() + (head.start_transitions if crf else 0)
    ends = head.tags.ends.double() + (head.end_transitions if crf else 0)
    steps = head.tags.steps.double() + (head.transitions if crf else 0)
    for number, place in enumerate(kept):
        tag = sequences[:, number]
        score = score + decisions[place, tag]
        if place == 0:
            score = score + begins[tag]
        if place == length - 1:
            score = score + ends[tag]
        if number and kept[number - 1] == place - 1:
            score = score + steps[sequences[:, number - 1], tag]
    return sequences, score


def slow_crf_loss(
    head: CrfHead, decisions: Tensor, weights: Tensor, lengths: list[int], dropped: list[set[int]] | None = None
) -> Tensor:
    """Over the words that are not dropped: how likely it is that their tags are among those that count."""
    losses = []
    for row, length in enumerate(lengths):
        kept = [place for place in range(length) if dropped is None or place not in dropped[row]]
        sequences, score = scores_of(head, decisions[row], kept, length)
        counts = torch.zeros_like(score)
        for number, place in enumerate(kept):
            counts = counts + weights[row, place, sequences[:, number]]
        losses.append(score.logsumexp(0) - (score + counts).logsumexp(0))
    return torch.stack(losses).mean()


def as_mask(dropped: list[set[int]], places: int) -> Tensor:
    return torch.tensor([[place in words for place in range(places)] for words in dropped])


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


LENGTHS = st.sampled_from([[1], [3, 1, 4], [2, 2], [5, 1], [6]])
SCHEMES = st.sampled_from(TAG_SCHEMES)
SEEDS = st.integers(0, 999)


@settings(max_examples=40)
@given(SCHEMES, LENGTHS, st.booleans(), SEEDS)
def test_the_crf_loss_is_minus_the_log_of_the_share_of_what_the_annotation_allows(
    scheme: TagScheme, lengths: list[int], soft: bool, seed: int
) -> None:
    tags = TAGS[scheme]
    head, decisions = build("crf", tags), random_decisions(lengths, len(tags), seed)
    weights = random_weights(decisions, seed, soft)
    assert_close(head.loss(decisions, weights, torch.tensor(lengths)), slow_crf_loss(head, decisions, weights, lengths))


@settings(max_examples=40)
@given(SCHEMES, LENGTHS, st.booleans(), SEEDS, st.data())
def test_words_that_are_dropped_are_in_neither_sum_and_no_step_leads_to_them(
    scheme: TagScheme, lengths: list[int], soft: bool, seed: int, data: st.DataObject
) -> None:
    tags = TAGS[scheme]
    head, decisions = build("crf", tags), random_decisions(lengths, len(tags), seed)
    weights = random_weights(decisions, seed, soft)
    dropped = [set(data.draw(st.lists(st.integers(0, length - 1)))) for length in lengths]
    found = head.loss(decisions, weights, torch.tensor(lengths), as_mask(dropped, max(lengths)))
    assert_close(found, slow_crf_loss(head, decisions, weights, lengths, dropped))


@settings(max_examples=30)
@given(SCHEMES, LENGTHS, SEEDS, st.data())
def test_words_that_may_be_anything_are_summed_over(
    scheme: TagScheme, lengths: list[int], seed: int, data: st.DataObject
) -> None:
    """What is left of a removed word if it is marginalised: it links its neighbors, but has no tag of its own."""
    tags = TAGS[scheme]
    head, decisions = build("crf", tags), random_decisions(lengths, len(tags), seed)
    weights = random_weights(decisions, seed, soft=False)
    open_words = [data.draw(st.sets(st.integers(0, length - 1))) for length in lengths]
    for row, words in enumerate(open_words):
        weights[row, sorted(words)] = 0.0
    expected = []
    for row, length in enumerate(lengths):
        sequences, score = scores_of(head, decisions[row], list(range(length)), length)
        fits = torch.ones(len(sequences), dtype=torch.bool)
        for place in set(range(length)) - open_words[row]:
            fits &= weights[row, place, sequences[:, place]] == 0
        expected.append(-score.softmax(0)[fits].sum().log())
    assert_close(head.loss(decisions, weights, torch.tensor(lengths)), torch.stack(expected).mean())


@pytest.mark.parametrize("name", TAG_HEADS)
@pytest.mark.parametrize("removed", [0, 2, 4])
def test_a_removed_word_teaches_nothing(name: str, removed: int) -> None:
    """Neither its tag nor its decision vector matters, and the loss has no gradient there."""
    tags, lengths = TAGS["bio2"], torch.tensor([5])
    head, decisions = build(name, tags), random_decisions([5], len(tags), 1).requires_grad_()
    dropped = torch.arange(5)[None] == removed
    weights = torch.full((1, 5, 5), NEVER, dtype=torch.float64)
    weights[..., 0] = 0.0
    loss = head.loss(decisions, weights, lengths, dropped)
    loss.backward()
    assert decisions.grad[0, removed].eq(0).all()
    assert all(decisions.grad[0, place].ne(0).any() for place in range(5) if place != removed)
    for tag in range(5):
        other = weights.clone()
        other[0, removed] = NEVER
        other[0, removed, tag] = 0.0
        assert_close(head.loss(decisions, other, lengths, dropped), loss)
    changed = decisions.detach().clone()
    changed[0, removed] = torch.tensor([50.0, -3.0, 7.0, 1e4, -1e4])
    assert_close(head.loss(changed, weights, lengths, dropped), loss)


def test_transitions_into_an_ignored_word_and_out_of_it_have_no_gradient() -> None:
    tags = TAGS["bioes"]
    head, decisions = build("crf", tags), random_decisions([3], len(tags), 1)
    weights = torch.full(decisions.shape, NEVER).double()
    weights[..., 0] = 0.0

    def gradients(removed: list[int]) -> dict[str, bool]:
        """Which parameters have a gradient."""
        head.zero_grad()
        dropped = torch.tensor([[place in removed for place in range(3)]])
        head.loss(decisions, weights, torch.tensor([3]), dropped).backward()
        return {
            name: bool(parameter.grad.ne(0).any())
            for name, parameter in head.named_parameters()
            if parameter.grad is not None
        }

    assert gradients([]) == {"transitions": True, "start_transitions": True, "end_transitions": True}
    assert gradients([1]) == {"transitions": False, "start_transitions": True, "end_transitions": True}
    assert gradients([0]) == {"transitions": True, "start_transitions": False, "end_transitions": True}
    assert gradients([2]) == {"transitions": True, "start_transitions": True, "end_transitions": False}
    assert gradients([0, 2]) == {"transitions": False, "start_transitions": False, "end_transitions": False}
    assert gradients([0, 1, 2]) == {"transitions": False, "start_transitions": False, "end_transitions": False}


@settings(max_examples=30)
@given(LENGTHS, st.booleans(), SEEDS, st.data())
def test_the_softmax_loss_is_the_mean_over_words_that_teach_something(
    lengths: list[int], soft: bool, seed: int, data: st.DataObject
) -> None:
    tags = TAGS["bio2"]
    head, decisions = build("softmax", tags), random_decisions(lengths, len(tags), seed)
    weights = random_weights(decisions, seed, soft)
    dropped = [data.draw(st.sets(st.integers(0, length - 1))) for length in lengths]
    open_words = [data.draw(st.sets(st.integers(0, length - 1))) for length in lengths]
    losses = []
    for row, length in enumerate(lengths):
        weights[row, sorted(open_words[row])] = 0.0
        for place in range(length):
            if place not in dropped[row] and any(weights[row, place] != 0):
                shares = decisions[row, place].softmax(0) * weights[row, place].exp()
                losses.append(-shares.sum().log().item())
    found = head.loss(decisions, weights, torch.tensor(lengths), as_mask(dropped, max(lengths)))
    assert found.item() == pytest.approx(sum(losses) / len(losses) if losses else 0.0, abs=1e-9)


@settings(max_examples=30)
@given(st.sampled_from(list(TAG_HEADS)), SCHEMES, LENGTHS, SEEDS)
def test_the_expected_number_of_words_is_the_mean_over_all_sequences(
    name: str, scheme: TagScheme, lengths: list[int], seed: int
) -> None:
    """All sequences that there are: for a head that tags each word by itself, also those that do not fit together."""
    tags = TAGS[scheme]
    head, decisions = build(name, tags), random_decisions(lengths, len(tags), seed)
    counted = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0]).double()
    expected = []
    for row, length in enumerate(lengths):
        if name == "crf":
            sequences, score = scores_of(head, decisions[row], list(range(length)), length)
            expected.append((score.softmax(0) * counted[sequences].sum(1)).sum())
        else:
            expected.append(sum(decisions[row, place].softmax(0) @ counted for place in range(length)))
    assert_close(head.expected(decisions, torch.tensor(lengths), counted), torch.stack(expected))


# Decoding.


@settings(max_examples=40)
@given(st.sampled_from(list(TAG_HEADS)), SCHEMES, LENGTHS, st.sampled_from([0.5, 2.0]), SEEDS)
def test_what_is_found_is_the_best_legal_sequence_and_scores_are_probabilities(
    name: str, scheme: TagScheme, lengths: list[int], scale: float, seed: int
) -> None:
    """The score of an entity is the share of all legal sequences that hold exactly this one."""
    tags = TAGS[scheme]
    head, decisions = build(name, tags, seed=seed % 3), random_decisions(lengths, len(tags), seed, scale)
    found = head.decode(decisions, torch.tensor(lengths))
    words = torch.tensor(lengths)
    probabilities = marginals(head.emissions(decisions, words), head.transition_scores, words)
    for row, length in enumerate(lengths):
        sequences, score = scores_of(head, decisions[row], list(range(length)), length)
        shares = score.detach().softmax(0)
        held = all_entities(scheme, length)
        assert [(e.start, e.end, tags.labels.index(e.label)) for e in found[row]] == held[score.argmax()]
        for entity in found[row]:
            wanted = (entity.start, entity.end, tags.labels.index(entity.label))
            expected = sum(share for share, entities in zip(shares.tolist(), held, strict=True) if wanted in entities)
            assert entity.score == pytest.approx(expected, abs=1e-9)
            assert entity.source == "model"
        for place in range(length):
            for tag in range(len(tags)):
                assert_close(probabilities[row, place, tag], shares[sequences[:, place] == tag].sum())


@settings(max_examples=20)
@given(st.sampled_from(list(TAG_HEADS)), SCHEMES, LENGTHS, SEEDS)
def test_any_entity_can_be_asked_about(name: str, scheme: TagScheme, lengths: list[int], seed: int) -> None:
    """Its probability is the share of all legal sequences that hold it, whether the best one does or not."""
    tags = TAGS[scheme]
    head, decisions = build(name, tags, seed=seed % 3), random_decisions(lengths, len(tags), seed)
    generator = np.random.default_rng(seed)
    held = [all_entities(scheme, length) for length in lengths]
    asked = [each[generator.integers(len(each))] for each in held]
    entities = [[Entity(start, end, tags.labels[label]) for start, end, label in each] for each in asked]
    found = head.probabilities(decisions, torch.tensor(lengths), entities)
    for row, length in enumerate(lengths):
        shares = scores_of(head, decisions[row], list(range(length)), length)[1].detach().softmax(0).tolist()
        for wanted, probability in zip(asked[row], found[row], strict=True):
            expected = sum(share for share, each in zip(shares, held[row], strict=True) if wanted in each)
            assert probability == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", TAG_HEADS)
def test_an_entity_of_the_non_entity_class_is_none(name: str) -> None:
    tags = TagSet("bioes", ("O", "PER"), non_entity_class=True)
    head, decisions = build(name, tags), torch.zeros(1, 4, len(tags)).double()
    for place, tag in enumerate(("S-PER", "B-", "E-", "S-")):
        decisions[0, place, tags.names.index(tag)] = 90.0
    ((entity,),) = head.decode(decisions, torch.tensor([4]))
    assert (entity.start, entity.end, entity.label) == (0, 1, "PER")


def test_entities_below_the_least_score_are_left_out() -> None:
    tags = TAGS["bio2"]
    head, decisions = build("crf", tags), random_decisions([6, 5], len(tags), 0, 0.7)
    lengths = torch.tensor([6, 5])
    everything = head.decode(decisions, lengths)
    scores = sorted(entity.score for entities in everything for entity in entities)
    assert len(scores) > 2
    least = scores[len(scores) // 2]
    for kept, entities in zip(head.decode(decisions, lengths, least), everything, strict=True):
        assert kept == [entity for entity in entities if entity.score >= least]


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("name", TAG_HEADS)
def test_scores_of_a_long_sentence_in_single_precision_are_as_exact(name: str, scheme: TagScheme) -> None:
    tags = TAGS[scheme]
    head = build(name, tags)
    decisions = random_decisions([400, 3], len(tags), 3) + 700  # the same for all tags, so it changes nothing
    lengths = torch.tensor([400, 3])
    exact = head.decode(decisions, lengths)
    rough = head.float().decode(decisions.float(), lengths)
    assert exact == rough
    assert len(exact[0]) > 20
    for one, other in zip(exact[0], rough[0], strict=True):
        assert other.score == pytest.approx(one.score, abs=2e-3)


# Decision vectors.


@pytest.mark.parametrize("corners", [2, 3, 5, 9, 73])
def test_the_corners_of_a_simplex_have_equal_angles_and_sum_to_zero(corners: int) -> None:
    w = simplex(corners).double()
    assert w.shape == (corners, corners - 1)
    products = w @ w.T
    expected = torch.full((corners, corners), -1 / (corners - 1)).double().fill_diagonal_(1.0)
    torch.testing.assert_close(products, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(w.sum(0), torch.zeros(corners - 1).double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("corners", [2, 3, 5, 9])
def test_the_corners_are_those_of_the_paper(corners: int) -> None:
    k, found = corners, simplex(corners)
    for j in range(1, k + 1):
        for place in range(1, k):
            if j == 1:
                expected = (k - 1) ** -0.5
            else:
                expected = -(1 + math.sqrt(k)) / (k - 1) ** 1.5 + math.sqrt(k / (k - 1)) * (place == j - 1)
            assert found[j - 1, place - 1].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", TAG_HEADS)
def test_angle_based_decisions_sum_to_zero_and_need_one_output_fewer(name: str) -> None:
    tags, words = TagSet("bioes", ("O", "LOC", "PER"), non_entity_class=True), torch.randn(2, 4, SIZE).double()
    plain, angled = build(name, tags), build(name, tags, angle=True)
    decisions = angled(EncodedWords(words, words))
    assert decisions.shape == plain(EncodedWords(words, words)).shape == (2, 4, len(tags))
    torch.testing.assert_close(decisions.sum(-1), torch.zeros(2, 4).double(), rtol=0, atol=1e-5)
    assert decisions.abs().max() > 0.1
    sizes = [sum(parameter.numel() for parameter in head.parameters()) for head in (plain, angled)]
    assert sizes[0] - sizes[1] == SIZE + 1
    for row, place in product(range(2), range(4)):
        h = angled.output.weight @ words[row, place] + angled.output.bias
        expected = torch.stack([h @ corner for corner in simplex(len(tags)).double().flip(0)])
        assert_close(decisions[row, place], expected)


@pytest.mark.parametrize("angle", [False, True])
@pytest.mark.parametrize("name", TAG_HEADS)
def test_only_what_is_learned_is_stored(name: str, angle: bool) -> None:
    head = build(name, TAGS["bio2"], angle)
    assert head.state_dict().keys() == {parameter for parameter, _ in head.named_parameters()}


@pytest.mark.parametrize(("config", "kind"), [(SoftmaxConfig(), SoftmaxHead), (CrfConfig(), CrfHead)])
def test_a_fresh_head_prefers_nothing(config: SoftmaxConfig | CrfConfig, kind: type[TagHead]) -> None:
    head = config.build(SIZE, TAGS["bioes"])
    assert isinstance(head, kind)
    assert all(parameter.abs().max() < 0.5 for parameter in head.parameters())


def test_the_transitions_of_a_fresh_crf_are_small_and_lie_on_both_sides_of_zero() -> None:
    torch.manual_seed(0)
    head = CrfConfig().build(SIZE, TagSet("bioes", ("O", *(f"L{number}" for number in range(40)))))
    for scores in (head.transitions, head.start_transitions, head.end_transitions):
        assert -0.1 <= scores.min() < -0.08
        assert 0.08 < scores.max() <= 0.1


# Numbers that nobody should meet, and some do.


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("name", TAG_HEADS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("lengths", [[1], [1, 6], [1, 1, 1]])
def test_nothing_is_ever_not_a_number(name: str, scheme: TagScheme, scale: float, lengths: list[int]) -> None:
    tags = TAGS[scheme]
    head = build(name, tags).float()
    decisions = random_decisions(lengths, len(tags), 1, scale).float().requires_grad_()
    counted = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0])
    places = torch.arange(max(lengths))
    only_outside = torch.full(decisions.shape, NEVER)
    only_outside[..., 0] = 0.0
    for weights in (only_outside, torch.zeros(decisions.shape)):
        for dropped in (None, places[None] >= torch.zeros(len(lengths), 1), (places % 2 == 1).expand(len(lengths), -1)):
            loss = head.loss(decisions, weights, torch.tensor(lengths), dropped)
            total = loss + head.expected(decisions, torch.tensor(lengths), counted).sum()
            gradients = torch.autograd.grad(total, [decisions, *head.parameters()], allow_unused=True)
            assert loss.isfinite()
            assert loss >= -0.01 * scale
            assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)
    for entities in head.decode(decisions.detach(), torch.tensor(lengths)):
        assert all(0 <= entity.score <= 1 for entity in entities)


@pytest.mark.parametrize("name", TAG_HEADS)
def test_where_all_words_are_dropped_the_loss_is_zero_and_can_be_learned_from(name: str) -> None:
    tags = TAGS["bioes"]
    head, decisions = build(name, tags), random_decisions([3, 1], len(tags), 0).requires_grad_()
    weights = random_weights(decisions, 0, soft=False)
    loss = head.loss(decisions, weights, torch.tensor([3, 1]), torch.ones(2, 3, dtype=torch.bool))
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-9)
    assert decisions.grad.eq(0).all()


@pytest.mark.parametrize("angle", [False, True])
@pytest.mark.parametrize("name", TAG_HEADS)
def test_sums_are_exact_even_where_the_network_is_not(name: str, angle: bool) -> None:
    """In half precision, sums over a sentence would be off by whole numbers."""
    torch.manual_seed(0)
    tags = TAGS["bioes"]
    head = TAG_HEADS[name](angle=angle).build(SIZE, tags)
    words = 30 * torch.randn(1, 60, SIZE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        decisions = head(EncodedWords(words, words))
        weights = random_weights(decisions, 0, soft=False).float()
        loss = head.loss(decisions, weights, torch.tensor([60]))
    assert decisions.dtype == loss.dtype == torch.float32
    exact = head.double().loss(decisions.double(), weights.double(), torch.tensor([60]))
    assert loss.item() == pytest.approx(exact.item(), rel=1e-4)


def test_o_has_the_last_corner_unless_it_is_wanted_first() -> None:
    tags = TAGS["bioes"]
    last, first = (CrfConfig(angle=True, corner=corner).build(4, tags) for corner in (None, "first"))
    assert last.corners is not None
    assert first.corners is not None
    assert first.corners[0].unique().numel() == 1, "all outputs take part in it equally"
    assert_close(last.corners.flip(0), first.corners)


@pytest.mark.parametrize("angle", [False, True])
@pytest.mark.parametrize("name", TAG_HEADS)
def test_everything_that_a_tag_head_holds_moves_with_it(name: str, angle: bool) -> None:
    head = TAG_HEADS[name](angle=angle).build(SIZE, TAGS["bioes"]).to("meta")
    for held in (vars(head), head._parameters, head._buffers):
        assert [key for key, value in held.items() if isinstance(value, Tensor) and not value.is_meta] == []
    words = torch.empty(2, 5, SIZE, device="meta")
    decisions = head(EncodedWords(words, words))
    assert decisions.is_meta
    assert head.emissions(decisions, torch.empty(2, dtype=torch.long, device="meta")).shape == decisions.shape
    assert head.transition_scores.is_meta


class WithoutDoubles(TorchDispatchMode):
    """A device without double precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        for tensor in result if isinstance(result, list | tuple) else [result]:
            assert not isinstance(tensor, Tensor) or tensor.dtype != torch.float64, f"{func} gives doubles"
        return result


@pytest.mark.parametrize("scheme", TAGS)
@pytest.mark.parametrize("name", TAG_HEADS)
def test_a_device_without_double_precision_gives_nearly_the_same(
    name: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    head, lengths = TAG_HEADS[name](scheme=scheme).build(SIZE, TAGS[scheme]), torch.tensor([12, 7])
    words = 5 * torch.randn(2, 12, SIZE)
    weights = random_weights(head(EncodedWords(words, words)), 0, soft=True).float()

    def numbers() -> tuple[list[tuple[int, int, str]], list[Tensor]]:
        head.zero_grad()
        decisions = head(EncodedWords(words, words))
        loss = head.loss(decisions, weights, lengths)
        loss.backward()
        entities = [entity for found in head.decode(decisions, lengths) for entity in found]
        gradients = [parameter.grad.clone() for parameter in head.parameters() if parameter.grad is not None]
        scores = torch.tensor([entity.score for entity in entities])
        return [(entity.start, entity.end, entity.label) for entity in entities], [loss.detach(), scores, *gradients]

    exact = numbers()
    for module in ("linear_chain", "tagging"):
        monkeypatch.setattr(f"lacuner.heads.{module}.exact_dtype", lambda device: torch.float32)
    with WithoutDoubles():
        rough = numbers()
    assert exact[0]
    assert rough[0] == exact[0]
    torch.testing.assert_close(rough[1], exact[1], rtol=1e-3, atol=1e-4)
