from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lacuner.methods.tagging import Anything, Outside, RandomSpans, Sampling, TokenMethod
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.errors import ConfigError
from lacuner.features.vocabulary import Vocabulary
from lacuner.heads import TAG_HEADS
from lacuner.methods.eer import EntityRatio
from lacuner.methods.method import Step
from lacuner.models.tag_model import TagModel
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TAG_SCHEMES, TagScheme, TagSet, TokenSupervision

WORDS = ("Ada", "moved", "to", "Turin")
UNTAGGED = {"outside": Outside(), "anything": Anything()}
Found = list[tuple[int, int, int]]


def tag_model(
    head: str = "crf",
    scheme: TagScheme = "bio2",
    untagged: str = "outside",
    sampling: Sampling | None = None,
    labels: Sequence[str] = ("O", "PER"),
    angle: bool = False,
    **more: Any,
) -> TagModel:
    """A model in double precision without dropout."""
    torch.manual_seed(0)
    config = RecurrentConfig(
        word_size=5, character_size=4, character_filters=3, hidden=4, dropout=0.0, unknown_share=0.0
    )
    encoder = RecurrentEncoder.create(config, Vocabulary.build([WORDS]), None)
    method = TokenMethod(
        name="mine",
        paper="-",
        summary="-",
        head=TAG_HEADS[head](scheme=scheme, angle=angle),
        untagged=UNTAGGED[untagged],
        sampling=sampling,
        **more,
    )
    model = TagModel(encoder, method, labels).double()
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.mul_(4)
    return model


def batch_loss(
    model: TagModel,
    sentences: Sequence[Sentence],
    advice: Sequence[TokenSupervision | None] | None = None,
    watch: Callable[[Spans], None] | None = None,
    seed: int = 0,
) -> Tensor:
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    return model(inputs, model.targets(sentences, advice), Step(0, 1, torch.Generator().manual_seed(seed), watch))


@cache
def legal_sequences(tags: TagSet, length: int) -> tuple[list[tuple[int, ...]], list[Found]]:
    """All legal sequences of tags and their entities; those of the extra label have the number behind the last."""
    named = TagSet(tags.scheme, (*tags.labels, "NON")) if tags.extra else tags
    sequences = [
        sequence
        for sequence in product(range(len(tags)), repeat=length)
        if tags.begins[sequence[0]] == 0
        and tags.ends[sequence[-1]] == 0
        and all(tags.steps[sequence[place - 1], sequence[place]] == 0 for place in range(1, length))
    ]
    return sequences, [named.read(sequence) for sequence in sequences]


def shares(model: TagModel, sentence: Sentence) -> tuple[list[tuple[int, ...]], list[Found], Tensor]:
    """All legal sequences, their entities and their probabilities."""
    with torch.no_grad():
        (decisions,) = model.decisions(model.encoder.index.collate([sentence.tokens]))
        steps, begins, ends = model.head.transition_scores, model.tags.begins.double(), model.tags.ends.double()
        if model.method.head.name == "crf":
            begins, ends = begins + model.head.start_transitions, ends + model.head.end_transitions
    sequences, entities = legal_sequences(model.tags, len(sentence))
    scores = []
    for sequence in sequences:
        score = begins[sequence[0]] + ends[sequence[-1]]
        for place, tag in enumerate(sequence):
            score = score + decisions[place, tag] + (steps[sequence[place - 1], tag] if place else 0)
        scores.append(score)
    return sequences, entities, torch.stack(scores).softmax(0)


def fits(
    sentence: Sentence, model: TagModel, untagged: str = "anything", drawn: Sequence[tuple[int, int]] = ()
) -> Callable[[Found], bool]:
    """Whether entities are what an annotation allows; drawn spans are entities of the extra label, or no entity at all."""
    annotated = {(e.start, e.end, model.labels.index(e.label)) for e in sentence.entities}
    taken = {place for start, end, _ in annotated for place in range(start, end)}
    known = set(taken)
    for span in sentence.non_entities:
        if not taken & set(range(span.start, span.end)):
            known |= set(range(span.start, span.end))
    if sentence.complete:
        known |= set(range(len(sentence))) - sentence.unknown_tokens
    chosen = {place for start, end in drawn for place in range(start, end)}
    wanted = set(drawn) if model.tags.extra else set()

    def is_drawn(start: int, end: int, others: set[tuple[int, int]]) -> bool:
        if model.tags.scheme == "bioes":
            return (start, end) in others
        return any(begin == start and end <= stop for begin, stop in others)  # it may go on, and is none all the same

    def check(found: Found) -> bool:
        ordinary = {entity for entity in found if entity[2] < len(model.labels)}
        others = {(start, end) for start, end, label in found if label == len(model.labels)}
        words = {place for start, end, _ in ordinary - annotated for place in range(start, end)}
        covered = {place for start, end in others for place in range(start, end)}
        if not annotated <= ordinary or words & (known | chosen) or covered & known:
            return False
        if untagged == "outside":
            return not words and others == wanted
        return all(is_drawn(*span, others) for span in wanted)

    return check


SENTENCES = (
    Sentence(WORDS, (Entity(0, 1, "PER"),)),
    Sentence(WORDS, (Entity(1, 3, "PER"),), (Span(0, 1),)),
    Sentence(WORDS[:3], (), (Span(1, 2),)),
    Sentence(WORDS, (Entity(3, 4, "PER"),), complete=True, unknown_tokens=frozenset({0, 1})),
    Sentence(WORDS[:1]),
    Sentence(WORDS[1:], complete=True),
    Sentence(WORDS[:2], (Entity(0, 2, "PER"),)),
)


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("sampling", [None, RandomSpans(ratio=0.5), RandomSpans(ratio=0.5, label="O")])
@pytest.mark.parametrize("untagged", UNTAGGED)
def test_the_loss_is_minus_the_log_of_the_share_of_sequences_that_fit_the_annotation(
    untagged: str, sampling: Sampling | None, scheme: TagScheme
) -> None:
    """In a CRF."""
    model = tag_model("crf", scheme, untagged, sampling)
    for number, sentence in enumerate(SENTENCES):
        watched: list[Spans] = []
        loss = batch_loss(model, [sentence], watch=watched.append, seed=number)
        drawn = [(int(s), int(e)) for spans in watched for s, e in zip(spans.start, spans.end, strict=True)]
        check = fits(sentence, model, untagged, drawn)
        _, entities, probable = shares(model, sentence)
        kept = torch.tensor([check(found) for found in entities])
        assert loss.item() == pytest.approx(-probable[kept].sum().log().item(), abs=1e-8), sentence


@pytest.mark.parametrize("untagged", UNTAGGED)
@pytest.mark.parametrize("angle", [False, True])
def test_a_head_that_tags_each_word_by_itself_learns_from_the_words_that_are_known(untagged: str, angle: bool) -> None:
    model = tag_model("softmax", "bioes", untagged, angle=angle)
    sentence = Sentence(WORDS, (Entity(0, 2, "PER"),), (Span(3, 4),))
    logs = model.decisions(model.encoder.index.collate([WORDS]))[0].log_softmax(-1)
    names = model.tags.names
    expected = [logs[0, names.index("B-PER")], logs[1, names.index("E-PER")], logs[3, 0]]
    if untagged == "outside":
        expected.append(logs[2, 0])
    assert batch_loss(model, [sentence]).item() == pytest.approx(-torch.stack(expected).mean().item(), abs=1e-9)


def judged(sentence: Sentence, tags: int, seed: int = 0) -> TokenSupervision:
    generator = torch.Generator().manual_seed(seed)
    return TokenSupervision(weights=torch.rand(len(sentence), tags, generator=generator).log())


ADVICE = (
    None,
    TokenSupervision(removed=(0,)),
    judged(SENTENCES[2], 3),
    None,
    judged(SENTENCES[4], 3),
    None,
    TokenSupervision(open=()),
)


@settings(max_examples=30)
@given(st.sampled_from(sorted(UNTAGGED)), st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_a_sentence_teaches_the_same_whatever_stands_beside_it(untagged: str, chosen: list[int]) -> None:
    """A batch in which some sentences have been judged by earlier models says nothing new about the others."""
    model = tag_model("crf", untagged=untagged)
    advice = [ADVICE[number] for number in chosen]
    alone = [batch_loss(model, [SENTENCES[number]], [ADVICE[number]]).item() for number in chosen]
    together = batch_loss(model, [SENTENCES[number] for number in chosen], advice).item()
    assert together == pytest.approx(sum(alone) / len(alone), abs=1e-7)


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
def test_a_judged_word_counts_as_its_tags_were_judged(scheme: TagScheme) -> None:
    model = tag_model("crf", scheme, "anything")
    for sentence in SENTENCES:
        if sentence.complete:
            continue
        advice = judged(sentence, model.tags.ordinary, 5)
        unknown = model.targets([sentence]).unknown[0]
        sequences, entities, probable = shares(model, sentence)
        check = fits(sentence, model)
        total = 0.0
        for sequence, found, share in zip(sequences, entities, probable.tolist(), strict=True):
            if check(found):
                for place, tag in enumerate(sequence):
                    share *= advice.weights[place, tag].exp().item() if unknown[place] else 1.0  # noqa: PLW2901
                total += share
        expected = -torch.tensor(total, dtype=torch.float64).log().item()
        assert batch_loss(model, [sentence], [advice]).item() == pytest.approx(expected, abs=1e-5)


def test_words_of_a_complete_sentence_that_are_unknown_stay_so_beside_judged_ones() -> None:
    model = tag_model("softmax", untagged="anything")
    partly = Sentence(WORDS, complete=True, unknown_tokens=frozenset(range(4)))
    other = Sentence(WORDS[:1])
    alone = batch_loss(model, [other], [judged(other, 3)])
    assert batch_loss(model, [partly, other], [None, judged(other, 3)]).item() == pytest.approx(alone.item(), abs=1e-9)


@pytest.mark.parametrize("head", TAG_HEADS)
@pytest.mark.parametrize("sampling", [None, RandomSpans(ratio=0.5)])
def test_a_removed_word_is_never_drawn_and_teaches_nothing(head: str, sampling: Sampling | None) -> None:
    model = tag_model(head, sampling=sampling)
    seen = set()
    for seed in range(30):
        watched: list[Spans] = []
        batch_loss(model, SENTENCES[:1], [TokenSupervision(removed=(2,))], watched.append, seed)
        seen |= {
            place for spans in watched for s, e in zip(spans.start, spans.end, strict=True) for place in range(s, e)
        }
    assert seen == (set() if sampling is None else {1, 3})
    inputs = model.encoder.index.collate([WORDS])
    decisions = model.decisions(inputs).detach().requires_grad_()
    model.decisions = lambda inputs: decisions  # type: ignore[method-assign]
    batch_loss(model, SENTENCES[:1], [TokenSupervision(removed=(2,))]).backward()
    assert decisions.grad[0, 2].eq(0).all()
    assert decisions.grad[0, 1].ne(0).any()


@pytest.mark.parametrize("head", TAG_HEADS)
def test_an_open_word_may_be_anything_even_what_others_are_drawn_as(head: str) -> None:
    model = tag_model(head, sampling=RandomSpans(ratio=0.3))
    decisions = model.decisions(model.encoder.index.collate([WORDS])).detach().requires_grad_()
    model.decisions = lambda inputs: decisions  # type: ignore[method-assign]
    loss = batch_loss(model, [Sentence(WORDS)], [TokenSupervision(open=(0, 1, 2, 3))])
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-9)
    assert decisions.grad.abs().max() < 1e-9


def test_what_is_drawn_is_told_and_drawn_anew_every_time() -> None:
    model = tag_model(sampling=RandomSpans(ratio=0.5))
    draws = []
    for seed in (1, 1, 2, 3, 4):
        watched: list[Spans] = []
        batch_loss(model, SENTENCES, watch=watched.append, seed=seed)
        (spans,) = watched
        draws.append([spans.row.tolist(), spans.start.tolist(), spans.end.tolist()])
        unknown = model.targets(SENTENCES).unknown
        for row, start, end in zip(*draws[-1], strict=True):
            assert unknown[row, start:end].all()
    assert draws[0] == draws[1]
    assert any(draw != draws[0] for draw in draws[2:])


@pytest.mark.parametrize("label", ["NON", "O"])
def test_a_drawn_word_may_still_have_labels_that_nobody_looked_for(label: str) -> None:
    sampling = RandomSpans(ratio=5.0, label=label, widest=1)
    model = tag_model("softmax", sampling=sampling, labels=("O", "LOC", "PER"))
    sentence = Sentence(WORDS[:1], annotated_labels=frozenset({"PER"}))
    probable = model.decisions(model.encoder.index.collate([WORDS[:1]]))[0, 0].softmax(-1)
    names = model.tags.names
    may_be = ["B-LOC", "I-LOC", "B-" if label == "NON" else "O"]
    expected = -probable[[names.index(name) for name in may_be]].sum().log().item()
    assert batch_loss(model, [sentence]).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("head", TAG_HEADS)
def test_the_balance_is_told_how_many_words_are_expected_in_entities(head: str) -> None:
    """Of all words of the batch, and the extra label's are not among them."""
    balance = EntityRatio(ratio=0.9, margin=0.0, weight=7.0)
    plain = tag_model(head, sampling=RandomSpans(ratio=0.3))
    balanced = tag_model(head, sampling=RandomSpans(ratio=0.3), balance=balance)
    expected, words = 0.0, 0
    for sentence in SENTENCES:
        words += len(sentence)
        if head == "crf":
            _, entities, probable = shares(plain, sentence)
            for found, share in zip(entities, probable.tolist(), strict=True):
                expected += share * sum(end - start for start, end, label in found if label == 1)
        else:
            decisions = plain.decisions(plain.encoder.index.collate([sentence.tokens]))
            expected += decisions.softmax(-1)[..., 1:3].sum().item()
    difference = batch_loss(balanced, SENTENCES) - batch_loss(plain, SENTENCES)
    assert difference.item() == pytest.approx(7 * abs(0.9 - expected / words), abs=1e-6)


# What stages of training ask.


CORPUS = Corpus(SENTENCES)


def test_o_values_are_the_scores_of_o_at_untagged_words_in_the_order_of_the_corpus() -> None:
    model = tag_model(angle=True).eval()
    found = model.o_values(CORPUS)
    expected = [
        (place, token, model.decisions(model.encoder.index.collate([sentence.tokens]))[0, token, 0].item())
        for place, sentence in enumerate(CORPUS)
        for token in range(len(sentence))
        if model.targets([sentence]).unknown[0, token]
    ]
    assert found["sentence"].tolist() == [place for place, _, _ in expected]
    assert found["token"].tolist() == [token for _, token, _ in expected]
    assert found["value"].tolist() == pytest.approx([value for _, _, value in expected], abs=1e-9)
    assert {place for place, _, _ in expected} == {0, 1, 2, 3, 4}
    assert not found["value"].requires_grad


def test_where_everything_is_known_there_are_no_o_values() -> None:
    found = tag_model().o_values(CORPUS.as_complete()[4:])
    assert [len(column) for column in found.values()] == [0, 0, 0]


@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("head", TAG_HEADS)
@pytest.mark.parametrize("sampling", [None, RandomSpans()])
def test_tags_weigh_as_much_as_the_sequences_that_the_annotation_allows(
    head: str, scheme: TagScheme, sampling: Sampling | None
) -> None:
    model = tag_model(head, scheme, sampling=sampling).eval()
    places = [0, 2, 1, 3]
    weights = model.tag_weights(CORPUS, places)
    hard = model.tag_weights(CORPUS, places, hard=True)
    assert sorted(weights) == sorted(hard) == sorted(places)
    for place in places:
        sentence = CORPUS[place]
        check = fits(sentence, model)
        sequences, entities, probable = shares(model, sentence)
        kept = [
            (sequence, share)
            for sequence, found, share in zip(sequences, entities, probable.tolist(), strict=True)
            if check(found) and max(sequence) < model.tags.ordinary
        ]
        expected = torch.zeros(len(sentence), model.tags.ordinary).double()
        for sequence, share in kept:
            expected[range(len(sentence)), list(sequence)] += share
        torch.testing.assert_close(weights[place], expected / sum(share for _, share in kept), rtol=1e-7, atol=1e-9)
        best, _ = max(kept, key=lambda pair: pair[1])
        assert hard[place].argmax(-1).tolist() == list(best)
        assert hard[place].sum(-1).tolist() == [1.0] * len(sentence)


def test_a_tagger_finds_no_nested_entities_and_says_so() -> None:
    model = tag_model().eval()
    inputs = model.encoder.index.collate([WORDS])
    with pytest.raises(
        ConfigError, match=r"mine tags words, and so finds no nested entities — train a span-level method"
    ):
        model.entities(inputs, nested=True)
    assert model.entities(inputs) == model.head.decode(model.decisions(inputs), inputs.lengths)
    assert model.entities(inputs, min_score=1.1) == [[]]


@pytest.mark.parametrize("head", TAG_HEADS)
@pytest.mark.parametrize("angle", [False, True])
@pytest.mark.parametrize("scheme", TAG_SCHEMES)
@pytest.mark.parametrize("untagged", UNTAGGED)
@pytest.mark.parametrize("sampling", [None, RandomSpans(ratio=0.4), RandomSpans(ratio=0.4, label="O", widest=2)])
def test_every_combination_can_be_learned(
    head: str, angle: bool, scheme: TagScheme, untagged: str, sampling: Sampling | None
) -> None:
    model = tag_model(head, scheme, untagged, sampling, ("O", "LOC", "PER"), angle).float()
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    sentences = [*SENTENCES, Sentence(WORDS, (Entity(0, 1, "PER"), Entity(3, 4, "LOC")), complete=True)]
    losses = []
    for _ in range(20):
        loss = batch_loss(model, sentences)
        optimizer.zero_grad()
        loss.backward()
        assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
