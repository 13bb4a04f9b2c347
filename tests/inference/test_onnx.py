import copy

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from lacuner import ConfigError, ModelError
from lacuner.encoders.transformer import TransformerConfig
from lacuner.inference import onnx as ours
from lacuner.inference.onnx import OnnxTransformer, check_onnx, export_onnx, quantize, read_onnx


@pytest.fixture(scope="module")
def encoder(toy_bert):
    return TransformerConfig(model=toy_bert).create().eval()


@pytest.fixture(scope="module")
def content(encoder):
    return export_onnx(encoder.model)


def last_layer(model, windows, length):
    pieces = torch.arange(windows * length).view(windows, length) % 10
    attention = torch.ones_like(pieces)
    attention[0, length - 1 :] = 0
    with torch.no_grad():
        return model(input_ids=pieces, attention_mask=attention).last_hidden_state[attention.bool()]


@pytest.mark.parametrize(("windows", "length"), [(1, 3), (2, 16), (7, 50)])
def test_an_export_computes_what_the_model_does_whatever_the_shape(encoder, content, windows, length):
    exported = OnnxTransformer(content, encoder.model.config)
    expected = last_layer(encoder.model, windows, length)
    assert torch.allclose(last_layer(exported, windows, length), expected, atol=1e-4)
    assert torch.allclose(last_layer(copy.deepcopy(exported), windows, length), expected, atol=1e-4)


def test_int8_weights_are_those_of_matrix_products_only(encoder, content):
    small = quantize(content)
    kinds = {
        tensor.data_type for tensor in onnx.ModelProto.FromString(small).graph.initializer if len(tensor.dims) == 2
    }
    assert TensorProto.INT8 in kinds
    words = encoder.model.get_input_embeddings().weight
    tables = [t for t in onnx.ModelProto.FromString(small).graph.initializer if tuple(t.dims) == tuple(words.shape)]
    assert [numpy_helper.to_array(table).dtype for table in tables] == [np.float32]
    exported = OnnxTransformer(small, encoder.model.config)
    found, expected = last_layer(exported, 3, 9), last_layer(encoder.model, 3, 9)
    assert torch.nn.functional.cosine_similarity(found, expected).min() > 0.98
    assert set(check_onnx(small, "small")) == {t.name for t in onnx.ModelProto.FromString(small).graph.initializer}


def test_an_export_that_computes_something_else_is_refused(encoder, content, monkeypatch):
    other = copy.deepcopy(encoder.model)
    other.get_input_embeddings().weight.data *= -1
    with pytest.raises(ConfigError, match="gives different results"):
        ours._compare(other, content)


def outside(tensor):
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"


def in_initializer(model):
    outside(model.graph.initializer[0])


def without_saying_so(model):
    entry = model.graph.initializer[0].external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"


def in_attribute(model):
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "hidden-away")
    outside(tensor)
    model.graph.node.append(helper.make_node("Constant", [], ["secret"], value=tensor))


def in_inner_graph(model):
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "deeper")
    outside(tensor)
    graph = helper.make_graph([], "inner", [], [], [tensor])
    model.graph.node.append(helper.make_node("If", ["pieces"], ["x"], then_branch=graph, else_branch=graph))


def in_function(model):
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "f")
    outside(tensor)
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    model.functions.append(helper.make_function("other", "f", [], ["y"], [node], model.opset_import))


@pytest.mark.parametrize("hide", [in_initializer, without_saying_so, in_attribute, in_inner_graph, in_function])
def test_weights_in_other_files_are_refused_before_anything_is_loaded(content, tmp_path, monkeypatch, hide):
    model = onnx.ModelProto.FromString(content)
    hide(model)
    (tmp_path / "encoder.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr("onnxruntime.InferenceSession", None)
    with pytest.raises(ModelError, match="names other files"):
        read_onnx(tmp_path / "encoder.onnx")


def strange_domain(model):
    model.graph.node.append(helper.make_node("EPContext", [], ["x"], domain="com.microsoft"))


def loop(model):
    model.graph.node.append(helper.make_node("Loop", [], ["x"], body=helper.make_graph([], "b", [], [])))


def other_inputs(model):
    model.graph.input[0].name = "words"


def not_finite(model):
    table = next(tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT)
    values = numpy_helper.to_array(table).copy()
    values.flat[0] = np.nan
    table.CopyFrom(numpy_helper.from_array(values, table.name))


def too_large(model):
    table = next(tensor for tensor in model.graph.initializer if tensor.raw_data)
    table.dims[:] = [10**6, 10**6]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (strange_domain, "EPContext"),
        (loop, "Loop"),
        (other_inputs, "not the encoder"),
        (not_finite, "NaN"),
        (too_large, "another size"),
    ],
)
def test_graphs_that_are_none_of_ours_are_refused(content, change, reason):
    model = onnx.ModelProto.FromString(content)
    change(model)
    with pytest.raises(ModelError, match=reason) as caught:
        check_onnx(model.SerializeToString(), "encoder.onnx")
    assert "\n" not in str(caught.value)


def test_a_damaged_file_is_said_to_be_damaged(content, encoder, tmp_path):
    (tmp_path / "encoder.onnx").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=r"damaged|another size|not the encoder"):
        read_onnx(tmp_path / "encoder.onnx")
    with pytest.raises(ModelError, match="missing"):
        read_onnx(tmp_path / "nothing.onnx")
    with pytest.raises(ModelError, match="cannot be loaded"):
        last_layer(OnnxTransformer(b"nonsense", encoder.model.config), 1, 3)


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install onnx onnxruntime onnxscript"):
        ours.require_onnx(export=True)
