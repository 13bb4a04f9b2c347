import pytest
import torch

from lacuner.encoders.device import choose_device, default_device
from lacuner.errors import ConfigError


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Pretends that this machine has these devices."""

    def have(cuda: bool = False, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return have


def test_the_fastest_device_is_the_default(machine) -> None:
    machine()
    assert default_device() == choose_device(None) == torch.device("cpu")
    machine(mps=True)
    assert default_device() == choose_device(None) == torch.device("mps")
    machine(cuda=True, mps=True)
    assert default_device() == choose_device(None) == torch.device("cuda")


def test_a_device_that_is_there_may_be_named() -> None:
    for name in ("cpu", "meta", torch.device("cpu")):
        assert choose_device(name) == torch.device(name)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "", "CPU", "cuda", "cuda:7", "mps", "xpu", torch.device("cuda")])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(name) -> None:
    if isinstance(name, torch.device) or name in ("cuda", "mps"):
        there = torch.cuda.is_available() or torch.backends.mps.is_available()
        if there:
            pytest.skip("this machine has a GPU")
    with pytest.raises(
        ConfigError, match=rf"^there is no device '{name}' here .* — use cpu, or leave it out$"
    ) as caught:
        choose_device(name)
    assert "\n" not in str(caught.value)
