import io
import json
import logging
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from fake_hub import TOKEN, FakeHub, running_hub, use_hub
from lacuner import Recognizer
from lacuner.errors import ConfigError, LacunerError, ModelError
from lacuner.hub import find_model_folder

NAME = "ada/names"
TEXT = "Grace Hopper moved to Oslo ."
OURS = {"config.json", "model.safetensors", "vocabulary.json", "README.md", "metrics.jsonl"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with running_hub() as running:
        use_hub(running.address, tmp_path / "cache", monkeypatch)
        monkeypatch.chdir(tmp_path)  # in which no folder has the name of a model on the hub
        yield running


@pytest.fixture
def published(hub: FakeHub, model_folder: Path) -> FakeHub:
    hub.repositories[NAME] = {"main": {path.name: path.read_bytes() for path in model_folder.iterdir()}}
    return hub


def refusal(name=NAME, **options) -> str:
    with pytest.raises(LacunerError) as caught:
        Recognizer.from_pretrained(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_model_comes_back_from_the_hub_as_it_was_sent(hub, model):
    address = model.push_to_hub(NAME, token=TOKEN)
    assert address.startswith(f"{hub.address}/{NAME}/commit/")
    assert hub.repositories[NAME]["main"].keys() == OURS
    loaded = Recognizer.from_pretrained(NAME)
    assert loaded.predict(TEXT) == model.predict(TEXT)
    assert loaded.settings == model.settings
    assert loaded.record == model.record


def test_a_second_push_replaces_the_model_and_a_branch_has_its_own(hub, model, toy, small_settings):
    model.push_to_hub(NAME, token=TOKEN)
    other = Recognizer.train(toy, method="full", epochs=1, settings=small_settings)
    other.push_to_hub(NAME, token=TOKEN, revision="quick", message="One epoch")
    assert Recognizer.from_pretrained(NAME).record.best_epoch == model.record.best_epoch
    assert Recognizer.from_pretrained(NAME, revision="quick").record.best_epoch == 1
    other.push_to_hub(NAME, token=TOKEN)
    assert Recognizer.from_pretrained(NAME).record.best_epoch == 1


def test_a_transformer_is_sent_without_the_folders_of_this_machine(hub, toy, toy_bert):
    trained = Recognizer.train(toy[:4], method="full", encoder=toy_bert, epochs=1)
    trained.push_to_hub(NAME, token=TOKEN)
    files = hub.repositories[NAME]["main"]
    assert "tokenizer.json" in files
    assert not [name for name, content in files.items() if toy_bert.encode() in content]
    assert Recognizer.from_pretrained(NAME).predict(TEXT) == trained.predict(TEXT)


def test_a_private_model_needs_a_token(hub, model):
    model.push_to_hub(NAME, private=True, token=TOKEN)
    assert hub.private == {NAME}
    assert "there is no folder ada/names, and no such model on the hub that you may read" in refusal()
    assert "hf auth login" in refusal()
    assert Recognizer.from_pretrained(NAME, token=TOKEN).predict(TEXT) == model.predict(TEXT)


def test_nothing_is_sent_without_permission_or_to_a_name_that_is_none(hub, model):
    with pytest.raises(ModelError, match=r"^the hub does not let you write ada/names — .*hf auth login"):
        model.push_to_hub(NAME)
    with pytest.raises(ModelError, match="does not let you write"):
        model.push_to_hub(NAME, token="hf_of_somebody_else")
    for name in ("names", "a/b/c", "../names", "ada/", "/names", "ada/na mes"):
        with pytest.raises(ConfigError, match="is not a name on the hub; give one such as user/model"):
            model.push_to_hub(name, token=TOKEN)
    assert hub.repositories == {}


def test_a_folder_comes_before_a_name_on_the_hub(published, model_folder, tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / NAME).symlink_to(model_folder)
    Recognizer.from_pretrained(NAME)
    assert published.requests == []
    with pytest.raises(ConfigError, match=r"^ada/names is a folder, which has no revision 'v1'"):
        Recognizer.from_pretrained(NAME, revision="v1")


@pytest.mark.parametrize(
    "name", ["names", "./names", "a/b/c", "/absent/names", Path("ada/names"), "ada/../names", "ada/"]
)
def test_what_cannot_be_a_name_on_the_hub_is_not_looked_for_there(published, name):
    assert refusal(name).startswith(f"there is no folder {name} — check the path")
    assert published.requests == []


def test_a_name_that_nobody_has_gets_one_clear_sentence(hub):
    expected = "there is no folder ada/nobody, and no such model on the hub that you may read — check the name; "
    expected += "if it is private, log in with hf auth login, or give token=…"
    assert refusal("ada/nobody") == refusal("ada/nobody", token=TOKEN) == expected


def test_a_revision_that_is_not_there_is_named(published):
    expected = "ada/names on the hub has no revision 'v9' — give a branch, tag or commit that it has"
    assert refusal(revision="v9") == expected


def test_a_model_of_another_library_is_refused_before_its_weights_are_fetched(hub):
    files = {"config.json": b'{"model_type": "bert"}', "model.safetensors": b"0" * 100, "pytorch_model.bin": b"0"}
    hub.repositories = {NAME: {"main": files}, "ada/empty": {"main": {".gitattributes": b""}}}
    for name in (NAME, "ada/empty"):
        assert refusal(name) == f"{name} on the hub is not a Lacuner model — check the name"
    assert hub.fetched == {"config.json"}


def test_offline_the_copy_that_was_fetched_before_is_used_and_that_is_said(published, model, monkeypatch, caplog):
    Recognizer.from_pretrained(NAME)
    asked = len(published.requests)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with caplog.at_level(logging.WARNING):
        assert Recognizer.from_pretrained(NAME).predict(TEXT) == model.predict(TEXT)
    assert "The hub cannot be reached (HF_HUB_OFFLINE is set); using the copy of ada/names" in caplog.text
    assert len(published.requests) == asked
    assert "no copy of such a model was fetched before, and the hub cannot be reached (HF_HUB_OFFLINE is set)" in (
        refusal("ada/other")
    )


def test_a_hub_that_does_not_answer_is_said(tmp_path, monkeypatch, model):
    use_hub("http://127.0.0.1:9", tmp_path / "cache", monkeypatch)  # where nobody listens
    assert (
        "there is no folder ada/names, no copy of such a model was fetched before, and the hub cannot be reached"
        in (refusal())
    )
    with pytest.raises(ModelError, match=r"^ada/names could not be sent to the hub .* — check the connection"):
        model.push_to_hub(NAME, token=TOKEN)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_only_the_files_of_a_model_are_fetched(published, tmp_path):
    """A pickle, code, and names that lead out of the folder stay where they are."""
    hostile = {
        "pytorch_model.bin": pickle.dumps(Evil()),
        "training_args.pkl": pickle.dumps(Evil()),
        "modeling.py": b"import os; os.mkdir('executed')",
        "chat_template.jinja": b"{{ 7 * 7 }}",
        "../escaped.json": b"{}",
        "../../escaped.json": b"{}",
        "sub/config.json": b"{}",
        "..\\escaped.json": b"{}",
        "/absolute.json": b"{}",
    }
    published.repositories[NAME]["main"] |= hostile
    assert Recognizer.from_pretrained(NAME).predict(TEXT)
    assert published.fetched == OURS
    folder = find_model_folder(NAME)
    assert {path.name for path in folder.rglob("*")} == OURS
    assert not (tmp_path / "executed").exists()
    assert not list(tmp_path.rglob("*escaped*"))


def grown(weights: bytes) -> bytes:
    """More bytes than the header says."""
    return weights + bytes(1000)


def promising(weights: bytes) -> bytes:
    """A header that promises more numbers than there are bytes."""
    (length,) = struct.unpack("<Q", weights[:8])
    header = json.loads(weights[8 : 8 + length])
    name = next(name for name in header if name != "__metadata__")
    header[name] |= {"shape": [1 << 40], "data_offsets": [0, 1 << 42]}
    changed = json.dumps(header).encode()
    return struct.pack("<Q", len(changed)) + changed + weights[8 + length :]


def pickled(weights: bytes) -> bytes:
    """A pickle under the name of weights."""
    file = io.BytesIO()
    pickle.dump(Evil(), file)
    return file.getvalue()


@pytest.mark.parametrize("damage", [grown, promising, pickled, lambda weights: weights[:-100], lambda weights: b""])
def test_weights_that_are_not_what_their_header_says_are_refused(published, tmp_path, damage):
    files = published.repositories[NAME]["main"]
    files["model.safetensors"] = damage(files["model.safetensors"])
    assert "model.safetensors is damaged or cut short" in refusal()
    assert not (tmp_path / "executed").exists()


def test_the_command_line_takes_a_name_on_the_hub(published, model_folder, tmp_path):
    (tmp_path / "news.txt").write_text(f"{TEXT}\n")
    environment = os.environ | {
        "HF_ENDPOINT": published.address,
        "HF_HOME": str(tmp_path / "home"),
        "OMP_NUM_THREADS": "1",
    }
    found = []
    for model in (NAME, model_folder):
        command = [sys.executable, "-m", "lacuner", "predict", str(model), "news.txt"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
        assert ("Fetching ada/names from the hub." in done.stderr) == (model == NAME)
    assert found[0] == found[1] != ""
