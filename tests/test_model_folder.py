import copy as copying
import io
import json
import os
import pickle
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from faults import CALLS, fail_everywhere
from lacuner import ModelError, Recognizer
from lacuner.errors import LacunerError
from lacuner.storage import umask


@pytest.fixture
def copy(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "copy")


def refusal(folder) -> str:
    with pytest.raises(ModelError) as caught:
        Recognizer.from_pretrained(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_model_folder_has_what_was_promised(model_folder):
    assert {path.name for path in model_folder.iterdir()} == {
        "config.json", "model.safetensors", "vocabulary.json", "README.md", "metrics.jsonl",
    }  # fmt: skip
    config = json.loads((model_folder / "config.json").read_text())
    assert config["format_version"] == 5
    card = (model_folder / "README.md").read_text()
    assert "`full`" in card
    assert "| **all** |" in card


def test_the_files_of_a_model_may_be_read_by_others(model, toy, toy_bert, tmp_path):
    Recognizer.train(toy[:4], method="full", encoder=toy_bert, epochs=1, out=tmp_path / "bert")
    model.save_pretrained(tmp_path / "recurrent")
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*") if path.is_file()}
    assert "model.safetensors" in modes
    assert "tokenizer.json" in modes
    allowed = oct(0o666 & ~umask())
    assert {name: mode for name, mode in modes.items() if mode != allowed} == {}


def test_a_loaded_model_predicts_the_same(model, model_folder, toy):
    loaded = Recognizer.from_pretrained(model_folder)
    assert loaded.predict("Grace Hopper moved to Oslo.") == model.predict("Grace Hopper moved to Oslo.")
    assert loaded.evaluate(toy) == model.evaluate(toy)
    assert loaded.settings == model.settings
    assert loaded.record == model.record


@pytest.mark.parametrize("threshold", [-3.25, 0.0, 0.1, 2.5])
def test_a_threshold_survives_saving(model, toy, tmp_path, threshold):
    cautious = copying.deepcopy(model)
    cautious.model.threshold.fill_(threshold)
    cautious.save_pretrained(tmp_path / "m")
    assert load_file(tmp_path / "m" / "model.safetensors")["threshold"].item() == pytest.approx(threshold)
    loaded = Recognizer.from_pretrained(tmp_path / "m")
    assert loaded.model.threshold.item() == pytest.approx(threshold)
    before, after = (each.predict(list(toy)) for each in (cautious, loaded))
    assert before == after
    assert [e.score for found in before for e in found] == [e.score for found in after for e in found]


def test_a_threshold_decides_what_is_found(model, toy):
    cautious = copying.deepcopy(model)
    cautious.model.threshold.fill_(50.0)
    assert cautious.evaluate(toy).predicted == 0
    cautious.model.threshold.fill_(-50.0)
    assert cautious.evaluate(toy).predicted > model.evaluate(toy).predicted


def test_prototypes_survive_saving(toy, small_settings, tmp_path):
    """Whatever a part of the method keeps is among the tensors of the model."""
    trained = Recognizer.train(toy, method="scl-rai", epochs=20, settings=small_settings, out=tmp_path / "m")
    stored = load_file(tmp_path / "m" / "model.safetensors")
    loaded = Recognizer.from_pretrained(tmp_path / "m")
    kept = trained.model.state_of("inference")
    assert kept["seen"].all()
    for name, value in kept.items():
        assert torch.equal(stored[f"state.inference.{name}"], value)
        assert torch.equal(loaded.model.state_of("inference")[name], value)
    assert loaded.predict(list(toy)) == trained.predict(list(toy))


def test_saving_twice_replaces_the_folder(model, tmp_path):
    model.save_pretrained(tmp_path / "m")
    model.save_pretrained(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_folder_with_other_things_in_it_is_not_overwritten(model, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelError, match="is not a model folder"):
        model.save_pretrained(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_a_crash_while_saving_leaves_the_old_model(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path / "m")
    before = (tmp_path / "m" / "model.safetensors").read_bytes()

    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr("lacuner.features.stored.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        model.save_pretrained(tmp_path / "m")
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_missing_folder(tmp_path):
    assert "there is no folder" in refusal(tmp_path / "absent")


def test_an_empty_folder(tmp_path):
    assert "config.json is missing" in refusal(tmp_path)


def test_a_newer_format(copy):
    edit_config(copy, format_version=99)
    assert "format version 99" in refusal(copy)
    assert "git pull, then pip install . in its clone" in refusal(copy)


@pytest.mark.parametrize("version", [1, 4])
def test_an_older_format(copy, version):
    edit_config(copy, format_version=version)
    assert f"format version {version}" in refusal(copy)
    assert "train the model again" in refusal(copy)


def test_a_config_of_another_program(copy):
    (copy / "config.json").write_text('{"model_type": "bert"}')
    assert "not the configuration of a Lacuner model" in refusal(copy)


def test_a_config_without_a_key(copy):
    config = json.loads((copy / "config.json").read_text())
    del config["labels"]
    (copy / "config.json").write_text(json.dumps(config))
    assert "labels is missing" in refusal(copy)


@pytest.mark.parametrize(
    "change",
    [
        {"settings": None}, {"record": []}, {"labels": None}, {"labels": ["PER", "O", "LOC"]}, {"split": "syllables"},
        {"architecture": {}}, {"settings": {"method": None}}, {"record": None},
        {"reports": ["../elsewhere"]}, {"labels": ["O", "PER", "PER"]}, {"settings": {"method": {"name": "full"}}},
    ],
)  # fmt: skip
def test_a_config_with_a_wrong_value(copy, change):
    edit_config(copy, **change)
    assert "config.json" in refusal(copy)


def test_what_a_later_version_adds_to_the_record_is_ignored(copy):
    record = json.loads((copy / "config.json").read_text())["record"]
    edit_config(copy, record=record | {"carbon": 1.5})
    assert Recognizer.from_pretrained(copy).labels


def test_a_folder_of_another_program_is_not_overwritten(model, tmp_path):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match="is not a model folder"):
        model.save_pretrained(tmp_path / "bert")


def test_when_the_new_model_cannot_take_its_place_the_old_one_keeps_it(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path / "m")
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    real, calls = os.rename, []

    def fail_once(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError("no space left")
        real(source, target)

    monkeypatch.setattr("lacuner.storage._exchange", lambda one, other: False)
    monkeypatch.setattr("lacuner.storage.os.rename", fail_once)
    with pytest.raises(OSError, match="no space left"):
        model.save_pretrained(tmp_path / "m")
    assert len(calls) == 3
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_config_that_is_not_json(copy):
    (copy / "config.json").write_text("{")
    assert "config.json is damaged" in refusal(copy)


def test_a_method_that_is_not_installed(copy):
    config = json.loads((copy / "config.json").read_text())
    config["settings"]["method"]["negatives"] = {"name": "somebody-elses"}
    (copy / "config.json").write_text(json.dumps(config))
    assert "there is no negatives 'somebody-elses'" in refusal(copy)


@pytest.mark.parametrize("size", [0, 100, 20_000])
def test_truncated_weights(copy, size):
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert "model.safetensors is damaged or cut short" in refusal(copy)


def test_missing_weights(copy):
    (copy / "model.safetensors").unlink()
    assert "model.safetensors is missing" in refusal(copy)


def test_a_missing_tensor(copy):
    tensors = load_file(copy / "model.safetensors")
    del tensors["head.classifier.weight"]
    save_file(tensors, copy / "model.safetensors")
    assert "lacks the weights 'head.classifier.weight'" in refusal(copy)


def test_a_tensor_of_another_shape(copy):
    tensors = load_file(copy / "model.safetensors")
    tensors["head.classifier.weight"] = tensors["head.classifier.weight"][:-1].clone()
    save_file(tensors, copy / "model.safetensors")
    assert "has the shape" in refusal(copy)


@pytest.mark.parametrize("threshold", [None, torch.zeros(3)])
def test_a_missing_or_odd_threshold(copy, threshold):
    tensors = load_file(copy / "model.safetensors")
    del tensors["threshold"]
    save_file(tensors | ({} if threshold is None else {"threshold": threshold}), copy / "model.safetensors")
    assert ("lacks the weights 'threshold'" if threshold is None else "'threshold' has the shape") in refusal(copy)


def test_a_surplus_tensor(copy):
    tensors = load_file(copy / "model.safetensors")
    tensors["stowaway"] = tensors["head.classifier.weight"].clone()
    save_file(tensors, copy / "model.safetensors")
    assert "stowaway" in refusal(copy)


def test_a_damaged_vocabulary(copy):
    (copy / "vocabulary.json").write_text("[]")
    assert "vocabulary.json" in refusal(copy)
    for words in ([["Ada"]], [{}], "Ada", None, [1]):
        (copy / "vocabulary.json").write_text(json.dumps({"words": words, "vector_words": [], "characters": []}))
        assert "vocabulary.json is damaged (TypeError('words is no list of strings'))" in refusal(copy)
    (copy / "vocabulary.json").unlink()
    assert "vocabulary.json is missing" in refusal(copy)


class Evil:
    """Unpickling it makes a folder."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


PICKLES = (
    "pytorch_model.bin",
    "model.bin",
    "model.pt",
    "model.pkl",
    "training_args.bin",
    "optimizer.pt",
    "vocabulary.pkl",
)
"""What other libraries load, if it is there."""


@pytest.fixture
def pickled(tmp_path):
    """Bytes that run code when they are unpickled, as ``torch.save`` writes them or plainly; a check that it did not run."""

    def make(as_torch):
        trace = tmp_path / "trace"
        file = io.BytesIO()
        (torch.save if as_torch else pickle.dump)({"threshold": Evil(trace)}, file)
        torch.load(io.BytesIO(file.getvalue()), weights_only=False) if as_torch else pickle.loads(file.getvalue())
        assert trace.is_dir(), "otherwise this proves nothing"
        trace.rmdir()
        return file.getvalue(), lambda: not trace.exists()

    return make


@pytest.mark.parametrize("as_torch", [True, False])
def test_loading_runs_no_pickle(copy, model, toy, pickled, as_torch):
    content, nothing_ran = pickled(as_torch)
    for name in PICKLES:
        (copy / name).write_bytes(content)
    loaded = Recognizer.from_pretrained(copy)
    assert nothing_ran()
    assert loaded.evaluate(toy) == model.evaluate(toy)
    for path in sorted(copy.iterdir()):
        if path.name in PICKLES:
            continue
        original = path.read_bytes()
        path.write_bytes(content)
        if path.name == "README.md":
            Recognizer.from_pretrained(copy)
        else:
            assert path.name in refusal(copy)
        assert nothing_ran()
        path.write_bytes(original)


@pytest.mark.parametrize("as_torch", [True, False])
def test_loading_a_transformer_runs_no_pickle(toy_bert, toy, small_settings, tmp_path, pickled, as_torch):
    content, nothing_ran = pickled(as_torch)
    head = {name: value for name, value in small_settings.items() if not name.startswith("encoder.")}
    Recognizer.train(toy, encoder=toy_bert, method="full", epochs=1, settings=head, out=tmp_path / "model")
    for name in PICKLES:
        (tmp_path / "model" / name).write_bytes(content)
    Recognizer.from_pretrained(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    assert "model.safetensors is missing" in refusal(tmp_path / "model")
    assert nothing_ran()


def test_a_transformer_model_survives_saving_and_loading_it_runs_no_code(minilm, toy, tmp_path):
    settings = {
        "training.encoder_learning_rate": 2e-4,
        "training.head_learning_rate": 4e-3,
        "training.batch_tokens": 64,
    }
    trained = Recognizer.train(toy, toy, encoder=minilm, method="full", epochs=8, settings=settings, out=tmp_path / "m")
    assert (tmp_path / "m" / "tokenizer.json").is_file()
    (tmp_path / "m" / "evil.py").write_text("raise SystemExit('code of a stranger was run')")
    config = json.loads((tmp_path / "m" / "tokenizer_config.json").read_text())
    config["auto_map"] = {"AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}
    (tmp_path / "m" / "tokenizer_config.json").write_text(json.dumps(config))
    loaded = Recognizer.from_pretrained(tmp_path / "m")
    assert loaded.predict("Emmy Noether moved to New York .") == trained.predict("Emmy Noether moved to New York .")
    assert loaded.evaluate(toy).f1 > 0.9


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["head.classifier.weight", "threshold"])
def test_weights_that_are_no_numbers(copy, name, value):
    tensors = load_file(copy / "model.safetensors")
    tensors[name].view(-1)[-1] = value
    save_file(tensors, copy / "model.safetensors")
    assert f"the weights {name!r} have infinite values, or NaN" in refusal(copy)


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.uint8])
def test_weights_that_are_integers_or_booleans(copy, kind):
    tensors = load_file(copy / "model.safetensors")
    tensors["head.classifier.weight"] = tensors["head.classifier.weight"].to(kind)
    save_file(tensors, copy / "model.safetensors")
    assert "'head.classifier.weight' has integers or booleans instead of floating-point numbers" in refusal(copy)


def edit_settings(folder, part, **changes):
    config = json.loads((folder / "config.json").read_text())
    settings = config["settings"]
    (settings["method"] if part == "head" else settings)[part] |= changes
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        ("head", {"hidden": 33}, "has the shape"),
        ("head", {"hidden": 10**9}, "describes a much larger model"),
        ("head", {"hidden": 10**18}, "config.json"),
        ("encoder", {"hidden": 10**8}, "config.json"),
        ("encoder", {"layers": 10**9}, "describes a much larger model"),
        ("encoder", {"character_size": 10**10}, "describes a much larger model"),
    ],
)
def test_a_small_folder_cannot_ask_for_much_memory(copy, part, changes, reason):
    """The shapes of the weights are read before anything is built of that size."""
    import tracemalloc

    edit_settings(copy, part, **changes)
    tracemalloc.start()
    try:
        assert reason in refusal(copy)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [10**9, 10**30, -1, 2.5, True, None])
def test_word_vectors_of_an_absurd_size(copy, size):
    edit_config(copy, architecture={"word_size": size})
    assert "config.json" in refusal(copy) or "has the shape" in refusal(copy)


def test_absurdly_many_labels(copy):
    edit_config(copy, labels=["O", *(f"L{number}" for number in range(100_000))])
    assert "has the shape" in refusal(copy)


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json"])
def test_absurd_nesting(copy, name):
    (copy / name).write_text('{"a":' * 200_000 + "1" + "}" * 200_000)
    assert f"{name} is damaged" in refusal(copy)


@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "renamed twice"])
@pytest.mark.parametrize("what", CALLS)
def test_whatever_fails_the_folder_has_the_old_model_or_the_new_one(model, tmp_path, monkeypatch, what, exchange):
    if not exchange:
        monkeypatch.setattr("lacuner.storage._exchange", lambda one, other: False)
    other = copying.deepcopy(model)
    other.model.threshold.fill_(1.0)
    folder = tmp_path / "m"
    model.save_pretrained(folder)

    def check():
        assert Recognizer.from_pretrained(folder).model.threshold.item() in (0.0, 1.0)
        model.save_pretrained(folder)
        assert [path.name for path in tmp_path.iterdir()] == ["m"]

    fail_everywhere(what, lambda: other.save_pretrained(folder), check)
    assert Recognizer.from_pretrained(folder).model.threshold.item() == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs limits of the system")
def test_a_disk_that_is_full_at_any_byte_leaves_the_old_model(model, tmp_path):
    """Weights are not written by Python, so that a limit of the system stands for the disk."""
    import resource
    import signal

    folder = tmp_path / "m"
    model.save_pretrained(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(map(len, before.values()))
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for limit in (0, 100, 1000, 10_000, largest // 2, largest - 1):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            with pytest.raises(LacunerError, match="File too large") as raised:
                model.save_pretrained(folder)
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert "\n" not in str(raised.value)
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
            assert [path.name for path in tmp_path.iterdir()] == ["m"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


def test_where_no_model_can_be_written_is_said_before_the_first_epoch(toy, small_settings, tmp_path, monkeypatch):
    def never(*arguments, **keywords):
        raise AssertionError("it has begun to train")

    monkeypatch.setattr("lacuner.training.run.TrainingRun.train", never)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LacunerError, match="cannot be replaced"):
        Recognizer.train(toy, method="full", epochs=1, settings=small_settings, out=".")
    (tmp_path / "file").write_text("")
    with pytest.raises(LacunerError, match="choose another"):
        Recognizer.train(toy, method="full", epochs=1, settings=small_settings, out=tmp_path / "file" / "m")


def test_a_label_without_a_name(copy):
    labels = json.loads((copy / "config.json").read_text(encoding="utf-8"))["labels"]
    for name in ("", " "):
        edit_config(copy, labels=[*labels[:-1], name])
        assert "none may be empty" in refusal(copy)


def test_metrics_that_are_nested_too_deeply(copy):
    (copy / "metrics.jsonl").write_text("[" * 100_000 + "\n", encoding="utf-8")
    assert "metrics.jsonl is damaged" in refusal(copy)
