"""From a recipe to its runs: all combinations with complete settings, validated before training starts."""

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from lacuner.analysis.hidden import span_method
from lacuner.analysis.o_values import tagger
from lacuner.bench import knowledge_base
from lacuner.bench.corpora import (
    Corpora,
    check_gold,
    dataset_hashes,
    encoder_hashes,
    read_complete,
    read_corpora,
    read_dictionary,
)
from lacuner.bench.knowledge_base import check_names, match_settings
from lacuner.bench.path_templates import PathTemplates
from lacuner.bench.recipe import Dataset, Limits, Recipe, error_context
from lacuner.bench.runs import Run
from lacuner.errors import ConfigError, LacunerError
from lacuner.training.prepare import check_training
from lacuner.training.settings import RunSettings, parse_assignments, resolve_settings

_POSSIBLE = 1e-9
"""Seeds are checked if the probability of hiding all labels is at least this."""


def plan(recipe: Recipe, paths: PathTemplates) -> list[Run]:
    """All runs of a recipe, those with the first seed first, validated to be trainable.

    Everything is checked here, so that a mistake in the last line of a recipe is not found after hours.
    """
    runs = build_runs(recipe, paths)
    check_runs(runs, paths)
    return runs


def build_runs(recipe: Recipe, paths: PathTemplates) -> list[Run]:
    """All runs of a recipe, those with the first seed first, without reading their data.

    Runs with different names have the same key if they train the same model.
    """
    runs = [_build_run(recipe, paths, **one) for seed in recipe.seeds for one in _combinations(recipe, paths, seed)]
    if not runs:
        raise ConfigError("no run is left: the rules of the recipe skip all of them")
    for kind, method in (("baseline", recipe.baseline), ("naive", recipe.naive)):
        if method is not None and method not in recipe.methods:
            raise ConfigError(
                f"{kind}: {method} is not among the methods of this profile; there are: {', '.join(recipe.methods)}"
            )
        if method is not None and method not in {run.method for run in runs}:
            raise ConfigError(f"{kind}: the rules of the recipe skip all runs of {method}")
    return runs


def check_runs(runs: Sequence[Run], paths: PathTemplates) -> None:
    """Read the data of these runs, and reject runs that cannot be trained on it."""
    first: dict[tuple[Any, ...], Run] = {}  # one of those that differ only in their seed
    for run in runs:
        first.setdefault((run.column, run.complete, run.method, run.encoder), run)
    _check_data(first.values(), paths)
    _check_seeds(runs, paths)


def check_encoders(runs: Iterable[Run], paths: PathTemplates) -> None:
    """Load every encoder once, to detect wrong names before the first run."""
    trained = (run for run in runs if run.is_trained)
    encoders = {json.dumps(run.config["settings"]["encoder"], sort_keys=True): run for run in trained}
    for run in encoders.values():
        try:
            run.settings(paths).encoder.check()
        except LacunerError as error:
            raise ConfigError(f"encoder {run.encoder!r}: {error}") from error


def _combinations(recipe: Recipe, paths: PathTemplates, seed: int) -> Iterator[dict[str, Any]]:
    """The parameters of the runs of one seed, in the order of the recipe."""
    for name in recipe.data:
        dataset = _limited(recipe.dataset_of(name), recipe.sentences)
        files = dataset_hashes(name, dataset, paths)
        labels = [(hidden, False) for hidden in recipe.hidden]
        if recipe.naive is not None and dataset.gold in files:
            labels.append((0.0, True))
        for (hidden, complete), encoder, method in product(labels, recipe.encoders, recipe.methods):
            fraction = None if complete else hidden
            rules = [rule for rule in recipe.when if rule.fits(name, method, encoder, fraction, seed)]
            if any(rule.skip for rule in rules) or (complete and method != recipe.naive):
                continue
            is_first = (encoder, seed) == (recipe.encoders[0], recipe.seeds[0])
            if _is_matched(recipe, method) and not (is_first and dataset.dictionary in files):
                continue
            language = recipe.language.get(dataset.language or "", {}).get(encoder, {})
            yield {
                "data": name, "dataset": dataset, "files": files, "hidden": hidden, "complete": complete,
                "encoder": encoder, "method": method, "seed": seed,
                "overrides": [language, *(rule.settings for rule in rules)],
            }  # fmt: skip


def _limited(dataset: Dataset, limits: Limits) -> Dataset:
    """Apply the limits of the recipe to a dataset without limits of its own."""
    own = dataset.sentences.model_dump(exclude_none=True)
    return dataset.model_copy(update={"sentences": limits.model_copy(update=own)})


def _build_run(
    recipe: Recipe, paths: PathTemplates, data: str, dataset: Dataset, files: dict[str, str], hidden: float, complete: bool,
    encoder: str, method: str, seed: int, overrides: Iterable[Mapping[str, Any]],
) -> Run:  # fmt: skip
    config: dict[str, Any] = {"dataset": dataset.model_dump(mode="json")}
    if _is_matched(recipe, method):
        config |= _matching(recipe, method)
        return Run(data, hidden, complete, method, "", seed, config, files)
    settings = _settings(recipe, paths, encoder, method, overrides, seed)
    try:
        _check_experiment(recipe, settings)
        read = encoder_hashes(settings, paths)
    except ConfigError as error:
        raise ConfigError(f"method {method!r} with encoder {encoder!r}: {error}") from error
    config |= {"experiment": recipe.experiment, "measure": list(recipe.measure)}
    config["settings"] = paths.hide(settings.model_dump(mode="json"))
    return Run(data, hidden, complete, method, encoder, seed, config, files | read)


def _is_matched(recipe: Recipe, method: str) -> bool:
    """Whether a dictionary is matched instead of training a model."""
    return recipe.method_of(method)[0] == knowledge_base.METHOD


def _matching(recipe: Recipe, method: str) -> dict[str, Any]:
    """The configuration of a dictionary-matching run."""
    with error_context(f"method {method!r}"):
        if recipe.experiment != "training":
            raise ConfigError(f"it matches a dictionary, and the experiment {recipe.experiment} is about training")
        settings = match_settings(_own_settings(recipe, method))
    return {"experiment": knowledge_base.EXPERIMENT, "measure": [], "settings": settings.model_dump(mode="json")}


def _own_settings(recipe: Recipe, method: str) -> Mapping[str, Any]:
    _, settings = recipe.method_of(method)
    return settings if isinstance(settings, Mapping) else parse_assignments(settings)


def _settings(
    recipe: Recipe, paths: PathTemplates, encoder: str, method: str, overrides: Iterable[Mapping[str, Any]], seed: int
) -> RunSettings:
    """Merge the settings of recipe, encoder, language, matching rules and method; later ones take precedence."""
    chosen = recipe.encoder_of(encoder)
    try:
        own = _own_settings(recipe, method)
        merged: dict[str, Any] = {}
        for layer in (recipe.settings, chosen.settings, *overrides, own):
            _put(merged, paths.fill(layer))
        if "training.seed" in merged:
            raise ConfigError("training.seed comes from the seeds of the recipe; leave it out")
        merged["training.seed"] = seed
        return resolve_settings(recipe.method_of(method)[0], paths.fill(chosen.model), merged)
    except ConfigError as error:
        raise ConfigError(f"method {method!r} with encoder {encoder!r}: {error}") from error


def _put(settings: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """Merge a layer into settings; replacing a part discards its parameters."""
    given = dict(_dotted(layer))
    for name, value in given.items():
        if "." not in name and settings.get(name) != value:
            for old in [known for known in settings if known.startswith(f"{name}.")]:
                del settings[old]
    settings.update(given)


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten nested tables to dotted keys; a part's name is its value."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield (prefix + key).removesuffix(".name"), value


def _check_experiment(recipe: Recipe, settings: RunSettings) -> None:
    if "vectors" in recipe.measure and importlib.util.find_spec("sklearn") is None:
        raise ConfigError("vectors need scikit-learn; install it with: pip install scikit-learn")
    if recipe.experiment == "audit" and importlib.util.find_spec("cleanlab") is None:
        raise ConfigError("an audit is compared with cleanlab's ranking; install it with: pip install cleanlab")
    if recipe.experiment == "o-values":
        tagger(settings)
    for what in ("missampling", "vectors", "uncertainty"):
        if what in (*recipe.measure, recipe.experiment):
            span_method(settings, what)


def _check_data(runs: Iterable[Run], paths: PathTemplates) -> None:
    """Read every dataset once, and check that the methods can be trained on it."""
    known: dict[tuple[str, float, bool], Corpora] = {}
    for run in runs:
        data = (run.data, run.hidden, run.complete)
        try:
            if data not in known:
                known[data] = read_corpora(run, paths)
            corpora = known[data]
            _check_test_data(run, corpora)
            if not run.is_trained:
                check_names(read_dictionary(run, paths), corpora.test)
                continue
            compared = "missampling" in run.config["measure"] or run.config["experiment"] != "training"
            if compared and corpora.hidden is None:
                raise ConfigError(
                    "the hidden entities are not known, because there are no complete labels of the same sentences"
                )
            if run.config["dataset"]["mask_dev"] and not (run.hidden or run.complete):
                raise ConfigError(
                    "mask_dev hides as many labels of the dev data as of the training data, but there none are hidden"
                    " — give fractions in hidden, too"
                )
            check_training(corpora.train, corpora.dev, run.settings(paths), corpora.trusted)
            _check_labels(run, corpora)
            if run.complete:
                check_gold(run, paths)
        except LacunerError as error:
            raise ConfigError(f"{run}: {error}") from error


def _check_seeds(runs: Iterable[Run], paths: PathTemplates) -> None:
    """Reject seeds that hide all labels of a small dataset."""
    seen: set[tuple[str, float, int]] = set()
    for run in runs:
        masked = (run.data, run.hidden, run.seed)
        if not run.hidden or masked in seen:
            continue
        seen.add(masked)
        whole = read_complete(run, paths)
        assert whole is not None, "_check_data() has checked"
        entities = sum(len(sentence.entities) for sentence in whole)
        if run.hidden**entities > _POSSIBLE and not any(s.entities for s in whole.mask(run.hidden, run.seed)):
            raise ConfigError(f"{run}: all {entities} entities are hidden — take more sentences, or hide fewer")


def _check_labels(run: Run, corpora: Corpora) -> None:
    if run.config["dataset"]["unseen_labels"]:
        return
    train = corpora.gold if run.hidden and corpora.gold is not None else corpora.train  # a label may be hidden in full
    learned = {*train.labels, *(corpora.trusted.labels if corpora.trusted else ())}
    for name, corpus in (("dev", corpora.dev), ("test", corpora.test)):
        unseen = sorted(set(corpus.labels) - learned)
        if unseen:
            raise ConfigError(
                f"the {name} data has labels that the training data lacks: {', '.join(unseen)} (it has "
                f"{', '.join(sorted(learned))}) — rename them, or set dataset.{run.data}.unseen_labels = true"
            )


def _check_test_data(run: Run, corpora: Corpora) -> None:
    dataset, files = run.config["dataset"], run.files
    for name, corpus in (("dev", corpora.dev), ("test", corpora.test)):
        if not any(sentence.entities for sentence in corpus):
            raise ConfigError(f"the {name} data ({dataset[name]}) has no entities — check the file and its tag column")
    if dataset["dev"] != dataset["test"] and files[dataset["dev"]] == files[dataset["test"]]:
        raise ConfigError(
            f"epochs would be chosen on the test data: {dataset['dev']} has the same content as {dataset['test']} — give "
            "other dev data; for figures of dev data, name the same file twice"
        )
    learned = [*dataset["train"], *dataset["trusted"], *([dataset["gold"]] if run.hidden or run.complete else ())]
    same = next((name for name in learned if name in files and files[name] == files.get(dataset["test"])), None)
    if same is not None:
        raise ConfigError(
            f"the test data is training data: {dataset['test']} has the same content as {same} — give other test data"
        )
