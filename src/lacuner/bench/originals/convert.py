"""Conversion of original corpora to the files that recipes read, with checks of their counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lacuner.bench.originals.chinese import EC, NEWS, RESUME, WEIBO
from lacuner.bench.originals.distribution import Content, Counts, Distribution, Target, count
from lacuner.bench.originals.english import BC5CDR, CONLL03, WIKIGOLD, WNUT16
from lacuner.corpus import Corpus
from lacuner.corpus.corpus import open_for_writing
from lacuner.corpus.files import refuse_overwriting
from lacuner.errors import ConfigError, DataError, LacunerError

DISTRIBUTIONS = {one.name: one for one in (EC, NEWS, CONLL03, WIKIGOLD, WNUT16, BC5CDR, WEIBO, RESUME)}
"""All corpora, by folder name."""


class Status(StrEnum):
    """The outcome of a conversion."""

    MADE = "made"
    KEPT = "kept"
    """It existed already."""
    MISSING = "missing"
    """An original is not in the folder."""
    FAILED = "failed"
    """An original, or an existing file, cannot be read."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of converting one file.

    Attributes:
        target: the file.
        status: what happened to it.
        counts: its size now; empty if it does not exist.
        reason: why it is missing, or has failed.
    """

    target: Target
    status: Status
    counts: Counts
    reason: str = ""

    @property
    def differences(self) -> list[str]:
        """Deviations from the expected counts."""
        expected = self.target.expected if self.counts else {}
        return [
            f"expected {number} {what}, found {self.counts[what]}"
            for what, number in expected.items()
            if self.counts[what] != number
        ]


def find_distribution(name: str) -> Distribution:
    """The corpus of this name."""
    if name not in DISTRIBUTIONS:
        raise ConfigError(f"there is no corpus {name!r} — the corpora are {', '.join(DISTRIBUTIONS)}")
    return DISTRIBUTIONS[name]


def convert(distribution: Distribution, folder: Path, out: Path, force: bool = False) -> Iterator[Outcome]:
    """Convert every file of a corpus whose originals are in ``folder``, one by one.

    Args:
        distribution: the corpus.
        folder: contains clones of the repositories, or is one.
        out: output folder; created if needed.
        force: replace existing files.
    """
    if not folder.is_dir():
        raise DataError(
            "there is no such folder", "clone the repositories that lacuner bench data lists into it", folder
        )
    for target in distribution.targets:
        path = out / target.name
        try:
            if path.exists() and not force:
                yield Outcome(target, Status.KEPT, count(path))
                continue
            found = [(original, original.find(folder)) for original in target.originals]
            missing = [str(original) for original, place in found if place is None]
            if missing:
                yield Outcome(target, Status.MISSING, {}, f"needs {', '.join(missing)}")
                continue
            originals = [place for _, place in found]
            refuse_overwriting(path, {"an original": originals})
            _write(target.make(*originals), path)
            yield Outcome(target, Status.MADE, count(path))
        except LacunerError as error:
            yield Outcome(target, Status.FAILED, {}, str(error))


def _write(content: Content, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Corpus):
            content.write(path)
        else:
            with open_for_writing(path) as file:
                file.writelines(f"{line}\n" for line in content)
    except OSError as error:
        what = f"it cannot be written ({error.strerror})"
        raise DataError(what, "check the folder, or give another --out", path) from error
