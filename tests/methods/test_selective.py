import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.heads import ProductConfig
from lacuner.methods.full import CrossEntropy
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import SamplingContext, Step, TrainingData
from lacuner.methods.selective import METHODS, ConfidentPositives, SelectedNegatives, less_probable, overlapping
from lacuner.models.span_model import SpanModel
from lacuner.supervision.spans import Spans, enumerate_spans
from tiny_models import BATCHES, LABELS, batch_loss, places, tiny_model
from watching import StopAfter

(METHOD,) = METHODS
FLAT = (
    Sentence(("Ada", "moved", "to", "Turin", ",", "Piedmont"), (Entity(0, 1, "PER"), Entity(3, 6, "LOC"))),
    Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),)),
    Sentence(("moved", "to")),
)


def prepared(sentences: Sequence[Sentence], **changes: object) -> tuple[SpanMethod, SpanModel]:
    """A method and a fresh model that has begun to be trained on sentences."""
    method = METHOD.model_copy(update={"head": ProductConfig(hidden=6, dropout=0.0), **changes})
    method = method.for_data(TrainingData(Corpus(tuple(sentences)), None))
    model = tiny_model(method, LABELS)
    method.begin_training(model, len(sentences), [len(sentence) for sentence in sentences])
    return method, model


def step_of(epoch: int, sentences: Sequence[int] = (), batch: int = 0) -> Step:
    return Step(epoch, 5, torch.Generator().manual_seed(epoch), sentences, batch=batch)


def rescored(method: SpanMethod, model: SpanModel, sentences: Sequence[Sentence], epoch: int = 1) -> None:
    step = step_of(epoch)
    assert method.rescores_at(step)
    method.rescore(model, sentences, None, step)


def logits_of(model: SpanModel, sentence: Sentence, start: int, end: int) -> torch.Tensor:
    with torch.no_grad():
        return model.scorer(model.encode([sentence.tokens]))(Spans.of([(0, start, end)])).logits[0]


def drawn(
    method: SpanMethod, model: SpanModel, sentences: Sequence[Sentence], epoch: int, indices: Sequence[int]
) -> tuple[set[tuple[int, int, int]], SamplingContext]:
    """Which unknown spans of a batch may be negatives."""
    targets = model.targets([sentences[index] for index in indices])
    parts = targets.partition(model.max_span_width)
    context = SamplingContext(
        parts.unknown,
        parts.positives,
        targets.lengths,
        None,
        None,
        step_of(epoch, indices),
        model.state_of("negatives"),
        targets.negative.sum(-1) == 1,
    )
    assert isinstance(method.negatives, SelectedNegatives)
    return set(places(parts.unknown[method.negatives.candidates(context)])), context


# Formulas.


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.data())
def test_a_span_that_shares_a_word_with_an_entity_overlaps_it(lengths: list[int], data: st.DataObject) -> None:
    spans = enumerate_spans(torch.tensor(lengths))
    chosen = data.draw(st.lists(st.sampled_from(places(spans)), max_size=4, unique=True))
    found = overlapping(spans, Spans.of(chosen), torch.tensor(lengths)).tolist()
    for (row, start, end), overlaps in zip(places(spans), found, strict=True):
        words = {word for other, s, e in chosen if other == row for word in range(s, e)}
        assert overlaps == bool(words & set(range(start, end)))


@given(
    st.lists(st.tuples(st.integers(1, 3), st.floats(0, 1), st.booleans()), max_size=12),
    st.sampled_from([0.0, 0.5, 0.6]),
)
def test_spans_below_the_mean_of_their_label_are_left_out_once_the_label_is_known(
    spans: list[tuple[int, float, bool]], min_agreement: float
) -> None:
    columns = [torch.tensor(column) for column in zip(*spans, strict=True)] or [torch.zeros(0)] * 3
    label, probability, agrees = columns[0].long(), columns[1].double(), columns[2].bool()
    expected = []
    for own, value, _ in spans:
        same = [(p, a) for other, p, a in spans if other == own]
        known = sum(a for _, a in same) / len(same) > min_agreement
        expected.append(known and value < math.fsum(p for p, _ in same) / len(same) - 1e-12)
    found = less_probable(label, probability, agrees, min_agreement).tolist()
    close = [
        abs(v - math.fsum(p for o, p, _ in spans if o == own) / sum(o == own for o, _, _ in spans)) < 1e-9
        for own, v, _ in spans
    ]
    assert [f for f, c in zip(found, close, strict=True) if not c] == [
        e for e, c in zip(expected, close, strict=True) if not c
    ]


# Selection.


@pytest.mark.parametrize("max_width", [None, 2])
@given(batch=BATCHES)
def test_from_the_second_epoch_on_what_the_model_takes_for_an_entity_is_no_candidate(
    batch: list[Sentence], max_width: int | None
) -> None:
    method, model = prepared(batch, head=ProductConfig(hidden=6, dropout=0.0, max_span_width=max_width))
    rescored(method, model, batch)
    indices = list(range(len(batch)))[::-1]
    found, _ = drawn(method, model, batch, 1, indices)
    nested = any(
        a.start < b.end and b.start < a.end
        for sentence in batch
        for a in sentence.entities
        for b in sentence.entities
        if a.span != b.span
    )
    expected = set()
    for row, index in enumerate(indices):
        sentence = batch[index]
        narrow = [e for e in sentence.entities if max_width is None or e.end - e.start <= max_width]
        words = {word for entity in narrow for word in range(entity.start, entity.end)}
        every = sentence.looked_for(LABELS[1:]) == set(LABELS[1:])
        for start in range(len(sentence)):
            for end in range(start + 1, min(len(sentence), start + (max_width or 99)) + 1):
                if sentence.possible_labels(start, end, LABELS[1:]) != frozenset(LABELS):
                    continue
                certain = not nested and every and bool(words & set(range(start, end)))
                if certain or logits_of(model, sentence, start, end).argmax() == 0:
                    expected.add((row, start, end))
    assert found == expected


def test_in_the_first_epoch_only_spans_that_overlap_an_annotated_one_are_candidates() -> None:
    method, model = prepared(FLAT)
    assert not method.rescores_at(step_of(0))
    found, context = drawn(method, model, FLAT, 0, [2, 1, 0])
    assert (1, 0, 2) in found
    assert (2, 3, 4) in found
    assert (1, 1, 2) not in found
    assert not any(row == 0 for row, _, _ in found), "without an entity nothing is certain"
    counts = [0, 0, 0]
    for row, _, _ in places(context.unknown[method.negatives.sample(context)]):
        counts[row] += 1
    assert counts == [0, math.ceil(0.35 * 4), math.ceil(0.35 * 6)]


def test_nested_annotation_makes_nothing_certain() -> None:
    nested = (*FLAT, Sentence(("Ada", "moved"), (Entity(0, 1, "PER"), Entity(0, 2, "LOC"))))
    twice = (*FLAT, Sentence(("Ada", "moved"), (Entity(0, 1, "PER"), Entity(0, 1, "LOC"))))
    assert prepared(nested)[0].negatives == SelectedNegatives(certain=False)
    assert prepared(twice)[0].negatives == SelectedNegatives(certain=True), "that is a span with two labels"
    assert prepared(nested, negatives=SelectedNegatives(certain=True))[0].negatives.certain
    method, model = prepared(nested)
    found, context = drawn(method, model, nested, 0, range(4))
    assert found == set(places(context.unknown))


def test_where_only_some_labels_were_looked_for_nothing_is_certain() -> None:
    some = (replace(FLAT[0], annotated_labels=frozenset({"PER"})), FLAT[1])
    method, model = prepared(some)
    found, _ = drawn(method, model, some, 0, [0, 1])
    assert {row for row, _, _ in found} == {1}


def test_annotated_spans_that_the_model_doubts_are_neither_positives_nor_negatives() -> None:
    batch = [
        FLAT[0],
        FLAT[1],
        Sentence(("Turin", ",", "Piedmont"), (Entity(0, 1, "LOC"), Entity(2, 3, "LOC"))),
        Sentence(("Turin", "to", "Ada"), (Entity(0, 1, "LOC"), Entity(2, 3, "PER")), complete=True),
        Sentence(("Ada", "to"), (Entity(0, 1, "PER"), Entity(0, 1, "LOC"))),
    ]
    method, model = prepared(batch, positives=ConfidentPositives(min_agreement=0))
    with torch.no_grad():
        model.head.classifier.weight.mul_(10)
        model.head.classifier.bias[1:3] += 5  # both labels are predicted somewhere
    rescored(method, model, batch)
    probable: dict[str, list[float]] = {"PER": [], "LOC": []}
    doubtful = [(index, e) for index, sentence in enumerate(batch[:3]) for e in sentence.entities]
    scores = {}
    for index, e in doubtful:
        logits = logits_of(model, batch[index], e.start, e.end)
        scores[index, e.start, e.end] = logits.softmax(-1)[LABELS.index(e.label)].item()
        probable[e.label].append(scores[index, e.start, e.end])
    agreed = {
        label: any(
            logits_of(model, batch[i], e.start, e.end).argmax() == LABELS.index(label)
            for i, e in doubtful
            if e.label == label
        )
        for label in probable
    }
    left_out = {
        (index, e.start, e.end)
        for index, e in doubtful
        if agreed[e.label] and scores[index, e.start, e.end] < sum(probable[e.label]) / len(probable[e.label])
    }
    assert left_out, "or this test says nothing"
    indices = [3, 0, 4, 2, 1]
    positives = model.targets([batch[index] for index in indices]).partition().positives
    kept = method.positives.keep(positives, step_of(1, indices), model.state_of("positives")).tolist()
    found = {
        (indices[row], start, end)
        for (row, start, end), keeps in zip(places(positives), kept, strict=True)
        if not keeps
    }
    assert found == left_out
    assert method.positives.keep(positives, step_of(0, indices), model.state_of("positives")).all()
    watched: list[Spans] = []
    batch_loss(method, model, [batch[index] for index in indices], watch=watched.append, indices=indices)
    assert not left_out & {(indices[row], start, end) for row, start, end in places(watched[0])}


def test_what_is_left_out_costs_nothing() -> None:
    whole = Sentence(("Ada", "moved"), (Entity(0, 1, "PER"), Entity(1, 2, "LOC")), complete=False)
    method, model = prepared([whole], negatives=SelectedNegatives(first_epochs=9))
    sampled: list[Spans] = []
    plain = batch_loss(method, model, [whole], watch=sampled.append, indices=[0])
    state = model.state_of("positives")
    state["left_out"][state["offset"][0] + 1 * state["width"][0]] = True  # (1, 2)
    found = batch_loss(method, model, [whole], indices=[0])
    spans = [(0, 1, "PER"), *((start, end, "O") for _, start, end in places(sampled[0]))]
    costs = [-logits_of(model, whole, s, e).log_softmax(-1)[LABELS.index(label)] for s, e, label in spans]
    torch.testing.assert_close(found, torch.stack(costs).mean())
    costs.append(-logits_of(model, whole, 1, 2).log_softmax(-1)[LABELS.index("LOC")])
    torch.testing.assert_close(plain, torch.stack(costs).mean())


def test_the_model_is_asked_once_before_each_epoch_but_the_first() -> None:
    asked = [
        (epoch, batch) for epoch in range(4) for batch in range(3) if METHOD.rescores_at(step_of(epoch, (), batch))
    ]
    assert asked == [(1, 0), (2, 0), (3, 0)]
    later = METHOD.model_copy(update={"negatives": SelectedNegatives(first_epochs=2), "positives": None})
    assert [epoch for epoch in range(4) if later.rescores_at(step_of(epoch))] == [2, 3]


# As a method.


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    assert METHOD.head == ProductConfig(dropout=0.2)
    assert METHOD.negatives == SelectedNegatives(ratio=0.35, certain=None, first_epochs=1)
    assert METHOD.positives == ConfidentPositives(first_epochs=1, min_agreement=0.6)
    assert METHOD.loss == CrossEntropy(reduction="mean")


SMALL = {
    "encoder.vectors": "none",
    "encoder.word_size": 16,
    "encoder.hidden": 16,
    "head.hidden": 32,
    "training.batch_tokens": 64,
    "training.encoder_learning_rate": 0.01,
    "training.head_learning_rate": 0.01,
}


def test_labels_that_are_missing_or_wrong_do_not_keep_it_from_learning(toy: Corpus) -> None:
    gaps = [replace(s, entities=s.entities[number % 2 :][:1]) for number, s in enumerate(toy)]
    wrong = [
        replace(s, entities=tuple(replace(e, label={"PER": "LOC", "LOC": "PER"}[e.label]) for e in s.entities))
        if number % 6 == 0
        else s
        for number, s in enumerate(gaps)
    ]
    model = Recognizer.train(Corpus(tuple(wrong)), toy, method="selective", epochs=25, settings=SMALL)
    assert model.evaluate(toy).f1 > 0.8


def test_a_run_that_is_resumed_ends_with_the_same_weights(toy: Corpus, tmp_path: Path) -> None:
    arguments = {"method": "selective", "epochs": 4, "settings": SMALL}
    gaps = toy.mask(0.4, seed=1)
    whole = Recognizer.train(gaps, toy[:4], **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(gaps, toy[:4], out=tmp_path / "model", observer=StopAfter(2), **arguments)
    resumed = Recognizer.train(gaps, toy[:4], out=tmp_path / "model", resume=True, **arguments)
    for name, weight in whole.model.state_dict().items():
        assert weight.equal(resumed.model.state_dict()[name]), name


def test_it_works_with_a_transformer(toy_bert: str, toy: Corpus, tmp_path: Path) -> None:
    model = Recognizer.train(toy[:6], method="selective", encoder=toy_bert, epochs=2)
    model.save_pretrained(tmp_path / "model")
    text = "Ada moved to Turin ."
    assert Recognizer.from_pretrained(tmp_path / "model").predict(text) == model.predict(text)


@pytest.mark.slow
def test_it_learns_the_sample_with_most_labels_hidden(sample: dict[str, Corpus]) -> None:
    settings = {"encoder.vectors": "none", "encoder.hidden": 64}
    model = Recognizer.train(
        sample["train"].mask(0.7, seed=1), sample["dev"], method="selective", epochs=12, settings=settings
    )
    assert model.evaluate(sample["test"]).f1 > 0.3
