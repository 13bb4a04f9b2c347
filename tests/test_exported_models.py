import json

import pytest
import torch

from lacuner import ConfigError, DataError, ModelError, Recognizer
from lacuner.audit.audit import audit_corpus
from lacuner.encoders.transformer import TransformerConfig
from lacuner.inference import onnx as ours


@pytest.fixture(scope="module")
def bert(toy, toy_bert):
    """A tagger with a BiLSTM on a tiny BERT."""
    return Recognizer.train(toy, method="crf", encoder=toy_bert, epochs=4, settings={"encoder.lstm": 8})


@pytest.fixture(scope="module", autouse=True)
def one_export(bert):
    """Exporting takes seconds; all tests share one."""
    content = ours.export_onnx(bert.model.encoder.model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lacuner.inference.backends.export_onnx", lambda model: content)
        yield


@pytest.fixture(scope="module")
def folder(bert, toy, tmp_path_factory):
    out = tmp_path_factory.mktemp("export") / "fast"
    bert.report = bert.export(out, toy, "onnx-int8", allow_loss=100)
    return out


def test_an_exported_model_is_loaded_as_any_other(bert, folder, toy, tmp_path):
    fast = Recognizer.from_pretrained(folder)
    assert fast.backend == "onnx-int8"
    assert fast.evaluate(toy).f1 == pytest.approx(bert.report.after.f1)
    assert fast.labels == bert.labels
    assert not [name for name, _ in fast.model.named_parameters() if name.startswith("encoder.model.")]
    suffixes = {path.suffix for path in folder.iterdir()}
    assert suffixes == {".json", ".jsonl", ".safetensors", ".onnx", ".md"}
    fast.save_pretrained(tmp_path / "again")
    again = Recognizer.from_pretrained(tmp_path / "again")
    text = "Grace Hopper moved to Oslo."
    assert again.predict(text) == fast.predict(text)
    assert (tmp_path / "again" / "encoder.onnx").read_bytes() == (folder / "encoder.onnx").read_bytes()


def test_the_report_says_what_it_costs_and_gives(bert, folder):
    report = bert.report
    assert report.before.bytes > 0
    assert report.speedup == report.after.words_per_second / report.before.words_per_second
    assert json.loads(json.dumps(report.as_dict()))["after"]["f1"] == report.after.f1
    assert "onnx-int8: F1" in str(report)


def test_a_model_that_finds_less_is_not_written(bert, toy, tmp_path, monkeypatch):
    monkeypatch.setattr("lacuner.inference.backends.quantize", worse)
    with pytest.raises(ModelError, match="F1 falls by") as caught:
        bert.export(tmp_path / "worse", toy, "onnx-int8")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "worse").exists()


def worse(content):
    """An encoder whose embeddings are all the same."""
    import onnx
    from onnx import TensorProto, numpy_helper

    model = onnx.ModelProto.FromString(content)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2:
            tensor.CopyFrom(numpy_helper.from_array(0 * numpy_helper.to_array(tensor), tensor.name))
    return model.SerializeToString()


def test_what_cannot_be_exported_is_refused_in_one_sentence(model, folder, toy, tmp_path):
    with pytest.raises(ConfigError, match="Hugging Face encoder"):
        model.export(tmp_path / "x", toy)
    with pytest.raises(ConfigError, match="already exported"):
        Recognizer.from_pretrained(folder).export(tmp_path / "x", toy)
    with pytest.raises(DataError, match="no entities"):
        model.export(tmp_path / "x", [])


def test_a_model_that_asks_questions_is_not_exported(toy, toy_bert, tmp_path):
    """Its encoder is told which words are the question; an exported one would not be."""
    asking = Recognizer.train(toy, method="mrc", encoder=toy_bert, epochs=1)
    with pytest.raises(ConfigError, match="question for each label"):
        asking.export(tmp_path / "x", toy)
    assert not (tmp_path / "x").exists()


def test_an_exported_model_is_neither_trained_nor_audited_with(folder, toy):
    with pytest.raises(ConfigError, match="exported model"):
        TransformerConfig(model=str(folder)).create()
    with pytest.raises(ConfigError, match="exported model"):
        audit_corpus(toy, Recognizer.from_pretrained(folder))


def test_a_hostile_encoder_is_refused_with_the_folder(folder, tmp_path, monkeypatch):
    import shutil

    import onnx

    copy = shutil.copytree(folder, tmp_path / "copy")
    model = onnx.ModelProto.FromString((copy / "encoder.onnx").read_bytes())
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    (copy / "encoder.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr(ours, "_start_session", None)
    with pytest.raises(ModelError, match="other files"):
        Recognizer.from_pretrained(copy)
    (copy / "encoder.onnx").unlink()
    with pytest.raises(ModelError, match="missing"):
        Recognizer.from_pretrained(copy)


def test_the_verb_prints_and_writes(run, bert, toy, tmp_path):
    bert.save_pretrained(tmp_path / "model")
    toy.write(tmp_path / "dev.conll")
    arguments = ("--backend", "onnx", "--check", tmp_path / "dev.conll", "--out", tmp_path / "fast", "--json")
    code, output, _ = run("export", tmp_path / "model", *arguments)
    assert code == 0
    printed = json.loads(output)
    assert printed["backend"] == "onnx"
    assert printed["before"]["f1"] == pytest.approx(printed["after"]["f1"])
    assert Recognizer.from_pretrained(tmp_path / "fast").backend == "onnx"
    assert torch.equal(
        Recognizer.from_pretrained(tmp_path / "fast").model.head.output.weight, bert.model.head.output.weight
    )


def test_a_model_that_finds_nothing_cannot_show_what_its_export_costs(run, bert, tmp_path):
    bert.save_pretrained(tmp_path / "model")
    (tmp_path / "other.conll").write_text("it\tO\nrained\tB-WEATHER\n")
    code, _, log = run("export", tmp_path / "model", "--check", tmp_path / "other.conll", "--out", tmp_path / "fast")
    assert code == 0, log
    assert "is 0 before the export, so it cannot show what the export costs" in " ".join(log.split())
