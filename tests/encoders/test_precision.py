import pytest
import torch

from lacuner.encoders.precision import has_bf16

CPU, CUDA, MPS = map(torch.device, ("cpu", "cuda", "mps"))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Pretends that the processors of this machine have these instructions."""

    def have(avx512_bf16: bool = False, amx: bool = False, cuda_bf16: bool = False) -> None:
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
        # Every GPU can emulate it.
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or cuda_bf16
        )

    return have


def test_either_instruction_set_of_a_cpu_will_do(machine) -> None:
    machine()
    assert not has_bf16(CPU)
    machine(avx512_bf16=True)
    assert has_bf16(CPU)
    machine(amx=True)
    assert has_bf16(CPU)


def test_a_gpu_that_only_emulates_bfloat16_does_not_have_it(machine) -> None:
    machine(avx512_bf16=True, amx=True)
    assert not has_bf16(CUDA)
    machine(cuda_bf16=True)
    assert has_bf16(CUDA)
    assert not has_bf16(CPU)


def test_nothing_is_claimed_of_other_devices(machine) -> None:
    machine(avx512_bf16=True, amx=True, cuda_bf16=True)
    assert not has_bf16(MPS)


def test_torch_knows_about_this_processor() -> None:
    """The functions of torch that are asked are not public, and may be renamed."""
    assert has_bf16(CPU) in (True, False)
