"""A recipe: datasets x methods x fractions of hidden labels x encoders x seeds, as a TOML file."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from lacuner.errors import ConfigError
from lacuner.parts import Settings, validate

ALL_LABELS = ", all labels"
"""Suffix of a method's name in the row of its model trained on complete labels."""
SAMPLE = "sample"
"""The built-in dataset."""
TRANSFORMER = "transformer"
"""Name of the profile and encoder of all recipes for a small pretrained transformer."""
PROFILES = ("quick", "standard", TRANSFORMER, "full")
Experiment = Literal["training", "uncertainty", "o-values", "audit", "review"]
Measure = Literal["missampling", "vectors", "threshold-size"]

_RECIPES = Path(__file__).parent / "recipes"
"""Built-in recipes."""
_CORPORA = Path(__file__).parent / "corpora.toml"
"""Tables that recipes can include."""
_NAMED = {"dataset": "data", "method": "methods", "encoder": "encoders"}
"""Kinds of tables, and the lists that refer to them by name."""
_QUICK: dict[str, Any] = {
    "data": [SAMPLE], "encoders": ["recurrent"], "seeds": [1, 2], "sentences": {"train": 240, "dev": 60, "test": 60},
    "when": [], "settings": {"training": {"epochs": 15, "batch_tokens": 64}},
}  # fmt: skip
"""Changes of the profile ``quick`` to any recipe: runs in minutes on the built-in sample, long enough to find something."""
_TRANSFORMER: dict[str, Any] = {"encoders": [TRANSFORMER], "seeds": [1, 2]}
"""Changes of the profile ``transformer`` to ``standard``."""
_QUICK_HIDDEN = 0.5


Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Limits(Settings):
    """So many sentences, evenly spaced in their file; none: all."""

    train: int | None = Field(None, ge=1)
    trusted: int | None = Field(None, ge=1)
    dev: int | None = Field(None, ge=1)
    test: int | None = Field(None, ge=1)


class Dataset(Settings):
    """What to train on, and what to choose and to test by."""

    folder: str | None = Field(None, description="folder below LACUNER_DATA; default: the dataset's name")
    language: str | None = Field(None, description="language of the recipe, which selects encoder settings")
    train: tuple[str, ...] = Field(("train.conll",), min_length=1, description="files with incomplete labels")
    trusted: tuple[str, ...] = Field((), description="files with complete labels, trained on in addition")
    gold: str = Field("train.gold.conll", description="complete labels of the training sentences, required for masking")
    dev: str = "dev.conll"
    test: str = "test.conll"
    dictionary: str = Field("dictionary.tsv", description="names and labels for the method kb; the file may be missing")
    same_text: bool | None = Field(
        None, description="the training files annotate the same text; the source of each label is kept"
    )
    dictionary_fraction: float | None = Field(
        None,
        gt=0,
        le=1,
        description="annotate the training sentences again with this fraction of the dictionary's names, "
        "sampled with the seed",
    )
    other_dictionary: bool | None = Field(None, description="the training labels were not made with this dictionary")
    mask_dev: bool | None = Field(
        None, description="hide the same fraction of labels in the dev data as in the training data"
    )
    complete: bool = Field(False, description="the training data is completely annotated")
    sentences: Limits = Limits()
    unseen_labels: bool = Field(
        False, description="dev and test data may have labels that do not occur in the training data"
    )

    @field_validator("train", "trusted", mode="before")
    @classmethod
    def _read_one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class MethodChoice(Settings):
    """A method: its name, and what to change in it."""

    method: str
    settings: dict[str, Any] = {}


class EncoderChoice(Settings):
    """An encoder: its name or folder, and its settings."""

    model: str
    settings: dict[str, Any] = {}


class Rule(Settings):
    """Settings of the runs that it fits, or ``skip`` to leave them out. A list that is not given fits everything."""

    data: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    encoders: tuple[str, ...] | None = None
    hidden: tuple[float, ...] | None = None
    seeds: tuple[int, ...] | None = None
    settings: dict[str, Any] = {}
    skip: bool = False

    def fits(self, data: str, method: str, encoder: str, hidden: float | None, seed: int) -> bool:
        """Whether it applies to this run; ``hidden`` is None for a model trained on complete labels."""
        pairs = (
            (self.data, data),
            (self.methods, method),
            (self.encoders, encoder),
            (self.hidden, hidden),
            (self.seeds, seed),
        )
        return all(wanted is None or value in wanted for wanted, value in pairs)


class Recipe(Settings):
    """What is compared. Every combination of ``data``, ``hidden``, ``methods``, ``encoders`` and ``seeds`` is a run."""

    title: str
    about: str = ""
    experiment: Experiment = "training"
    data: tuple[str, ...] = Field(min_length=1, description="names of datasets")
    methods: tuple[str, ...] = Field(min_length=1, description="method names, optionally with settings: nrces loss.w=1")
    encoders: tuple[str, ...] = Field(("recurrent",), min_length=1)
    hidden: tuple[float, ...] = Field((0.0,), min_length=1, description="fractions of the complete labels to hide")
    seeds: tuple[Seed, ...] = Field((1, 2, 3), min_length=1)
    measure: tuple[Measure, ...] = ()
    settings: dict[str, Any] = Field({}, description="settings of all runs")
    sentences: Limits = Limits()
    dataset: dict[str, Dataset] = {}
    method: dict[str, MethodChoice] = {}
    encoder: dict[str, EncoderChoice] = {}
    language: dict[str, dict[str, dict[str, Any]]] = Field(
        {}, description="settings for datasets of a language: language name, then encoder name"
    )
    when: tuple[Rule, ...] = ()
    baseline: str | None = Field(None, description="method that the others are compared with in significance tests")
    naive: str | None = Field(
        None, description="method that is also trained on complete labels, which defines the gap to close"
    )
    reference: str | None = Field(
        None, description="a simple remedy that the others should beat, reported beside the baseline"
    )
    paper: dict[str, dict[str, float]] = Field(
        {}, description="figures from the papers: method, or method · encoder; then column"
    )
    paper_encoder: str = Field("", description="encoder of the papers' figures, named in the note about them")

    @field_validator("data", "methods", "encoders", "hidden", "seeds")
    @classmethod
    def _check_names(cls, value: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        twice = next((item for item in value if value.count(item) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} is listed twice")
        if any(not str(item).strip() for item in value):
            raise ValueError("a name is empty")
        if info.field_name == "hidden" and not all(0 <= fraction < 1 for fraction in value):
            raise ValueError("each must be at least 0 and less than 1")
        return value

    def dataset_of(self, name: str) -> Dataset:
        """The dataset of a name in ``data``; without a table, a folder with the usual files."""
        return self.dataset.get(name, Dataset())

    def method_of(self, name: str) -> tuple[str, Mapping[str, Any] | list[str]]:
        """The method of a name in ``methods``, with changed settings as a table or as ``KEY=VALUE``."""
        if name in self.method:
            return self.method[name].method, self.method[name].settings
        method, *assignments = name.split()
        return method, assignments

    def encoder_of(self, name: str) -> EncoderChoice:
        """The encoder of a name in ``encoders``; without a table, a value for ``--encoder``."""
        return self.encoder.get(name, EncoderChoice(model=name))


def column_name(data: str, hidden: float) -> str:
    """Table column for a dataset and the fraction of its labels that is hidden."""
    return f"{data} {hidden:g}" if hidden else data


def find_recipe(name: str) -> Path:
    """Find the file of a recipe by path, or by the name of a built-in one."""
    path = Path(name)
    if path.is_file():
        return path
    known = known_recipes()
    if name in known:
        return known[name]
    if path.suffix == ".toml" or path.parent != Path():
        raise ConfigError(f"{name}: there is no such file — check the path")
    raise ConfigError(f"there is no recipe {name}; give a TOML file, or one of: {', '.join(sorted(known))}")


def known_recipes() -> dict[str, Path]:
    """Built-in recipes, by name."""
    return {path.stem: path for path in sorted(_RECIPES.glob("*.toml"))}


def recipe_name(path: Path) -> str:
    """The command-line argument for this recipe."""
    known = known_recipes().get(path.stem)
    return path.stem if known is not None and known.samefile(path) else path.name


def read_recipe(path: Path, profile: str = "standard") -> Recipe:
    """Read a recipe, with the changes of a profile."""
    content = _read_toml(path)
    with error_context(path):
        return build_recipe(content, profile, path.parent)


def build_recipe(content: Mapping[str, Any], profile: str, folder: Path | None = None) -> Recipe:
    """Build a recipe from the content of a TOML file in ``folder``."""
    content = dict(content)
    profiles = content.pop("profile", {})
    shared = _read_shared(content.pop("include", None), folder or Path())
    if not isinstance(profiles, Mapping):
        raise ConfigError("profile is no table; write [profile.standard]")
    if profile not in PROFILES and profile not in profiles:
        known = dict.fromkeys((*PROFILES, *profiles))
        raise ConfigError(f"there is no profile {profile}; there are: {', '.join(known)}")
    bases = {"": content, "quick": _quick(content), TRANSFORMER: _transformer(content, profiles.get("standard", {}))}
    recipes = {name: _checked_tables(_with_shared(base, shared)) for name, base in bases.items()}
    for name, changes in profiles.items():  # also validate profiles that are not used
        meant = get_close_matches(name, PROFILES, n=1)
        if meant and name not in PROFILES:
            raise ConfigError(f"profile {name}: did you mean {meant[0]}? Give it another name if not")
        with error_context(f"profile {name}"):
            recipes[name] = _checked_tables(_with_shared(_merged(bases.get(name, content), changes), shared))
    for name, recipe in recipes.items():
        with error_context(f"profile {name}") if name in profiles else nullcontext():
            _check_names(recipe, recipes.values())
    return recipes[profile if profile in recipes else ""]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror} — check the path") from error
    except RecursionError:
        raise ConfigError(f"{path}: lists and tables are nested too deep — make it flatter") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not TOML ({error}) — correct it there") from error


def _read_shared(include: Any, folder: Path) -> dict[str, Mapping[str, Any]]:
    """Shared tables by kind: those of an included file, and languages."""
    known = {kind: _table(_read_toml(_CORPORA), kind) for kind in (*_NAMED, "language")}
    if include == _CORPORA.stem:
        return known
    encoders = {TRANSFORMER: known["encoder"][TRANSFORMER]}
    shared = {"dataset": {}, "method": {}, "encoder": encoders, "language": known["language"]}
    if include is None:
        return shared
    if not isinstance(include, str):
        raise ConfigError(f"include={include!r}: give {_CORPORA.stem}, or a file with tables for several recipes")
    path = folder / include
    content = _read_toml(path)
    with error_context(path):
        foreign = next((key for key in content if key not in known), None)
        if foreign is not None:
            raise ConfigError(f"{foreign} belongs into a recipe; here are only tables: {', '.join(known)}")
        return {kind: _merged(tables, _table(content, kind)) for kind, tables in shared.items()}


def _with_shared(content: dict[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Add the shared tables that the content refers to below its own."""
    merged = dict(content)
    for kind, axis in _NAMED.items():
        own, names = _table(content, kind), content.get(axis)
        named = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        known = {name: shared[kind][name] for name in named if name in shared[kind]}
        merged[kind] = _merged(known, own)
    return merged | {"language": _merged(shared["language"], _table(content, "language"))}


def _transformer(content: dict[str, Any], standard: Any) -> dict[str, Any]:
    """The content for the profile ``transformer``, without the papers' figures for small encoders."""
    theirs = ("paper", "paper_encoder")
    changes = {key: standard[key] for key in standard if key not in theirs} if isinstance(standard, Mapping) else {}
    return _merged(_merged(content, changes), _TRANSFORMER)


@contextmanager
def error_context(where: str | Path) -> Iterator[None]:
    """Prefix the message of a :class:`ConfigError` with ``where``."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _quick(content: dict[str, Any]) -> dict[str, Any]:
    hidden = content.get("hidden")
    fractions = [fraction for fraction in hidden if fraction] if isinstance(hidden, list) else []
    fractions = [fractions[0], *fractions[1:][-1:]] if fractions else [_QUICK_HIDDEN]
    return _merged(content, {**_QUICK, "hidden": fractions})


def _checked_tables(content: Mapping[str, Any]) -> Recipe:
    """Validate the recipe; errors inside a table list the alternatives."""
    tables: dict[str, type[Settings]] = {"dataset": Dataset, "method": MethodChoice, "encoder": EncoderChoice}
    for kind, table in tables.items():
        for name, inner in _table(content, kind).items():
            if not isinstance(inner, Mapping):
                raise ConfigError(f"{kind}.{name} is no table; write [{kind}.{name}]")
            validate(table, inner, f"{kind}.{name}.")
    rules = content.get("when", ())
    for number, rule in enumerate(rules if isinstance(rules, list | tuple) else (), 1):
        if not isinstance(rule, Mapping):
            raise ConfigError(f"when[{number}] is no table; write [[when]]")
        validate(Rule, rule, f"when[{number}].")
    return validate(Recipe, content)


def _check_names(recipe: Recipe, variants: Iterable[Recipe]) -> None:
    """Reject settings for a method, dataset or encoder that no profile has."""
    variants = tuple(variants)
    axes = {
        kind: {name for variant in variants for name in getattr(variant, kind)}
        for kind in ("data", "methods", "encoders", "hidden", "seeds")
    }
    methods, encoders = axes["methods"], axes["encoders"]
    rows = methods | {f"{method} · {encoder}" for method in methods for encoder in encoders}
    rows |= {"top-k", "middle-k", "bottom-k"} if recipe.experiment == "uncertainty" else set()
    columns = {column_name(data, hidden) for variant in variants for data in variant.data for hidden in variant.hidden}
    said: list[tuple[str, Iterable[Any] | None, set[Any]]] = [
        *((f"paper.{row}", figures, columns) for row, figures in recipe.paper.items() if row in rows),
        ("baseline", recipe.baseline and (recipe.baseline,), methods),
        ("naive", recipe.naive and (recipe.naive,), methods),
        ("reference", recipe.reference and (recipe.reference,), methods),
        ("paper", recipe.paper, rows),
        ("method", recipe.method, methods),
        ("dataset", recipe.dataset, axes["data"]),
        ("encoder", recipe.encoder, encoders),
    ]
    said += [
        (f"dataset.{name}.language", dataset.language and (dataset.language,), set(recipe.language))
        for name, dataset in recipe.dataset.items()
    ]
    for number, rule in enumerate(recipe.when, 1):
        said += [(f"when[{number}].{kind}", getattr(rule, kind), known) for kind, known in axes.items()]
    if recipe.experiment == "uncertainty" and len(recipe.methods) > 1:
        raise ConfigError("methods: uncertainty is about three models of one method; leave only one")
    if recipe.naive is not None and recipe.experiment != "training":
        raise ConfigError(f"naive: the experiment {recipe.experiment} has no gap in F1 to close; leave it out")
    _check_table(recipe)
    for where, names, known in said:
        for name in names or ():
            if name not in known:
                there = ", ".join(map(str, sorted(known)))
                raise ConfigError(f"{where}: {name} is not in the recipe; there are: {there}")


def _check_table(recipe: Recipe) -> None:
    """Reject names that would be identical in a table."""
    columns = [column_name(data, hidden) for data in recipe.data for hidden in recipe.hidden]
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise ConfigError(f"data: two columns would be called {twice!r}; rename a dataset")
    clash = next((method for method in recipe.methods if method.endswith(ALL_LABELS)), None)
    if clash is not None:
        raise ConfigError(f"methods: {clash!r} is the name of a row that is trained on all labels; rename it")


def _table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = content.get(key, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{key} is no table; write [{key}.NAME]")
    return table


def _merged(below: Mapping[str, Any], above: Any) -> dict[str, Any]:
    """Merge nested tables, ``above`` over ``below``; lists and values are replaced."""
    if not isinstance(above, Mapping):
        raise ConfigError(f"a profile is a table, not {above!r}; write [profile.standard]")
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged
