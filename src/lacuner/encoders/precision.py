"""What the matrices of an encoder are multiplied in while it is trained: float32, or bfloat16, which is faster."""

from typing import Literal

import torch

Precision = Literal["fp32", "bf16"]
"""``bf16`` is mixed precision: weights, gradients of weights and sums stay float32."""


def has_bf16(device: torch.device) -> bool:
    """Whether a device is known to multiply bfloat16 in hardware; one that emulates it is slower than in float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
