import math
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.errors import ConfigError
from lacuner.methods.autoner import (
    METHODS,
    AutoNer,
    TieOrBreakConfig,
    TieOrBreakModel,
    build_chunk_targets,
    chunk_probabilities,
    split_at_breaks,
    tie_or_break_loss,
)
from lacuner.methods.method import SpanMethod, TokenMethod
from lacuner.methods.registry import registry
from lacuner.models.probabilities import predict_proba
from lacuner.supervision.spans import Spans
from lacuner.supervision.tags import TokenSupervision, flat
from lacuner.training.settings import resolve_settings, settings_from_dict
from tiny_models import batch_loss, encoded, places, tiny_model
from tiny_taggers import QUICK

(METHOD,) = METHODS
LABELS = ("O", "LOC", "PER")
TEXT = "Grace Hopper moved to New York ."
NAMES = [("Grace Hopper", "PER"), ("New York", "LOC")]


# What is known about gaps and chunks.


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    """Any annotation of a short sentence, with overlaps, rejections, and words that nobody knows anything about."""
    length = draw(st.integers(1, 5))
    spans = [(start, end) for start in range(length) for end in range(start + 1, length + 1)]
    chosen = draw(st.lists(st.tuples(st.sampled_from(spans), st.sampled_from(LABELS[1:])), max_size=3, unique=True))
    taken = {span for span, _ in chosen}
    free = [span for span in spans if span not in taken]
    rejected = draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
    return Sentence(
        tuple("abcde"[:length]),
        tuple(Entity(start, end, label) for (start, end), label in chosen),
        tuple(Span(*span) for span in rejected),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.sampled_from([None, frozenset(), frozenset({"PER"}), frozenset(LABELS[1:])])),
        unknown_tokens=draw(st.frozensets(st.integers(0, length - 1), max_size=2)),
    )


def slow_gap(sentence: Sentence, gap: int, unsure: set[int]) -> str:
    """Tie, break or unknown, between the words ``gap`` and ``gap + 1``."""
    pair = {gap, gap + 1}
    kept = [set(range(*span)) for span in flat(sentence.entities)]
    lost = [set(range(e.start, e.end)) for e in sentence.entities if (e.start, e.end) not in flat(sentence.entities)]
    if any(pair <= words for words in kept):
        return "tie"
    if any(pair <= words for words in lost):
        return "?"
    if any(pair & words for words in kept):
        return "break"
    if any(pair & words for words in lost) or pair & unsure or sentence.looked_for(LABELS[1:]) != set(LABELS[1:]):
        return "?"
    return "break"


def slow_chunks(sentence: Sentence, unsure: set[int]) -> dict[tuple[int, int], frozenset[str]]:
    """The labels that each chunk may have."""
    found: dict[tuple[int, int], frozenset[str]] = {}
    for entity in sentence.entities:
        span = entity.start, entity.end
        found[span] = found.get(span, frozenset()) | {entity.label}
    inside = {word for entity in sentence.entities for word in range(entity.start, entity.end)}
    for word in set(range(len(sentence))) - inside - unsure:
        found[word, word + 1] = frozenset({"O", *LABELS[1:]}) - sentence.looked_for(LABELS[1:])
    return found | {(span.start, span.end): frozenset({"O"}) for span in sentence.non_entities}


def gaps_of(batch: list[Sentence], known: list[TokenSupervision | None] | None = None) -> list[list[str]]:
    targets = build_chunk_targets(batch, LABELS, known)
    assert not targets.known[torch.arange(targets.known.shape[1]) >= targets.lengths[:, None] - 1].any(), "padding"
    return [
        [
            ("tie" if targets.tied[row, gap] else "break") if targets.known[row, gap] else "?"
            for gap in range(len(sentence) - 1)
        ]
        for row, sentence in enumerate(batch)
    ]


def chunks_of(batch: list[Sentence]) -> list[dict[tuple[int, int], frozenset[str]]]:
    targets = build_chunk_targets(batch, LABELS)
    found: list[dict[tuple[int, int], frozenset[str]]] = [{} for _ in batch]
    for (row, start, end), possible in zip(places(targets.chunks), targets.possible.tolist(), strict=True):
        assert (start, end) not in found[row], "each chunk once"
        found[row][start, end] = frozenset(label for label, may in zip(LABELS, possible, strict=True) if may)
    return found


@given(st.lists(sentences(), min_size=1, max_size=3), st.sets(st.integers(0, 4), max_size=2))
def test_gaps_and_chunks_are_those_of_the_rules_word_by_word(batch: list[Sentence], ignored: set[int]) -> None:
    known = [TokenSupervision(ignored=tuple(w for w in ignored if w < len(sentence))) for sentence in batch]
    unsure = [set(sentence.unknown_tokens) | ignored for sentence in batch]
    assert gaps_of(batch, known) == [
        [slow_gap(sentence, gap, words) for gap in range(len(sentence) - 1)]
        for sentence, words in zip(batch, unsure, strict=True)
    ]
    assert chunks_of(batch) == [slow_chunks(sentence, set(sentence.unknown_tokens)) for sentence in batch]


NAME = Sentence(("Ada", "Lovelace", "moved", "to", "Turin"), (Entity(0, 2, "PER"),))


def test_words_of_a_name_are_tied_and_all_others_are_not() -> None:
    assert gaps_of([NAME]) == [["tie", "break", "break", "break"]]
    outside = frozenset({"O"})
    assert chunks_of([NAME]) == [{(0, 2): {"PER"}, (2, 3): outside, (3, 4): outside, (4, 5): outside}]


def test_unknown_words_say_nothing_about_ties_and_types_but_the_borders_of_a_name_are_known() -> None:
    phrase = Sentence(NAME.tokens, NAME.entities, unknown_tokens=frozenset({2, 3}))
    assert gaps_of([phrase]) == [["tie", "break", "?", "?"]]
    assert chunks_of([phrase]) == [{(0, 2): {"PER"}, (4, 5): {"O"}}]


def test_where_some_labels_were_looked_for_only_their_names_are_known() -> None:
    persons = Sentence(NAME.tokens, NAME.entities, annotated_labels=frozenset({"PER"}))
    assert gaps_of([persons]) == [["tie", "break", "?", "?"]]
    assert chunks_of([persons])[0][4, 5] == {"O", "LOC"}


def test_a_name_of_two_types_may_be_either() -> None:
    either = Sentence(("Paris",), (Entity(0, 1, "PER"), Entity(0, 1, "LOC")))
    assert chunks_of([either]) == [{(0, 1): {"LOC", "PER"}}]


# The loss.


def slow_loss(gaps: Tensor, types: Tensor, batch: list[Sentence]) -> float:
    """Gap by gap and chunk by chunk; ``types`` are in the order of the targets' chunks."""
    ties = []
    for row, sentence in enumerate(batch):
        for gap in range(len(sentence) - 1):
            kind = slow_gap(sentence, gap, set(sentence.unknown_tokens))
            tie = 1 / (1 + math.exp(-gaps[row, gap].item()))
            if kind != "?":
                ties.append(-math.log(tie if kind == "tie" else 1 - tie))
    chunks = []
    possible = [slow_chunks(sentence, set(sentence.unknown_tokens)) for sentence in batch]
    for (row, start, end), logits in zip(
        places(build_chunk_targets(batch, LABELS).chunks), types.tolist(), strict=True
    ):
        weights = [math.exp(logit) for logit in logits]
        may_be = sum(weights[LABELS.index(label)] for label in possible[row][start, end])
        chunks.append(-math.log(may_be / sum(weights)))
    return sum(ties) / max(1, len(ties)) + sum(chunks) / max(1, len(chunks))


@given(st.lists(sentences(), min_size=1, max_size=3), st.integers(0, 999))
def test_the_loss_is_the_mean_over_gaps_plus_the_mean_over_chunks(batch: list[Sentence], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    targets = build_chunk_targets(batch, LABELS)
    gaps = torch.randn(targets.tied.shape, generator=generator).requires_grad_()
    types = torch.randn(targets.possible.shape, generator=generator).requires_grad_()
    loss = tie_or_break_loss(gaps, types, targets)
    assert loss.item() == pytest.approx(slow_loss(gaps, types, batch), abs=1e-5)
    loss.backward()
    assert gaps.grad is not None
    assert gaps.grad[~targets.known].eq(0).all()
    assert gaps.grad.isfinite().all()


def test_a_batch_of_words_that_nobody_knows_anything_about_costs_nothing() -> None:
    model = tiny_model(METHOD, LABELS)
    loss = batch_loss(METHOD, model, [Sentence(("Ada", "moved"), unknown_tokens=frozenset({0, 1}))])
    assert loss.item() == 0
    loss.backward()


def test_every_parameter_learns_and_so_do_sentences_of_one_word() -> None:
    model = tiny_model(METHOD, LABELS)
    batch_loss(METHOD, model, [NAME, Sentence(("Ada",), (Entity(0, 1, "PER"),))]).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert batch_loss(METHOD, model, [Sentence(("Ada",))]).isfinite()


# Chunks, and how sure they are.


def slow_split(tied: list[bool]) -> list[tuple[int, int]]:
    found, start = [], 0
    for word in range(1, len(tied) + 2):
        if word == len(tied) + 1 or not tied[word - 1]:
            found.append((start, word))
            start = word
    return found


@given(st.lists(st.lists(st.booleans(), max_size=5), min_size=1, max_size=4))
def test_sentences_are_split_at_their_breaks(rows: list[list[bool]]) -> None:
    longest = max(map(len, rows))
    tied = torch.tensor([[*row, *[True] * (longest - len(row))] for row in rows]).reshape(len(rows), longest).bool()
    chunks = split_at_breaks(tied, torch.tensor([len(row) + 1 for row in rows]))
    assert places(chunks) == [(number, *span) for number, row in enumerate(rows) for span in slow_split(row)]


def slow_probabilities(gaps: list[float]) -> dict[tuple[int, int], float]:
    """Over all ways to tie and break a sentence, how probable each chunk is."""
    found: dict[tuple[int, int], float] = {}
    for tied in product((False, True), repeat=len(gaps)):
        probable = math.prod(1 / (1 + math.exp(-gap if tie else gap)) for gap, tie in zip(gaps, tied, strict=True))
        for chunk in slow_split(list(tied)):
            found[chunk] = found.get(chunk, 0.0) + probable
    return found


@given(st.lists(st.lists(st.floats(-5, 5), max_size=4), min_size=1, max_size=3))
def test_a_chunk_is_as_probable_as_all_ways_to_tie_and_break_that_have_it(rows: list[list[float]]) -> None:
    longest = max(map(len, rows))
    gaps = torch.tensor([[*row, *[7.0] * (longest - len(row))] for row in rows]).reshape(len(rows), longest)
    expected = {(row, *span): p for row, gap in enumerate(rows) for span, p in slow_probabilities(gap).items()}
    found = chunk_probabilities(gaps, torch.tensor([len(row) + 1 for row in rows]), Spans.of(expected))
    assert_close(found, torch.tensor(list(expected.values())), atol=1e-6, rtol=1e-4)


SENTENCES = [NAME, Sentence(("moved", "to")), Sentence(("Turin",), (Entity(0, 1, "LOC"),))]


def sharp_model() -> TieOrBreakModel:
    """One whose gaps and types differ enough to matter."""
    model = tiny_model(METHOD, LABELS).eval()
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.mul_(6)
        model.head.type_scorer[-1].bias[0] += 1.0  # some chunks are no entities
    return model


def test_entities_are_chunks_with_their_best_type_and_the_probability_of_both() -> None:
    model = sharp_model()
    batch = encoded(model, SENTENCES)
    gaps = model.head.gaps(batch.words)
    for row, (sentence, found) in enumerate(zip(SENTENCES, model.entities(batch), strict=True)):
        own = gaps[row, : len(sentence) - 1].tolist()
        chunks = slow_split([gap > 0 for gap in own])
        types = model.head.types(batch.words, Spans.of((row, *chunk) for chunk in chunks)).softmax(-1)
        expected = [
            (*chunk, LABELS[int(type_.argmax())], slow_probabilities(own)[chunk] * type_.max().item())
            for chunk, type_ in zip(chunks, types, strict=True)
            if type_.argmax()
        ]
        assert [(e.start, e.end, e.label) for e in found] == [chunk[:3] for chunk in expected]
        assert [e.score for e in found] == pytest.approx([chunk[3] for chunk in expected], abs=1e-5)
        assert all(e.source == "model" for e in found)
    everything = [e for found in model.entities(batch) for e in found]
    assert everything, "or this test says nothing"
    kept = [e for found in model.entities(batch, min_score=0.3) for e in found]
    assert kept == [e for e in everything if e.score is not None and e.score >= 0.3]


def test_the_threshold_shifts_the_logit_of_o() -> None:
    model = sharp_model()
    batch = encoded(model, SENTENCES)
    scored = model.score(batch)
    counts = [sum(map(len, scored.decode(threshold))) for threshold in (-20.0, 0.0, 20.0)]
    assert counts[0] == len(scored.chunks)
    assert counts[0] > counts[1] > counts[2] == 0
    assert scored.decode(0.0) == model.entities(batch)
    for threshold in (-1.5, 2.0):
        model.threshold.fill_(threshold)
        logits = model.head.types(batch.words, scored.chunks)
        logits[:, 0] += threshold
        decided = logits.argmax(-1).tolist()
        expected = [place for place, label in zip(places(scored.chunks), decided, strict=True) if label]
        found = model.entities(batch)
        assert [(row, e.start, e.end) for row, entities in enumerate(found) for e in entities] == expected
        assert found == scored.decode(threshold)


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_every_span_has_the_probability_that_it_is_a_chunk_of_a_type(threshold: float) -> None:
    model = sharp_model()
    model.threshold.fill_(threshold)
    batch = encoded(model, SENTENCES)
    gaps = model.head.gaps(batch.words)
    for use_threshold in (False, True):
        spans, found = model.span_probabilities(batch, SENTENCES, 0.0, use_threshold)
        table = {place: found[index] for index, place in enumerate(places(spans))}
        assert len(table) == sum(len(s) * (len(s) + 1) // 2 for s in SENTENCES)
        for (row, start, end), probable in table.items():
            logits = model.head.types(batch.words, Spans.of([(row, start, end)]))[0]
            logits[0] += threshold if use_threshold else 0.0
            chunk = slow_probabilities(gaps[row, : len(SENTENCES[row]) - 1].tolist())[start, end]
            assert_close(probable[1:], chunk * logits.softmax(-1)[1:], atol=1e-5, rtol=1e-4)
            assert probable.sum().item() == pytest.approx(1)


def test_spans_that_are_hardly_entities_are_left_out_unless_they_are_annotated() -> None:
    model = sharp_model()
    batch = encoded(model, SENTENCES)
    spans, found = model.span_probabilities(batch, SENTENCES, 0.0)
    probable = {place for place, row in zip(places(spans), found, strict=True) if 1 - row[0] >= 0.2}
    annotated = {(row, e.start, e.end) for row, s in enumerate(SENTENCES) for e in s.entities}
    kept, _ = model.span_probabilities(batch, SENTENCES, 0.2)
    assert set(places(kept)) == probable | annotated
    asked = predict_proba(model, Corpus(tuple(SENTENCES)), range(3), 0.2)
    assert len(asked.sentence) == len(probable | annotated)


def test_nested_entities_are_refused() -> None:
    model = sharp_model()
    batch = encoded(model, SENTENCES)
    with pytest.raises(ConfigError, match="cannot find nested entities"):
        model.entities(batch, nested=True)
    with pytest.raises(ConfigError, match="cannot find nested entities"):
        model.score(batch).decode(0.0, nested=True)


# As a method.


def test_the_preset_has_a_head_of_its_own_that_no_other_method_can_have() -> None:
    assert registry().method("autoner") is METHOD
    assert registry().choices("head", METHOD) == {"tie-or-break": TieOrBreakConfig}
    assert registry().choices("head", AutoNer) == {"tie-or-break": TieOrBreakConfig}
    for method in (SpanMethod, TokenMethod):
        assert "tie-or-break" not in registry().choices("head", method)
    with pytest.raises(ConfigError, match="there is no head 'crf'; choose tie-or-break"):
        resolve_settings("autoner", overrides={"head": "crf"})
    with pytest.raises(ConfigError, match="sampling is set, but autoner is a token-level method and has none"):
        resolve_settings("autoner", overrides={"sampling": "spans"})


def test_its_settings_are_stored_and_read() -> None:
    settings = resolve_settings("autoner", overrides={"head.hidden": 20})
    assert settings.method.head == TieOrBreakConfig(hidden=20)
    assert settings_from_dict(settings.model_dump(mode="json")) == settings


def test_it_says_that_it_cannot_learn_what_overlaps() -> None:
    overlapping = Sentence(("a", "b", "c"), (Entity(0, 2, "PER"), Entity(1, 3, "PER")))
    assert METHOD.unlearnable(Corpus((NAME,))) is None
    assert "1 of 2 entities overlap others" in (METHOD.unlearnable(Corpus((overlapping,))) or "")


def test_it_learns_what_is_annotated_and_its_folder_is_the_same_model(toy: Corpus, tmp_path: Path) -> None:
    settings = QUICK | {"training.fit_threshold": True}
    model = Recognizer.train(toy, toy, method="autoner", epochs=12, settings=settings)
    assert isinstance(model.model, TieOrBreakModel)
    assert model.evaluate(toy).f1 > 0.9
    found = model.predict(TEXT)
    assert [(e.text, e.label) for e in found] == NAMES
    assert all(e.score is not None and 0 < e.score <= 1 for e in found)
    model.save_pretrained(tmp_path / "model")
    loaded = Recognizer.from_pretrained(tmp_path / "model")
    assert loaded.predict(TEXT) == found
    assert loaded.settings == model.settings
    assert loaded.model.threshold.equal(model.model.threshold)


def test_unknown_words_keep_hidden_names_from_being_learned_as_none(toy: Corpus) -> None:
    """As ``annotate --phrases`` marks them: somebody took these words for a name, but does not know of which type."""
    gaps = toy.mask(0.5, seed=1)
    marked = [
        Sentence(
            gap.tokens,
            gap.entities,
            unknown_tokens=frozenset(w for e in whole.entities if e not in gap.entities for w in range(e.start, e.end)),
        )
        for gap, whole in zip(gaps, toy, strict=True)
    ]
    with_phrases = Recognizer.train(Corpus(tuple(marked)), toy, method="autoner", epochs=12, settings=QUICK)
    without = Recognizer.train(gaps, toy, method="autoner", epochs=12, settings=QUICK)
    assert with_phrases.evaluate(toy).f1 > 0.9
    assert with_phrases.evaluate(toy).f1 > without.evaluate(toy).f1 > 0.1


def test_it_works_with_a_transformer(minilm: str, toy: Corpus, tmp_path: Path) -> None:
    model = Recognizer.train(toy[:4], method="autoner", encoder=minilm, epochs=1)
    model.save_pretrained(tmp_path / "model")
    assert Recognizer.from_pretrained(tmp_path / "model").predict(TEXT) == model.predict(TEXT)
