"""Findings of an audit. Reading them does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lacuner.corpus import Entity
from lacuner.corpus.formats.records import entity_from_record
from lacuner.errors import DataError

Kind = Literal["missing", "label", "boundary"]
"""Kind of a finding: nothing is annotated there, or another label, or other boundaries."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Finding:
    """A span to be reviewed.

    Attributes:
        sentence: index of its sentence.
        start: first word.
        end: end of the span (exclusive).
        label: the probable label; ``O``: probably no entity.
        probability: that the finding is right.
        kind: ``missing`` (nothing is annotated there), ``label`` (another label is) or ``boundary`` (an overlapping span is).
        text: its words.
        annotated: the entity annotated there; ``None`` if and only if the kind is ``missing``.
    """

    sentence: int
    start: int
    end: int
    label: str
    probability: float
    kind: Kind
    text: str
    annotated: Entity | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        record = {name: getattr(self, name) for name in ("sentence", "start", "end", "label")}
        record |= {"probability": round(self.probability, 6), "kind": self.kind, "text": self.text}
        old = self.annotated
        return (
            record if old is None else record | {"annotated": {"start": old.start, "end": old.end, "label": old.label}}
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any], path: Path, line: int) -> "Finding":
        """Read a record written by :meth:`as_dict`.

        Raises:
            DataError: the record is invalid.
        """
        try:
            return cls(
                sentence=int(record["sentence"]),
                start=int(record["start"]),
                end=int(record["end"]),
                label=str(record["label"]),
                probability=float(record["probability"]),
                kind=record["kind"],
                text=str(record["text"]),
                annotated=_annotated(record, path, line),
            )
        except (KeyError, TypeError, ValueError) as error:
            what = f"this is not a finding ({type(error).__name__}: {error})"
            raise DataError(what, "run the audit again", path, line) from None


def _annotated(record: Mapping[str, Any], path: Path, line: int) -> Entity | None:
    kind, old = record["kind"], record.get("annotated")
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}")
    if (old is None) != (kind == "missing"):
        raise ValueError(f"kind {kind} {'needs' if old is None else 'has no'} annotated")
    if old is None:
        return None
    entity = entity_from_record(old, path, line)
    return Entity(entity.start, entity.end, entity.label)
