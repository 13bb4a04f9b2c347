"""The output folder of ``lacuner audit``. Reading it does not import torch."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from lacuner.audit.finding import Finding
from lacuner.corpus import Sentence
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.formats.json_lines import read_records
from lacuner.errors import DataError

FORMAT_VERSION = 1
CORPUS, FINDINGS, SUMMARY, REPORT, EXPORTS = "corpus.jsonl", "findings.jsonl", "summary.json", "report.html", "exports"
DECISIONS = "review.sqlite"
"""Reviewers' decisions about the findings; written by ``lacuner review``."""


@dataclass(frozen=True)
class AuditFolder:
    """An audit on disk.

    Attributes:
        path: the folder.
        summary: content of ``summary.json``.
    """

    path: Path
    summary: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> "AuditFolder":
        """Check that the folder holds an audit that this version can read."""
        remedy = "give a folder written by lacuner audit"
        if path.is_file():
            raise DataError("this is a file, not an audit", remedy, path)
        try:
            summary = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = f"{SUMMARY} is missing" if isinstance(error, FileNotFoundError) else str(error)
            raise DataError(f"this is not an audit ({why})", remedy, path) from error
        version = summary.get("format_version") if isinstance(summary, dict) else None
        if version != FORMAT_VERSION:
            what = f"the audit has format version {version}, not {FORMAT_VERSION}"
            raise DataError(what, "run the audit again with this version, or use the version that wrote it", path)
        for name in (CORPUS, FINDINGS):
            if not (path / name).is_file():
                raise DataError(f"the audit is incomplete ({name} is missing)", remedy, path)
        return cls(path, summary)

    @property
    def name(self) -> str:
        """The audited corpus, as named by the user."""
        return str(self.summary.get("corpus", self.path.name))

    @property
    def files(self) -> list[Path]:
        """The files and folders of the audit and its review, which must not be overwritten."""
        names = (CORPUS, FINDINGS, SUMMARY, REPORT, EXPORTS, DECISIONS, f"{DECISIONS}-wal", f"{DECISIONS}-shm")
        return [self.path / name for name in names]

    @property
    def audited_files(self) -> list[Path]:
        """The audited files, if named by the summary."""
        return [Path(name) for name in self.summary.get("files", ())]

    def sentences(self) -> Iterator[Sentence]:
        """The corpus as audited."""
        return stream_sentences(self.path / CORPUS)

    def findings(self) -> Iterator[Finding]:
        """All findings, most probable first."""
        path = self.path / FINDINGS
        return (Finding.from_record(record, path, line) for line, record in read_records(path))

    def hashes(self) -> dict[str, str]:
        """SHA-256 of the files that decisions refer to, to detect a changed audit."""
        found = {}
        for name in (CORPUS, FINDINGS):
            with (self.path / name).open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return found

    def warning(self) -> str | None:
        """A warning if the audited files have changed since; ``None`` if not, or if they no longer exist."""
        paths = self.audited_files
        if not paths or not all(path.is_file() or path.is_dir() for path in paths):
            return None
        if hash_of_files(paths) == self.summary["hash"]:
            return None
        has = "has" if len(paths) == 1 else "have"
        return (
            f"{self.name} {has} changed since the audit; the review and --export use the audit's own copy, "
            f"{self.path / CORPUS}, so nothing is lost — audit again to include the changes"
        )


def count_decisions(folder: Path) -> int:
    """Number of findings with a decision."""
    path = folder / DECISIONS
    if not path.is_file() or not path.stat().st_size:
        return 0
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM findings WHERE decision IS NOT NULL").fetchone()[0])
    except sqlite3.Error as error:
        raise DataError(
            f"{DECISIONS} cannot be read ({error})", "move it out of the folder if it is not needed", path
        ) from error


def hash_of_files(paths: Iterable[Path]) -> str:
    """SHA-256 over the contents of files, in order; a folder stands for the files in it, by name."""
    digest = hashlib.sha256()
    for path in chain.from_iterable(map(_files_of, paths)):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _files_of(path: Path) -> list[Path]:
    return sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path]
