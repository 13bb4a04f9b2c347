"""The audit of a corpus: out-of-fold predictions, written to a folder for review."""

import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lacuner.audit.exports import write_exports
from lacuner.audit.finding import KINDS, Finding
from lacuner.audit.folder import (
    CORPUS,
    EXPORTS,
    FINDINGS,
    FORMAT_VERSION,
    REPORT,
    SUMMARY,
    AuditFolder,
    count_decisions,
)
from lacuner.audit.folds import predict_by_folds, predict_with
from lacuner.audit.model import AuditModel, Estimate
from lacuner.audit.page import write_page
from lacuner.corpus import OUTSIDE, Corpus
from lacuner.corpus.corpus import open_for_writing
from lacuner.errors import ConfigError, TrainingError
from lacuner.recognizer import Recognizer
from lacuner.storage import reporting, sync_folder, try_writing
from lacuner.streams.locks import exclusive
from lacuner.training.loop import Observer
from lacuner.training.settings import RunSettings
from lacuner.version import __version__

logger = logging.getLogger(__name__)

_WORK, _LOCK = ".unfinished", ".lock"
_FEW = 100
_LEAST_RECOVERED = 0.3
"""Models that find less of what is annotated do not know what is missing."""


@dataclass(frozen=True)
class Audit:
    """Results of an audit.

    Attributes:
        corpus: the audited corpus, with the indices used by findings.
        findings: best first.
        estimate: number of missing entities.
        about: origin of the corpus, and the models used.
    """

    corpus: Corpus
    findings: tuple[Finding, ...]
    estimate: Estimate
    about: dict[str, Any]

    @property
    def caveats(self) -> list[str]:
        """Reasons to distrust the numbers, as sentences."""
        found = []
        if int(self.about["entities"]) < _FEW:
            found.append("So few entities are annotated that these numbers say little; look at the findings.")
        if (recovered := self.about.get("recovered", 1.0)) < _LEAST_RECOVERED:
            found.append(
                f"The models find only {recovered:.0%} of the annotated entities in sentences that they have not seen, so "
                "these numbers say little; train longer (--epochs), or with another --encoder."
            )
        return found

    def write(self, folder: Path) -> None:
        """Write everything to a folder; the summary last, so that a folder with a summary is complete."""
        with reporting(folder):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / SUMMARY).unlink(missing_ok=True)
            sync_folder(folder)
        self.corpus.write(folder / CORPUS)
        with open_for_writing(folder / FINDINGS) as file:
            file.writelines(json.dumps(f.as_dict(), ensure_ascii=False) + "\n" for f in self.findings)
        write_exports(folder / EXPORTS, self.corpus, self.findings)
        write_page(folder / REPORT, self)
        with open_for_writing(folder / SUMMARY) as file:
            json.dump(self.summary(), file, ensure_ascii=False, indent=1)
            file.write("\n")

    def summary(self) -> dict[str, Any]:
        """For JSON."""
        kinds = {kind: sum(f.kind == kind for f in self.findings) for kind in KINDS}
        return {
            "format_version": FORMAT_VERSION,
            "findings": len(self.findings),
            "kinds": kinds,
            "estimated_missing": self.estimate.as_dict(),
            **self.about,
        }

    @classmethod
    def read(cls, folder: Path) -> "Audit":
        """Read an audit written by :meth:`write`."""
        written = AuditFolder.open(folder)
        found = written.summary["estimated_missing"]
        labels = {label: (n["total"], n["low"], n["high"]) for label, n in found["labels"].items()}
        interval = found["total"], found["low"], found["high"]
        estimate = Estimate(*interval, labels, found["annotated_share"], found.get("at_least", False))
        own = ("format_version", "findings", "kinds", "estimated_missing")
        about = {key: value for key, value in written.summary.items() if key not in own}
        return cls(Corpus.read(folder / CORPUS), tuple(written.findings()), estimate, about)


def audit_corpus(
    corpus: Corpus,
    predictor: "RunSettings | Recognizer",
    folds: int = 3,
    min_probability: float | None = None,
    folder: Path | None = None,
    about: dict[str, Any] | None = None,
    observer: Callable[[str], Observer | None] = lambda title: None,
    workers: int = 1,
) -> Audit:
    """Find missing and suspicious annotations in a corpus.

    Args:
        corpus: incomplete annotation.
        predictor: settings to train models on folds of the corpus; or an existing model, which should not have seen it.
        folds: number of folds, if models are trained.
        min_probability: minimum probability of findings; by default 0.1, or lower if needed to list as many missing entities
            as estimated.
        folder: where unfinished work is stored, so that it can be resumed.
        about: metadata to store with the audit.
        observer: makes an observer for each training run.
        workers: models trained in parallel, each in its own process; the findings are the same.
    """
    fitted, how = fit_audit_model(corpus, predictor, folds, folder, observer, workers)
    described = {"sentences": len(corpus), "entities": sum(len(s.entities) for s in corpus), "version": __version__}
    return Audit(
        corpus,
        tuple(fitted.findings(corpus, min_probability)),
        fitted.estimate(),
        {**(about or {}), **described, "recovered": round(fitted.recovered, 4), **how},
    )


def fit_audit_model(
    corpus: Corpus,
    predictor: "RunSettings | Recognizer",
    folds: int = 3,
    folder: Path | None = None,
    observer: Callable[[str], Observer | None] = lambda title: None,
    workers: int = 1,
) -> tuple[AuditModel, dict[str, Any]]:
    """Fit an audit model to out-of-fold predictions, and describe the models used; arguments are those of an audit."""
    if folds < 2:
        raise ConfigError(
            f"folds={folds}: each fold is predicted by a model trained on the others, so there must be at least two"
        )
    if not any(sentence.entities for sentence in corpus):
        raise TrainingError(
            "no entity is annotated, so there is nothing to learn from — annotate some, or check the tags"
        )
    if isinstance(predictor, Recognizer):
        if predictor.backend != "torch":
            raise ConfigError("an exported model cannot be used for an audit — give the model it was exported from")
        labels = (OUTSIDE, *sorted({*corpus.labels, *predictor.labels}))
        known = frozenset(predictor.labels)
        filled = [index for index, sentence in enumerate(corpus) if sentence.tokens]
        found, new_names = predict_with(predictor, corpus, filled, labels), None
        unknown_labels = sorted(set(corpus.labels) - set(predictor.labels))
        if unknown_labels:
            logger.warning(
                "The model does not know %s; such entities are left out of the audit.",
                ", ".join(unknown_labels),
            )
        how: dict[str, Any] = {"method": predictor.settings.method.name, "folds": None}
    else:
        labels, known = (OUTSIDE, *corpus.labels), frozenset(corpus.labels)
        work = None if folder is None else folder / _WORK
        if work is not None:
            with reporting(work):
                work.mkdir(parents=True, exist_ok=True)
        by_folds = predict_by_folds(corpus, predictor, folds, labels, work, observer, workers)
        found, new_names = by_folds.spans, by_folds.new_names
        how = {"method": predictor.method.name, "encoder": predictor.encoder.name, "folds": folds}
    return AuditModel.of(found, corpus, labels, known, new_names), how


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock the folder for exclusive use, and check that it is writable.

    Raises:
        WriteError: it is not writable.
        LacunerError: another audit uses it.
    """
    work = folder / _WORK
    with reporting(folder):
        work.mkdir(parents=True, exist_ok=True)
    try_writing(folder / SUMMARY)
    with exclusive(work / _LOCK, f"another audit is writing to {folder} — wait for it, or choose another --out"):
        yield


def check_folder(folder: Path, data: Iterable[Path] = ()) -> None:
    """Reject a folder in which an audit would overwrite something.

    Args:
        folder: to write to.
        data: files to be audited.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder} is a file — give a folder")
    for path in data:
        if folder.resolve() in path.resolve().parents:
            raise ConfigError(
                f"--out {folder} is the folder of {path.name}, but an audit writes many files — choose another folder"
            )
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in (SUMMARY, _WORK)):
        raise ConfigError(f"--out {folder} is not empty and does not contain an audit — choose another folder")
    check_decisions(folder)


def check_decisions(folder: Path) -> None:
    """Refuse to overwrite findings that have been reviewed."""
    decided = count_decisions(folder)
    if decided:
        raise ConfigError(
            f"{decided:,} findings of the audit in {folder} are already decided — export them with lacuner review {folder} "
            "--export corpus.jsonl, and audit into another folder"
        )


def remove_unfinished_work(folder: Path) -> None:
    """Delete trained models and predictions that are no longer needed."""
    shutil.rmtree(folder / _WORK, ignore_errors=True)
