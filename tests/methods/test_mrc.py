"""A question for each label."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from lacuner import Corpus, Entity, Recognizer, Sentence
from lacuner.corpus import Span
from lacuner.encoders.transformer import TransformerConfig, TransformerEncoder
from lacuner.errors import ConfigError
from lacuner.features.questions import CHINESE, ENGLISH
from lacuner.features.subwords import PieceIndex
from lacuner.methods.method import SpanMethod
from lacuner.methods.mrc import METHODS, AnswersConfig, AnswersHead, AnswersLoss, QuestionModel, mean_cost
from lacuner.methods.parts import TrainingData
from lacuner.methods.registry import registry
from lacuner.models.probabilities import predict_proba
from lacuner.supervision.spans import Spans, enumerate_spans
from lacuner.training.loop import Observer
from lacuner.training.prepare import check_training
from lacuner.training.settings import resolve_settings, settings_from_dict
from tiny_models import BATCHES, LABELS, MIXED, WORDS, batch_loss, encoded, places, tiny_model, tiny_transformer

(METHOD,) = METHODS
TYPES = LABELS[1:]
HEADS = (AnswersConfig(hidden=6, dropout=0.0), AnswersConfig(hidden=None, dropout=0.0))
NAMES = [("Grace Hopper", "PER"), ("New York", "LOC")]
TEXT = "Grace Hopper moved to New York ."
QUICK = {
    "head.questions": {"PER": "Ada Alan Kurt", "LOC": "Turin Graz Oslo Jena"},
    "head.hidden": 32,
    "training.batch_tokens": 64,
    "training.encoder_learning_rate": 3e-3,
    "training.head_learning_rate": 1e-2,
}


def question_model(head: AnswersConfig = HEADS[0], scale: float = 1.0) -> QuestionModel:
    """A model that is often right about one thing and wrong about another; dropout is off."""
    model: QuestionModel = tiny_model(METHOD.model_copy(update={"head": head}), LABELS)
    with torch.no_grad():
        for parameter in model.head.parameters():
            torch.nn.init.normal_(parameter, std=scale)
        for classifier in (model.head.start, model.head.end, model.head.match.classifier or model.head.match.layer):
            classifier.bias.fill_(2 * scale)
    return model.eval()


shared_model = lru_cache(question_model)
"""For tests that do not change it."""


def tables(model: QuestionModel, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of starts and ends ``(B, K, n)``, and of all pairs ``(B, K, n, n)``, each pair by itself."""
    words = encoded(model, sentences).words
    count, length = len(TYPES), words.first.shape[1]
    start, end = (side.view(len(sentences), count, length) for side in model.head.boundaries(words))
    match = torch.full((len(sentences) * count, length, length), math.nan)
    layer, classifier = model.head.match.layer, model.head.match.classifier
    for i in range(length):
        for j in range(i, length):
            summed = layer(torch.cat([words.first[:, i], words.last[:, j]], dim=-1))
            scored = summed if classifier is None else classifier(torch.nn.functional.gelu(summed))
            match[:, i, j] = scored.squeeze(-1)
    return start, end, match.view(len(sentences), count, length, length)


def slow_loss(loss: AnswersLoss, sentences: Sequence[Sentence], start: Tensor, end: Tensor, match: Tensor) -> float:
    """The formula with loops."""

    def cost(logits: Sequence[float]) -> float:
        return -math.log(1 - math.prod(1 - 1 / (1 + math.exp(-x)) for x in logits))

    def mean(costs: Sequence[float]) -> float:
        return sum(costs) / max(1, len(costs))

    parts = []
    groups: dict[tuple[int, int, int], set[int]] = {}
    for b, sentence in enumerate(sentences):
        for e in sentence.entities:
            groups.setdefault((b, e.start, e.end - 1), set()).add(TYPES.index(e.label))
    for table, side in ((start, 1), (end, 2)):
        known = {(place[0], place[side], tuple(sorted(types))) for place, types in groups.items()}
        costs = [cost([table[b, k, i].item() for k in types]) for b, i, types in known]
        for b, sentence in enumerate(sentences):
            for label in sentence.looked_for(TYPES):
                k = TYPES.index(label)
                taken = {i for row, i, types in known if row == b and k in types}
                words = set(range(len(sentence))) - sentence.unknown_tokens - taken
                costs += [cost([-table[b, k, i].item()]) for i in words]
        parts.append(mean(costs))
    costs = [cost([match[b, k, i, j].item() for k in types]) for (b, i, j), types in groups.items()]
    for b, sentence in enumerate(sentences):
        rejected = {(span.start, span.end - 1) for span in sentence.non_entities}
        for k, label in enumerate(TYPES):
            own = {(i, j) for (row, i, j), types in groups.items() if row == b and k in types}
            starts, ends = {i for i, _ in own}, {j for _, j in own}
            for i in range(len(sentence)):
                for j in range(i, len(sentence)):
                    predicted = bool(start[b, k, i] > 0 and end[b, k, j] > 0) or (i in starts and j in ends)
                    asked = label in sentence.looked_for(TYPES)
                    unknown = sentence.unknown_tokens.issuperset(range(i, j + 1))
                    candidate = (predicted or loss.candidates == "all") and asked and not unknown
                    if (i, j) in rejected or (candidate and (i, j) not in own):
                        costs.append(cost([-match[b, k, i, j].item()]))
    parts.append(mean(costs))
    return loss.start * parts[0] + loss.end * parts[1] + loss.match * parts[2]


# The loss.


@settings(max_examples=25)
@given(BATCHES, st.sampled_from(HEADS), st.sampled_from(["predicted", "all"]))
def test_the_loss_is_that_of_the_formula_with_loops(
    sentences: list[Sentence], head: AnswersConfig, candidates: Any
) -> None:
    model = shared_model(head)
    loss = AnswersLoss(start=1.0, end=0.7, match=0.4, candidates=candidates)
    with torch.no_grad():
        expected = slow_loss(loss, sentences, *tables(model, sentences))
        found = batch_loss(METHOD.model_copy(update={"loss": loss}), model, sentences)
    assert found.item() == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_where_everything_is_known_it_is_the_mean_binary_cross_entropy_of_the_paper() -> None:
    sentences = [
        Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC")), complete=True),
        Sentence(("Turin", ",", "Piedmont", "to"), (Entity(0, 3, "LOC"), Entity(0, 1, "ORG"), Entity(0, 1, "LOC"))),
    ]
    sentences[1] = replace(sentences[1], entities=(Entity(0, 3, "LOC"), Entity(0, 1, "LOC")))
    model = question_model()
    start, end, match = tables(model, sentences)
    wanted = [torch.zeros_like(table) for table in (start, end, match)]
    for b, sentence in enumerate(sentences):
        for e in sentence.entities:
            k = TYPES.index(e.label)
            wanted[0][b, k, e.start] = wanted[1][b, k, e.end - 1] = wanted[2][b, k, e.start, e.end - 1] = 1
    upper = torch.ones_like(match).triu().bool()
    pairs = binary_cross_entropy_with_logits(match[upper], wanted[2][upper])
    sides = [
        binary_cross_entropy_with_logits(table, target) for table, target in ((start, wanted[0]), (end, wanted[1]))
    ]
    every = METHOD.model_copy(update={"loss": AnswersLoss(candidates="all")})
    found = batch_loss(every, model, sentences)
    assert found.item() == pytest.approx((sides[0] + sides[1] + 0.1 * pairs).item(), rel=1e-5)


@given(BATCHES)
@settings(max_examples=25)
def test_the_loss_and_its_gradient_are_finite(sentences: list[Sentence]) -> None:
    model = question_model(scale=30.0).train()
    loss = batch_loss(METHOD, model, sentences)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.head.parameters())


def test_a_label_that_nobody_looked_for_teaches_nothing() -> None:
    """Whatever its question is answered with."""
    model = question_model()
    sentence = Sentence(("Ada", "moved"), (Entity(0, 1, "PER"),), annotated_labels=frozenset({"PER"}))
    words = encoded(model, [sentence]).words
    first = words.first.detach().requires_grad_()
    AnswersLoss()(model.head, words._replace(first=first), model.targets([sentence])).backward()
    taught = first.grad.abs().sum((1, 2)) > 0  # (K,)
    assert taught.tolist() == [label == "PER" for label in TYPES]


def test_nothing_known_costs_nothing() -> None:
    model = question_model()
    sentence = Sentence(("Ada", "moved"), annotated_labels=frozenset())
    loss = batch_loss(METHOD, model, [sentence])
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is not None and not p.grad.any() for p in model.head.parameters())


def test_unknown_words_start_and_end_nothing_and_spans_of_them_are_unknown() -> None:
    model = question_model()
    marked = Sentence(("Ada", "moved", "to"), unknown_tokens=frozenset({0, 1}))
    targets = model.targets([marked])
    assert targets.taught.tolist() == [[False, False, True]] * 3
    loss = AnswersLoss(candidates="all")
    rejecting = replace(marked, non_entities=(Span(0, 1),))
    with torch.no_grad():
        scores = tables(model, [marked])
        for sentence in (marked, rejecting):
            assert batch_loss(METHOD.model_copy(update={"loss": loss}), model, [sentence]).item() == pytest.approx(
                slow_loss(loss, [sentence], *scores), rel=1e-5
            )


def test_of_a_span_with_two_labels_one_answer_is_enough() -> None:
    either = Sentence(("Ada", "Turin"), (Entity(0, 2, "PER"), Entity(0, 2, "ORG")))
    targets = question_model().targets([either])
    assert targets.matches.groups.item() == 1
    sure, no = torch.tensor([20.0, -20.0]), torch.tensor([-20.0, -20.0])
    assert mean_cost(sure, torch.zeros(0), targets.matches).item() == pytest.approx(0, abs=1e-6)
    assert mean_cost(no, torch.zeros(0), targets.matches).item() > 10


def test_certain_answers_cost_what_they_should_however_wrong_the_model_is() -> None:
    targets = question_model().targets([Sentence(("Ada",), (Entity(0, 1, "PER"),))])
    for logit in (-300.0, -30.0, 0.0, 30.0, 300.0):
        expected = math.log1p(math.exp(-logit)) if logit > -100 else -logit
        assert mean_cost(torch.tensor([logit]), torch.zeros(0), targets.matches).item() == pytest.approx(expected)


# The model.


def test_the_answers_are_those_whose_start_end_and_pair_are_all_predicted() -> None:
    """As in the paper; a span that answers two questions has the label of the surer answer."""
    for head in HEADS:
        model = question_model(head)
        start, end, match = (table.detach() for table in tables(model, MIXED))
        expected = []
        for b, sentence in enumerate(MIXED):
            found = {}
            for i in range(len(sentence)):
                for j in range(i, len(sentence)):
                    least = torch.stack([start[b, :, i], end[b, :, j], match[b, :, i, j]]).amin(0)
                    if least.max() > 0:
                        weight = least.exp() / (1 + least.exp().sum())
                        found[i, j + 1, TYPES[int(least.argmax())]] = weight.max().item()
            expected.append(found)
        entities = model.entities(encoded(model, MIXED), nested=True)
        scores = [{(e.start, e.end, e.label): e.score for e in found} for found in entities]
        assert [found.keys() for found in scores] == [found.keys() for found in expected]
        for one, other in zip(scores, expected, strict=True):
            assert one == pytest.approx(other, rel=1e-4)
        assert any(expected)


def test_a_flat_result_has_no_overlaps_and_the_best_are_kept() -> None:
    model = question_model()
    nested, flat = (model.entities(encoded(model, MIXED), nested=nested) for nested in (True, False))
    assert any(len(one) > len(other) for one, other in zip(nested, flat, strict=True))
    for one, other in zip(nested, flat, strict=True):
        assert set(other) <= set(one)
        assert all(not a.overlaps(b) for a in other for b in other if a != b)


@pytest.mark.parametrize("threshold", [-4.0, -1.0, 0.0, 0.5, 3.0])
def test_a_scored_batch_is_decoded_as_a_model_with_that_threshold_does(threshold: float) -> None:
    model = question_model()
    batch = encoded(model, MIXED)
    model.threshold.fill_(threshold)
    for nested in (True, False):
        assert model.score(batch).decode(threshold, nested) == model.entities(batch, nested)
    counted = sum(map(len, model.entities(batch, nested=True)))
    model.threshold.fill_(threshold + 1)
    assert sum(map(len, model.entities(batch, nested=True))) <= counted


@pytest.mark.parametrize("use_threshold", [True, False])
@pytest.mark.parametrize("least", [0.0, 0.05, 0.3, 0.7, 1.0])
def test_all_spans_that_are_probable_enough_are_found_and_all_annotated_ones(least: float, use_threshold: bool) -> None:
    model = question_model()
    model.threshold.fill_(0.75)
    batch = encoded(model, MIXED)
    every = enumerate_spans(torch.tensor([len(sentence) for sentence in MIXED]))
    start, end, match = tables(model, MIXED)
    expected = {}
    for b, i, j in places(every):
        scores = torch.stack([start[b, :, i], end[b, :, j - 1], match[b, :, i, j - 1]]).amin(0)
        outside = torch.tensor([0.75 if use_threshold else 0.0])
        expected[b, i, j] = torch.cat([outside, scores]).softmax(-1).detach()
    annotated = {(b, e.start, e.end) for b, sentence in enumerate(MIXED) for e in sentence.entities}
    spans, found = model.span_probabilities(batch, MIXED, least, use_threshold)
    assert set(places(spans)) == annotated | {place for place, p in expected.items() if 1 - p[0] >= least}
    for place, probable in zip(places(spans), found, strict=True):
        torch.testing.assert_close(probable, expected[place], rtol=1e-4, atol=1e-6)
    asked = predict_proba(model, Corpus(MIXED), range(len(MIXED)), least, use_threshold)
    rejected = {(2, 0, 1)}
    assert len(asked.sentence) == len(set(places(spans)) - rejected)


def test_a_batch_is_encoded_some_sentences_at_a_time_and_is_the_same() -> None:
    model = question_model()
    sentences = [WORDS[: 1 + number % 6] for number in range(8)]
    inputs = model.encoder.index.collate(sentences)
    with torch.no_grad():
        whole, parts = model.encoder(inputs), model.encode(sentences)
    assert parts.lengths.equal(inputs.lengths)
    assert parts.words.first.shape == (8 * len(TYPES), 6, model.encoder.size)
    for row, length in enumerate(parts.lengths.tolist()):
        for side in (0, 1):
            torch.testing.assert_close(parts.words[side][row, :length], whole[side][row, :length])


def test_memory_for_long_sentences_does_not_hold_a_table_of_span_vectors(small_tensors: Any) -> None:
    head = AnswersConfig(hidden=64, dropout=0.0)
    model = question_model(head, scale=0.0)
    with torch.no_grad():
        model.head.start.bias.fill_(-9)
        model.head.end.bias.fill_(-9)
    sentence = Sentence(("Ada", "moved") * 40, (Entity(0, 1, "PER"),))
    with small_tensors(100_000):  # all pairs have 3 · 80 · 80 · 64 = 1,228,800 numbers
        batch_loss(METHOD, model, [sentence]).backward()
        assert model.entities(encoded(model, [sentence])) == [[]]


def test_words_are_encoded_as_transformers_encodes_a_pair_of_texts(minilm: str) -> None:
    from transformers import AutoModel, AutoTokenizer

    encoder = TransformerConfig(model=minilm).create().eval()
    questions = {"PER": "which person is mentioned?", "LOC": "find places."}
    model = METHOD.model_copy(update={"head": AnswersConfig(questions=questions)}).build_model(
        encoder, ("O", *questions)
    )
    words = ["Ada", "Lovelace", "moved", "to", "Turin"]
    with torch.no_grad():
        found = model.eval().encode([words])
    bert, tokenizer = AutoModel.from_pretrained(minilm).eval(), AutoTokenizer.from_pretrained(minilm)
    for row, question in enumerate(questions.values()):
        given = tokenizer(question.split(), words, is_split_into_words=True, return_tensors="pt")
        assert given["token_type_ids"].max() == 1
        with torch.no_grad():
            hidden = bert(**given).last_hidden_state[0]
        pairs = zip(given.word_ids(), given.sequence_ids(), strict=True)
        own = [(piece, word) for piece, (word, text) in enumerate(pairs) if text == 1]
        for word in range(len(words)):
            pieces = [piece for piece, other in own if other == word]
            torch.testing.assert_close(found.words.first[row, word], hidden[pieces[0]], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(found.words.last[row, word], hidden[pieces[-1]], rtol=1e-4, atol=1e-5)


def test_models_without_segments_are_given_none(tmp_path: Path) -> None:
    encoder = tiny_transformer()
    assert encoder.knows_segments
    from transformers import DistilBertConfig, DistilBertModel

    tokenizer = encoder.index.tokenizer
    plain = DistilBertModel(DistilBertConfig(vocab_size=len(tokenizer), dim=8, n_layers=1, n_heads=2, hidden_dim=8))
    other = TransformerEncoder(encoder.config, plain, PieceIndex(tokenizer, 128))
    assert not other.knows_segments
    model = METHOD.build_model(other, LABELS).eval()
    assert len(model.entities(encoded(model, MIXED))) == len(MIXED)


# As a method.


def test_the_preset_has_parts_of_its_own_that_no_other_method_can_have() -> None:
    assert registry().method("mrc") is METHOD
    assert registry().choices("head", METHOD) == {"answers": AnswersConfig}
    assert registry().choices("loss", METHOD) == {"answers": AnswersLoss}
    assert "answers" not in {**registry().choices("head", SpanMethod), **registry().choices("loss", SpanMethod)}
    with pytest.raises(ConfigError, match="there is no head 'width'; choose answers"):
        resolve_settings("mrc", overrides={"head": "width"})
    with pytest.raises(ConfigError, match="negatives is set, but mrc is a span-level method and has none"):
        resolve_settings("mrc", overrides={"negatives": "all"})


def test_its_settings_are_stored_and_read() -> None:
    settings = resolve_settings("mrc", overrides={"head.questions": {"PER": "who?"}, "loss.match": 1})
    assert settings.method.head.questions == {"PER": "who?"}
    assert settings_from_dict(settings.model_dump(mode="json")) == settings


def test_questions_that_are_not_given_are_made_and_kept_with_the_settings(toy: Corpus) -> None:
    head = METHOD.for_data(TrainingData(toy, None)).head
    assert head.questions == {"LOC": ENGLISH["loc"], "PER": ENGLISH["per"]}
    own = METHOD.model_copy(update={"head": AnswersConfig(questions={"PER": "who?"})})
    assert own.for_data(TrainingData(toy, None)).head.questions == {"LOC": ENGLISH["loc"], "PER": "who?"}
    chinese = Corpus((Sentence(tuple("毛泽东来了"), (Entity(0, 3, "PER"),)),))
    assert METHOD.for_data(TrainingData(chinese, None)).head.questions == {"PER": CHINESE["per"]}


@pytest.mark.parametrize("encoder", ["recurrent", "flat"])
def test_an_encoder_that_cannot_read_a_question_is_refused_in_a_sentence(toy: Corpus, encoder: str) -> None:
    more = {"encoder.lexicon": "words.txt"} if encoder == "flat" else {}
    given = resolve_settings("mrc", encoder, overrides=more)
    message = f"mrc puts a question before each text, which the encoder {encoder} cannot read — give the name or folder"
    with pytest.raises(ConfigError, match=message):
        check_training(toy, None, given)
    with pytest.raises(ConfigError, match="which the encoder RecurrentEncoder cannot read"):
        METHOD.new_model(tiny_model(registry().method("full"), LABELS).encoder, LABELS)


def test_a_question_about_a_label_that_is_not_there_is_refused(toy: Corpus) -> None:
    given = resolve_settings("mrc", "some-bert", overrides={"head.questions": {"PRE": "who?"}})
    with pytest.raises(ConfigError, match=r"head\.questions asks about PRE, .* — its labels are LOC, PER"):
        check_training(toy, None, given)


def test_it_learns_what_is_annotated_and_its_folder_is_the_same_model(
    toy: Corpus, toy_bert: str, tmp_path: Path
) -> None:
    settings = QUICK | {"training.fit_threshold": True}
    model = Recognizer.train(toy, toy, method="mrc", encoder=toy_bert, epochs=30, settings=settings)
    assert isinstance(model.model, QuestionModel)
    assert model.evaluate(toy).f1 > 0.9
    found = model.predict(TEXT)
    assert [(e.text, e.label) for e in found] == NAMES
    assert all(e.score is not None and 0 < e.score <= 1 for e in found)
    model.save_pretrained(tmp_path / "model")
    loaded = Recognizer.from_pretrained(tmp_path / "model")
    assert loaded.predict(TEXT) == found
    assert loaded.settings == model.settings
    assert loaded.model.threshold.equal(model.model.threshold)
    assert isinstance(loaded.model, QuestionModel)
    assert loaded.model.questions == QUICK["head.questions"]


def test_nested_entities_are_learned(toy: Corpus, toy_bert: str) -> None:
    """Every first name by itself, inside of the whole one."""
    inner = [[Entity(e.start, e.start + 1, e.label) for e in s.entities if e.end > e.start + 1] for s in toy]
    nested = Corpus(tuple(replace(s, entities=(*s.entities, *more)) for s, more in zip(toy, inner, strict=True)))
    settings = QUICK | {"training.nested": True}
    model = Recognizer.train(nested, nested, method="mrc", encoder=toy_bert, epochs=40, settings=settings)
    assert model.evaluate(nested, nested=True).f1 > 0.9


class _StopAfter(Observer):
    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def epoch_ended(self, record: dict[str, Any]) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_run_that_is_resumed_ends_with_the_same_weights(toy: Corpus, toy_bert: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"method": "mrc", "encoder": toy_bert, "epochs": 3, "settings": QUICK}
    whole = Recognizer.train(toy[:10], toy[:4], **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy[:10], toy[:4], out=tmp_path / "m", observer=_StopAfter(2), **arguments)
    resumed = Recognizer.train(toy[:10], toy[:4], out=tmp_path / "m", resume=True, **arguments)
    own = resumed.model.state_dict()
    assert all(tensor.equal(own[name]) for name, tensor in whole.model.state_dict().items())


def test_it_learns_the_sample_with_a_pretrained_encoder(minilm: str, sample: dict[str, Corpus], tmp_path: Path) -> None:
    people = [s for s in sample["train"] if any(e.label == "PER" for e in s.entities)][:16]
    kept = Corpus(tuple(replace(s, entities=tuple(e for e in s.entities if e.label == "PER")) for s in people))
    rates = {"training.encoder_learning_rate": 3e-4, "training.head_learning_rate": 3e-3, "training.ema_epochs": "none"}
    settings = {"head.questions": {"PER": "person"}, "training.batch_tokens": 64} | rates
    model = Recognizer.train(kept, kept[:6], method="mrc", encoder=minilm, epochs=7, settings=settings)
    assert model.evaluate(kept).f1 > 0.6
    model.save_pretrained(tmp_path / "model")
    text = " ".join(kept[0].tokens)
    assert Recognizer.from_pretrained(tmp_path / "model").predict(text) == model.predict(text)


def test_the_head_is_made_for_the_encoder() -> None:
    head = AnswersConfig(hidden=5).build(8)
    assert isinstance(head, AnswersHead)
    assert head.match.layer.weight.shape == (5, 16)
    assert AnswersConfig(hidden=None).build(8).match.classifier is None
    nothing = Spans.of([])
    words = question_model().encode([WORDS]).words
    assert head.match(head.match.project(words), nothing).logits.shape == (0, 1)
