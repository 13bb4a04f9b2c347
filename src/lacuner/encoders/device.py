"""Where models run."""

import torch

from lacuner.errors import ConfigError


def default_device() -> torch.device:
    """The first GPU if there is one, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def choose_device(device: str | torch.device | None) -> torch.device:
    """The device that is asked for; by default :func:`default_device`.

    Raises:
        ConfigError: there is no such device.
    """
    if device is None:
        return default_device()
    try:
        chosen = torch.device(device)
        if chosen.type != "meta":
            torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"there is no device {str(device)!r} here ({reason}) — use cpu, or leave it out") from error
    return chosen
