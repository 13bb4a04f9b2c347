"""The models of a server: named, reloaded without downtime, and applied to batches of several requests."""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lacuner.corpus import Entity
from lacuner.corpus.tokenize import split_words
from lacuner.errors import ConfigError, LacunerError
from lacuner.hub import find_model_folder
from lacuner.inference.backends import Backend, TorchBackend
from lacuner.inference.missing import missing_probability
from lacuner.inference.predict import predict_texts
from lacuner.inference.together import EncodedTogether, encodes_alike
from lacuner.models.model import EncodedBatch
from lacuner.recognizer import Device, Recognizer

_TRIES = 3
"""Maximum attempts to read a folder that is being replaced."""


@dataclass(frozen=True)
class Query:
    """A text and prediction options.

    Attributes:
        text: any.
        nested: keep entities that overlap better ones.
        min_score: minimum probability.
        rate_missing: also compute the probability that an entity is missing.
        marked: annotated spans ``[start, end)`` in characters; by default the predicted ones.
    """

    text: str
    nested: bool = False
    min_score: float = 0.0
    rate_missing: bool = False
    marked: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Answer:
    """Predictions, and the version of the model.

    Attributes:
        entities: with offsets in characters (code points).
        version: of the model.
        missing: the probability that an entity is missing, if requested.
    """

    entities: list[Entity]
    version: str
    missing: float | None = None


@dataclass(frozen=True)
class ServedModel:
    """A loaded model.

    Attributes:
        recognizer: finds entities.
        version: distinguishes models with different weights or settings.
        encodes_alike: whether batched encoding does not change results.
    """

    recognizer: Recognizer
    version: str
    encodes_alike: bool

    @classmethod
    def load(cls, path: str | Path, device: Device = None) -> "ServedModel":
        """Load a model folder, or a model from the hub."""
        for _ in range(_TRIES):
            folder = find_model_folder(path)
            version = version_of(folder)
            recognizer = Recognizer.from_pretrained(path, device)
            if version == version_of(find_model_folder(path)):
                return cls.of(recognizer, version)
        raise LacunerError(f"{path} was replaced again and again while it was read — load it when nothing writes there")

    @classmethod
    def of(cls, recognizer: Recognizer, version: str = "unsaved") -> "ServedModel":
        """Wrap a loaded model."""
        return cls(recognizer, version, encodes_alike(recognizer.model))

    def answer(
        self, queries: Sequence[Query], is_wanted: Callable[[int], bool] = lambda index: True
    ) -> list[Answer | Exception]:
        """Predict each text, bitwise identical to :meth:`Recognizer.predict` on it alone, whatever the other texts.

        Args:
            queries: texts.
            is_wanted: whether the answer to a query is still wanted; checked before each batch of its passages.
        """
        backend: Backend | None = None
        if self.encodes_alike and len(queries) > 1:
            texts = [query.text for index, query in enumerate(queries) if is_wanted(index)]
            backend = EncodedTogether.of_texts(self.recognizer.model, texts, self.recognizer.split)
        inner = backend or TorchBackend(self.recognizer.model)
        return [
            self._answer_or_error(query, _WhileWanted(inner, partial(is_wanted, index)))
            for index, query in enumerate(queries)
        ]

    def _answer_or_error(self, query: Query, backend: "_WhileWanted") -> Answer | Exception:
        try:
            backend.check()
            return self._answer(query, backend)
        except Exception as error:  # of this text; the others are answered
            return error

    def _answer(self, query: Query, backend: Backend) -> Answer:
        model, split = self.recognizer.model, self.recognizer.split
        (entities,) = predict_texts(model, [query.text], split, query.nested, query.min_score, backend)
        if not query.rate_missing:
            return Answer(entities, self.version)
        offsets = split_words(query.text, split)
        marked = [(entity.start, entity.end) for entity in entities] if query.marked is None else query.marked
        spans = [
            (word, word + 1)
            for word, (begin, end) in enumerate(offsets)
            if any(begin < stop and start < end for start, stop in marked)
        ]
        words = [query.text[start:end] for start, end in offsets]
        return Answer(entities, self.version, missing_probability(model, words, spans, backend))


class GivenUpError(LacunerError):
    """An answer that is no longer wanted."""

    def __init__(self) -> None:
        super().__init__("Nobody is waiting for the answer.")


@dataclass(frozen=True)
class _WhileWanted:
    """A backend that stops computing when the answer is no longer wanted, so that a long text does not block others."""

    backend: Backend
    is_wanted: Callable[[], bool]

    def check(self) -> None:
        if not self.is_wanted():
            raise GivenUpError

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        self.check()
        return self.backend.encode(sentences)


class ServedModels:
    """Models by name; the first is the default.

    Args:
        paths: name → model folder, or name on the hub.
        device: where they run.
    """

    def __init__(self, paths: Mapping[str, str | Path], device: Device = None) -> None:
        self._paths, self._device = dict(paths), device
        self._loading = threading.Lock()
        self._loaded = {name: ServedModel.load(path, device) for name, path in self._paths.items()}

    @classmethod
    def of(cls, **recognizers: Recognizer) -> "ServedModels":
        """Wrap loaded models, which cannot be reloaded."""
        models = cls({})
        models._loaded = {name: ServedModel.of(recognizer) for name, recognizer in recognizers.items()}
        return models

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._loaded)

    @property
    def default(self) -> str:
        return next(iter(self._loaded))

    def __getitem__(self, name: str) -> ServedModel:
        return self._loaded[name]

    def versions(self) -> dict[str, str]:
        """Versions of all models."""
        return {name: served.version for name, served in self._loaded.items()}

    def reload(self) -> dict[str, str]:
        """Reload all models whose folders have changed, while the old ones keep serving.

        Returns:
            For each model that could not be reloaded, and stays unchanged, the reason.
        """
        failed: dict[str, str] = {}
        with self._loading:
            for name, path in self._paths.items():
                try:
                    if version_of(find_model_folder(path)) != self._loaded[name].version:
                        self._loaded[name] = ServedModel.load(path, self._device)  # used from the next request on
                except (LacunerError, OSError) as error:
                    failed[name] = str(error)
        return failed


def answer_together(
    queries: Sequence[tuple[ServedModel, Query]], is_wanted: Callable[[int], bool] = lambda index: True
) -> list[Answer | Exception]:
    """Answer queries, each with the model version that was current when it arrived."""
    answers: dict[int, Answer | Exception] = {}
    for served in {id(served): served for served, _ in queries}.values():
        chosen = [index for index, (wanted, _) in enumerate(queries) if wanted is served]
        found = served.answer([queries[index][1] for index in chosen], partial(_is_one_wanted, is_wanted, chosen))
        answers |= dict(zip(chosen, found, strict=True))
    return [answers[index] for index in range(len(queries))]


def _is_one_wanted(is_wanted: Callable[[int], bool], chosen: Sequence[int], index: int) -> bool:
    return is_wanted(chosen[index])


def version_of(folder: Path) -> str:
    """Hash prefix over all files of a model, except descriptions."""
    found = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".md", ".jsonl"):
            found.update(str(path.relative_to(folder)).encode())
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "blake2b").digest())
    return found.hexdigest()


def named_paths(given: Sequence[str]) -> dict[str, str]:
    """Parse ``NAME=MODEL``, or ``MODEL`` alone, which is named after its folder.

    >>> named_paths(["news=models/a", "user/medical"])
    {'news': 'models/a', 'medical': 'user/medical'}
    """
    paths: dict[str, str] = {}
    for argument in given:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).is_dir():  # a folder name may contain an equals sign
            name, path = Path(argument).resolve().name if Path(argument).exists() else Path(argument).name, argument
        if not name or not path or not all(character.isalnum() or character in "-_." for character in name):
            raise ConfigError(
                f"{argument}: {name!r} cannot be part of an address — name it, such as news={path or 'MODEL'}"
            )
        if name in paths:
            raise ConfigError(f"two models are called {name!r} — name them, such as {name}={paths[name]} other={path}")
        paths[name] = path
    return paths
