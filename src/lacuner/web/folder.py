"""The folder that ``lacuner audit`` has written, read without loading what trains models."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lacuner.audit.files import CORPUS, FINDINGS, FORMAT_VERSION, KINDS, SUMMARY, hash_of_files
from lacuner.corpus import Entity, Sentence
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.jsonl import read_records
from lacuner.corpus.records import entity_from_record
from lacuner.errors import DataError
from lacuner.web.case import Case


@dataclass(frozen=True)
class AuditFolder:
    """An audit on disk.

    Attributes:
        path: the folder.
        summary: what ``summary.json`` says.
    """

    path: Path
    summary: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> "AuditFolder":
        """Look whether an audit is there, and whether this version can read it."""
        remedy = "give the folder that lacuner audit has written"
        try:
            summary = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = f"{SUMMARY} is not there" if isinstance(error, FileNotFoundError) else str(error)
            raise DataError(f"this is no audit ({why})", remedy, path) from error
        version = summary.get("format_version") if isinstance(summary, dict) else None
        if version != FORMAT_VERSION:
            what = f"the audit has format version {version}, not {FORMAT_VERSION}"
            raise DataError(what, "make it anew with this version, or take the version that wrote it", path)
        for name in (CORPUS, FINDINGS):
            if not (path / name).is_file():
                raise DataError(f"this is no whole audit ({name} is not there)", remedy, path)
        return cls(path, summary)

    @property
    def name(self) -> str:
        """What was audited."""
        return str(self.summary.get("corpus", self.path.name))

    def sentences(self) -> Iterator[Sentence]:
        """The corpus as it was audited."""
        return stream_sentences(self.path / CORPUS)

    def cases(self) -> Iterator[Case]:
        """All findings, best first."""
        path = self.path / FINDINGS
        for number, (line, record) in enumerate(read_records(path)):
            try:
                yield _case(number, record, path, line)
            except (KeyError, TypeError, ValueError) as error:
                what = f"this is not a finding ({type(error).__name__}: {error})"
                raise DataError(what, "make the audit anew", path, line) from None

    def hashes(self) -> dict[str, str]:
        """Tell whether the audit itself is still as it was."""
        found = {}
        for name in (CORPUS, FINDINGS):
            with (self.path / name).open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return found

    def warning(self) -> str | None:
        """A sentence, if the files that were audited have changed since; nothing is said of files that are gone."""
        paths = [Path(name) for name in self.summary.get("files", ())]
        if not paths or not all(path.is_file() for path in paths):
            return None
        if hash_of_files(paths) == self.summary["hash"]:
            return None
        has = "has" if len(paths) == 1 else "have"
        return (
            f"{self.name} {has} changed since the audit; the review and --export go on with the audit's own copy, "
            f"{self.path / CORPUS}, so nothing is lost — audit again if the changes should count"
        )


def _case(number: int, record: dict[str, Any], path: Path, line: int) -> Case:
    kind = record["kind"]
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}")
    old = record.get("annotated")
    annotated = None if old is None else entity_from_record(old, path, line)
    if (annotated is None) != (kind == "missing"):
        raise ValueError(f"kind {kind} {'needs' if annotated is None else 'has no'} annotated")
    return Case(
        number=number,
        sentence=int(record["sentence"]),
        start=int(record["start"]),
        end=int(record["end"]),
        label=str(record["label"]),
        probability=float(record["probability"]),
        kind=kind,
        text=str(record["text"]),
        annotated=None if annotated is None else Entity(annotated.start, annotated.end, annotated.label),
    )
