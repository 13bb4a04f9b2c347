import json

import pytest
import torch

from lacuner import Corpus, Recognizer, Sentence, TrainingError
from lacuner.corpus import Span
from lacuner.encoders.device import on_device
from lacuner.evaluation import Scores
from lacuner.methods.full import CrossEntropy
from lacuner.methods.method import SpanMethod
from lacuner.methods.parts import Step
from lacuner.models.span_model import SpanModel
from lacuner.training.checkpoints import trained_weights
from lacuner.training.epochs import EpochSampler
from lacuner.training.loop import Observer, TrainingResult, fit, training_place
from lacuner.training.settings import RunSettings, resolve_settings
from watching import StopAfter


class StopWithin(Observer):
    """Interrupts training in the middle of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.current = epoch, 0

    def epoch_started(self, epoch, epochs, words):
        self.current = epoch

    def batch_done(self, words):
        if self.current == self.epoch:
            raise KeyboardInterrupt


def weights(model: Recognizer) -> dict[str, torch.Tensor]:
    return model.model.state_dict()


def same(one: Recognizer, other: Recognizer) -> bool:
    return all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())


def test_the_same_seed_gives_the_same_model(toy, small_settings):
    one, other = (Recognizer.train(toy, toy, epochs=2, seed=3, settings=small_settings) for _ in range(2))
    assert same(one, other)
    assert not same(one, Recognizer.train(toy, toy, epochs=2, seed=4, settings=small_settings))


@pytest.mark.parametrize("observer", [StopAfter(2), StopWithin(3)], ids=["between epochs", "within an epoch"])
def test_an_interrupted_run_that_is_resumed_ends_bit_identical(toy, small_settings, tmp_path, observer):
    arguments = {"method": "uniform", "epochs": 4, "settings": small_settings}
    whole = Recognizer.train(toy, toy, out=tmp_path / "whole", **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, out=tmp_path / "interrupted", observer=observer, **arguments)
    assert not (tmp_path / "interrupted").exists()
    resumed = Recognizer.train(toy, toy, out=tmp_path / "interrupted", resume=True, **arguments)
    assert same(whole, resumed)
    assert (tmp_path / "whole" / "model.safetensors").read_bytes() == (
        tmp_path / "interrupted" / "model.safetensors"
    ).read_bytes()
    assert [record["loss"] for record in whole.record.history] == [record["loss"] for record in resumed.record.history]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["interrupted", "whole"]


def test_resuming_with_other_settings_or_data_is_refused(toy, small_settings, tmp_path):
    out = tmp_path / "model"
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, epochs=3, settings=small_settings, out=out, observer=StopAfter(1))
    with pytest.raises(TrainingError, match="other data or settings"):
        Recognizer.train(toy, toy, epochs=4, settings=small_settings, out=out, resume=True)
    with pytest.raises(TrainingError, match="other data or settings"):
        Recognizer.train(toy[1:], toy, epochs=3, settings=small_settings, out=out, resume=True)


def test_resuming_a_finished_run_changes_nothing(toy, small_settings, tmp_path):
    arguments = {"epochs": 2, "settings": small_settings, "out": tmp_path / "model"}
    first = Recognizer.train(toy, toy, **arguments)
    again = Recognizer.train(toy, toy, resume=True, **arguments)
    assert same(first, again)
    with pytest.raises(TrainingError, match="other data or settings"):
        Recognizer.train(toy[2:], toy, resume=True, **arguments)


def test_an_unfinished_run_is_not_thrown_away_silently(toy, small_settings, tmp_path, caplog):
    arguments = {"epochs": 2, "settings": small_settings, "out": tmp_path / "model"}
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, observer=StopAfter(1), **arguments)
    with pytest.raises(
        TrainingError, match="unfinished run with the same data and settings — continue it with --resume"
    ):
        Recognizer.train(toy, toy, **arguments)
    Recognizer.train(toy[1:], toy, **arguments)
    assert "An unfinished run with other data or settings is discarded" in caplog.text


def test_checkpoints_hold_no_pickle(toy, small_settings, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, epochs=2, settings=small_settings, out=tmp_path / "m", observer=StopAfter(1))
    files = [path for path in (tmp_path / "m.training").rglob("*") if path.is_file()]
    written = [path for path in files if path.stat().st_size]  # the marker and the lock are empty
    assert {path.suffix for path in written} == {".safetensors", ".json"}


def test_the_best_epoch_is_kept_and_patience_ends_training(toy, small_settings):
    result = Recognizer.train(toy, toy, epochs=60, settings=small_settings | {"training.patience": 2}).record
    scores = [record["dev"]["f1"] for record in result.history]
    assert len(scores) == result.best_epoch + 2 < 60
    assert scores[result.best_epoch - 1] == max(scores) > max(scores[: result.best_epoch - 1])


def test_patience_begins_when_something_is_found(toy, small_settings):
    dev = Corpus(tuple(Sentence(sentence.tokens) for sentence in toy))
    result = Recognizer.train(toy, dev, epochs=6, settings=small_settings | {"training.patience": 1}).record
    assert (len(result.history), result.best_epoch) == (6, 6)


def test_a_small_corpus_is_read_more_often_and_a_large_one_less_often():
    config = resolve_settings(overrides={"training.batch_tokens": 100}).training
    words = [500, 1_000, 2_500, 10_000, 25_000, 30_000, 40_000, 50_000, 1_000_000]
    epochs = [config.for_corpus(count, 15, 400).epochs for count in words]
    assert epochs == [80, 40, 16, 15, 15, 14, 10, 8, 8], (
        "at least 400 steps; 4,000 are enough, but half of the epochs are not"
    )
    assert config.for_corpus(1_000, 15, min_steps=800).epochs == 80
    assert config.for_corpus(1, 15, 400).epochs == 200
    assert [config.for_corpus(count, 15, 400).patience for count in (1_000, 10_000, 1_000_000)] == [27, 10, 6]
    assert config.model_copy(update={"epochs": 3}).for_corpus(1_000, 15, 400).epochs == 3


def test_best_weights_belong_to_the_best_epoch(toy, small_settings):
    trained = Recognizer.train(toy, toy, epochs=8, settings=small_settings)
    best = max(trained.record.history, key=lambda record: record["dev"]["f1"])
    assert trained.record.best_epoch == best["epoch"]
    assert trained.evaluate(toy).f1 == best["dev"]["f1"]


def test_without_dev_data_the_last_epoch_is_kept(toy, small_settings):
    record = Recognizer.train(toy, epochs=3, settings=small_settings).record
    assert (record.best_epoch, record.dev) == (3, None)


def test_a_loss_that_is_not_finite_stops_and_names_the_sentences(toy, small_settings, monkeypatch):
    monkeypatch.setattr(CrossEntropy, "__call__", lambda self, logits, *rest: logits.sum() * float("nan"))
    with pytest.raises(
        TrainingError, match=r"nan in the batch with sentences \d+: .* moved to .* lower the learning rates"
    ):
        Recognizer.train(toy, toy, epochs=1, settings=small_settings)


def test_metrics_have_a_line_for_each_epoch(toy, small_settings, tmp_path):
    Recognizer.train(toy, toy, epochs=3, settings=small_settings, out=tmp_path / "m")
    lines = [json.loads(line) for line in (tmp_path / "m" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert all({"loss", "dev", "seconds", "words_per_second"} <= line.keys() for line in lines)


def test_the_two_learning_rates_rise_and_fall(toy, small_settings, monkeypatch):
    seen = []
    original = torch.optim.AdamW.step

    def spy(self, *arguments, **keywords):
        seen.append([group["lr"] for group in self.param_groups])
        return original(self, *arguments, **keywords)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    rates = {"training.encoder_learning_rate": 0.02, "training.head_learning_rate": 0.04, "training.batch_tokens": 16}
    Recognizer.train(toy, epochs=2, settings=small_settings | rates)
    encoder, _ = zip(*seen, strict=True)
    assert max(encoder) == pytest.approx(0.02, rel=0.15)
    assert all(b == pytest.approx(2 * a) for a, b in seen)
    peak = encoder.index(max(encoder))
    assert 0 < peak < len(encoder) / 4
    assert list(encoder[peak:]) == sorted(encoder[peak:], reverse=True)
    assert encoder[-1] < 0.1 * max(encoder)


def test_weights_of_another_run_never_get_into_this_one(toy, small_settings, tmp_path):
    """A run that was interrupted while its first checkpoint was being written leaves nothing that a later run could take."""
    settings = small_settings | {"stage": "none"}
    arguments = {"epochs": 3, "settings": settings, "out": tmp_path / "m"}
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, seed=1, observer=StopAfter(1), **arguments)
    state = tmp_path / "m.training" / "model" / "epoch-0001"
    state.rename(state.with_suffix(".tmp"))
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, seed=2, observer=StopAfter(1), **arguments)
    resumed = Recognizer.train(toy, toy, seed=2, resume=True, **arguments)
    assert same(resumed, Recognizer.train(toy, toy, seed=2, epochs=3, settings=settings))


def test_a_transformer_run_resumes_bit_identical(toy, minilm, tmp_path):
    arguments = {"encoder": minilm, "epochs": 2, "settings": {"training.batch_tokens": 128}}
    whole = Recognizer.train(toy[:8], toy[:4], out=tmp_path / "whole", **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy[:8], toy[:4], out=tmp_path / "interrupted", observer=StopAfter(1), **arguments)
    assert same(whole, Recognizer.train(toy[:8], toy[:4], out=tmp_path / "interrupted", resume=True, **arguments))


@pytest.mark.parametrize("observer", [StopAfter(2), StopWithin(2)], ids=["between epochs", "within an epoch"])
@pytest.mark.parametrize("method", ["lacuner", "crf"])
def test_a_run_in_bf16_that_is_resumed_ends_bit_identical(toy, toy_bert, tmp_path, method, observer):
    arguments = {
        "method": method,
        "encoder": toy_bert,
        "epochs": 3,
        "settings": {"training.batch_tokens": 64, "training.precision": "bf16"},
    }
    whole = Recognizer.train(toy, toy[:4], out=tmp_path / "whole", **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy[:4], out=tmp_path / "interrupted", observer=observer, **arguments)
    resumed = Recognizer.train(toy, toy[:4], out=tmp_path / "interrupted", resume=True, **arguments)
    assert same(whole, resumed)
    assert all(weight.dtype == torch.float32 for weight in resumed.model.parameters())

    arguments["settings"] |= {"training.precision": "fp32"}
    exact = Recognizer.train(toy, toy[:4], **arguments)
    assert not same(whole, exact)
    for one, other in zip(whole.record.history, exact.record.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=0.02)


def test_a_run_is_not_resumed_in_another_precision(toy, toy_bert, tmp_path, monkeypatch):
    """As it would be where ``auto`` has chosen bf16 on one machine, and another lacks it."""
    arguments = {
        "encoder": toy_bert,
        "epochs": 2,
        "settings": {"training.precision": "auto"},
        "out": tmp_path / "model",
    }
    monkeypatch.setattr("lacuner.training.settings.has_bf16", lambda device: True)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy[:4], toy[:4], observer=StopAfter(1), **arguments)
    monkeypatch.setattr("lacuner.training.settings.has_bf16", lambda device: False)
    with pytest.raises(TrainingError, match="other data or settings"):
        Recognizer.train(toy[:4], toy[:4], resume=True, **arguments)
    arguments["settings"] = {"training.precision": "bf16"}
    Recognizer.train(toy[:4], toy[:4], resume=True, **arguments)
    assert Recognizer.from_pretrained(tmp_path / "model").settings.training.precision == "bf16"


def test_a_model_that_is_trained_in_bf16_is_evaluated_in_fp32(toy, toy_bert, tmp_path):
    settings = {"training.precision": "bf16", "training.batch_tokens": 64}
    settings |= {"training.encoder_learning_rate": 0.005, "training.head_learning_rate": 0.01}
    types: dict[bool, set[torch.dtype]] = {True: set(), False: set()}

    def note(module, given, found):
        types[module.training].add(found.dtype)

    hook = torch.nn.modules.module.register_module_forward_hook(
        lambda module, given, found: note(module, given, found) if isinstance(module, torch.nn.Linear) else None
    )
    try:
        trained = Recognizer.train(
            toy, toy, method="full", encoder=toy_bert, epochs=12, settings=settings, out=tmp_path / "model"
        )
    finally:
        hook.remove()
    assert types == {True: {torch.float32, torch.bfloat16}, False: {torch.float32}}

    best = trained.record.history[trained.record.best_epoch - 1]["dev"]
    assert best["f1"] > 0
    again = Recognizer.from_pretrained(tmp_path / "model")
    assert trained.evaluate(toy).as_dict() == again.evaluate(toy).as_dict() == best
    tokens = list(toy.tokens)
    with torch.no_grad():
        ours, theirs = (model.model.encode(tokens).words.first for model in (trained, again))
    assert torch.equal(ours, theirs)


def test_in_bf16_spans_that_are_scored_in_chunks_are_scored_in_fp32(toy, toy_bert, monkeypatch):
    """Chunks are computed again for the backward pass, and have to be what they were."""
    settings = resolve_settings("full", toy_bert, {"training.precision": "bf16", "head.dropout": 0.0})
    model = fresh(settings, toy)
    model.encoder.train_in("bf16")
    inputs = model.encoder.index.collate(list(toy.tokens))
    targets = model.targets(list(toy))
    types = set()
    model.head.register_forward_hook(lambda module, given, found: types.add(found.logits.dtype))

    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model.train().zero_grad()
        settings.method.training_loss(model, inputs, targets, Step(0, 1, torch.Generator(), range(len(toy)))).backward()
        return [weight.grad for weight in model.parameters() if weight.grad is not None]

    at_once = gradients()
    monkeypatch.setattr("lacuner.heads.scores.CHUNK", 100)
    in_chunks = gradients()
    assert types == {torch.float32}
    assert len(at_once) == len(in_chunks) > 20
    for one, other in zip(at_once, in_chunks, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=1e-4)


def fresh(settings: RunSettings, corpus: Corpus) -> SpanModel:
    torch.manual_seed(settings.training.seed)
    model = settings.method.build_model(settings.encoder.create(corpus.tokens), ("O", *corpus.labels))
    assert isinstance(model, SpanModel)
    return model


def fitted(corpus: Corpus, settings: dict[str, object], evaluate=None, **more) -> tuple[SpanModel, TrainingResult]:
    """A model that was fitted without anything around it; ``evaluate`` is given the model."""
    resolved = resolve_settings("full", overrides=settings | more)
    training = resolved.training.for_corpus(sum(map(len, corpus)), 15, 400)
    model = fresh(resolved, corpus)
    scores = None if evaluate is None else lambda: evaluate(model)
    return model, fit(model, resolved.method, EpochSampler(corpus, training.seed), training, scores)


COUNTS = [(10, 10, 100), (60, 200, 100), (56, 60, 100), (40, 40, 100), (72, 100, 100)]
"""Correct, predicted, annotated after each epoch: F1 is greatest in the last, recall² / share of predictions in the third."""


def test_dev_data_with_gaps_chooses_another_epoch(toy, small_settings):
    scores = [Scores(*counts) for counts in COUNTS]
    best_f1 = 1 + max(range(5), key=lambda number: scores[number].f1)
    best_pu = 1 + max(range(5), key=lambda number: scores[number].recall ** 2 / (scores[number].predicted / 100))
    assert (best_f1, best_pu) == (5, 3)
    chosen = {}
    for metric, best in (("f1", best_f1), ("pu", best_pu)):
        kept, coming = [], iter(scores)

        def evaluate(model, kept=kept, coming=coming):
            kept.append(trained_weights(model))
            return next(coming)

        more = {"training.metric": metric, "training.epochs": 5, "training.patience": "none"}
        model, result = fitted(toy[:6], small_settings, evaluate, **more)
        assert result.best_epoch == best
        assert all(torch.equal(weight, kept[best - 1][name]) for name, weight in model.named_parameters())
        chosen[metric] = result
        assert [record["dev"]["pu_estimate"] for record in result.history] == [s.pu_estimate for s in scores]
    assert [record["loss"] for record in chosen["f1"].history] == [record["loss"] for record in chosen["pu"].history]


def test_patience_waits_for_what_is_chosen_by(toy, small_settings):
    """F1 goes on growing, the PU estimate does not."""
    coming = iter([Scores(50, 60, 100), Scores(60, 100, 100), Scores(70, 140, 100), Scores(80, 180, 100)])
    settings = {"training.metric": "pu", "training.epochs": 4, "training.patience": 1}
    _, result = fitted(toy[:6], small_settings, lambda model: next(coming), **settings)
    assert (len(result.history), result.best_epoch) == (2, 1)


def test_averaged_weights_are_evaluated_and_kept_while_training_goes_on_with_its_own(toy, small_settings, monkeypatch):
    steps = []
    original = torch.optim.AdamW.step

    def spy(self, *arguments, **keywords):
        result = original(self, *arguments, **keywords)
        steps.append([weight.detach().clone() for group in self.param_groups for weight in group["params"]])
        return result

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    settings = small_settings | {"training.epochs": 3, "training.patience": "none"}
    fitted(toy, settings)
    raw, steps = steps, []
    evaluated = []

    def evaluate(model):
        evaluated.append([weight.detach().clone() for weight in model.parameters()])
        return Scores(len(evaluated) % 3, 3, 3)  # the second epoch is the best

    model, result = fitted(toy, settings, evaluate, **{"training.ema_epochs": 0.8})
    assert len(raw) == len(steps) > 6
    assert all(
        torch.equal(a, b) for one, other in zip(raw, steps, strict=True) for a, b in zip(one, other, strict=True)
    )

    batches = len(raw) // 3
    first = fresh(resolve_settings("full", overrides=settings), toy)
    averaged = [weight.detach().clone() for weight in first.parameters()]
    expected = []
    for number, weights in enumerate(raw, 1):
        share = max(1 / (1 + 0.8 * batches), 9 / (9 + number))
        averaged = [mean + share * (weight - mean) for mean, weight in zip(averaged, weights, strict=True)]
        if number % batches == 0:
            expected.append(averaged)
    assert len(evaluated) == len(expected) == 3
    for seen, wanted in zip(evaluated, expected, strict=True):
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(seen, wanted, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(evaluated[-1], raw[-1], strict=True))
    assert result.best_epoch == 2
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), evaluated[1], strict=True))


@pytest.mark.parametrize("observer", [StopAfter(2), StopWithin(2)], ids=["between epochs", "within an epoch"])
def test_an_interrupted_run_with_averaged_weights_and_a_threshold_ends_bit_identical(
    toy, small_settings, tmp_path, observer
):
    settings = small_settings | {"training.ema_epochs": 1.5, "training.fit_threshold": True}
    arguments = {"method": "uniform", "epochs": 3, "settings": settings}
    whole = Recognizer.train(toy, toy, **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, out=tmp_path / "interrupted", observer=observer, **arguments)
    resumed = Recognizer.train(toy, toy, out=tmp_path / "interrupted", resume=True, **arguments)
    assert same(whole, resumed)
    assert (
        whole.model.threshold
        == resumed.model.threshold
        == Recognizer.from_pretrained(tmp_path / "interrupted").model.threshold
    )
    assert resumed.record.dev == whole.record.dev


def test_a_fitted_threshold_is_the_one_that_the_scores_belong_to(toy, small_settings):
    settings = small_settings | {"training.fit_threshold": True}
    trained = Recognizer.train(toy, toy[::2], method="uniform", epochs=3, settings=settings)
    assert trained.model.threshold != 0, "otherwise this says little"
    best = trained.record.history[trained.record.best_epoch - 1]["dev"]
    assert trained.record.dev == trained.evaluate(toy[::2]).as_dict() == best
    assert best["f1"] == max(record["dev"]["f1"] for record in trained.record.history)
    trained.model.threshold.zero_()
    assert trained.evaluate(toy[::2]).f1 <= best["f1"]


class Drawn(Observer):
    """Remembers which unknown spans became negatives, by sentence."""

    def __init__(self) -> None:
        self.spans: dict[int, set[tuple[int, int]]] = {}

    def negatives_drawn(self, sentences, spans):
        for row, start, end in zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True):
            self.spans.setdefault(sentences[row], set()).add((start, end))


def all_spans(sentence: Sentence) -> set[tuple[int, int]]:
    return {(start, end) for start in range(len(sentence)) for end in range(start + 1, len(sentence) + 1)}


def test_only_spans_of_sentences_with_gaps_are_ever_drawn(toy, small_settings, monkeypatch):
    """All others of trusted sentences are known to be no entities, and every one of them is learned from."""
    known: dict[tuple[str, ...], set[tuple[int, int]]] = {}
    original = SpanMethod.training_loss

    def spy(self, model, inputs, targets, step):
        spans = targets.partition(None).negatives
        for row, length in enumerate(targets.lengths.tolist()):
            chosen = (spans.row == row).nonzero().squeeze(1)
            found = set(zip(spans.start[chosen].tolist(), spans.end[chosen].tolist(), strict=True))
            known.setdefault((length, *inputs.words[row, :length].tolist()), set()).update(found)
        return original(self, model, inputs, targets, step)

    monkeypatch.setattr(SpanMethod, "training_loss", spy)
    distant = Corpus(tuple(Sentence(s.tokens, s.entities[:1]) for s in toy[:9]))
    human = toy[9:15]
    drawn = Drawn()
    settings = small_settings | {"negatives": "all", "stage": "none"}
    trained = Recognizer.train(distant, toy, trusted=human, epochs=1, settings=settings, observer=drawn)
    corpus = [*human, *distant]
    index = trained.model.encoder.index
    for place, sentence in enumerate(corpus):
        annotated = {(entity.start, entity.end) for entity in sentence.entities}
        words = index.collate([sentence.tokens]).words[0].tolist()
        negatives = known[len(sentence), *words]
        if place < len(human):
            assert negatives == all_spans(sentence) - annotated
            assert place not in drawn.spans
        else:
            assert negatives == set()
            assert drawn.spans[place] == all_spans(sentence) - annotated


def test_a_share_of_trusted_sentences_is_what_an_epoch_consists_of(toy, small_settings):
    class Batches(Observer):
        seen: list[int] = []

        def negatives_drawn(self, sentences, spans):
            self.seen.extend(sentences)

    settings = small_settings | {"trusted.fraction": 0.6, "stage": "none"}
    Recognizer.train(toy[5:], toy, trusted=toy[:5], epochs=1, settings=settings, observer=Batches())
    assert len(Batches.seen) == 25
    assert [Batches.seen.count(place) for place in range(5)] == [3] * 5
    assert max(Batches.seen.count(place) for place in range(5, 25)) == 1


def test_rejected_spans_are_known_and_never_drawn(toy, small_settings):
    tokens = toy[0].tokens
    corpus = Corpus((Sentence(tokens, toy[0].entities, (Span(1, 2), Span(0, 3))), toy[1]))
    drawn = Drawn()
    Recognizer.train(corpus, epochs=1, settings=small_settings | {"negatives": "all"}, observer=drawn)
    annotated = {(entity.start, entity.end) for entity in toy[0].entities}
    assert drawn.spans[0] == all_spans(toy[0]) - annotated - {(1, 2), (0, 3)}


def test_a_process_that_trains_alone_may_train_on_one_device_and_then_on_another(monkeypatch):
    """Accelerate decides once a process; that was when the first test of this process trained."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("cpu", "cuda:1", "cuda:0", "cpu"):
        with on_device(name):
            assert training_place()[1] == torch.device(name)
