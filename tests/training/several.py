"""Training in several real processes, for tests; new interpreters import this module."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lacuner import Recognizer
from lacuner.encoders.processes import Processes
from lacuner.inference.backends import TorchBackend
from lacuner.models.model import EncodedBatch
from lacuner.training.launch import run_together

Run = Mapping[str, Any]
"""Arguments of ``Recognizer.train``."""


def train_all(runs: Mapping[str, Run]) -> dict[str, list[dict[str, Any]]]:
    """What each run says of its epochs; one after the other."""
    return {name: list(Recognizer.train(**run).record.history) for name, run in runs.items()}


def train_together(count: int, folder: Path, runs: Mapping[str, Run]) -> dict[str, list[dict[str, Any]]]:
    """The same in so many processes that train each model together."""
    run_together(partial(_train, folder, runs), count)
    histories = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("history-*.json"))]
    assert len(histories) == count
    for other in histories[1:]:
        assert losses(other) == losses(histories[0]), "all processes know the same loss"
    found: dict[str, list[dict[str, Any]]] = histories[0]
    return found


def sentences_searched(count: int, folder: Path, run: Run) -> list[int]:
    """In how many sentences each of the processes searches for entities, when they train together."""
    run_together(partial(_count_searched, folder, run), count)
    return [int(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("searched-*"))]


def _count_searched(folder: Path, run: Run) -> None:
    torch.set_num_threads(1)
    searched, encode = 0, TorchBackend.encode

    def counted(self: TorchBackend, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        nonlocal searched
        searched += len(sentences)
        return encode(self, sentences)

    TorchBackend.encode = counted  # type: ignore[method-assign]
    Recognizer.train(**run)
    index = Processes.join(torch.device("cpu")).index
    (folder / f"searched-{index}").write_text(str(searched), encoding="utf-8")


def losses(histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[float]]:
    return {name: [record["loss"] for record in history] for name, history in histories.items()}


def _train(folder: Path, runs: Mapping[str, Run]) -> None:
    torch.set_num_threads(1)
    histories = train_all(runs)
    index = Processes.join(torch.device("cpu")).index
    (folder / f"history-{index}.json").write_text(json.dumps(histories), encoding="utf-8")
