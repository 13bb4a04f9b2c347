"""Sources of corpora: public repositories, the files needed from them, and what each is converted to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lacuner.corpus import Corpus
from lacuner.corpus.files import read_lines

NOT_STATED = "not stated"

Content = Corpus | list[str]
"""Content of a file: sentences, or lines of text."""
Counts = Mapping[str, int]
"""Counts of a file: sentences, tokens and entities of a corpus, or lines of any other file."""


@dataclass(frozen=True)
class Repository:
    """A public repository.

    Attributes:
        name: owner and name on GitHub.
        commit: the commit whose files were checked.
        license: as stated by the repository.
    """

    name: str
    commit: str
    license: str = NOT_STATED

    @property
    def url(self) -> str:
        return f"https://github.com/{self.name}"

    @property
    def folder(self) -> str:
        """The folder name used by ``git clone``."""
        return self.name.partition("/")[2]

    def file(self, *paths: str) -> "Original":
        """A file of the repository."""
        return Original(self, paths)


@dataclass(frozen=True)
class Original:
    """A file of a repository.

    Attributes:
        repository: where it is.
        paths: its possible paths, the usual one first.
    """

    repository: Repository
    paths: tuple[str, ...]

    def find(self, folder: Path) -> Path | None:
        """Find the file in a folder of clones or unpacked archives (``NAME-main``), or in a clone itself."""
        name = self.repository.folder
        roots = (folder / name, *sorted(folder.glob(f"{name}-*")), folder)
        found = (root / path for root in roots for path in self.paths)
        return next((path for path in found if path.is_file()), None)

    def __str__(self) -> str:
        return f"{self.paths[0]} of {self.repository.url}"


@dataclass(frozen=True)
class Target:
    """A file that recipes read.

    Attributes:
        name: of the file.
        originals: the files that it is made of.
        make: makes its content, given the paths of ``originals`` in order.
        expected: its counts if the originals are from the checked commits.
    """

    name: str
    originals: tuple[Original, ...]
    make: Callable[..., Content]
    expected: Counts


@dataclass(frozen=True)
class Distribution:
    """A corpus, and everything made of its originals.

    Attributes:
        name: of its folder below ``LACUNER_DATA``.
        about: a short description.
        language: of the text.
        labels: of the entities.
        license: of text and labels, as far as stated by their owners.
        targets: the files.
    """

    name: str
    about: str
    language: str
    labels: tuple[str, ...]
    license: str
    targets: tuple[Target, ...]

    @property
    def repositories(self) -> tuple[Repository, ...]:
        """The repositories of the originals, in the order in which they are needed."""
        return tuple(dict.fromkeys(original.repository for t in self.targets for original in t.originals))


def labeled(sentences: int, tokens: int, entities: int) -> Counts:
    """Counts of a corpus."""
    return {"sentences": sentences, "tokens": tokens, "entities": entities}


def lines(number: int) -> Counts:
    """Counts of a file that is not a corpus."""
    return {"lines": number}


def count(path: Path) -> Counts:
    """Count the content of a file."""
    if path.suffix != ".conll":
        return lines(sum(1 for _ in read_lines(path)))
    corpus = Corpus.read(path)
    return labeled(len(corpus), sum(map(len, corpus)), sum(len(sentence.entities) for sentence in corpus))
