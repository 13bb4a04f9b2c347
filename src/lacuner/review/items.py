"""Review items: findings of an audit with number and status, and how they are filtered and counted."""

from dataclasses import dataclass, field
from typing import Literal

from lacuner.audit.finding import Finding
from lacuner.corpus import Span

Status = Literal["open", "accepted", "rejected", "skipped"]

MAX_NUMBER = 2**63 - 1
"""The largest number of an item: SQLite stores signed 64-bit integers."""

LEASE_SECONDS = 60.0
"""Seconds for which an item is held for a reviewer, unless extended by a heartbeat."""


@dataclass(frozen=True, slots=True)
class ReviewItem(Finding):
    """A finding with its number.

    Attributes:
        number: its rank among the findings of the audit, from 0; the most probable is first.
    """

    number: int = field(kw_only=True)

    @property
    def span(self) -> Span:
        """The suggested span."""
        return Span(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects items by status, and by label and kind unless they are ``None``."""

    status: Status = "open"
    label: str | None = None
    kind: str | None = None


ALL_OPEN = Filter()


@dataclass(frozen=True, slots=True)
class Count:
    """Number of items with this status, kind and label.

    Attributes:
        status: of the items.
        kind: of the items.
        label: suggested by the audit.
        count: number of items.
        expected: expected number of correct ones: the sum of their probabilities.
    """

    status: Status
    kind: str
    label: str
    count: int
    expected: float
