"""Random numbers for some rows of a batch, identical to those drawn for the whole batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor


class Rows(NamedTuple):
    """Rows ``[begin, end)`` of a batch that has ``total``."""

    begin: int
    end: int
    total: int


_rows: ContextVar[Rows | None] = ContextVar("rows", default=None)


@contextmanager
def drawing_for(rows: Rows) -> Iterator[None]:
    """Restrict :func:`draw` to these rows of a batch in this context."""
    token = _rows.set(rows)
    try:
        yield
    finally:
        _rows.reset(token)


def draws_all() -> bool:
    """Whether :func:`draw` is for a whole batch, which is the normal case."""
    return _rows.get() is None


def draw(shape: tuple[int, ...], sample: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """``sample(shape)``; inside :func:`drawing_for`, the given rows of a sample for the whole batch.

    Args:
        shape: its first dimension is rows.
        sample: draws a tensor of a given shape.
    """
    rows = _rows.get()
    if rows is None:
        return sample(shape)
    assert shape[0] == rows.end - rows.begin, "an encoder with draws_rows draws one row for each sentence"
    return sample((rows.total, *shape[1:]))[rows.begin : rows.end]
