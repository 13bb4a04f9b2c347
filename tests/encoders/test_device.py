import pytest
import torch

from lacuner.encoders.device import default_device, exact_dtype, find_device, has_bf16, on_device
from lacuner.errors import ConfigError


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Pretends that this machine has these devices."""

    def have(cuda: int = 0, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return have


def test_the_fastest_device_is_the_default(machine) -> None:
    machine()
    assert default_device() == torch.device("cpu")
    machine(mps=True)
    assert default_device() == torch.device("mps")
    machine(cuda=1, mps=True)
    assert default_device() == torch.device("cuda")
    machine(mps=True)
    assert find_device() == find_device(None) == torch.device("mps")


def test_a_device_that_is_there_may_be_named(machine) -> None:
    machine(cuda=2, mps=True)
    for name in ("cpu", "mps", "cuda", "cuda:1", torch.device("cuda:0"), "meta"):
        assert find_device(name) == torch.device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps", torch.device("cuda"), "xpu"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(name, machine) -> None:
    machine()
    with pytest.raises(ConfigError, match=rf"^the device '{name}' is not available on this machine; give cpu$"):
        find_device(name)


def test_a_gpu_beyond_the_last_is_refused(machine) -> None:
    machine(cuda=2)
    with pytest.raises(ConfigError, match=r"^the device 'cuda:2' is not available on this machine; give cuda$"):
        find_device("cuda:2")


def test_what_runs_inside_runs_on_the_chosen_device(machine) -> None:
    machine(cuda=2)
    with on_device("cpu"):
        assert default_device() == find_device() == torch.device("cpu")
        with on_device("cuda:1") as device:
            assert default_device() == device == torch.device("cuda:1")
            assert find_device("cpu") == torch.device("cpu")
            with on_device(None):
                assert default_device() == torch.device("cuda:1")
        assert default_device() == torch.device("cpu")
    assert default_device() == torch.device("cuda")


def test_a_choice_ends_with_what_runs_however_that_ends(machine) -> None:
    machine(cuda=1)
    with pytest.raises(ZeroDivisionError), on_device("cpu"):
        raise ZeroDivisionError
    assert default_device() == torch.device("cuda")
    with pytest.raises(ConfigError), on_device("cuda:1"):
        raise AssertionError("it is not there, so nothing runs")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "", "CPU"])
def test_what_is_no_device_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^there is no device '{name}'; give ") as caught:
        find_device(name)
    assert "\n" not in str(caught.value)


def test_double_precision_is_used_where_there_is_any() -> None:
    assert exact_dtype(torch.device("cpu")) == exact_dtype(torch.device("cuda:1")) == torch.float64
    assert exact_dtype(torch.device("mps")) == torch.float32


CPU, CUDA, MPS = map(torch.device, ("cpu", "cuda", "mps"))


@pytest.fixture
def instructions(monkeypatch: pytest.MonkeyPatch):
    """Pretends that the processors of this machine have these instructions; every GPU can emulate them."""

    def have(avx512_bf16: bool = False, amx: bool = False, cuda: bool = False) -> None:
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or cuda
        )

    return have


def test_either_instruction_set_of_a_cpu_will_do_for_bfloat16(instructions) -> None:
    instructions()
    assert not has_bf16(CPU)
    instructions(avx512_bf16=True)
    assert has_bf16(CPU)
    instructions(amx=True)
    assert has_bf16(CPU)


def test_a_gpu_that_only_emulates_bfloat16_does_not_have_it(instructions) -> None:
    instructions(avx512_bf16=True, amx=True)
    assert not has_bf16(CUDA)
    instructions(cuda=True)
    assert has_bf16(CUDA)
    assert not has_bf16(CPU)


def test_no_bfloat16_is_claimed_of_other_devices(instructions) -> None:
    instructions(avx512_bf16=True, amx=True, cuda=True)
    assert not has_bf16(MPS)


def test_torch_knows_whether_this_processor_has_bfloat16() -> None:
    """The functions of torch that are asked are not public, and may be renamed."""
    assert has_bf16(CPU) in (True, False)
