"""Checkpoints: the complete training state, so that a resumed run is identical to an uninterrupted one; without pickle."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from lacuner.errors import ModelError, TrainingError
from lacuner.features.stored import save_tensors
from lacuner.models.model import Model
from lacuner.storage import new_file, new_folder, reporting
from lacuner.streams.locks import exclusive

logger = logging.getLogger(__name__)

_STEPS = "steps"
_MARKER, _LOCK = ".lacuner-training", ".lock"


@dataclass
class Progress:
    """Training progress so far."""

    epochs_done: int = 0
    best_epoch: int = 0
    best_quality: float = -1.0
    history: list[dict[str, Any]] = field(default_factory=list)
    steps_done: int = 0


class CheckpointFolder:
    """A folder with the state after the last epoch and the best weights so far.

    Each state is written to a temporary folder and renamed when complete, so an interruption leaves the previous state
    intact.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    def save(
        self,
        model: Model,
        optimizer: Any,
        progress: Progress,
        best: dict[str, Tensor],
        average: "WeightAverage | None" = None,
        processes: int = 1,
    ) -> None:
        """Write the state after an epoch trained by this many processes."""
        state = optimizer.state_dict()["state"]
        files = {
            "model": trained_weights(model),
            "best": best,
            "optimizer": {
                f"{number}.{key}": value.contiguous() for number, item in state.items() for key, value in item.items()
            },
        }
        if average is not None:
            files["average"] = average.weights | {_STEPS: torch.tensor(average.steps)}
        described = {
            "fingerprint": self.fingerprint,
            "processes": processes,
            "threads": torch.get_num_threads(),
            **vars(progress),
        }
        name = f"epoch-{progress.epochs_done:04d}"
        with new_folder(self.folder / name) as unfinished, reporting(self.folder):
            for file, tensors in files.items():
                save_tensors(tensors, unfinished / f"{file}.safetensors")
            (unfinished / "progress.json").write_text(json.dumps(described, indent=1), encoding="utf-8")
        for old in self.folder.iterdir():
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)

    def load(
        self, model: Model, optimizer: Any, average: "WeightAverage | None" = None, processes: int = 1
    ) -> tuple[Progress, dict[str, Tensor]] | None:
        """Restore the last state into model, optimizer and average; return its progress and the best weights."""
        states = sorted(path for path in self.folder.glob("epoch-*") if path.suffix != ".tmp")
        if not states:
            return None
        described = json.loads((states[-1] / "progress.json").read_text(encoding="utf-8"))
        _check_fingerprint(described.pop("fingerprint"), self.fingerprint, self.folder)
        before, threads = described.pop("processes", 1), described.pop("threads", None)
        if before == processes:
            _check_threads(threads, self.folder)
        else:
            logger.info(
                "The run was started with %d processes and continues with %d: sums are rounded differently.",
                before,
                processes,
            )
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
    """Temporary state of a training run: a folder of checkpoints for each model, and the results of finished stages.

    A marker file identifies folders created by Lacuner: no other folder is ever written to or removed.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock the folder for exclusive use.

        Raises:
            ModelError: the folder was not created by a training run.
            LacunerError: another run uses it.
        """
        if self.folder.exists() and not (self.folder / _MARKER).is_file():
            raise ModelError(
                f"{self.folder} is where checkpoints would be kept, but it is not an unfinished training run — "
                "move it away, or choose another --out"
            )
        try:
            self._create()
        except OSError as error:
            reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else error.strerror
            raise ModelError(f"{self.folder}: {reason or error} — choose another --out") from error
        busy = f"another run is training in {self.folder} — wait for it, or choose another --out"
        with exclusive(self.folder / _LOCK, busy):
            yield

    def _create(self) -> None:
        """Create the folder together with its marker."""
        if self.folder.exists():
            return
        try:
            with new_folder(self.folder, replace=False) as marked:
                (marked / _MARKER).touch()
        except OSError:
            if not (self.folder / _MARKER).is_file():  # unless another run was faster
                raise

    def stage(self, name: str) -> CheckpointFolder:
        """The checkpoint folder of a model."""
        return CheckpointFolder(self.folder / name, self.fingerprint)

    def cached(
        self, name: str, compute: Callable[[], dict[str, Tensor]], resume: bool, fingerprint: str | None = None
    ) -> dict[str, Tensor]:
        """Return ``compute()``, or its stored result from an interrupted run.

        Args:
            name: key of the result.
            compute: called only if there is no stored result.
            resume: whether to use results of an earlier run.
            fingerprint: if it differs from the stored one, compute again; by default the run's, where a difference is an
                error.
        """
        path = self.folder / f"{name}.safetensors"
        if resume and path.exists():
            try:
                found, kept = _fingerprint_of(path), load_file(path)
            except (SafetensorError, OSError) as error:
                logger.warning("%s is damaged (%s) and is computed again.", path, error)
            else:
                if fingerprint is None:
                    _check_fingerprint(found, self.fingerprint, self.folder)
                if found == (fingerprint or self.fingerprint):
                    return kept
        result = compute()
        if PartialState().is_main_process:
            with reporting(path):
                self.folder.mkdir(parents=True, exist_ok=True)
            with new_file(path) as file:
                file.write(save(result, {"fingerprint": fingerprint or self.fingerprint}))
            shutil.rmtree(self.folder / name, ignore_errors=True)  # checkpoints are no longer needed
        return result

    def has_result(self, name: str, fingerprint: str | None = None) -> bool:
        """Whether :meth:`cached` has stored a result under this name, with this fingerprint if given."""
        path = self.folder / f"{name}.safetensors"
        if fingerprint is None or not path.exists():
            return path.exists()
        try:
            return _fingerprint_of(path) == fingerprint
        except (SafetensorError, OSError):
            return False

    def has_progress(self) -> bool:
        """Whether there is anything to resume from."""
        return any(
            path.suffix != ".tmp" for path in (*self.folder.glob("*/epoch-*"), *self.folder.glob("*.safetensors"))
        )

    def begin_again(self) -> None:
        """Discard all progress; the folder stays locked.

        Raises:
            TrainingError: the progress is that of an identical run, which would only be repeated.
        """
        if self._is_of_this_run():
            raise TrainingError(
                f"{self.folder} holds an unfinished run with the same data and settings — "
                "continue it with --resume (in Python: resume=True), or delete the folder to begin again"
            )
        if self.has_progress():
            logger.warning("An unfinished run with other data or settings is discarded: %s.", self.folder)
        for path in self.folder.iterdir():
            if path.name in (_MARKER, _LOCK):
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _is_of_this_run(self) -> bool:
        for state in self.folder.glob("*/epoch-*/progress.json"):
            if json.loads(state.read_text(encoding="utf-8"))["fingerprint"] == self.fingerprint:
                return True
        for result in self.folder.glob("*.safetensors"):
            with suppress(SafetensorError):
                if _fingerprint_of(result) == self.fingerprint:
                    return True
        return False

    def remove(self) -> None:
        """Delete the folder."""
        if (self.folder / _MARKER).is_file():
            shutil.rmtree(self.folder, ignore_errors=True)


def _check_threads(found: int | None, folder: Path) -> None:
    """Reject a different number of threads: sums would be rounded differently, and the run not be reproducible."""
    if found not in (None, torch.get_num_threads()):
        raise TrainingError(
            f"{folder} holds a run with {found} threads, but now there are {torch.get_num_threads()}, "
            f"which rounds differently — resume it with OMP_NUM_THREADS={found}, or train without --resume"
        )


def _fingerprint_of(result: Path) -> str:
    with safe_open(result, "pt") as file:
        metadata: dict[str, str] = file.metadata() or {}
    return metadata.get("fingerprint", "")


def _check_fingerprint(found: str, expected: str, folder: Path) -> None:
    if found != expected:
        raise TrainingError(
            f"{folder} holds a run with other data or settings; "
            "give the same ones, or train without --resume, which discards it"
        )


class WeightAverage:
    """An exponential moving average of a model's weights."""

    def __init__(self, model: Model) -> None:
        self.weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        self.steps = 0

    @torch.no_grad()
    def update(self, model: Model, horizon: float) -> None:
        """Update with the weights after a step; effectively averages the last ``horizon`` steps, fewer at the start."""
        self.steps += 1
        share = max(1 / (1 + horizon), 9 / (9 + self.steps))
        averaged = [self.weights[name] for name, _ in model.named_parameters()]
        torch._foreach_lerp_(averaged, list(model.parameters()), share)


def trained_weights(model: Model) -> dict[str, Tensor]:
    """Copy everything that training changes: weights, and the state of the method's parts."""
    return {name: weight.detach().clone().contiguous() for name, weight in _changing(model).items()}


def put_weights(model: Model, weights: dict[str, Tensor]) -> None:
    """Restore :func:`trained_weights`; tensors missing from ``weights`` are left unchanged."""
    with torch.no_grad():
        for name, tensor in _changing(model).items():
            if name in weights:
                tensor.copy_(weights[name])


def _changing(model: Model) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.state.named_buffers(prefix="state"))
