"""Training of one model by several processes.

Every process has the whole model and the whole batch, but encodes only its share of the rows. The word vectors of all rows
are then gathered, and every process computes the loss of the whole batch. So methods need not know about other processes:
they sample from the whole batch, compare spans across it, and have the same state everywhere. Loss and gradient equal those
of single-process training.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from torch import Tensor, nn

from lacuner.encoders.encoder import Encoder
from lacuner.encoders.rows import Rows, drawing_for
from lacuner.encoders.words import EncodedWords
from lacuner.errors import ConfigError, ProcessLostError, TrainingError

Item = TypeVar("Item")

_TIMEOUT = timedelta(hours=12)
"""Maximum time that processes wait for a busy one; one that has ended is noticed immediately."""
_LOST = re.compile(r"gloo|nccl|by peer|process ?group|broken pipe|store", re.IGNORECASE)


@dataclass(frozen=True)
class Processes:
    """This process's rank among those that train together.

    Attributes:
        index: from 0; the first is the main process, the only one to write files and show progress.
        count: number of processes.
    """

    index: int = 0
    count: int = 1

    @classmethod
    def join(cls, device: torch.device) -> "Processes":
        """Join the processes started by ``accelerate launch`` or ``--processes``; alone if there are none."""
        state = PartialState(cpu=device.type == "cpu", timeout=_TIMEOUT)
        return cls(state.process_index, state.num_processes)

    @property
    def is_main(self) -> bool:
        return self.index == 0

    def own(self, items: Iterable[Item]) -> Iterator[Item]:
        """This process's share of items, such as batches, that are processed independently."""
        return islice(items, self.index, None, self.count)

    def merge(self, found: Mapping[int, Item]) -> dict[int, Item]:
        """Gather results of all processes, by index. All processes must call this."""
        if self.count == 1:
            return dict(found)
        parts: list[dict[int, Item]] = gather_object([dict(found)])
        return {index: item for part in parts for index, item in part.items()}

    def agree(self, value: object, otherwise: str) -> None:
        """Raise an error with this message unless the value is the same in all processes."""
        if len(set(self.merge({self.index: value}).values())) > 1:
            raise TrainingError(otherwise)

    def wait(self) -> None:
        """Barrier: wait for all processes."""
        self.merge({})

    @contextmanager
    def reporting_loss(self) -> Iterator[None]:
        """Turn torch's error about a lost process into a readable one.

        Raises:
            ProcessLostError: another process has ended.
        """
        try:
            yield
        except RuntimeError as error:
            if self.count == 1 or not _LOST.search(str(error)):
                raise
            raise ProcessLostError(
                "another process of this training run has ended — see its message; the same command with --resume "
                "continues after the last complete epoch"
            ) from error

    @contextmanager
    def dividing(self, encoder: Encoder, step: int) -> Iterator[None]:
        """Divide the encoding of batches between the processes; each of them gets all word vectors.

        Args:
            encoder: of the model.
            step: training step, which seeds the random numbers.
        """
        if self.count == 1:
            yield
            return
        vars(encoder)["forward"] = partial(self._encode, encoder, encoder.forward, step)
        try:
            yield
        finally:
            del vars(encoder)["forward"]

    def _encode(self, encoder: Encoder, forward: Callable[[Any], EncodedWords], step: int, inputs: Any) -> EncodedWords:
        if not hasattr(inputs, "rows"):
            raise ConfigError(
                f"the encoder {type(encoder).__name__} cannot divide a batch between processes (its inputs have no method "
                "rows) — train in one process"
            )
        shares = divide_rows(len(inputs.lengths), self.count)
        begin, end = shares[self.index]
        taken = (begin, end) if begin < end else (0, 1)  # a process without rows encodes one that is discarded
        with self._drawing(encoder, step, Rows(*taken, len(inputs.lengths))):
            words = forward(inputs.rows(*taken))
        first = _gathered(words.first[: end - begin], shares, self.index)
        same = words.last is words.first
        return EncodedWords(first, first if same else _gathered(words.last[: end - begin], shares, self.index))

    @torch.no_grad()
    def average_gradients(self, weights: Iterable[nn.Parameter]) -> None:
        """Average gradients over all processes. A weight has no gradient only if it has none in any process.

        Like ``DistributedDataParallel``, but supports weights that are not used in every step.
        """
        if self.count == 1:
            return
        trained = [weight for weight in weights if weight.requires_grad]
        used = torch.tensor(
            [weight.grad is not None for weight in trained], dtype=torch.uint8, device=trained[0].device
        )
        torch.distributed.all_reduce(used, torch.distributed.ReduceOp.MAX)
        learning = [weight for weight, is_used in zip(trained, used.tolist(), strict=True) if is_used]
        gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in learning]
        total = torch.cat([gradient.flatten() for gradient in gradients])
        torch.distributed.all_reduce(total)
        means = torch.split(total / self.count, [weight.numel() for weight in learning])
        for weight, mean in zip(learning, means, strict=True):
            weight.grad = mean.view_as(weight)

    @contextmanager
    def _drawing(self, encoder: Encoder, step: int, rows: Rows) -> Iterator[None]:
        """Draw per-row randomness as if for the whole batch, and leave all generators in the same state in all processes."""
        if not encoder.training:
            yield
        elif encoder.draws_rows:
            with drawing_for(rows):
                yield
        else:
            seed = np.random.SeedSequence([torch.initial_seed(), step, self.index])
            device = next(encoder.parameters()).device
            with torch.random.fork_rng([device] if device.type == "cuda" else []):
                torch.manual_seed(int(seed.generate_state(1)[0]))
                yield


ALONE = Processes()


def divide_rows(rows: int, count: int) -> list[tuple[int, int]]:
    """``[begin, end)`` of each process's rows, as evenly as possible."""
    return [(rows * index // count, rows * (index + 1) // count) for index in range(count)]


def _gathered(own: Tensor, shares: list[tuple[int, int]], index: int) -> Tensor:
    gathered: Tensor = _Gather.apply(own, shares, index)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    """Gather the rows of all processes, in order: ``(rows, n, d) → (B, n, d)``.

    Every process computes the same loss, so it knows the gradient of its own rows. That is multiplied by the number of
    processes, because weight gradients are averaged over processes: gradients of the head, identical everywhere, stay
    unchanged; those of the encoder, of which each process has a part, are summed.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, shares: list[tuple[int, int]], index: int) -> Tensor:
        ctx.begin, ctx.end = shares[index]
        ctx.count = len(shares)
        padded = own.new_zeros(max(end - begin for begin, end in shares), *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in shares]
        torch.distributed.all_gather(parts, padded)
        return torch.cat([part[: end - begin] for part, (begin, end) in zip(parts, shares, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0][ctx.begin : ctx.end] * ctx.count, None, None
