"""The files of an audit; without what trains models, so that reading them takes no time."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["missing", "label", "boundary"]
"""What a finding is about: nothing is annotated there, or another label, or other borders."""
KINDS: tuple[Kind, ...] = get_args(Kind)
FORMAT_VERSION = 1
CORPUS, FINDINGS, SUMMARY, REPORT, EXPORTS = "corpus.jsonl", "findings.jsonl", "summary.json", "report.html", "exports"
DECISIONS = "review.sqlite"
"""What reviewers have decided about the findings; ``lacuner review`` writes it."""


def hash_of_files(paths: Iterable[Path]) -> str:
    """Tells whether files have changed."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
