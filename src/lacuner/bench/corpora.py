"""The corpora of a run, and hashes that detect changes in them."""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from lacuner.analysis.hidden import SpanSet, hidden_against_gold
from lacuner.bench.knowledge_base import MatchSettings, match_names
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.recipe import SAMPLE, Dataset
from lacuner.bench.runs import Run
from lacuner.corpus import Corpus
from lacuner.corpus.as_corpus import same_text
from lacuner.corpus.corpus import merge
from lacuner.corpus.merging import source_names
from lacuner.errors import ConfigError, LacunerError
from lacuner.matching import Dictionary
from lacuner.sample import read_names, read_sample
from lacuner.training.settings import RunSettings


@dataclass(frozen=True)
class Corpora:
    """The corpora of a run."""

    train: Corpus
    trusted: Corpus | None
    dev: Corpus
    test: Corpus
    gold: Corpus | None = None
    """The training sentences with complete labels, if available."""
    hidden: list[SpanSet] | None = field(default=None, repr=False)
    """The entities missing from each training sentence, if known."""


def read_corpora(run: Run, paths: PathTemplates) -> Corpora:
    """Read the corpora of a run."""
    dataset = Dataset.model_validate(run.config["dataset"])
    folder, limits = _folder(run.data, dataset, paths), dataset.sentences
    gold, whole = _read_gold(folder, dataset), None
    if run.hidden or run.complete:
        if gold is None:
            raise ConfigError(f"labels can be hidden only where all are known, but there is no {dataset.gold}")
        whole = _some(gold, limits.train)
        train = whole.as_complete() if run.complete else whole.mask(run.hidden, run.seed)
    elif dataset.dictionary_fraction is not None:
        if gold is None:
            raise ConfigError(f"dictionary_fraction annotates the sentences of {dataset.gold}, which is not there")
        whole = _some(gold, limits.train)
        names = read_dictionary(run, paths).sample(dataset.dictionary_fraction, run.seed)
        train = Corpus(
            tuple(
                replace(sentence, entities=tuple(found))
                for sentence, found in match_names(names, whole, MatchSettings())
            )
        )
    else:
        everything = _read_training_data(run.data, folder, dataset)
        if gold is not None and gold.tokens == everything.tokens:
            whole = _some(gold, limits.train)
        train = _some(everything, limits.train)
        train = train.as_complete() if dataset.complete else train
    dev = _some(_read(folder, dataset.dev), limits.dev)
    return Corpora(
        train=train,
        trusted=_some(merge(_read(folder, name) for name in dataset.trusted), limits.trusted)
        if dataset.trusted
        else None,
        dev=dev.mask(run.hidden, run.seed) if dataset.mask_dev and run.hidden else dev,
        test=_some(_read(folder, dataset.test), limits.test),
        gold=whole,
        hidden=None if whole is None else hidden_against_gold(train, whole, folder or SAMPLE),
    )


def read_complete(run: Run, paths: PathTemplates) -> Corpus | None:
    """The training sentences with complete labels, if available."""
    dataset = Dataset.model_validate(run.config["dataset"])
    gold = _read_gold(_folder(run.data, dataset, paths), dataset)
    return None if gold is None else _some(gold, dataset.sentences.train)


def read_dictionary(run: Run, paths: PathTemplates) -> Dictionary:
    """The dictionary of a run without training."""
    dataset = Dataset.model_validate(run.config["dataset"])
    folder = _folder(run.data, dataset, paths)
    return Dictionary.of(read_names()) if folder is None else Dictionary.read(folder / dataset.dictionary)


def check_gold(run: Run, paths: PathTemplates) -> None:
    """Reject gold labels of other sentences, which would not match the training data."""
    dataset = Dataset.model_validate(run.config["dataset"])
    folder = _folder(run.data, dataset, paths)
    if folder is None or not all((folder / name).is_file() for name in dataset.train):
        return
    if _read(folder, dataset.gold).tokens != _read_training_data(run.data, folder, dataset).tokens:
        files = " and ".join(dataset.train)
        raise ConfigError(f"{dataset.gold} has other sentences than {files} — give the same ones, or leave out naive")


def check_files(run: Run, paths: PathTemplates) -> None:
    """Reject data that has changed since the run was planned: its key is that of the old data."""
    dataset = Dataset.model_validate(run.config["dataset"])
    found = dataset_hashes(run.data, dataset, paths)
    found |= encoder_hashes(run.settings(paths), paths) if run.is_trained else {}
    changed = sorted(name for name in found.keys() | run.files.keys() if found.get(name) != run.files.get(name))
    if changed:
        raise LacunerError(f"{', '.join(changed)} changed while the bench was running — start it again")


def dataset_hashes(name: str, dataset: Dataset, paths: PathTemplates) -> dict[str, str]:
    """Hashes of a dataset's files, by name."""
    folder = _folder(name, dataset, paths)
    if folder is None:
        names = (*dataset.train, *dataset.trusted, dataset.gold, dataset.dev, dataset.test, dataset.dictionary)
        return {file: f"built in: {_split(file)}" for file in names}
    if not folder.is_dir():
        where = "set LACUNER_DATA to the folder of the datasets; docs/corpora.md says where to get them"
        raise ConfigError(f"dataset {name}: there is no folder {folder} — {where}")
    needed = [*dataset.trusted, dataset.dev, dataset.test]
    gold = folder / dataset.gold
    if not gold.is_file():
        needed += dataset.train
    missing = next((file for file in needed if not (folder / file).is_file()), None)
    if missing is not None:
        raise ConfigError(f"dataset {name}: there is no file {missing} in {folder} — check the recipe, or put it there")
    possible = (*dataset.train, dataset.gold, dataset.dictionary)
    files = [*needed, *(file for file in possible if (folder / file).is_file())]
    return {file: _hash(folder / file) for file in dict.fromkeys(files)}


def encoder_hashes(settings: RunSettings, paths: PathTemplates) -> dict[str, str]:
    """Hashes of the files that an encoder is created from, by machine-independent paths."""
    return {paths.hide(str(path)): _hash(path) for path in settings.encoder.files}


def _some(corpus: Corpus, count: int | None) -> Corpus:
    """Evenly spaced sentences, up to a number."""
    if count is None or count >= len(corpus):
        return corpus
    return Corpus(tuple(corpus[number * len(corpus) // count] for number in range(count)), corpus.report)


def _folder(name: str, dataset: Dataset, paths: PathTemplates) -> Path | None:
    """The folder of a dataset; None if it is part of the package."""
    if name == SAMPLE and dataset.folder is None:
        return None
    return paths.data / (dataset.folder or name)


def _read_training_data(name: str, folder: Path | None, dataset: Dataset) -> Corpus:
    """The sentences of all training files, or their merged label sets if they are about one text."""
    return _read_all(name, folder, dataset.train, bool(dataset.same_text))


@cache
def _read_all(name: str, folder: Path | None, files: tuple[str, ...], is_same_text: bool) -> Corpus:
    """Cached, because label sets of one text are slow to merge, and log their differences."""
    corpora = [_read(folder, file) for file in files]
    if not is_same_text:
        return merge(corpora)
    return same_text(dict(zip(source_names(files), corpora, strict=True)), where=f"{name}: ")


def _read(folder: Path | None, file: str) -> Corpus:
    if folder is None:
        return _sample(_split(file))
    if not (folder / file).is_file():
        raise ConfigError(f"there is no file {folder / file} — check the recipe, or put it there")
    return _read_once(folder / file)


def _read_gold(folder: Path | None, dataset: Dataset) -> Corpus | None:
    return _read(folder, dataset.gold) if folder is None or (folder / dataset.gold).is_file() else None


def _split(file: str) -> str:
    """The split of the built-in sample for a file name."""
    return file.partition(".")[0]


@cache
def _read_once(path: Path) -> Corpus:
    return Corpus.read(path)


@cache
def _sample(split: Any) -> Corpus:
    return read_sample(split)


@cache
def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror} — check the recipe, or put it there") from error
