"""Machine-learning backend for Label Studio, which pre-annotates tasks.

A prediction's ``score`` is the probability that an entity is missing in its task: in addition to human annotations if there
are any, otherwise to the predictions. Offsets are in characters (code points), as in Label Studio since 1.4.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from pydantic import Field

from lacuner.corpus import Entity
from lacuner.web.dialects.dialect import Dialect, InvalidRequestError, LooseBody, Target, Task, score_of
from lacuner.web.served_models import Answer, Query


class TasksBody(LooseBody):
    """Label tasks."""

    tasks: list[dict[str, Any]]
    label_config: str | None = Field(None, max_length=1_000_000)
    model: str | None = None


class SetupBody(LooseBody):
    """Connect to a project."""

    label_config: str | None = Field(None, alias="schema", max_length=1_000_000)


@dataclass(frozen=True)
class Control:
    """The labeling control of a project.

    Attributes:
        from_name: the control with the labels.
        to_name: the text to label.
        key: of the text in the data of a task; ``None`` if it is the only text there.
        labels: available labels; ``None`` if unknown.
    """

    from_name: str = "label"
    to_name: str = "text"
    key: str | None = None
    labels: frozenset[str] | None = None


def label_tasks(body: TasksBody, target: Target) -> Task:
    """``{"results": […]}``, one prediction per task; ``left_out`` counts entities with labels that the project lacks."""
    control = find_control(body.label_config, "label_config")
    queries = [
        Query(_text(task, control, index), rate_missing=True, marked=_marked(task, control))
        for index, task in enumerate(body.tasks)
    ]

    def write(answers: Sequence[Answer]) -> dict[str, Any]:
        left_out: Counter[str] = Counter()
        results = []
        for answer in answers:
            shown = [entity for entity in answer.entities if control.labels is None or entity.label in control.labels]
            left_out.update(entity.label for entity in answer.entities if entity not in shown)
            score = None if answer.missing is None else round(answer.missing, 6)
            result = [_region(entity, control, number) for number, entity in enumerate(shown)]
            results.append(
                {"result": result, "score": score, "model_version": model_version(target.name, answer.version)}
            )
        version = model_version(target.name, answers[0].version) if answers else target.name
        return {"results": results, "model_version": version} | ({"left_out": dict(left_out)} if left_out else {})

    return Task(queries, write)


LABEL_STUDIO = Dialect(TasksBody, label_tasks, frozenset({"tasks"}))


def model_version(name: str, version: str) -> str:
    """Shown by Label Studio with predictions; if it changes, tasks are predicted again."""
    return f"{name}-{version}"


def find_control(config: str | None, where: str) -> Control:
    """The control of a project's labeling interface that labels text spans."""
    if not config or not config.strip():
        return Control()
    if "<!" in config.replace("<!--", ""):
        raise InvalidRequestError(where, "declarations are not read; give the labeling interface alone")
    try:
        root = ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise InvalidRequestError(where, f"this is not XML ({error})") from None
    texts = {node.get("name"): node for node in root.iter() if node.tag in ("Text", "HyperText", "Paragraphs")}
    for labels in root.iter("Labels"):
        text = texts.get(labels.get("toName"))
        if text is None or text.tag != "Text":
            continue
        value = text.get("value", "")
        names = frozenset(name for label in labels.iter("Label") if (name := label.get("alias") or label.get("value")))
        key = value.removeprefix("$") if value.startswith("$") else None
        return Control(labels.get("name", "label"), labels.get("toName", "text"), key, names or None)
    raise InvalidRequestError(where, "no Labels over Text are in it; that is what entities are labeled with")


def _text(task: Mapping[str, Any], control: Control, index: int) -> str:
    data = task.get("data")
    if not isinstance(data, Mapping):
        raise InvalidRequestError(f"tasks.{index}.data", "it must be an object with the text")
    texts = [key for key, value in data.items() if isinstance(value, str)]
    key = control.key or (texts[0] if len(texts) == 1 else control.to_name)
    text = data.get(key)
    if not isinstance(text, str):
        raise InvalidRequestError(f"tasks.{index}.data.{key}", "it must be the text to label")
    return text


def _marked(task: Mapping[str, Any], control: Control) -> tuple[tuple[int, int], ...] | None:
    """Human annotations of this text; ``None`` if there is none."""
    annotations = task.get("annotations")
    done = [item for item in annotations if isinstance(item, Mapping)] if isinstance(annotations, list) else []
    done = [item for item in done if not item.get("was_cancelled")]
    return tuple(span for item in done for span in _spans(item, control)) if done else None


def _spans(annotation: Mapping[str, Any], control: Control) -> Iterator[tuple[int, int]]:
    results = annotation.get("result")
    for region in results if isinstance(results, list) else []:
        value = region.get("value") if isinstance(region, Mapping) else None
        if isinstance(value, Mapping) and region.get("to_name", control.to_name) == control.to_name:
            start, end = value.get("start"), value.get("end")
            if isinstance(start, int) and isinstance(end, int):
                yield start, end


def _region(entity: Entity, control: Control, number: int) -> dict[str, Any]:
    value = {"start": entity.start, "end": entity.end, "text": entity.text, "labels": [entity.label]}
    names = {"id": f"lacuner-{number}", "from_name": control.from_name, "to_name": control.to_name, "type": "labels"}
    return names | {"value": value, "score": score_of(entity)}
