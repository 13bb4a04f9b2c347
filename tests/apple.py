"""A device that has no double precision, such as Apple's GPU, on machines that have none."""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

MPS = torch.device("mps")


class OnGpu(Tensor):
    """On the device, as far as anybody can see."""


class AppleGpu(TorchFunctionMode):
    """Tensors that are moved to MPS, or made there, stay where they are and refuse to have doubles."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (args, kwargs or {})
        involved = any(isinstance(leaf, OnGpu) for leaf in tree_leaves(given))
        if involved and func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return MPS
        moved = any(isinstance(leaf, torch.device) and leaf == MPS for leaf in tree_leaves(given))
        plain = tree_map(self._on_cpu, given)
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*plain[0], **plain[1])
        back = func is Tensor.cpu or func is Tensor.tolist
        return tree_map(self._on_gpu, found) if (involved or moved) and not back else found

    @staticmethod
    def _on_cpu(value: Any) -> Any:
        if isinstance(value, OnGpu):
            return value.as_subclass(Tensor)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    @staticmethod
    def _on_gpu(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64")
        return value.as_subclass(OnGpu)
