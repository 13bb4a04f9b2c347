"""JSON and tensors in model folders."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.modules import module as modules

from lacuner.errors import ModelError
from lacuner.storage import WriteError, reporting

_SPARE_TENSORS, _SPARE_ELEMENTS = 1_000, 50_000_000
"""Allowance for a model beyond four times what it stores, for poolers and decoders that are built, then dropped."""
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")


class StoredTensor(NamedTuple):
    """Metadata of a stored tensor, from the file's header."""

    shape: tuple[int, ...]
    floating: bool

    @property
    def elements(self) -> int:
        return torch.Size(self.shape).numel()


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON object from a model folder, or raise an error that says what is wrong with it."""
    if not folder.is_dir():
        raise ModelError(f"there is no folder {folder} — check the path")
    path = folder / name
    if not path.is_file():
        raise ModelError(f"{folder} is not a model folder: {name} is missing — check the path")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelError(f"{path} is damaged ({error}) — copy the folder again") from error
    except RecursionError:
        raise ModelError(f"{path} is damaged (it is nested too deeply) — copy the folder again") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path} does not contain a JSON object — copy the folder again")
    return content


def strings_of(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The list of strings under a key, or a :class:`TypeError`."""
    value = data[key]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{key} is no list of strings")
    return tuple(value)


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a file of tensors; system errors of the library, which have their own wording, are translated."""
    try:
        with reporting(path):
            save_file(dict(tensors), path, metadata)
    except SafetensorError as error:
        number = _SYSTEM_ERROR.search(str(error))
        raise WriteError(OSError(int(number[1]), _plain(error)) if number else str(error), path) from error


def _plain(error: SafetensorError) -> str:
    return _SYSTEM_ERROR.sub("", str(error)).rpartition(":")[2].strip()


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Read the shapes of a file's tensors, without loading them."""
    if not path.is_file():
        raise ModelError(f"{path} is missing — copy the folder again")
    try:
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {
                name: StoredTensor(tuple(part.get_shape()), part.get_dtype().startswith(("F", "BF")))
                for name, part in slices.items()
            }
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is damaged or cut short ({error}) — copy the folder again") from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a file; reject infinite values and NaN."""
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is damaged or cut short ({error}) — copy the folder again") from error
    damaged = not_finite(tensors)
    if damaged is not None:
        raise ModelError(f"{path}: the weights {damaged!r} have infinite values, or NaN — copy the folder again")
    return tensors


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of a tensor with infinite values or NaN, if any."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            return name
    return None


@contextmanager
def no_more_than(stored: Mapping[str, StoredTensor], described: Path) -> Iterator[None]:
    """Limit modules built in this context to about the number and size of the stored tensors."""
    left = {
        "tensors": 4 * len(stored) + _SPARE_TENSORS,
        "elements": 4 * sum(tensor.elements for tensor in stored.values()) + _SPARE_ELEMENTS,
    }

    def count(module: nn.Module, name: str, tensor: Any) -> None:
        if isinstance(tensor, Tensor):
            left["tensors"] -= 1
            left["elements"] -= tensor.numel()
            if min(left.values()) < 0:
                raise ModelError(
                    f"{described} describes a much larger model than the weights are of — copy the folder again"
                )

    hooks = [
        modules.register_module_parameter_registration_hook(count),
        modules.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
