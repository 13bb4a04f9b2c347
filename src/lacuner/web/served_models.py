"""The models of a server: loaded by name, loaded again without a pause, and asked about texts of many requests at once."""

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
"""How often a folder is read that is replaced meanwhile."""


@dataclass(frozen=True)
class Query:
    """A text, and what to find in it.

    Attributes:
        text: any.
        nested: keep entities that overlap better ones.
        min_score: leave out entities that are less probable.
        rate_missing: also say how probably an entity is missing.
        marked: spans ``[start, end)`` of characters that somebody has annotated; by default what is predicted counts as such.
    """

    text: str
    nested: bool = False
    min_score: float = 0.0
    rate_missing: bool = False
    marked: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Answer:
    """What was found, by which version of the model.

    Attributes:
        entities: with offsets that count characters (code points).
        version: of the model.
        missing: the chance that an entity is missing, if that was asked.
    """

    entities: list[Entity]
    version: str
    missing: float | None = None


@dataclass(frozen=True)
class ServedModel:
    """A loaded model.

    Attributes:
        recognizer: finds entities.
        version: tells models with other weights or settings apart.
        encodes_alike: whether texts can be encoded together without changing results.
    """

    recognizer: Recognizer
    version: str
    encodes_alike: bool

    @classmethod
    def load(cls, path: str | Path, device: Device = None) -> "ServedModel":
        """Load a model folder, or a model on the hub."""
        for _ in range(_TRIES):
            folder = find_model_folder(path)
            version = version_of(folder)
            recognizer = Recognizer.from_pretrained(path, device)
            if version == version_of(find_model_folder(path)):
                return cls.of(recognizer, version)
        raise LacunerError(f"{path} was replaced again and again while it was read — load it when nothing writes there")

    @classmethod
    def of(cls, recognizer: Recognizer, version: str = "unsaved") -> "ServedModel":
        """A model that is loaded already."""
        return cls(recognizer, version, encodes_alike(recognizer.model))

    def answer(
        self, queries: Sequence[Query], is_wanted: Callable[[int], bool] = lambda index: True
    ) -> list[Answer | Exception]:
        """What :meth:`Recognizer.predict` says of each text by itself, bit by bit, in whatever company it is.

        Args:
            queries: texts.
            is_wanted: whether somebody still waits for the answer to a query; asked before each batch of its passages.
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
    """An answer that nobody waits for any more."""

    def __init__(self) -> None:
        super().__init__("Nobody is waiting for the answer.")


@dataclass(frozen=True)
class _WhileWanted:
    """A backend that computes nothing for those who have gone, so that one long text does not keep the others waiting."""

    backend: Backend
    is_wanted: Callable[[], bool]

    def check(self) -> None:
        if not self.is_wanted():
            raise GivenUpError

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        self.check()
        return self.backend.encode(sentences)


class ServedModels:
    """Models by name; the first is the one that requests mean which name none.

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
        """Models that are loaded already, and cannot be loaded again."""
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
        """Of all models."""
        return {name: served.version for name, served in self._loaded.items()}

    def reload(self) -> dict[str, str]:
        """Load all models again whose folders have changed, while the old ones answer.

        Returns:
            For each model that could not be loaded, and stays what it was, the reason.
        """
        failed: dict[str, str] = {}
        with self._loading:
            for name, path in self._paths.items():
                try:
                    if version_of(find_model_folder(path)) != self._loaded[name].version:
                        self._loaded[name] = ServedModel.load(path, self._device)  # seen by the next request
                except (LacunerError, OSError) as error:
                    failed[name] = str(error)
        return failed


def answer_together(
    queries: Sequence[tuple[ServedModel, Query]], is_wanted: Callable[[int], bool] = lambda index: True
) -> list[Answer | Exception]:
    """Answer queries, each by the model that served when it came, although another version may have been loaded since."""
    answers: dict[int, Answer | Exception] = {}
    for served in {id(served): served for served, _ in queries}.values():
        chosen = [index for index, (wanted, _) in enumerate(queries) if wanted is served]
        found = served.answer([queries[index][1] for index in chosen], partial(_is_one_wanted, is_wanted, chosen))
        answers |= dict(zip(chosen, found, strict=True))
    return [answers[index] for index in range(len(queries))]


def _is_one_wanted(is_wanted: Callable[[int], bool], chosen: Sequence[int], index: int) -> bool:
    return is_wanted(chosen[index])


def version_of(folder: Path) -> str:
    """The beginning of a hash of all files that a model consists of; what is said about it does not count."""
    found = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".md", ".jsonl"):
            found.update(str(path.relative_to(folder)).encode())
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "blake2b").digest())
    return found.hexdigest()


def named_paths(given: Sequence[str]) -> dict[str, str]:
    """``NAME=MODEL``, or ``MODEL`` alone, which is called as its folder is.

    >>> named_paths(["news=models/a", "user/medical"])
    {'news': 'models/a', 'medical': 'user/medical'}
    """
    paths: dict[str, str] = {}
    for argument in given:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).is_dir():  # a folder may have an equals sign in its name
            name, path = Path(argument).resolve().name if Path(argument).exists() else Path(argument).name, argument
        if not name or not path or not all(character.isalnum() or character in "-_." for character in name):
            raise ConfigError(
                f"{argument}: {name!r} cannot be part of an address — name it, such as news={path or 'MODEL'}"
            )
        if name in paths:
            raise ConfigError(f"two models are called {name!r} — name them, such as {name}={paths[name]} other={path}")
        paths[name] = path
    return paths
