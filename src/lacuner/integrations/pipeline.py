"""A recognizer that is called as a pipeline of transformers is, so that code written for one runs with the other."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, overload

from lacuner.corpus import Entity
from lacuner.errors import ConfigError
from lacuner.recognizer import Device, Recognizer

TASKS = ("token-classification", "ner")
STRATEGIES = ("simple", "first", "average", "max")
"""Ways of transformers to make entities of tagged pieces of words. We find whole entities, so all of them are one."""


class EntityGroup(TypedDict):
    """An entity, with the keys that transformers gives it. ``start`` and ``end`` count characters."""

    entity_group: str
    score: float
    word: str
    start: int
    end: int


class EntityPipeline:
    """What ``transformers.pipeline("token-classification", aggregation_strategy="simple")`` returns, with a model of ours.

    One text gives a list of entities, a list of texts a list of such lists, and anything else that can be iterated over, such
    as a generator or a ``KeyDataset``, an iterator that reads as it goes.

    Args:
        model: finds the entities.
        batch_size: texts of a stream that are read before the first is answered; by default 1,024. Batches in the
            model itself are made by length.
    """

    task = TASKS[0]

    def __init__(self, model: Recognizer, batch_size: int | None = None) -> None:
        self.model = model
        self.batch_size = batch_size

    @property
    def device(self) -> Any:
        return self.model.device

    @overload  # a string is an iterable of strings, too, but nobody means that
    def __call__(  # type: ignore[overload-overlap]
        self, inputs: str, *, batch_size: int | None = ...
    ) -> list[EntityGroup]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, inputs: list[str] | tuple[str, ...], *, batch_size: int | None = ...
    ) -> list[list[EntityGroup]]: ...
    @overload
    def __call__(self, inputs: Iterable[str], *, batch_size: int | None = ...) -> Iterator[list[EntityGroup]]: ...

    def __call__(self, inputs: str | Iterable[str], *, batch_size: int | None = None) -> Any:
        """Find entities in one text, in several, or in a stream of them."""
        if isinstance(inputs, str):
            return _groups(self.model.predict(inputs))
        found = map(_groups, self._predict(map(_checked, inputs), batch_size or self.batch_size))
        return list(found) if isinstance(inputs, Sequence) else found

    def _predict(self, texts: Iterator[str], batch_size: int | None) -> Iterator[list[Entity]]:
        if batch_size is None:
            yield from self.model.predict(texts)
            return
        while batch := list(islice(texts, batch_size)):
            yield from self.model.predict(batch)


def pipeline(
    task: str = TASKS[0],
    model: Recognizer | str | Path | None = None,
    *,
    aggregation_strategy: str = "simple",
    device: Device | int = None,
    revision: str | None = None,
    token: str | bool | None = None,
    batch_size: int | None = None,
) -> EntityPipeline:
    """Stands in for ``transformers.pipeline``.

    Args:
        task: ``token-classification``, or ``ner``, which is the same.
        model: a recognizer, a model folder, or a name on the Hugging Face hub.
        aggregation_strategy: any of transformers, except ``none``: there are no pieces of words to return.
        device: where the model runs, such as ``cpu``, ``cuda:1``, or as transformers counts: -1 is the CPU, 0 the first GPU.
        revision: of a model on the hub.
        token: for a model on the hub that is not public.
        batch_size: texts of a stream that are read before the first is answered.
    """
    if task not in TASKS:
        raise ConfigError(f"there is no pipeline for {task!r}; give {' or '.join(TASKS)}")
    if aggregation_strategy not in STRATEGIES:
        raise ConfigError(
            f"aggregation_strategy={aggregation_strategy!r}: whole entities are found, not pieces of words; "
            f"give {', '.join(STRATEGIES)}"
        )
    if model is None:
        raise ConfigError("there is no default model; give model=, a folder or a name on the hub")
    if isinstance(device, int):
        device = "cpu" if device < 0 else f"cuda:{device}"
    if not isinstance(model, Recognizer):
        return EntityPipeline(Recognizer.from_pretrained(model, device, revision=revision, token=token), batch_size)
    return EntityPipeline(model if device is None else model.to(device), batch_size)


def _checked(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a pipeline takes texts, but not {repr(text)[:60]}; Recognizer.predict takes words, too")
    return text


def _groups(entities: Iterable[Entity]) -> list[EntityGroup]:
    return [
        EntityGroup(
            entity_group=entity.label,
            score=1.0 if entity.score is None else float(entity.score),
            word=entity.text or "",
            start=entity.start,
            end=entity.end,
        )
        for entity in entities
    ]
