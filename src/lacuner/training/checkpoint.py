"""Checkpoints: everything that is needed to go on as if nothing had happened, without pickle."""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lacuner.errors import TrainingError


@dataclass
class Progress:
    """How far training has come."""

    epochs_done: int = 0
    best_epoch: int = 0
    best_f1: float = -1.0
    history: list[dict[str, Any]] = field(default_factory=list)


class CheckpointFolder:
    """A folder with the state after the last epoch and the best weights so far.

    Each state is written to a new folder that takes its name only when it is whole, so a kill at any moment leaves the one
    before.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    def save(self, model: nn.Module, optimizer: Any, progress: Progress, best: dict[str, Tensor]) -> None:
        """Write the state after an epoch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"epoch-{progress.epochs_done:04d}"
        unfinished = self.folder / f"{name}.tmp"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        save_file(trained_weights(model), unfinished / "model.safetensors")
        save_file(best, unfinished / "best.safetensors")
        state = optimizer.state_dict()["state"]
        tensors = {
            f"{number}.{key}": value.contiguous() for number, item in state.items() for key, value in item.items()
        }
        save_file(tensors, unfinished / "optimizer.safetensors")
        described = {"fingerprint": self.fingerprint, **vars(progress)}
        (unfinished / "progress.json").write_text(json.dumps(described, indent=1), encoding="utf-8")
        os.replace(unfinished, self.folder / name)
        for old in self.folder.iterdir():
            if old.name != name:
                shutil.rmtree(old)

    def load(self, model: nn.Module, optimizer: Any) -> tuple[Progress, dict[str, Tensor]] | None:
        """Put the last state into model and optimizer; return how far it came and its best weights."""
        states = sorted(path for path in self.folder.glob("epoch-*") if path.suffix != ".tmp")
        if not states:
            return None
        described = json.loads((states[-1] / "progress.json").read_text(encoding="utf-8"))
        if described.pop("fingerprint") != self.fingerprint:
            raise TrainingError(
                f"{self.folder} holds a run with other data or settings; give the same ones, or train without --resume"
            )
        progress = Progress(**described)
        put_weights(model, load_file(states[-1] / "model.safetensors"))
        tensors = load_file(states[-1] / "optimizer.safetensors")
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            number, _, name = key.partition(".")
            state.setdefault(int(number), {})[name] = value
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return progress, load_file(states[-1] / "best.safetensors")

    def exists(self) -> bool:
        """Whether there is a state to go on from."""
        return any(path.suffix != ".tmp" for path in self.folder.glob("epoch-*"))

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of everything that training changes."""
    return {name: weight.detach().clone().contiguous() for name, weight in model.named_parameters()}


def put_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """The opposite of :func:`trained_weights`."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
