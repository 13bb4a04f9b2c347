"""Cells: one training each, with everything that decides how it turns out."""

import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

from lacuner.analysis.hidden import Places as HiddenPlaces
from lacuner.analysis.hidden import hidden_against_gold, span_method
from lacuner.analysis.o_values import tagger
from lacuner.bench.recipe import SAMPLE, Dataset, Limits, Places, Recipe, column_name
from lacuner.corpus import Corpus
from lacuner.corpus.corpus import merge
from lacuner.errors import ConfigError, LacunerError
from lacuner.recognizer import check_training
from lacuner.sample import read_sample
from lacuner.training.settings import RunSettings, parse_assignments, resolve_settings, settings_from_dict
from lacuner.version import __version__

_DESCRIBED = ("name", "paper", "summary")
"""What a method says about itself, which changes nothing."""


@dataclass(frozen=True)
class Cell:
    """One training.

    Attributes:
        data: name of the dataset.
        hidden: share of its complete labels that is hidden; 0: it has gaps of its own, or none.
        complete: trained on the complete labels, to see how much the gaps cost.
        run: method and settings, as the recipe calls them.
        encoder: as the recipe calls it.
        seed: decides what is hidden, and how training goes.
        config: what decides the outcome: dataset, experiment, measures and all settings, without paths of this machine.
        files: hashes of the files that it reads.
        version: of the package.
    """

    data: str
    hidden: float
    complete: bool
    run: str
    encoder: str
    seed: int
    config: dict[str, Any]
    files: dict[str, str]
    version: str = __version__

    @cached_property
    def key(self) -> str:
        """Tells one training from another, by content and not by name; what is measured beside it changes nothing."""
        dataset = self.config["dataset"] | {"folder": None}  # what is in it counts, not what it is called
        settings = dict(self.config["settings"])
        settings["method"] = {name: part for name, part in settings["method"].items() if name not in _DESCRIBED}
        config = self.config | {"dataset": dataset, "settings": settings, "measure": None}
        content = [_said(config), self.files, self.hidden, self.complete, self.seed, self.version]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def result_from(self, result: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a result of the same training says of this cell, under its name; none if it lacks something measured here."""
        wanted, known = set(self.config["measure"]), set(result["config"]["measure"])
        if not wanted <= known:
            return None
        found = {name: value for name, value in result.items() if name not in known - wanted} | self.as_dict()
        if "rows" in found:
            found["rows"] = {self._row_name(name, result["run"]): row for name, row in found["rows"].items()}
        return found

    def _row_name(self, name: str, run: str) -> str:
        """The name of a row that was measured when the run was called otherwise."""
        return self.run + name.removeprefix(run) if name == run or name.startswith(f"{run}, ") else name

    @property
    def column(self) -> str:
        """The column of its table."""
        return column_name(self.data, self.hidden)

    def __str__(self) -> str:
        labels = ", all labels" if self.complete else ""
        return f"{self.column}{labels}, {self.run}, {self.encoder}, seed {self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"key": self.key, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Cell":
        """As :meth:`as_dict` wrote it."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})

    def settings(self, places: Places) -> RunSettings:
        """All settings of the training."""
        return settings_from_dict(places.fill(self.config["settings"]))


@dataclass(frozen=True)
class Corpora:
    """What a cell reads."""

    train: Corpus
    trusted: Corpus | None
    dev: Corpus
    test: Corpus
    gold: Corpus | None = None
    """The training sentences with all labels, where these are known."""
    hidden: list[HiddenPlaces] | None = field(default=None, repr=False)
    """The entities that each training sentence lacks, where that is known."""


def plan(recipe: Recipe, places: Places) -> list[Cell]:
    """All cells of a recipe, those with the first seed first; each of them can be run.

    Everything is checked here, so that a mistake in the last line of a recipe does not come to light after hours. Cells with
    other names may have the same key, if they do the same.
    """
    cells = [_cell(recipe, places, **one) for seed in recipe.seeds for one in _combinations(recipe, places, seed)]
    if not cells:
        raise ConfigError("no cell is left: the rules of the recipe skip all of them")
    for kind, run in (("baseline", recipe.baseline), ("naive", recipe.naive)):
        if run in recipe.runs and run not in {cell.run for cell in cells}:
            raise ConfigError(f"{kind}: the rules of the recipe skip all cells of {run}")
    first: dict[tuple[Any, ...], Cell] = {}  # of those that differ in their seed only
    for cell in cells:
        first.setdefault((cell.column, cell.complete, cell.run, cell.encoder), cell)
    _check_cells(first.values(), places)
    return cells


def check_encoders(cells: Iterable[Cell], places: Places) -> None:
    """Load every encoder once; a wrong name comes to light before the first training."""
    encoders = {json.dumps(cell.config["settings"]["encoder"], sort_keys=True): cell for cell in cells}
    for cell in encoders.values():
        try:
            cell.settings(places).encoder.check()
        except LacunerError as error:
            raise ConfigError(f"encoder {cell.encoder!r}: {error}") from error


def check_files(cell: Cell, places: Places) -> None:
    """Refuse to go on with other data than the cell was planned with: its result would be taken for theirs."""
    dataset = Dataset.model_validate(cell.config["dataset"])
    found = _hashes(cell.data, dataset, places) | _encoder_hashes(cell.settings(places), places)
    changed = sorted(name for name in found.keys() | cell.files.keys() if found.get(name) != cell.files.get(name))
    if changed:
        raise LacunerError(f"{', '.join(changed)} changed while the bench was running — start it again")


def read_corpora(cell: Cell, places: Places) -> Corpora:
    """The corpora of a cell."""
    dataset = Dataset.model_validate(cell.config["dataset"])
    folder, limits = _folder(cell.data, dataset, places), dataset.sentences
    gold, whole = _read_gold(folder, dataset), None
    if cell.hidden or cell.complete:
        if gold is None:
            raise ConfigError(f"labels can be hidden only where all are known, but there is no {dataset.gold}")
        whole = _some(gold, limits.train)
        train = whole.as_complete() if cell.complete else whole.mask(cell.hidden, cell.seed)
    else:
        everything = merge(_read(folder, name) for name in dataset.train)
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
        dev=dev.mask(cell.hidden, cell.seed) if dataset.mask_dev and cell.hidden else dev,
        test=_some(_read(folder, dataset.test), limits.test),
        gold=whole,
        hidden=None if whole is None else hidden_against_gold(train, whole, folder or SAMPLE),
    )


def _said(config: Any) -> Any:
    """The same without what is not set: that there is a new setting does not make old results wrong."""
    if isinstance(config, Mapping):
        return {key: _said(value) for key, value in config.items() if value is not None}
    return [_said(value) for value in config] if isinstance(config, list | tuple) else config


def _combinations(recipe: Recipe, places: Places, seed: int) -> Iterator[dict[str, Any]]:
    """What the cells of one seed are, in the order of the recipe."""
    for name in recipe.data:
        dataset = _limited(recipe.dataset_of(name), recipe.sentences)
        files = _hashes(name, dataset, places)
        labels = [(hidden, False) for hidden in recipe.hidden]
        if recipe.naive is not None and dataset.gold in files:
            labels.append((0.0, True))
        for (hidden, complete), encoder, run in product(labels, recipe.encoders, recipe.runs):
            rules = [rule for rule in recipe.when if rule.fits(name, run, encoder, hidden, seed)]
            if any(rule.skip for rule in rules) or (complete and run != recipe.naive):
                continue
            yield {
                "data": name, "dataset": dataset, "files": files, "hidden": hidden, "complete": complete,
                "encoder": encoder, "run": run, "seed": seed, "overrides": [rule.settings for rule in rules],
            }  # fmt: skip


def _cell(
    recipe: Recipe, places: Places, data: str, dataset: Dataset, files: dict[str, str], hidden: float, complete: bool,
    encoder: str, run: str, seed: int, overrides: Iterable[Mapping[str, Any]],
) -> Cell:  # fmt: skip
    settings = _settings(recipe, places, encoder, run, overrides, seed)
    try:
        _check_experiment(recipe, settings)
        read = _encoder_hashes(settings, places)
    except ConfigError as error:
        raise ConfigError(f"run {run!r} with encoder {encoder!r}: {error}") from error
    described = settings.model_dump(mode="json")
    return Cell(
        data=data,
        hidden=hidden,
        complete=complete,
        run=run,
        encoder=encoder,
        seed=seed,
        config={
            "experiment": recipe.experiment,
            "measure": list(recipe.measure),
            "dataset": dataset.model_dump(mode="json"),
            "settings": places.hide(described),
        },
        files=files | read,
    )


def _settings(
    recipe: Recipe, places: Places, encoder: str, run: str, overrides: Iterable[Mapping[str, Any]], seed: int
) -> RunSettings:
    """Settings of a cell: those of the recipe, its encoder, the rules that fit, and the run; each outranks the one before."""
    chosen = recipe.encoder_of(encoder)
    try:
        if run in recipe.run:
            method, own = recipe.run[run].method, recipe.run[run].settings
        else:
            method, *assignments = run.split()
            own = parse_assignments(assignments)
        merged: dict[str, Any] = {}
        for layer in (recipe.settings, chosen.settings, *overrides, own, {"training": {"seed": seed}}):
            _put(merged, places.fill(layer))
        return resolve_settings(method, places.fill(chosen.model), merged)
    except ConfigError as error:
        raise ConfigError(f"run {run!r} with encoder {encoder!r}: {error}") from error


def _put(settings: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """A layer on top of settings; a part that is named anew forgets the parameters of the one before."""
    given = dict(_dotted(layer))
    for name, value in given.items():
        if "." not in name and settings.get(name) != value:
            for old in [known for known in settings if known.startswith(f"{name}.")]:
                del settings[old]
    settings.update(given)


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested tables as dotted keys; a part's name is its value."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield (prefix + key).removesuffix(".name"), value


def _check_experiment(recipe: Recipe, settings: RunSettings) -> None:
    if "vectors" in recipe.measure and importlib.util.find_spec("sklearn") is None:
        raise ConfigError("vectors need scikit-learn; install it with: pip install 'lacuner[plots]'")
    if recipe.experiment == "audit" and importlib.util.find_spec("cleanlab") is None:
        raise ConfigError("an audit is compared with cleanlab's ranking; install it with: pip install cleanlab")
    if recipe.experiment == "o-values":
        tagger(settings)
    for what in (*recipe.measure, *(["uncertainty"] if recipe.experiment == "uncertainty" else ())):
        span_method(settings, what)


def _check_cells(cells: Iterable[Cell], places: Places) -> None:
    """Read every dataset once, and look whether the methods can learn from it."""
    known: dict[tuple[str, float, bool], Corpora] = {}
    for cell in cells:
        place = (cell.data, cell.hidden, cell.complete)
        try:
            if place not in known:
                known[place] = read_corpora(cell, places)
            corpora = known[place]
            compared = "missampling" in cell.config["measure"] or cell.config["experiment"] != "training"
            if compared and corpora.hidden is None:
                raise ConfigError("what is hidden is not known: it has no complete labels of the same sentences")
            if cell.config["dataset"]["mask_dev"] and not (cell.hidden or cell.complete):
                raise ConfigError(
                    "mask_dev hides as many labels of the dev data as of the training data, but there none are hidden"
                    " — give shares in hidden, too"
                )
            check_training(corpora.train, corpora.dev, cell.settings(places), corpora.trusted)
            _check_labels(cell, corpora)
            _check_test_data(cell, corpora)
            if cell.complete:
                _check_gold(cell, places)
        except LacunerError as error:
            raise ConfigError(f"{cell}: {error}") from error


def _check_labels(cell: Cell, corpora: Corpora) -> None:
    if cell.config["dataset"]["unseen_labels"]:
        return
    train = corpora.gold if cell.hidden and corpora.gold is not None else corpora.train  # a label may be wholly hidden
    learned = {*train.labels, *(corpora.trusted.labels if corpora.trusted else ())}
    for name, corpus in (("dev", corpora.dev), ("test", corpora.test)):
        unseen = sorted(set(corpus.labels) - learned)
        if unseen:
            raise ConfigError(
                f"the {name} data has labels that the training data lacks: {', '.join(unseen)} (it has "
                f"{', '.join(sorted(learned))}) — rename them, or set dataset.{cell.data}.unseen_labels = true"
            )


def _check_test_data(cell: Cell, corpora: Corpora) -> None:
    dataset, files = cell.config["dataset"], cell.files
    if not any(sentence.entities for sentence in corpora.test):
        raise ConfigError(f"the test data ({dataset['test']}) has no entities — check the file and its tag column")
    learned = [*dataset["train"], *dataset["trusted"], *([dataset["gold"]] if cell.hidden or cell.complete else ())]
    same = next((name for name in learned if name in files and files[name] == files.get(dataset["test"])), None)
    if same is not None:
        raise ConfigError(
            f"it would be tested on what it learns from: {dataset['test']} is {same} — give other test data"
        )


def _check_gold(cell: Cell, places: Places) -> None:
    """All labels of the same sentences: those of others would tell nothing about the gaps."""
    dataset = Dataset.model_validate(cell.config["dataset"])
    folder = _folder(cell.data, dataset, places)
    if folder is None or not all((folder / name).is_file() for name in dataset.train):
        return
    if _read(folder, dataset.gold).tokens != merge(_read(folder, name) for name in dataset.train).tokens:
        files = " and ".join(dataset.train)
        raise ConfigError(f"{dataset.gold} has other sentences than {files} — give the same ones, or leave out naive")


def _limited(dataset: Dataset, limits: Limits) -> Dataset:
    """The dataset's own limits outrank those of the recipe."""
    own = dataset.sentences.model_dump(exclude_none=True)
    return dataset.model_copy(update={"sentences": limits.model_copy(update=own)})


def _some(corpus: Corpus, count: int | None) -> Corpus:
    """So many sentences, evenly spaced."""
    if count is None or count >= len(corpus):
        return corpus
    return Corpus(tuple(corpus[number * len(corpus) // count] for number in range(count)), corpus.report)


def _folder(name: str, dataset: Dataset, places: Places) -> Path | None:
    """Where a dataset lies; none: in the package."""
    if name == SAMPLE and dataset.folder is None:
        return None
    return places.data / (dataset.folder or name)


def _hashes(name: str, dataset: Dataset, places: Places) -> dict[str, str]:
    """Hashes of a dataset's files, by their names."""
    folder = _folder(name, dataset, places)
    if folder is None:
        return {dataset.gold: "built in"}
    if not folder.is_dir():
        raise ConfigError(f"dataset {name}: there is no folder {folder} — LACUNER_DATA says where datasets lie")
    needed = [*dataset.trusted, dataset.dev, dataset.test]
    gold = folder / dataset.gold
    if not gold.is_file():
        needed += dataset.train
    missing = next((file for file in needed if not (folder / file).is_file()), None)
    if missing is not None:
        raise ConfigError(f"dataset {name}: there is no file {missing} in {folder} — check the recipe, or put it there")
    files = [*needed, *(file for file in (*dataset.train, dataset.gold) if (folder / file).is_file())]
    return {file: _hash(folder / file) for file in dict.fromkeys(files)}


def _encoder_hashes(settings: RunSettings, places: Places) -> dict[str, str]:
    """Hashes of the files that an encoder is created from, by paths that are the same on every machine."""
    return {places.hide(str(path)): _hash(path) for path in settings.encoder.files}


def _read(folder: Path | None, file: str) -> Corpus:
    if folder is None:
        return _sample(file.partition(".")[0])
    if not (folder / file).is_file():
        raise ConfigError(f"there is no file {folder / file} — check the recipe, or put it there")
    return _read_once(folder / file)


def _read_gold(folder: Path | None, dataset: Dataset) -> Corpus | None:
    return _read(folder, dataset.gold) if folder is None or (folder / dataset.gold).is_file() else None


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
