import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lacuner.methods.composition import Contrast, Draw, Inference, Loss, Negatives, SpanMethod
from torch import Tensor

from lacuner.corpus import Entity, Sentence, Span
from lacuner.encoders.recurrent import RecurrentConfig, RecurrentEncoder
from lacuner.features.vocabulary import Vocabulary
from lacuner.heads import SPAN_HEADS, BiaffineConfig, ProductConfig, SpanHeadConfig, SpanScores, WidthConfig
from lacuner.methods.full import METHODS as FULL
from lacuner.methods.method import Step
from lacuner.methods.registry import registry
from lacuner.methods.uniform import METHODS as UNIFORM
from lacuner.methods.uniform import Uniform
from lacuner.models.span_model import SpanModel
from lacuner.supervision.spans import Spans, build_targets

LABELS = ("O", "PER", "LOC", "ORG")
WORDS = ("Ada", "moved", "to", "Turin", ",", "Piedmont")
SPAN_METHODS = [method for method in registry().methods.values() if isinstance(method, SpanMethod)]
HEADS = (
    ProductConfig(hidden=6, dropout=0.0),
    ProductConfig(hidden=6, dropout=0.0, max_span_width=2),
    WidthConfig(hidden=6, width_size=3, dropout=0.0, max_span_width=3),
    BiaffineConfig(hidden=6, dropout=0.0),
)


class Nothing(Negatives):
    """``nothing``: only what is known is trained on."""

    name: Literal["nothing"] = "nothing"

    def draw(self, draw: Draw) -> Tensor:
        return torch.zeros(len(draw.unknown), dtype=torch.bool)


def span_model(
    method: SpanMethod, head: SpanHeadConfig = HEADS[0], labels: Sequence[str] = LABELS, **changes: Any
) -> SpanModel:
    torch.manual_seed(0)
    config = RecurrentConfig(
        word_size=5, character_size=4, character_filters=3, hidden=4, dropout=0.0, unknown_share=0.0
    )
    encoder = RecurrentEncoder.create(config, Vocabulary.build([WORDS]), None)
    return SpanModel(encoder, method.model_copy(update={"head": head, **changes}), labels)


def batch_loss(
    model: SpanModel, sentences: Sequence[Sentence], seed: int = 0, watch: Callable[[Spans], None] | None = None
) -> Tensor:
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    step = Step(1, 3, torch.Generator().manual_seed(seed), watch)
    return model(inputs, build_targets(sentences, model.labels), step)


def places(spans: Spans) -> list[tuple[int, int, int]]:
    return list(zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True))


def probabilities_alone(model: SpanModel, sentence: Sentence, start: int, end: int) -> dict[str, float]:
    """Probabilities of the labels of one span, its sentence alone in the batch."""
    with torch.no_grad():
        scores = model.scorer(model.encoder.index.collate([sentence.tokens]))(Spans.of([(0, start, end)]))
    return dict(zip(model.labels, scores.logits.softmax(-1)[0].tolist(), strict=True))


def slow_loss(model: SpanModel, sentences: Sequence[Sentence], train_on_unknown: bool) -> float:
    """The mean of ``-log p`` over spans, where ``p`` is the probability of all labels that a span may have.

    An unknown span, if it is trained on, is taken as no entity of any label that was looked for.
    """
    costs, names = [], model.labels[1:]
    widest = model.method.head.max_span_width
    for sentence in sentences:
        for start in range(len(sentence)):
            for end in range(start + 1, len(sentence) + 1):
                if widest is not None and end - start > widest:
                    continue
                possible = sentence.possible_labels(start, end, names)
                if possible == frozenset(model.labels):
                    if not train_on_unknown:
                        continue
                    possible -= sentence.looked_for(names)
                probabilities = probabilities_alone(model, sentence, start, end)
                costs.append(-math.log(sum(probabilities[label] for label in possible)))
    return sum(costs) / len(costs) if costs else 0.0


@st.composite
def annotated_sentences(draw: st.DrawFn) -> Sentence:
    tokens = draw(st.lists(st.sampled_from([*WORDS, "Genoa"]), min_size=1, max_size=5))
    length = len(tokens)
    every = [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
    places = draw(st.lists(st.sampled_from(every), max_size=3))
    rejected = [Span(*place) for place in draw(st.lists(st.sampled_from(every), max_size=3)) if place not in places]
    return Sentence(
        tuple(tokens),
        tuple(Entity(start, end, draw(st.sampled_from(LABELS[1:]))) for start, end in places),
        tuple(rejected),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.none() | st.frozensets(st.sampled_from(LABELS[1:]))),
        unknown_tokens=draw(st.frozensets(st.integers(0, length - 1))),
    )


BATCHES = st.lists(annotated_sentences(), min_size=1, max_size=3)


@settings(deadline=None, max_examples=40)
@given(BATCHES, st.sampled_from(HEADS))
def test_full_is_the_mean_over_all_spans_of_what_possible_labels_says(
    sentences: list[Sentence], head: SpanHeadConfig
) -> None:
    model = span_model(FULL[0], head)
    loss = batch_loss(model, sentences)
    assert loss.item() == pytest.approx(slow_loss(model, sentences, train_on_unknown=True), abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(BATCHES, st.sampled_from(HEADS))
def test_what_is_known_is_always_in_the_loss(sentences: list[Sentence], head: SpanHeadConfig) -> None:
    model = span_model(UNIFORM[0], head, negatives=Nothing())
    loss = batch_loss(model, sentences)
    assert loss.item() == pytest.approx(slow_loss(model, sentences, train_on_unknown=False), abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(BATCHES)
def test_with_enough_draws_uniform_is_full(sentences: list[Sentence]) -> None:
    uniform, full = span_model(UNIFORM[0], negatives=Uniform(ratio=100.0)), span_model(FULL[0])
    assert batch_loss(uniform, sentences).item() == pytest.approx(batch_loss(full, sentences).item(), abs=1e-5)


def test_uniform_trains_on_a_few_spans_that_change_with_the_generator() -> None:
    sentence = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),))
    model = span_model(UNIFORM[0], negatives=Uniform(ratio=0.25))
    certain = -math.log(probabilities_alone(model, sentence, 0, 1)["PER"])
    with_one_negative = [
        (certain - math.log(probabilities_alone(model, sentence, start, end)["O"])) / 2
        for start in range(4)
        for end in range(start + 1, 5)
        if (start, end) != (0, 1)
    ]
    losses = [batch_loss(model, [sentence], seed).item() for seed in range(10)]
    assert all(min(abs(loss - possible) for possible in with_one_negative) < 1e-5 for loss in losses)
    assert len(set(losses)) > 1


@pytest.mark.parametrize("method", SPAN_METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    ("sentences", "labels"),
    [
        ([Sentence(WORDS), Sentence(("to",))], LABELS),
        ([Sentence(WORDS, complete=True)], LABELS),
        ([Sentence(("Ada",))], LABELS),
        ([Sentence(("Ada",), (Entity(0, 1, "PER"),))], LABELS),
        ([Sentence(("Ada",), (Entity(0, 1, "PER"),), complete=True)], ("O", "PER")),
        ([Sentence(WORDS, (Entity(0, 6, "PER"),))], ("O", "PER")),
        ([Sentence(WORDS, complete=True, annotated_labels=frozenset())], LABELS),
    ],
    ids=["no positive", "trusted", "one word", "all known", "one label", "wide", "nothing looked for"],
)
def test_odd_batches_have_a_finite_loss_and_finite_gradients(
    method: SpanMethod, head: SpanHeadConfig, sentences: list[Sentence], labels: tuple[str, ...]
) -> None:
    model = span_model(method, head, labels).train()
    loss = batch_loss(model, sentences)
    loss.backward()
    assert loss.isfinite()
    for name, weight in model.named_parameters():
        assert weight.grad is None or weight.grad.isfinite().all(), name


@pytest.mark.parametrize("head", HEADS)
def test_a_batch_that_teaches_nothing_costs_nothing(head: SpanHeadConfig) -> None:
    model = span_model(UNIFORM[0], head, negatives=Nothing())
    loss = batch_loss(model, [Sentence(WORDS)])
    loss.backward()
    assert loss.item() == 0


class Recorded(Contrast):
    """``recorded``: keeps what it was given, and costs 5."""

    name: Literal["recorded"] = "recorded"
    given: ClassVar[list[tuple[Tensor, Tensor]]] = []

    def __call__(self, hidden: Tensor, label: Tensor) -> Tensor:
        self.given.append((hidden, label))
        return hidden.sum() * 0 + 5.0


class Remembered(Inference):
    """``remembered``: says of every span what was seen most, and how many spans were seen."""

    name: Literal["remembered"] = "remembered"

    def remember(self, spans: Iterable[tuple[Tensor, Tensor]], labels: int) -> dict[str, Tensor]:
        numbers = torch.cat([label for _, label in spans])
        return {"counts": torch.bincount(numbers, minlength=labels)}

    def probabilities(self, scores: SpanScores, memory: Mapping[str, Tensor]) -> Tensor:
        shares = memory["counts"] / memory["counts"].sum()
        return shares.expand(len(scores.logits), -1)


def test_a_contrast_is_given_the_spans_with_one_possible_label_and_takes_its_share() -> None:
    sentences = [
        Sentence(("Ada", "moved"), (Entity(0, 1, "PER"),), complete=True),
        Sentence(("Turin", "to"), (Entity(0, 1, "LOC"), Entity(0, 1, "ORG")), (Span(0, 2),)),
        Sentence(("Turin",), complete=True, annotated_labels=frozenset({"PER"})),
    ]
    Recorded.given.clear()
    contrasted = span_model(UNIFORM[0], negatives=Nothing(), contrast=Recorded(weight=0.25))
    plain = span_model(UNIFORM[0], negatives=Nothing())
    loss = batch_loss(contrasted, sentences)
    assert loss.item() == pytest.approx(0.75 * batch_loss(plain, sentences).item() + 0.25 * 5.0, abs=1e-5)
    ((hidden, label),) = Recorded.given
    known = {(0, 0, 1): 1, (0, 0, 2): 0, (0, 1, 2): 0, (1, 0, 2): 0}
    assert sorted(label.tolist()) == sorted(known.values())
    inputs = contrasted.encoder.index.collate([sentence.tokens for sentence in sentences])
    expected = contrasted.scorer(inputs, hidden=True)(Spans.of(known)).hidden
    assert hidden[label == 1].shape == (1, 6)
    torch.testing.assert_close(hidden[label == 1], expected[:1])
    torch.testing.assert_close(hidden[label == 0].sum(0), expected[1:].sum(0))


def test_an_inference_decides_from_its_memory() -> None:
    sentences = [
        Sentence(("Ada", "moved"), (Entity(0, 1, "PER"), Entity(1, 2, "LOC"))),
        Sentence(("to", "Turin"), (Entity(1, 2, "LOC"), Entity(0, 1, "LOC"), Entity(0, 1, "ORG"))),
    ]
    inference = Remembered()
    model = span_model(FULL[0], inference=inference).eval()
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    annotated = [(hidden[label != 0], label[label != 0]) for hidden, label in layers(model, sentences)]
    assert torch.cat([label for _, label in annotated]).tolist() == [1, 2, 2], "the span with two labels is left out"
    assert model.entities(inputs, nested=True) == span_model(FULL[0]).eval().entities(inputs, nested=True)
    model.memory = inference.remember(annotated, len(LABELS))
    found = model.entities(inputs, nested=True)
    assert [len(entities) for entities in found] == [3, 3]
    assert {(entity.label, round(entity.score, 4)) for entities in found for entity in entities} == {("LOC", 0.6667)}


def layers(model: SpanModel, sentences: Sequence[Sentence]) -> list[tuple[Tensor, Tensor]]:
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    return list(model.hidden_layers(inputs, build_targets(sentences, model.labels)))


@settings(deadline=None, max_examples=30)
@given(BATCHES, st.sampled_from(HEADS), st.sampled_from([1, 4, 1000]))
def test_all_spans_are_shown_to_the_memory_and_what_is_not_annotated_counts_as_o(
    sentences: list[Sentence], head: SpanHeadConfig, chunk: int
) -> None:
    model = span_model(FULL[0], head).eval()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lacuner.models.span_model.SEARCH_CHUNK", chunk)
        shown = layers(model, sentences)
    assert all(0 < len(hidden) == len(label) <= chunk and not hidden.requires_grad for hidden, label in shown)
    expected: dict[tuple[int, int, int], int] = {}
    for row, sentence in enumerate(sentences):
        for start in range(len(sentence)):
            for end in range(start + 1, min(len(sentence), start + (head.max_span_width or 99)) + 1):
                labels = {entity.label for entity in sentence.entities if (entity.start, entity.end) == (start, end)}
                if len(labels) <= 1:
                    expected[row, start, end] = LABELS.index(labels.pop()) if labels else 0
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    with torch.no_grad():
        wanted = model.scorer(inputs, hidden=True)(Spans.of(expected)).hidden
    left = [(vector, label) for hidden, label in shown for vector, label in zip(hidden, label.tolist(), strict=True)]
    for vector, label in zip(wanted, expected.values(), strict=True):
        like = [n for n, (other, kind) in enumerate(left) if kind == label and (other - vector).abs().max() < 1e-4]
        assert like, "a span is missing, or has another label"
        del left[like[0]]
    assert not left, "a span is shown twice"


def test_without_an_inference_the_classifier_decides() -> None:
    model = span_model(FULL[0]).eval()
    with torch.no_grad():
        model.head.classifier.bias += torch.tensor([0.0, 3.0, 0.0, 0.0])
    sentence = Sentence(("Ada", "moved"))
    found = model.entities(model.encoder.index.collate([sentence.tokens]), nested=True)[0]
    assert [(entity.start, entity.end) for entity in found] == [(0, 1), (0, 2), (1, 2)]
    for entity in found:
        expected = probabilities_alone(model, sentence, entity.start, entity.end)["PER"]
        assert entity.score == pytest.approx(expected, abs=1e-5)
    assert model.entities(model.encoder.index.collate([sentence.tokens]), min_score=1.0) == [[]]


def test_no_entity_is_wider_than_the_head_allows() -> None:
    model = span_model(FULL[0], HEADS[1]).eval()
    with torch.no_grad():
        model.head.classifier.bias += torch.tensor([0.0, 3.0, 0.0, 0.0])
    (found,) = model.entities(model.encoder.index.collate([WORDS]), nested=True)
    assert {entity.end - entity.start for entity in found} == {1, 2}
    assert len(found) == 6 + 5


def test_training_teaches_what_is_annotated() -> None:
    sentences = [
        Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC")), complete=True),
        Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"), Entity(2, 3, "LOC")), complete=True),
    ]
    model = span_model(FULL[0]).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        batch_loss(model, sentences).backward()
        optimizer.step()
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    assert model.eval().entities(inputs) == [list(sentence.entities) for sentence in sentences]


class Noted(Loss):
    """``noted``: keeps what it was given."""

    name: Literal["noted"] = "noted"
    given: ClassVar[list[tuple[Tensor, Tensor, Tensor]]] = []

    def __call__(self, logits: Tensor, possible: Tensor, guessed: Tensor, step: Step) -> Tensor:
        self.given.append((logits.detach(), possible, guessed))
        return logits.sum()


@settings(deadline=None, max_examples=30)
@given(BATCHES, st.sampled_from(HEADS), st.sampled_from(sorted(registry().choices("negatives"))))
def test_negatives_that_were_drawn_are_guessed_and_known_ones_are_not(
    sentences: list[Sentence], head: SpanHeadConfig, negatives: str
) -> None:
    Noted.given.clear()
    model = span_model(FULL[0], head, negatives=registry().choices("negatives")[negatives](), loss=Noted())
    watched: list[Spans] = []
    batch_loss(model, sentences, watch=watched.append)
    (spans,) = watched
    drawn = places(spans)
    assert len(drawn) == len(set(drawn))
    for row, start, end in drawn:
        assert sentences[row].possible_labels(start, end, LABELS[1:]) == frozenset(LABELS), "it was unknown"
    known = sum(
        sentence.possible_labels(start, end, LABELS[1:]) != frozenset(LABELS)
        for sentence in sentences
        for start in range(len(sentence))
        for end in range(start + 1, min(len(sentence), start + (head.max_span_width or 99)) + 1)
    )
    if not known and not drawn:
        assert not Noted.given
        return
    ((logits, possible, guessed),) = Noted.given
    assert guessed.sum() == len(drawn)
    assert (~guessed).sum() == known
    assert possible[guessed][:, 0].all()
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    torch.testing.assert_close(logits[guessed], model.scorer(inputs)(spans).logits, rtol=1e-4, atol=1e-5)


def test_the_negatives_of_complete_sentences_are_not_guessed_nor_watched() -> None:
    Noted.given.clear()
    gaps = Sentence(("Ada", "moved"), (Entity(0, 1, "PER"),))
    trusted = Sentence(("to", "Turin"), (Entity(1, 2, "LOC"),), complete=True)
    watched: list[Spans] = []
    batch_loss(span_model(FULL[0], loss=Noted()), [gaps, trusted], watch=watched.append)
    assert [places(spans) for spans in watched] == [[(0, 0, 2), (0, 1, 2)]]
    ((_, possible, guessed),) = Noted.given
    described = sorted(zip(possible.int().argmax(-1).tolist(), guessed.tolist(), strict=True))
    assert described == [(0, False), (0, False), (0, True), (0, True), (1, False), (2, False)]


class Peeping(Negatives):
    """``peeping``: looks at everything that it may look at, and draws everything."""

    name: Literal["peeping"] = "peeping"
    seen: ClassVar[list[Tensor]] = []

    def draw(self, draw: Draw) -> Tensor:
        scores = draw.score(draw.unknown, hidden=True)
        self.seen[:] = [*scores, draw.represent(draw.unknown)]
        return torch.arange(len(draw.unknown))


@pytest.mark.parametrize("head", HEADS)
def test_looking_at_spans_before_drawing_changes_neither_loss_nor_gradients(head: SpanHeadConfig) -> None:
    model = span_model(FULL[0], head.model_copy(update={"dropout": 0.5})).train()
    peeping = span_model(FULL[0], head.model_copy(update={"dropout": 0.5}), negatives=Peeping()).train()
    costs = []
    for each in (model, peeping):
        torch.manual_seed(7)
        costs.append(batch_loss(each, MIXED))
        costs[-1].backward()
    assert costs[0].equal(costs[1])
    assert not any(tensor.requires_grad for tensor in Peeping.seen[:2])
    for (name, weight), other in zip(model.named_parameters(), peeping.parameters(), strict=True):
        assert (weight.grad is None) == (other.grad is None), name
        assert weight.grad is None or weight.grad.equal(other.grad), name


def test_who_draws_nothing_is_watched_drawing_nothing() -> None:
    watched: list[Spans] = []
    batch_loss(span_model(FULL[0], negatives=Nothing()), [Sentence(WORDS)], watch=watched.append)
    assert [len(spans) for spans in watched] == [0]


def all_probabilities(model: SpanModel, sentences: Sequence[Sentence]) -> dict[tuple[int, int, int], list[float]]:
    """Softmax by hand of every span, with the model's threshold on top of O."""
    found = {}
    inputs = model.encoder.index.collate([sentence.tokens for sentence in sentences])
    widest = model.method.head.max_span_width or 99
    for row, sentence in enumerate(sentences):
        for start in range(len(sentence)):
            for end in range(start + 1, min(len(sentence), start + widest) + 1):
                with torch.no_grad():
                    logits = model.scorer(inputs)(Spans.of([(row, start, end)])).logits[0].tolist()
                logits[0] += model.threshold
                powers = [math.exp(value) for value in logits]
                found[row, start, end] = [power / sum(powers) for power in powers]
    return found


SENTENCES = (Sentence(WORDS), Sentence(("Ada",)), Sentence(("to", "Turin", "moved")))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("threshold", [0.0, 0.4, -1.0])
def test_candidates_are_the_spans_that_are_probable_enough(head: SpanHeadConfig, threshold: float) -> None:
    model = span_model(FULL[0], head).eval()
    model.threshold = threshold
    expected = all_probabilities(model, SENTENCES)
    inputs = model.encoder.index.collate([sentence.tokens for sentence in SENTENCES])
    chances = sorted(1 - probable[0] for probable in expected.values())
    middle = (chances[len(chances) // 2] + chances[len(chances) // 2 - 1]) / 2
    for least in (0.0, middle, 1.0):
        spans, found = model.candidates(inputs, least)
        wanted = [place for place, probable in expected.items() if 1 - probable[0] >= least]
        assert places(spans) == wanted
        torch.testing.assert_close(
            found, torch.tensor([expected[place] for place in wanted]).reshape(-1, len(LABELS)), rtol=1e-4, atol=1e-5
        )
        assert not found.requires_grad
    assert len(wanted) == 0
    also = [(2, 0, 1), (0, 1, 2), (0, 1, 2)]
    for least in (0.0, middle, 1.0):
        spans, found = model.candidates(inputs, least, Spans.of(also))
        wanted = [place for place, probable in expected.items() if 1 - probable[0] >= least] + also
        assert places(spans) == wanted
        torch.testing.assert_close(found, torch.tensor([expected[place] for place in wanted]), rtol=1e-4, atol=1e-5)
    spans, _ = model.candidates(inputs, middle, Spans.of([]))
    assert places(spans) == places(model.candidates(inputs, middle)[0])


def test_a_threshold_makes_entities_rarer_and_their_probability_smaller() -> None:
    model = span_model(FULL[0]).eval()
    with torch.no_grad():
        model.head.classifier.bias += torch.tensor([0.0, 1.0, 0.0, 0.0])
    inputs = model.encoder.index.collate([WORDS])
    assert model.threshold == 0
    (plain,) = model.entities(inputs, nested=True)
    assert len(plain) == 21
    model.threshold = 0.5
    expected = all_probabilities(model, [Sentence(WORDS)])
    (fewer,) = model.entities(inputs, nested=True)
    for entity, before in zip(fewer, plain, strict=True):
        assert entity.score == pytest.approx(max(expected[0, entity.start, entity.end]), abs=1e-5)
        assert entity.score < before.score
    model.threshold = 20.0
    assert model.entities(inputs, nested=True) == [[]]


def test_memory_and_threshold_decide_together() -> None:
    model = span_model(FULL[0], inference=Remembered()).eval()
    model.memory = {"counts": torch.tensor([2.0, 4.0, 1.0, 1.0])}
    model.threshold = math.log(3)
    scores = SpanScores(torch.randn(2, 4), torch.randn(2, 6))
    expected = torch.tensor([6.0, 4.0, 1.0, 1.0]) / 12
    torch.testing.assert_close(model.probabilities(scores), expected.expand(2, -1))


TINY = {
    "product": ProductConfig(hidden=6),
    "width": WidthConfig(hidden=6, width_size=3),
    "biaffine": BiaffineConfig(hidden=6),
}
MIXED = (
    Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC"))),
    Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"), Entity(2, 3, "LOC")), complete=True),
    Sentence(("Ada", "Turin"), (Entity(0, 2, "PER"), Entity(0, 2, "ORG")), (Span(0, 1),)),
)


def test_every_head_has_a_tiny_one() -> None:
    assert set(TINY) == set(SPAN_HEADS)


@pytest.mark.parametrize("contrast", [None, *registry().choices("contrast")])
@pytest.mark.parametrize("loss", registry().choices("loss"))
@pytest.mark.parametrize("negatives", registry().choices("negatives"))
@pytest.mark.parametrize("head", SPAN_HEADS)
def test_any_parts_can_be_trained_together(head: str, negatives: str, loss: str, contrast: str | None) -> None:
    parts = {kind: registry().choices(kind) for kind in ("negatives", "loss", "contrast")}
    chosen = {
        "negatives": parts["negatives"][negatives](),
        "loss": parts["loss"][loss](),
        "contrast": None if contrast is None else parts["contrast"][contrast](),
    }
    model = span_model(FULL[0], TINY[head], **chosen).train()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for sentences in (MIXED, MIXED[1:2], [Sentence(WORDS)], MIXED):
        optimizer.zero_grad()
        cost = batch_loss(model, sentences)
        cost.backward()
        assert cost.isfinite()
        for name, weight in model.named_parameters():
            assert weight.grad is None or weight.grad.isfinite().all(), name
        optimizer.step()
    for name, weight in model.head.named_parameters():
        assert not weight.equal(before[f"head.{name}"]), name


@pytest.mark.parametrize("inference", registry().choices("inference"))
@pytest.mark.parametrize("head", SPAN_HEADS)
def test_any_inference_gives_any_head_finite_probabilities(head: str, inference: str) -> None:
    part = registry().choices("inference")[inference]()
    model = span_model(FULL[0], TINY[head], inference=part).eval()
    model.memory = part.remember(layers(model, MIXED), len(LABELS))
    inputs = model.encoder.index.collate([sentence.tokens for sentence in SENTENCES])
    _, found = model.candidates(inputs, 0.0)
    assert len(found) == 21 + 1 + 6
    assert found.isfinite().all()
    assert (found >= 0).all()
    assert (found.sum(-1) <= 1 + 1e-5).all()
    assert len(model.entities(inputs)) == 3
