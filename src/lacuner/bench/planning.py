"""From a recipe to its cells: every combination, with all its settings, looked at before the first of them is run."""

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from lacuner.analysis.hidden import span_method
from lacuner.analysis.o_values import tagger
from lacuner.bench.corpora import (
    Corpora,
    check_gold,
    dataset_hashes,
    encoder_hashes,
    read_complete,
    read_corpora,
)
from lacuner.bench.recipe import Dataset, Limits, Places, Recipe
from lacuner.bench.runs import Cell
from lacuner.errors import ConfigError, LacunerError
from lacuner.recognizer import check_training
from lacuner.training.settings import RunSettings, parse_assignments, resolve_settings

_POSSIBLE = 1e-9
"""Chance of losing all labels from which on a seed is looked at."""


def plan(recipe: Recipe, places: Places) -> list[Cell]:
    """All cells of a recipe, those with the first seed first; each of them can be run.

    Everything is checked here, so that a mistake in the last line of a recipe does not come to light after hours. Cells with
    other names may have the same key, if they do the same.
    """
    cells = [_cell(recipe, places, **one) for seed in recipe.seeds for one in _combinations(recipe, places, seed)]
    if not cells:
        raise ConfigError("no cell is left: the rules of the recipe skip all of them")
    for kind, run in (("baseline", recipe.baseline), ("naive", recipe.naive)):
        if run is not None and run not in recipe.runs:
            raise ConfigError(
                f"{kind}: {run} is not among the runs of this profile; there are: {', '.join(recipe.runs)}"
            )
        if run is not None and run not in {cell.run for cell in cells}:
            raise ConfigError(f"{kind}: the rules of the recipe skip all cells of {run}")
    first: dict[tuple[Any, ...], Cell] = {}  # of those that differ in their seed only
    for cell in cells:
        first.setdefault((cell.column, cell.complete, cell.run, cell.encoder), cell)
    _check_cells(first.values(), places)
    _check_seeds(cells, places)
    return cells


def check_encoders(cells: Iterable[Cell], places: Places) -> None:
    """Load every encoder once; a wrong name comes to light before the first training."""
    encoders = {json.dumps(cell.config["settings"]["encoder"], sort_keys=True): cell for cell in cells}
    for cell in encoders.values():
        try:
            cell.settings(places).encoder.check()
        except LacunerError as error:
            raise ConfigError(f"encoder {cell.encoder!r}: {error}") from error


def _combinations(recipe: Recipe, places: Places, seed: int) -> Iterator[dict[str, Any]]:
    """What the cells of one seed are, in the order of the recipe."""
    for name in recipe.data:
        dataset = _limited(recipe.dataset_of(name), recipe.sentences)
        files = dataset_hashes(name, dataset, places)
        labels = [(hidden, False) for hidden in recipe.hidden]
        if recipe.naive is not None and dataset.gold in files:
            labels.append((0.0, True))
        for (hidden, complete), encoder, run in product(labels, recipe.encoders, recipe.runs):
            share = None if complete else hidden
            rules = [rule for rule in recipe.when if rule.fits(name, run, encoder, share, seed)]
            if any(rule.skip for rule in rules) or (complete and run != recipe.naive):
                continue
            yield {
                "data": name, "dataset": dataset, "files": files, "hidden": hidden, "complete": complete,
                "encoder": encoder, "run": run, "seed": seed, "overrides": [rule.settings for rule in rules],
            }  # fmt: skip


def _limited(dataset: Dataset, limits: Limits) -> Dataset:
    """The dataset's own limits outrank those of the recipe."""
    own = dataset.sentences.model_dump(exclude_none=True)
    return dataset.model_copy(update={"sentences": limits.model_copy(update=own)})


def _cell(
    recipe: Recipe, places: Places, data: str, dataset: Dataset, files: dict[str, str], hidden: float, complete: bool,
    encoder: str, run: str, seed: int, overrides: Iterable[Mapping[str, Any]],
) -> Cell:  # fmt: skip
    settings = _settings(recipe, places, encoder, run, overrides, seed)
    try:
        _check_experiment(recipe, settings)
        read = encoder_hashes(settings, places)
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
        for layer in (recipe.settings, chosen.settings, *overrides, own):
            _put(merged, places.fill(layer))
        if "training.seed" in merged:
            raise ConfigError("training.seed comes from the seeds of the recipe; leave it out")
        merged["training.seed"] = seed
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
                check_gold(cell, places)
        except LacunerError as error:
            raise ConfigError(f"{cell}: {error}") from error


def _check_seeds(cells: Iterable[Cell], places: Places) -> None:
    """Where few labels are left, another seed may hide all of them."""
    seen: set[tuple[str, float, int]] = set()
    for cell in cells:
        place = (cell.data, cell.hidden, cell.seed)
        if not cell.hidden or place in seen:
            continue
        seen.add(place)
        whole = read_complete(cell, places)
        assert whole is not None, "_check_cells() has looked"
        entities = sum(len(sentence.entities) for sentence in whole)
        if cell.hidden**entities > _POSSIBLE and not any(s.entities for s in whole.mask(cell.hidden, cell.seed)):
            raise ConfigError(f"{cell}: all {entities} entities are hidden — take more sentences, or hide fewer")


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
    for name, corpus in (("dev", corpora.dev), ("test", corpora.test)):
        if not any(sentence.entities for sentence in corpus):
            raise ConfigError(f"the {name} data ({dataset[name]}) has no entities — check the file and its tag column")
    if dataset["dev"] != dataset["test"] and files[dataset["dev"]] == files[dataset["test"]]:
        raise ConfigError(
            f"epochs would be chosen on the test data: {dataset['dev']} has the same content as {dataset['test']} — give "
            "other dev data; for figures of dev data, name the same file twice"
        )
    learned = [*dataset["train"], *dataset["trusted"], *([dataset["gold"]] if cell.hidden or cell.complete else ())]
    same = next((name for name in learned if name in files and files[name] == files.get(dataset["test"])), None)
    if same is not None:
        raise ConfigError(
            f"it would be tested on what it learns from: {dataset['test']} is {same} — give other test data"
        )
