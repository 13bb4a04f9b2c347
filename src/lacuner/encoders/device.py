"""Choice of device and numerical precision."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import torch

from lacuner.errors import ConfigError

Precision = Literal["fp32", "bf16"]
"""``bf16`` is mixed precision: matrix products in bfloat16; weights, gradients and sums in float32."""
_chosen: ContextVar[torch.device | None] = ContextVar("device", default=None)


def default_device() -> torch.device:
    """The device set by :func:`on_device`, or else the fastest available: CUDA, Apple's GPU (MPS), or the CPU."""
    fastest = (name for name in ("cuda", "mps", "cpu") if _is_available(torch.device(name)))
    return _chosen.get() or torch.device(next(fastest))


@contextmanager
def on_device(name: str | torch.device | None) -> Iterator[torch.device]:
    """Set the default device for training and loading in this context; without a name, nothing changes.

    It also applies to teachers, audit folds and dev evaluation, so that these need no device argument.
    """
    device = find_device(name)
    token = _chosen.set(device)
    try:
        yield device
    finally:
        _chosen.reset(token)


def find_device(name: str | torch.device | None = None) -> torch.device:
    """Parse a device name such as ``cpu``, ``cuda:1`` or ``mps``; without a name, return the default device."""
    if name is None:
        return default_device()
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"there is no device {str(name)!r}; give cpu, cuda, cuda:1, or mps") from error
    if not _is_available(device):
        raise ConfigError(f"the device {str(name)!r} is not available on this machine; give {default_device().type}")
    return device


def _is_available(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
    if device.type == "mps":
        return torch.backends.mps.is_available()
    return device.type in ("cpu", "meta")


def has_bf16(device: torch.device) -> bool:
    """Whether a device is known to support bfloat16 in hardware; emulated, it is several times slower than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def exact_dtype(device: torch.device) -> torch.dtype:
    """The most precise floating-point type of a device: MPS has no double precision."""
    return torch.float32 if device.type == "mps" else torch.float64
