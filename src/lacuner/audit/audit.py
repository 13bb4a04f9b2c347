"""The audit of a corpus: predicted by models that have not seen it, written into a folder that can be reviewed."""

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
    """What was found in a corpus.

    Attributes:
        corpus: what was audited, with the numbers that findings refer to.
        findings: best first.
        estimate: how many entities are missing.
        about: where the corpus came from, and which models were asked.
    """

    corpus: Corpus
    findings: tuple[Finding, ...]
    estimate: Estimate
    about: dict[str, Any]

    @property
    def caveats(self) -> list[str]:
        """Reasons not to trust the numbers, as sentences."""
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
        """Everything, into a folder; the summary last, so that a folder with one is whole."""
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
        """As :meth:`write` wrote it."""
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
    """Find what is missing in a corpus, or looks wrong.

    Args:
        corpus: annotation with gaps.
        predictor: how models are trained on parts of it; or a model that is there already, which should not have seen it.
        folds: parts, if models are trained.
        min_probability: findings that are less probable are left out; by default 0.1, or as much less as there must be for as
            many missing entities to be listed as the estimate says there are.
        folder: where unfinished work is kept, so that it can be resumed after an interruption.
        about: what is to be remembered with it.
        observer: makes an observer for each training.
        workers: models that are trained at a time, each in a process of its own; the findings are the same.
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
    """What models predict of a corpus that they have not seen, and which models; the arguments are those of an audit."""
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
    """No other audit writes into the folder meanwhile, and it can be written.

    Raises:
        WriteError: it cannot.
        LacunerError: another audit uses it.
    """
    work = folder / _WORK
    with reporting(folder):
        work.mkdir(parents=True, exist_ok=True)
    try_writing(folder / SUMMARY)
    with exclusive(work / _LOCK, f"another audit is writing to {folder} — wait for it, or choose another --out"):
        yield


def check_folder(folder: Path, data: Iterable[Path] = ()) -> None:
    """Refuse a folder where an audit would do harm.

    Args:
        folder: to write into.
        data: what is audited.
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
    """Refuse to overwrite findings that somebody has decided about."""
    decided = count_decisions(folder)
    if decided:
        raise ConfigError(
            f"{decided:,} findings of the audit in {folder} are already decided — export them with lacuner review {folder} "
            "--export corpus.jsonl, and audit into another folder"
        )


def remove_unfinished_work(folder: Path) -> None:
    """Trained models and their predictions, which are not needed any more."""
    shutil.rmtree(folder / _WORK, ignore_errors=True)
