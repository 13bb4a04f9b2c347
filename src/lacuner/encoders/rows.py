"""Randomness for some rows of a batch, as it would be drawn for all of them."""

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
    """Inside, :func:`draw` is asked about these rows of a batch only."""
    token = _rows.set(rows)
    try:
        yield
    finally:
        _rows.reset(token)


def draws_all() -> bool:
    """Whether what is drawn is for a whole batch, as nearly always."""
    return _rows.get() is None


def draw(shape: tuple[int, ...], sample: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """``sample(shape)``; of some rows of a batch, those rows of what is drawn for the whole batch.

    Args:
        shape: whose first dimension counts rows.
        sample: draws a tensor of a shape.
    """
    rows = _rows.get()
    if rows is None:
        return sample(shape)
    assert shape[0] == rows.end - rows.begin, "an encoder with draws_rows draws one row for each sentence"
    return sample((rows.total, *shape[1:]))[rows.begin : rows.end]
