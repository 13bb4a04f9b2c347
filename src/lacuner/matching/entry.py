"""A name of a dictionary."""

from dataclasses import dataclass
from typing import Literal, get_args

Case = Literal["exact", "ignore"]
CASES: tuple[Case, ...] = get_args(Case)


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and its label; ``case`` overrides whether matching is case-sensitive."""

    surface: str
    label: str
    case: Case | None = None
