"""What training asks of token-level methods: :class:`lacuner.methods.method.TokenMethod`."""

import math
from dataclasses import replace
from typing import Any, ClassVar, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.heads import TAG_HEADS
from lacuner.methods.eer import EntityRatio
from lacuner.methods.parts import Sampling, TokenLoss
from lacuner.methods.token import Likelihood
from lacuner.methods.two_step import RandomSpans
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TAG_SCHEMES, TagScheme, TokenSupervision
from tiny_models import batch_loss
from tiny_taggers import SENTENCES, UNLABELED, WORDS, fits, probable_sequences, tagger


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("sampling", [None, RandomSpans(ratio=0.5), RandomSpans(ratio=0.5, label="O")])
@pytest.mark.parametrize("unlabeled", UNLABELED)
def test_the_loss_is_minus_the_log_of_the_probability_of_all_sequences_that_fit_the_annotation(
    unlabeled: str, sampling: Sampling | None, scheme: TagScheme
) -> None:
    """In a CRF."""
    method, model = tagger("crf", scheme, unlabeled, sampling)
    for number, sentence in enumerate(SENTENCES):
        watched: list[Spans] = []
        loss = batch_loss(method, model, [sentence], watch=watched.append, seed=number)
        drawn = [(int(s), int(e)) for spans in watched for s, e in zip(spans.start, spans.end, strict=True)]
        check = fits(sentence, model, unlabeled, drawn)
        _, entities, probable = probable_sequences(model, sentence)
        kept = torch.tensor([check(found) for found in entities])
        assert loss.item() == pytest.approx(-probable[kept].sum().log().item(), abs=1e-8), sentence


@pytest.mark.parametrize("unlabeled", UNLABELED)
@pytest.mark.parametrize("angle", [False, True])
def test_a_head_that_tags_each_word_by_itself_learns_from_the_words_that_are_known(unlabeled: str, angle: bool) -> None:
    method, model = tagger("softmax", "bioes", unlabeled, angle=angle)
    sentence = Sentence(WORDS, (Entity(0, 2, "PER"),), (Span(3, 4),))
    logs = model.decisions(model.encode([WORDS]))[0].log_softmax(-1)
    names = model.tags.names
    expected = [logs[0, names.index("B-PER")], logs[1, names.index("E-PER")]]
    if unlabeled == "outside":
        expected += [logs[2, 0], logs[3, 0]]
    else:  # it is no entity by itself
        expected.append((1 - logs[3, names.index("S-PER")].exp()).log())
    assert batch_loss(method, model, [sentence]).item() == pytest.approx(-torch.stack(expected).mean().item(), abs=1e-9)


def judged(sentence: Sentence, tags: int, seed: int = 0) -> TokenSupervision:
    generator = torch.Generator().manual_seed(seed)
    return TokenSupervision(tag_weights=torch.rand(len(sentence), tags, generator=generator).log())


SUPERVISION = (
    None,
    TokenSupervision(ignored=(0,)),
    judged(SENTENCES[2], 3),
    None,
    judged(SENTENCES[4], 3),
    None,
    TokenSupervision(unconstrained=()),
)


@settings(max_examples=30)
@given(st.sampled_from(sorted(UNLABELED)), st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_a_sentence_teaches_the_same_whatever_is_beside_it(unlabeled: str, chosen: list[int]) -> None:
    """A batch in which some sentences have been judged by earlier models says nothing new about the others."""
    method, model = tagger("crf", unlabeled=unlabeled)
    known = [SUPERVISION[number] for number in chosen]
    alone = [batch_loss(method, model, [SENTENCES[number]], [SUPERVISION[number]]).item() for number in chosen]
    together = batch_loss(method, model, [SENTENCES[number] for number in chosen], known).item()
    assert together == pytest.approx(sum(alone) / len(alone), abs=1e-7)


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
def test_a_judged_word_counts_as_its_tags_were_judged(scheme: TagScheme) -> None:
    method, model = tagger("crf", scheme, "marginalize")
    for sentence in SENTENCES:
        if sentence.complete:
            continue
        known = judged(sentence, model.tags.ordinary, 5)
        unknown = model.targets([sentence]).unknown[0]
        sequences, entities, probable = probable_sequences(model, sentence)
        check = fits(sentence, model)
        total = 0.0
        for sequence, found, share in zip(sequences, entities, probable.tolist(), strict=True):
            if check(found):
                for place, tag in enumerate(sequence):
                    share *= known.tag_weights[place, tag].exp().item() if unknown[place] else 1.0  # noqa: PLW2901
                total += share
        expected = -torch.tensor(total, dtype=torch.float64).log().item()
        assert batch_loss(method, model, [sentence], [known]).item() == pytest.approx(expected, abs=1e-5)


def test_words_of_a_complete_sentence_that_are_unknown_stay_so_beside_judged_ones() -> None:
    method, model = tagger("softmax", unlabeled="marginalize")
    partly = Sentence(WORDS, complete=True, unknown_tokens=frozenset(range(4)))
    other = Sentence(WORDS[:1])
    alone = batch_loss(method, model, [other], [judged(other, 3)])
    together = batch_loss(method, model, [partly, other], [None, judged(other, 3)])
    assert together.item() == pytest.approx(alone.item(), abs=1e-9)


@pytest.mark.parametrize("head", TAG_HEADS)
@pytest.mark.parametrize("sampling", [None, RandomSpans(ratio=0.5)])
def test_an_ignored_word_is_never_drawn_and_teaches_nothing(head: str, sampling: Sampling | None) -> None:
    method, model = tagger(head, sampling=sampling)
    seen = set()
    for seed in range(30):
        watched: list[Spans] = []
        batch_loss(method, model, SENTENCES[:1], [TokenSupervision(ignored=(2,))], watched.append, seed)
        seen |= {
            place for spans in watched for s, e in zip(spans.start, spans.end, strict=True) for place in range(s, e)
        }
    assert seen == (set() if sampling is None else {1, 3})
    decisions = model.decisions(model.encode([WORDS])).detach().requires_grad_()
    model.decisions = lambda batch: decisions  # type: ignore[method-assign]
    batch_loss(method, model, SENTENCES[:1], [TokenSupervision(ignored=(2,))]).backward()
    assert decisions.grad[0, 2].eq(0).all()
    assert decisions.grad[0, 1].ne(0).any()


@pytest.mark.parametrize("head", TAG_HEADS)
def test_an_unconstrained_word_may_be_anything_even_what_others_are_drawn_as(head: str) -> None:
    method, model = tagger(head, sampling=RandomSpans(ratio=0.3))
    decisions = model.decisions(model.encode([WORDS])).detach().requires_grad_()
    model.decisions = lambda batch: decisions  # type: ignore[method-assign]
    loss = batch_loss(method, model, [Sentence(WORDS)], [TokenSupervision(unconstrained=(0, 1, 2, 3))])
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-9)
    assert decisions.grad.abs().max() < 1e-9


def test_what_is_drawn_is_told_and_drawn_again_every_time() -> None:
    method, model = tagger(sampling=RandomSpans(ratio=0.5))
    draws = []
    for seed in (1, 1, 2, 3, 4):
        watched: list[Spans] = []
        batch_loss(method, model, SENTENCES, watch=watched.append, seed=seed)
        (spans,) = watched
        draws.append([spans.row.tolist(), spans.start.tolist(), spans.end.tolist()])
        unknown = model.targets(SENTENCES).unknown
        for row, start, end in zip(*draws[-1], strict=True):
            assert unknown[row, start:end].all()
    assert draws[0] == draws[1]
    assert any(draw != draws[0] for draw in draws[2:])


@pytest.mark.parametrize("label", ["NON", "O"])
def test_a_drawn_word_may_still_have_labels_that_nobody_looked_for(label: str) -> None:
    sampling = RandomSpans(ratio=5.0, label=label, max_width=1)
    method, model = tagger("softmax", sampling=sampling, labels=("O", "LOC", "PER"))
    sentence = Sentence(WORDS[:1], annotated_labels=frozenset({"PER"}))
    probable = model.decisions(model.encode([WORDS[:1]]))[0, 0].softmax(-1)
    names = model.tags.names
    may_be = ["B-LOC", "I-LOC", "B-" if label == "NON" else "O"]
    expected = -probable[[names.index(name) for name in may_be]].sum().log().item()
    assert batch_loss(method, model, [sentence]).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("head", TAG_HEADS)
def test_the_regularizer_is_told_how_many_words_are_expected_in_entities(head: str) -> None:
    """Of all words of the batch, and the non-entity class's are not among them."""
    regularizer = EntityRatio(ratio=0.9, margin=0.0, weight=7.0)
    method, plain = tagger(head, sampling=RandomSpans(ratio=0.3))
    regularized = tagger(head, sampling=RandomSpans(ratio=0.3), regularizer=regularizer)
    expected, words = 0.0, 0
    for sentence in SENTENCES:
        words += len(sentence)
        if head == "crf":
            _, entities, probable = probable_sequences(plain, sentence)
            for found, share in zip(entities, probable.tolist(), strict=True):
                expected += share * sum(end - start for start, end, label in found if label == 1)
        else:
            decisions = plain.decisions(plain.encode([sentence.tokens]))
            expected += decisions.softmax(-1)[..., 1:3].sum().item()
    difference = batch_loss(*regularized, SENTENCES) - batch_loss(method, plain, SENTENCES)
    assert difference.item() == pytest.approx(7 * abs(0.9 - expected / words), abs=1e-6)


# What stages of training ask.


@pytest.mark.parametrize("head", TAG_HEADS)
@pytest.mark.parametrize("angle", [False, True])
@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("unlabeled", UNLABELED)
@pytest.mark.parametrize("sampling", [None, RandomSpans(ratio=0.4), RandomSpans(ratio=0.4, label="O", max_width=2)])
def test_every_combination_can_be_learned(
    head: str, angle: bool, scheme: TagScheme, unlabeled: str, sampling: Sampling | None
) -> None:
    method, model = tagger(head, scheme, unlabeled, sampling, ("O", "LOC", "PER"), angle)
    model = model.float()
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    sentences = [*SENTENCES, Sentence(WORDS, (Entity(0, 1, "PER"), Entity(3, 4, "LOC")), complete=True)]
    losses = []
    for _ in range(40 if scheme == "io" else 20):  # fewer tags leave less to learn, so it takes longer to see
        loss = batch_loss(method, model, sentences)
        optimizer.zero_grad()
        loss.backward()
        assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("head", TAG_HEADS)
@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("unlabeled", UNLABELED)
def test_a_rejected_span_of_several_words_teaches_nothing(head: str, scheme: TagScheme, unlabeled: str) -> None:
    """An entity may be in it, around it or across its borders: only tags of single words can rule something out."""
    method, model = tagger(head, scheme, unlabeled)
    sentence = Sentence(WORDS, (Entity(0, 1, "PER"),))
    rejecting = replace(sentence, non_entities=(Span(1, 3), Span(1, 4)))
    assert batch_loss(method, model, [rejecting]).equal(batch_loss(method, model, [sentence]))


def test_a_rejected_word_teaches_that_it_is_no_entity_by_itself() -> None:
    method, model = tagger("crf", "bioes", "marginalize")
    sentence = Sentence(WORDS[:2], (), (Span(0, 1),))
    sequences, _, probable = probable_sequences(model, sentence)
    alone = model.tags.tag("S", 1)
    kept = sum(share for sequence, share in zip(sequences, probable.tolist(), strict=True) if sequence[0] != alone)
    assert batch_loss(method, model, [sentence]).item() == pytest.approx(-math.log(kept), abs=1e-8)


def test_entities_that_overlap_cannot_be_learned() -> None:
    method, _ = tagger()
    flat = Sentence(WORDS, (Entity(0, 1, "PER"), Entity(0, 1, "LOC"), Entity(2, 4, "PER")))
    assert method.unlearnable(Corpus((flat,))) is None
    nested = replace(flat, entities=(*flat.entities, Entity(3, 4, "LOC")))
    assert method.unlearnable(Corpus((flat, nested))) == (
        "1 of 5 entities overlap others; a tagger cannot learn them (a span-level method can)."
    )


class Doubled(TokenLoss):
    """``doubled``: twice the likelihood's, and it writes down what it is given."""

    name: Literal["doubled"] = "doubled"
    given: ClassVar[list[tuple[Any, ...]]] = []

    def __call__(self, *arguments: Any) -> Tensor:
        self.given.append(arguments)
        return 2 * Likelihood()(*arguments)


@pytest.mark.parametrize("head", TAG_HEADS)
def test_a_loss_of_ones_own_takes_the_place_of_the_likelihood(head: str) -> None:
    Doubled.given.clear()
    plain, doubled = tagger(head), tagger(head, loss=Doubled())
    assert batch_loss(*doubled, SENTENCES).item() == pytest.approx(2 * batch_loss(*plain, SENTENCES).item())
    ((used, decisions, log_weights, targets, step, state),) = Doubled.given
    assert used is doubled[1].head
    assert decisions.shape == log_weights.shape == targets.allowed.shape
    assert (log_weights == 0).equal(targets.allowed), "untagged words are outside"
    assert (step.epoch, step.epochs, state) == (1, 3, {})
