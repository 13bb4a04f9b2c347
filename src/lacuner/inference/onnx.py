"""Transformer encoders in ONNX Runtime: export, int8 quantization, and safe loading of untrusted files."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lacuner.errors import ConfigError, ModelError
from lacuner.features.stored import StoredTensor

INPUTS, OUTPUT = ("pieces", "attention"), "hidden"
_MAX_BYTES = 2**31 - 1
"""Maximum size of an ONNX file; larger models would need external files, which are rejected."""
_SHAPES = ((1, 8), (3, 37), (5, 12))
"""Windows and pieces on which an export is compared with torch; different from those used for the export."""
_TOLERANCE = 1e-3
_NOT_OURS = frozenset({"If", "Loop", "Scan", "SequenceMap"})


class _Hidden(NamedTuple):
    last_hidden_state: Tensor  # (W, m, d)


class OnnxTransformer(nn.Module):
    """Stands in for a Hugging Face model; ONNX Runtime computes its last layer, on the CPU.

    Args:
        content: an ONNX file checked by :func:`check_onnx`.
        config: of the Hugging Face model.
        path: for messages.
    """

    def __init__(self, content: bytes, config: Any, path: str = "encoder.onnx") -> None:
        super().__init__()
        self.content = content
        self.config = config
        self._path = path
        self._session: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None}  # copies create their own

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> _Hidden:
        if self._session is None:
            self._session = _start_session(self.content, self._path)
        feed = {"pieces": input_ids.cpu().numpy(), "attention": attention_mask.cpu().numpy()}
        try:
            (found,) = self._session.run([OUTPUT], feed)
        except Exception as error:  # the runtime may raise anything on a damaged graph
            raise ModelError(f"{self._path} cannot be run ({_line(error)}) — export the model again") from error
        if found.shape != (*input_ids.shape, self.config.hidden_size):
            raise ModelError(f"{self._path} does not belong to config.json — copy the folder again")
        return _Hidden(torch.from_numpy(found).to(input_ids.device))


def require_onnx(*, export: bool = False) -> None:
    """Raise an error that says what to install if a library is missing."""
    import importlib.util

    needed = ("onnx", "onnxruntime", *(("onnxscript",) if export else ()))
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"this needs {' and '.join(missing)}; install it with: pip install {' '.join(missing)}")


def export_onnx(model: Any) -> bytes:
    """Export a Hugging Face encoder as an ONNX file for any number and length of windows, and compare it with torch."""
    require_onnx(export=True)
    model = model.eval()
    pieces = torch.arange(10, 42).view(2, 16) % model.config.vocab_size
    attention = torch.ones_like(pieces)
    attention[1, 12:] = 0
    names = ({0: torch.export.Dim("windows"), 1: torch.export.Dim("length")},) * 2
    try:
        with torch.no_grad(), _quiet():
            program: Any = torch.onnx.export(
                _LastLayer(model),
                (pieces, attention),
                dynamo=True,
                dynamic_shapes=names,
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                verbose=False,
            )
            content: bytes = program.model_proto.SerializeToString()
    except Exception as error:  # architectures fail in many ways
        raise ConfigError(
            f"this encoder cannot be exported to ONNX ({_line(error)}) — use the model as it is"
        ) from error
    _compare(model, content)
    return content


def quantize(content: bytes) -> bytes:
    """Quantize the weights of matrix products to int8, with one scale per column; embeddings and layer norms are kept."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as folder, _quiet():
        before, after = Path(folder, "before.onnx"), Path(folder, "after.onnx")
        before.write_bytes(content)
        quantize_dynamic(before, after, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
        return after.read_bytes()


def read_onnx(path: Path) -> bytes:
    """Read an ONNX file that is safe to load, or raise an error that says why it is not."""
    require_onnx()
    if not path.is_file():
        raise ModelError(f"{path} is missing — copy the folder again")
    if path.stat().st_size > _MAX_BYTES:
        raise ModelError(f"{path} is larger than 2 GB, and Lacuner writes no such files — export the model again")
    content = path.read_bytes()
    check_onnx(content, path)
    return content


def check_onnx(content: bytes, path: Path | str) -> dict[str, StoredTensor]:
    """Return the weights in an ONNX file; reject graphs that reference other files, or were not exported by Lacuner.

    The file is only parsed as a protobuf message, not loaded.
    """
    import onnx

    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:  # the library may raise anything
        raise ModelError(f"{path} is damaged or cut short — copy the folder again") from error
    graph = model.graph
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data for tensor in _tensors(model)):
        raise ModelError(f"{path} names other files as its weights, which are not read — do not trust this model")
    strange = {node.op_type for node in _nodes(model) if node.domain not in ("", "ai.onnx")}
    strange |= {node.op_type for node in _nodes(model)} & _NOT_OURS
    if strange or model.functions or model.training_info or graph.sparse_initializer:
        named = f" ({sorted(strange)[0]})" if strange else ""
        raise ModelError(f"{path} has operations that an encoder does not need{named} — do not trust this model")
    inputs, outputs = [each.name for each in graph.input], [each.name for each in graph.output]
    if inputs != list(INPUTS) or outputs != [OUTPUT]:
        raise ModelError(f"{path} is not the encoder of a Lacuner model — copy the folder again")
    floating = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    for tensor in graph.initializer:
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        if len(tensor.raw_data) and len(tensor.raw_data) != np.prod(tensor.dims, dtype=np.int64) * kind.itemsize:
            raise ModelError(f"{path}: {tensor.name!r} has another size than it says — copy the folder again")
        if tensor.data_type in floating and not np.isfinite(onnx.numpy_helper.to_array(tensor)).all():
            raise ModelError(
                f"{path}: the weights {tensor.name!r} have infinite values, or NaN — copy the folder again"
            )
    return {each.name: StoredTensor(tuple(each.dims), each.data_type in floating) for each in graph.initializer}


class _LastLayer(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pieces: Tensor, attention: Tensor) -> Tensor:
        layer: Tensor = self.model(input_ids=pieces, attention_mask=attention).last_hidden_state
        return layer


def _compare(model: Any, content: bytes) -> None:
    exported = OnnxTransformer(content, model.config)
    for windows, length in _SHAPES:
        pieces = (torch.arange(windows * length).view(windows, length) * 7 + 11) % model.config.vocab_size
        attention = torch.ones_like(pieces)
        attention[-1, length - 2 :] = 0
        with torch.no_grad():
            expected = model(input_ids=pieces, attention_mask=attention).last_hidden_state
        found = exported(pieces, attention).last_hidden_state
        off = float((found - expected)[attention.bool()].abs().max() / expected.abs().max())
        if not off <= _TOLERANCE:
            raise ConfigError(
                f"the ONNX export of this encoder gives different results ({windows} × {length} pieces are off by "
                f"{off:.2%}) — use the model as it is"
            )


def _start_session(content: bytes, path: str) -> Any:
    require_onnx()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # leave the cores to other processes
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"{path} cannot be loaded ({_line(error)}) — export the model again") from error


def _nodes(model: Any) -> Iterator[Any]:
    for function in model.functions:
        yield from _below(function.node)
    yield from _below(model.graph.node)


def _below(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _below(graph.node)


def _tensors(model: Any) -> Iterator[Any]:
    """All tensors of a model, including those in attributes and nested graphs."""
    graphs = [model.graph, *(part for info in model.training_info for part in (info.initialization, info.algorithm))]
    nodes = list(_nodes(model))
    for node in nodes:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            sparse = (attribute.sparse_tensor, *attribute.sparse_tensors)
            yield from (part for each in sparse for part in (each.values, each.indices))
            graphs += [attribute.g, *attribute.graphs]
    for graph in graphs:
        yield from graph.initializer
        yield from (part for each in graph.sparse_initializer for part in (each.values, each.indices))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter and the quantizer."""
    import warnings

    loggers = [logging.getLogger(name) for name in ("", "torch.onnx", "torch", "onnxscript", "onnx_ir")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
