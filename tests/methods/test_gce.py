import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.errors import ConfigError
from lacuner.methods.gce import (
    GeneralizedSpanLoss,
    GeneralizedTokenLoss,
    doubtful_labels,
    entity_and_type_loss,
    generalized_cross_entropy,
    of_words,
    word_offsets,
)
from lacuner.methods.parts import Step, TrainingData
from lacuner.methods.token import METHODS as TOKEN
from lacuner.models.tag_model import TagModel
from lacuner.training.settings import resolve_settings
from tiny_models import BATCHES, LABELS, batch_loss, tiny_model

STEP = Step(0, 1, torch.Generator())


def tagger(loss: GeneralizedTokenLoss, sentences: Sequence[Sentence]) -> tuple[object, TagModel]:
    """A tagger with one tag a label, and a model of it that has begun to be trained."""
    (preset,) = TOKEN
    method = preset.model_copy(update={"loss": loss, "head": preset.head.model_copy(update={"scheme": "io"})})
    model = tiny_model(method, LABELS)
    method.begin_training(model, len(sentences), [len(sentence) for sentence in sentences])
    return method, model


def slow_cost(p: float, q: float) -> float:
    return -math.log(p) if q == 0 else (1 - p**q) / q


@given(st.floats(1e-6, 1), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_it_lies_between_the_cross_entropy_and_the_absolute_error(p: float, q: float) -> None:
    found = generalized_cross_entropy(torch.tensor(p, dtype=torch.double).log(), q).item()
    assert found == pytest.approx(slow_cost(p, q), abs=1e-9)
    assert 1 - p - 1e-9 <= found <= -math.log(p) + 1e-9


def test_a_label_that_the_model_finds_impossible_hardly_moves_it() -> None:
    """The gradient of the cross-entropy stays, that of the generalized one dies out."""
    steps = {}
    for q in (0.0, 0.7):
        logit = torch.tensor([12.0, 0.0], requires_grad=True)
        generalized_cross_entropy(logit.log_softmax(-1)[1], q).backward()
        assert logit.grad is not None
        steps[q] = logit.grad[0].item()
    assert steps[0.0] > 0.99
    assert steps[0.7] < 0.01


@given(st.integers(1, 6), st.sampled_from([0.0, 0.7, 1.0]), st.integers(0, 999))
def test_a_span_costs_by_the_summed_probability_of_its_labels(count: int, q: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, 4, generator=generator, dtype=torch.double)
    possible = torch.rand(count, 4, generator=generator) < 0.5
    possible[:, 0] |= ~possible.any(-1)
    found = GeneralizedSpanLoss(q=q)(logits, possible, torch.zeros(count).bool(), STEP, {})
    for row, cost in enumerate(found.tolist()):
        total = sum(logits[row].exp().tolist())
        summed = sum(logits[row, label].exp().item() for label in range(4) if possible[row, label]) / total
        assert cost == pytest.approx(slow_cost(summed, q), abs=1e-9)


@given(st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.0, 0.7]), st.integers(0, 9999))
def test_entity_or_not_and_the_type_are_two_losses(rows: int, words: int, q: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    decisions = torch.randn(rows, words, 4, generator=generator, dtype=torch.double)
    allowed = torch.rand(rows, words, 4, generator=generator) < 0.4
    allowed[..., 0] |= ~allowed.any(-1)
    known, kept = (torch.rand(2, rows, words, generator=generator) < 0.7).unbind()
    first, second = [], []
    for row in range(rows):
        for word in range(words):
            if not known[row, word]:
                continue
            p = decisions[row, word].softmax(-1).tolist()
            may_be = [tag for tag in range(4) if allowed[row, word, tag]]
            if 0 not in may_be:  # for sure in an entity
                first.append(slow_cost(sum(p[1:]), q))
                if kept[row, word] and len(may_be) < 3:
                    second.append(slow_cost(sum(p[tag] for tag in may_be) / sum(p[1:]), q))
            elif len(may_be) < 4 and kept[row, word]:
                first.append(slow_cost(sum(p[tag] for tag in may_be), q))
    expected = sum(sum(costs) / len(costs) for costs in (first, second) if costs)
    found = entity_and_type_loss(decisions, allowed, known, kept, q)
    assert found.item() == pytest.approx(expected, abs=1e-9)


def test_a_batch_that_teaches_nothing_costs_nothing_and_has_a_gradient() -> None:
    decisions = torch.randn(1, 2, 3, requires_grad=True)
    allowed, nothing = torch.ones(1, 2, 3).bool(), torch.zeros(1, 2).bool()
    loss = entity_and_type_loss(decisions, allowed, nothing, nothing, 0.7)
    loss.backward()
    assert loss.item() == 0
    assert decisions.grad is not None
    assert decisions.grad.eq(0).all()


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), max_size=30), st.sampled_from([0.3, 0.7]))
def test_a_type_that_would_lose_nearly_all_its_labels_keeps_them(
    labels: list[tuple[int, float]], min_probability: float
) -> None:
    expected = []
    for tag, probability in labels:
        same = [p <= min_probability for other, p in labels if other == tag]
        spared = tag > 0 and sum(same) / len(same) > 0.9
        expected.append(probability <= min_probability and not spared)
    tags = torch.tensor([tag for tag, _ in labels], dtype=torch.long)
    probabilities = torch.tensor([p for _, p in labels], dtype=torch.double)
    assert doubtful_labels(tags, probabilities, min_probability).tolist() == expected


@given(BATCHES, st.sampled_from([0.25, 0.4]))
def test_labels_that_the_model_doubts_are_removed_until_it_is_asked_again(
    batch: list[Sentence], min_probability: float
) -> None:
    loss = GeneralizedTokenLoss(min_probability=min_probability, interval=3)
    method, model = tagger(loss, batch)
    step = Step(0, 1, torch.Generator(), number=2)
    assert method.rescores_at(step)
    method.rescore(model, batch, None, step)
    asked: list[tuple[int, int, int, float]] = []
    for index, sentence in enumerate(batch):
        targets = model.targets([sentence])
        with torch.no_grad():
            p = model.decisions(model.encode([sentence.tokens])).softmax(-1)[0].double()
        for word in range(len(sentence)):
            tags = [tag for tag in range(len(LABELS)) if targets.allowed[0, word, tag]]
            if len(tags) == 1 and (not sentence.complete or targets.unknown[0, word]):
                (tag,) = tags
                given_entity = 1.0 if tag == 0 else p[word, 1:].sum().item()
                asked.append((index, word, tag, p[word, tag].item() / given_entity))
    expected = set()
    for index, word, tag, probability in asked:
        same = [p <= min_probability for _, _, other, p in asked if other == tag]
        if probability <= min_probability and not (tag and sum(same) > 0.9 * len(same)):
            expected.add((index, word))
    state = model.state_of("loss")
    offsets = state["offset"].tolist()
    found = {
        (index, word)
        for index, sentence in enumerate(batch)
        for word in range(len(sentence))
        if state["removed"][offsets[index] + word]
    }
    assert found == expected
    indices = list(range(len(batch)))[::-1]
    targets = model.targets([batch[index] for index in indices])
    kept = of_words(state["removed"], state["offset"], targets, STEP._replace(sentences=indices))
    assert {(indices[row], word) for row, word in kept.nonzero().tolist()} == expected


def test_what_was_removed_is_not_in_the_loss() -> None:
    sentence = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC")))
    method, model = tagger(GeneralizedTokenLoss(), [sentence])
    model.state_of("loss")["removed"][torch.tensor([1, 3])] = True  # an O, and a type
    with torch.no_grad():
        p = model.decisions(model.encode([sentence.tokens])).softmax(-1)[0].tolist()
    entity = [slow_cost(sum(p[0][1:]), 0.7), slow_cost(p[2][0], 0.7), slow_cost(sum(p[3][1:]), 0.7)]
    typed = slow_cost(p[0][1] / sum(p[0][1:]), 0.7)
    found = batch_loss(method, model, [sentence], indices=[0])
    assert found.item() == pytest.approx(sum(entity) / 3 + typed, abs=1e-5)


def test_known_labels_are_never_removed() -> None:
    complete = Sentence(("Ada", "to"), (Entity(0, 1, "PER"),), complete=True)
    method, model = tagger(GeneralizedTokenLoss(min_probability=1, interval=1), [complete])
    method.rescore(model, [complete], None, STEP)
    assert not model.state_of("loss")["removed"].any()
    gaps = Sentence(("Ada", "to", "Turin"), (), (Span(0, 1),))
    method, model = tagger(GeneralizedTokenLoss(min_probability=1, interval=1), [gaps])
    method.rescore(model, [gaps], None, STEP)
    assert model.state_of("loss")["removed"].tolist()[1:] == [True, True]


def test_labels_are_looked_at_every_so_many_steps_and_a_warm_start_is_the_cross_entropy() -> None:
    loss = GeneralizedTokenLoss(interval=4, warm_start=2)
    assert [number for number in range(12) if loss.rescores_at(STEP._replace(number=number))] == [3, 7, 11]
    never = GeneralizedTokenLoss(interval=1, min_probability=0)
    assert not any(never.rescores_at(STEP._replace(number=number)) for number in range(5))
    sentence = Sentence(("Ada", "to"), (Entity(0, 1, "PER"),))
    method, model = tagger(loss, [sentence])
    plain, _ = tagger(GeneralizedTokenLoss(q=0), [sentence])
    late, _ = tagger(GeneralizedTokenLoss(warm_start=1), [sentence])
    costs: list[Tensor] = [batch_loss(m, model, [sentence], indices=[0]) for m in (method, plain, late)]  # epoch 1
    assert_close(costs[0], costs[1])
    assert not torch.isclose(costs[2], costs[1])


def test_offsets_tell_where_the_words_of_sentences_begin() -> None:
    assert word_offsets([3, 1, 2]).tolist() == [0, 3, 4]
    assert word_offsets([]).tolist() == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head": "crf"}, "does not train transitions"),
        ({"sampling": "spans"}, "no label for sampled non-entities"),
        ({"stage": "tag-weights", "unlabeled": "marginalize"}, "does not weigh tags"),
    ],
)
def test_parts_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    chosen = resolve_settings("token", overrides={"loss": "token-gce"} | settings).method
    with pytest.raises(ConfigError, match=message):
        chosen.check(TrainingData(Corpus((Sentence(("Ada",), (Entity(0, 1, "PER"),)),)), None))


def test_the_loss_of_spans_learns_what_is_annotated(toy: Corpus, small_settings: dict[str, object]) -> None:
    """Beside a few negatives; among all of them entities are so rare that they are taken for mistakes."""
    model = Recognizer.train(toy, toy, method="uniform", epochs=25, settings=small_settings | {"loss": "gce"})
    assert isinstance(model.settings.method.loss, GeneralizedSpanLoss)
    assert model.evaluate(toy).f1 > 0.6
