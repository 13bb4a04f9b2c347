"""Several processes that train one model together.

Every process has the whole model and knows the whole batch. Of the batch it encodes its share of the rows; then the word
vectors of all rows are gathered, and every process computes the loss of the whole batch from them. So a method never sees that
there are others: it draws for the whole batch, compares spans of the whole batch, and keeps the same state everywhere. The loss
is that of one process, and so is its gradient.
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
"""How long one process may be busy with something that the others wait for; one that has ended is noticed at once."""
_LOST = re.compile(r"gloo|nccl|by peer|process ?group|broken pipe|store", re.IGNORECASE)


@dataclass(frozen=True)
class Processes:
    """Which of the processes this one is.

    Attributes:
        index: from 0; the first is the main one: it alone writes, and shows progress.
        count: how many there are.
    """

    index: int = 0
    count: int = 1

    @classmethod
    def join(cls, device: torch.device) -> "Processes":
        """Connect with the others that ``accelerate launch`` or ``--processes`` has started; alone if nobody has."""
        state = PartialState(cpu=device.type == "cpu", timeout=_TIMEOUT)
        return cls(state.process_index, state.num_processes)

    @property
    def is_main(self) -> bool:
        return self.index == 0

    def own(self, items: Iterable[Item]) -> Iterator[Item]:
        """This process's share of items, such as batches, of which nobody needs the others' right now."""
        return islice(items, self.index, None, self.count)

    def merge(self, found: Mapping[int, Item]) -> dict[int, Item]:
        """What all processes have found, by index. All of them have to ask."""
        if self.count == 1:
            return dict(found)
        parts: list[dict[int, Item]] = gather_object([dict(found)])
        return {index: item for part in parts for index, item in part.items()}

    def agree(self, value: object, otherwise: str) -> None:
        """Refuse with this sentence if the value is not the same in all processes."""
        if len(set(self.merge({self.index: value}).values())) > 1:
            raise TrainingError(otherwise)

    def wait(self) -> None:
        """Until all processes have come here."""
        self.merge({})

    @contextmanager
    def reporting_loss(self) -> Iterator[None]:
        """What torch says when another process has ended becomes a sentence.

        Raises:
            ProcessLostError: that sentence.
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
        """Inside, a batch that all processes encode is divided between them; each of them gets all word vectors.

        Args:
            encoder: of the model.
            step: of training; in another one, other numbers are drawn.
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
        taken = (begin, end) if begin < end else (0, 1)  # whoever has no row encodes one that nobody asks for
        with self._drawing(encoder, step, Rows(*taken, len(inputs.lengths))):
            words = forward(inputs.rows(*taken))
        first = _gathered(words.first[: end - begin], shares, self.index)
        same = words.last is words.first
        return EncodedWords(first, first if same else _gathered(words.last[: end - begin], shares, self.index))

    @torch.no_grad()
    def average_gradients(self, weights: Iterable[nn.Parameter]) -> None:
        """Give all processes the mean of their gradients. A weight has none only if it has none in any process.

        What ``DistributedDataParallel`` does, but for weights that a method does not use in every step.
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
        """What follows is drawn alike in all processes, whatever each draws for its rows."""
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
    """``[begin, end)`` of each process's rows, as many as any other's or one more."""
    return [(rows * index // count, rows * (index + 1) // count) for index in range(count)]


def _gathered(own: Tensor, shares: list[tuple[int, int]], index: int) -> Tensor:
    gathered: Tensor = _Gather.apply(own, shares, index)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    """The rows of all processes, in order: ``(rows, n, d) → (B, n, d)``.

    Every process computes the same loss, so the gradient of its own rows is known to it. It is multiplied by the number of
    processes, because gradients of weights are averaged over them: those of the head, which are the same everywhere, stay
    what they are; those of the encoder, of which each process has its part, become the sum.
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
