import json

import pytest
import torch

from lacuner import Corpus, Recognizer, Sentence, TrainingError
from lacuner.methods.full import CrossEntropy
from lacuner.training.settings import resolve_settings
from lacuner.training.trainer import Observer


class StopAfter(Observer):
    """Kills training when an epoch has ended."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def epoch_ended(self, record):
        if record["epoch"] == self.epoch:
            raise KeyboardInterrupt


class StopWithin(Observer):
    """Kills training in the middle of an epoch."""

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
def test_a_killed_run_that_is_resumed_ends_bit_identical(toy, small_settings, tmp_path, observer):
    arguments = {"method": "uniform", "epochs": 4, "settings": small_settings}
    whole = Recognizer.train(toy, toy, out=tmp_path / "whole", **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, out=tmp_path / "killed", observer=observer, **arguments)
    assert not (tmp_path / "killed").exists()
    resumed = Recognizer.train(toy, toy, out=tmp_path / "killed", resume=True, **arguments)
    assert same(whole, resumed)
    assert (tmp_path / "whole" / "model.safetensors").read_bytes() == (
        tmp_path / "killed" / "model.safetensors"
    ).read_bytes()
    assert [record["loss"] for record in whole.record.history] == [record["loss"] for record in resumed.record.history]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "whole"]


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
    Recognizer.train(toy, toy, **arguments)
    assert "thrown away" in caplog.text


def test_checkpoints_hold_no_pickle(toy, small_settings, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, epochs=2, settings=small_settings, out=tmp_path / "m", observer=StopAfter(1))
    files = [path for path in (tmp_path / "m.training").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".safetensors", ".json"}


def test_the_best_epoch_is_kept_and_patience_ends_training(toy, small_settings):
    result = Recognizer.train(toy, toy, epochs=60, settings=small_settings | {"training.patience": 2}).record
    scores = [record["dev"]["f1"] for record in result.history]
    assert len(scores) == result.best_epoch + 2 < 60
    assert scores[result.best_epoch - 1] == max(scores) > max(scores[: result.best_epoch - 1])


def test_patience_begins_when_something_is_found(toy, small_settings):
    dev = Corpus(tuple(Sentence(sentence.tokens) for sentence in toy))
    result = Recognizer.train(toy, dev, epochs=6, settings=small_settings | {"training.patience": 1}).record
    assert (len(result.history), result.best_epoch) == (6, 6)


def test_a_small_corpus_is_read_more_often(small_settings):
    config = resolve_settings(overrides=small_settings).training
    few, many = config.for_corpus(1_000, "recurrent"), config.for_corpus(1_000_000, "recurrent")
    assert few.epochs > many.epochs == 15
    assert few.patience / few.epochs == pytest.approx(many.patience / many.epochs, rel=0.1)
    assert config.model_copy(update={"epochs": 3}).for_corpus(1_000, "recurrent").epochs == 3


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
    """A run that was killed while its first checkpoint was being written leaves nothing that a later run could take."""
    arguments = {"epochs": 3, "settings": small_settings, "out": tmp_path / "m"}
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, seed=1, observer=StopAfter(1), **arguments)
    state = tmp_path / "m.training" / "epoch-0001"
    state.rename(state.with_suffix(".tmp"))
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy, toy, seed=2, observer=StopAfter(1), **arguments)
    resumed = Recognizer.train(toy, toy, seed=2, resume=True, **arguments)
    assert same(resumed, Recognizer.train(toy, toy, seed=2, epochs=3, settings=small_settings))


def test_a_transformer_run_resumes_bit_identical(toy, minilm, tmp_path):
    arguments = {"encoder": minilm, "epochs": 2, "settings": {"training.batch_tokens": 128}}
    whole = Recognizer.train(toy[:8], toy[:4], out=tmp_path / "whole", **arguments)
    with pytest.raises(KeyboardInterrupt):
        Recognizer.train(toy[:8], toy[:4], out=tmp_path / "killed", observer=StopAfter(1), **arguments)
    assert same(whole, Recognizer.train(toy[:8], toy[:4], out=tmp_path / "killed", resume=True, **arguments))
