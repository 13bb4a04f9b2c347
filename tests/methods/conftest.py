from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class SmallTensors(TorchDispatchMode):
    """No operation, backward passes included, may return a tensor of more than ``limit`` elements."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                assert leaf.numel() <= self.limit, f"{func} returns {tuple(leaf.shape)}"
        return result


@pytest.fixture
def small_tensors() -> type[SmallTensors]:
    return SmallTensors
