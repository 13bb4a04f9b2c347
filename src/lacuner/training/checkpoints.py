"""Checkpoints: everything that is needed to go on as if nothing had happened, without pickle."""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lacuner.errors import TrainingError

_STEPS = "steps"


@dataclass
class Progress:
    """How far training has come."""

    epochs_done: int = 0
    best_epoch: int = 0
    best_quality: float = -1.0
    history: list[dict[str, Any]] = field(default_factory=list)


class CheckpointFolder:
    """A folder with the state after the last epoch and the best weights so far.

    Each state is written to a new folder that takes its name only when it is whole, so a kill at any moment leaves the one
    before.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    def save(
        self,
        model: nn.Module,
        optimizer: Any,
        progress: Progress,
        best: dict[str, Tensor],
        average: "WeightAverage | None" = None,
    ) -> None:
        """Write the state after an epoch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"epoch-{progress.epochs_done:04d}"
        unfinished = self.folder / f"{name}.tmp"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        save_file(trained_weights(model), unfinished / "model.safetensors")
        save_file(best, unfinished / "best.safetensors")
        if average is not None:
            save_file(average.weights | {_STEPS: torch.tensor(average.steps)}, unfinished / "average.safetensors")
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

    def load(
        self, model: nn.Module, optimizer: Any, average: "WeightAverage | None" = None
    ) -> tuple[Progress, dict[str, Tensor]] | None:
        """Put the last state into model, optimizer and average; return how far it came and its best weights."""
        states = sorted(path for path in self.folder.glob("epoch-*") if path.suffix != ".tmp")
        if not states:
            return None
        described = json.loads((states[-1] / "progress.json").read_text(encoding="utf-8"))
        _check_fingerprint(described.pop("fingerprint"), self.fingerprint, self.folder)
        progress = Progress(**described)
        put_weights(model, load_file(states[-1] / "model.safetensors"))
        tensors = load_file(states[-1] / "optimizer.safetensors")
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            number, _, name = key.partition(".")
            state.setdefault(int(number), {})[name] = value
        if average is not None:
            weights = load_file(states[-1] / "average.safetensors")
            average.steps = int(weights.pop(_STEPS))
            for name, weight in average.weights.items():
                weight.copy_(weights[name])
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return progress, load_file(states[-1] / "best.safetensors")


class RunFolder:
    """What a training keeps until it has ended: a folder of checkpoints for each stage, and what finished stages found out."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    def stage(self, name: str) -> CheckpointFolder:
        """The checkpoints of a stage."""
        return CheckpointFolder(self.folder / name, self.fingerprint)

    def keep(self, name: str, found: dict[str, Tensor]) -> None:
        """Note what a finished stage has found out; its checkpoints are not needed any more."""
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f"{name}.tmp"
        save_file(found, unfinished, {"fingerprint": self.fingerprint})
        os.replace(unfinished, self.folder / f"{name}.safetensors")
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def kept(self, name: str) -> dict[str, Tensor] | None:
        """What a finished stage has found out."""
        path = self.folder / f"{name}.safetensors"
        if not path.exists():
            return None
        with safe_open(path, "pt") as file:
            _check_fingerprint(file.metadata()["fingerprint"], self.fingerprint, self.folder)
        return load_file(path)

    def exists(self) -> bool:
        """Whether there is something to go on from."""
        return any(
            path.suffix != ".tmp" for path in (*self.folder.glob("*/epoch-*"), *self.folder.glob("*.safetensors"))
        )

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _check_fingerprint(found: str, expected: str, folder: Path) -> None:
    if found != expected:
        raise TrainingError(
            f"{folder} holds a run with other data or settings; give the same ones, or train without --resume"
        )


class WeightAverage:
    """An exponential moving average of a model's weights."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = trained_weights(model)
        self.steps = 0

    @torch.no_grad()
    def update(self, model: nn.Module, horizon: float) -> None:
        """Take a step's weights in; those of about the last ``horizon`` steps count, fewer in the beginning."""
        self.steps += 1
        share = max(1 / (1 + horizon), 9 / (9 + self.steps))
        averaged = [self.weights[name] for name, _ in model.named_parameters()]
        torch._foreach_lerp_(averaged, list(model.parameters()), share)


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of everything that training changes."""
    return {name: weight.detach().clone().contiguous() for name, weight in model.named_parameters()}


def put_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """The opposite of :func:`trained_weights`."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
