"""Label Studio: tasks with ``data`` and ``annotations`` or ``predictions``, in a JSON array or one per line; and JSON-MIN.

Annotations have the source ``human``, predictions ``model``. Offsets are in characters (code points); versions before 1.4
used UTF-16 code units, which is detected from the texts of the regions.

We write a control called ``label`` over a text called ``text``. What tasks cannot represent is in ``data.lacuner``, and for
single entities in ``meta.lacuner`` of their regions, which Label Studio preserves.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.code_units import units_before
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import read_objects, write_array
from lacuner.corpus.formats.label_studio_regions import OWN, Region, results_of
from lacuner.corpus.formats.records import SENTENCE_KEYS, has_offsets
from lacuner.corpus.formats.span_keys import LABEL_STUDIO_FIELDS, SPAN_KEYS, holds_spans
from lacuner.corpus.formats.text_records import annotation_in_characters, is_respelled, sentence_from_text_record
from lacuner.corpus.sentence import Sentence, Source
from lacuner.errors import DataError

_OWN_KEYS = ("tokens", "non_entities", "complete", "annotated_labels", "unknown_tokens")
_ANNOTATIONS = ("annotations", "completions")
_PARTS = frozenset({"data", "predictions", "drafts", *_ANNOTATIONS})
_OF_MIN_ANNOTATIONS = {"annotator": "completed_by", "annotation_id": "id"} | {
    key: key for key in ("created_at", "updated_at", "lead_time", "agreement")
}
_HELD_PARTS = {
    "text_key": str,
    "task": Mapping,
    "annotation": Mapping,
    "prediction": Mapping,
    "results": list,
    "data": Mapping,
}
_ADDRESS = re.compile(r"\s*(\w+://|/data/)\S*\s*")


def is_shape(record: Mapping[str, Any]) -> bool:
    """Whether this is a task, or a record of JSON-MIN."""
    if record.keys() & {"tokens", "entities"}:
        return False
    return _is_task(record) or bool(_label_keys(record)) or {"annotator", "annotation_id"} <= record.keys()


def read_label_studio(
    path: str | Path, report: ReadingReport, options: ReadOptions | None = None, annotator: object = None
) -> Iterator[Sentence]:
    """Yield sentences of an export.

    Args:
        path: the file.
        report: counts what is skipped.
        options: how to read.
        annotator: read only the annotations of this annotator (number or e-mail address). By default, a task's ground truth
            is read, or else its first annotation.
    """
    tasks = TaskReader(path, report, options or ReadOptions(), annotator)
    for number, record in read_objects(path):
        yield from tasks.read(record, number)


def write_label_studio(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write tasks to import; unknown fields become data of the task.

    Entities become predictions, shown as suggestions; if all of them are from people, they become an annotation.
    """
    write_array((_task(index, sentence, options) for index, sentence in enumerate(sentences)), file)


class _Chosen(NamedTuple):
    """The selected annotation or prediction of a task."""

    kind: str
    content: Mapping[str, Any]

    @property
    def source(self) -> str | None:
        if self.kind == "annotation":
            return Source.HUMAN
        return None if _is_ours(self.content) else Source.MODEL


class TaskReader:
    """Reads the tasks of a file, which have their text under the same key.

    Args:
        path: for errors.
        report: counts what is skipped.
        options: how to read.
        annotator: whose annotations to read.
    """

    def __init__(self, path: str | Path, report: ReadingReport, options: ReadOptions, annotator: object = None) -> None:
        self._path, self._report, self._options, self._annotator = path, report, options, annotator
        self._text_key: str | None = None
        self._last_task: object = None

    def read(self, record: Mapping[str, Any], line: int) -> Iterator[Sentence]:
        """The sentence of a task; none if it is another annotation, in JSON-MIN, of the previous task."""
        task = record if isinstance(record.get("data"), Mapping) else _task_of_min(record)
        if task is not record:
            number = task.get("id")
            if number is not None and number == self._last_task:
                regions = len(task["annotations"][0]["result"])
                what = f"task {number} is annotated again; these {regions} regions are left out"
                self._report.note("further annotations", what, "keep one annotation a task", self._path, line)
                return
            self._last_task = number
        yield self._sentence(task, line)

    def _sentence(self, task: Mapping[str, Any], line: int) -> Sentence:
        data: Mapping[str, Any] = task["data"]
        chosen = self._choose(task, line)
        regions, others = self._regions(chosen, line)
        key = self._find_text(data, regions, line)
        text: str = data[key]
        convert = self._counting(text, regions, line)
        own = data[OWN] if isinstance(data.get(OWN), Mapping) else {}
        record: dict[str, Any] = {name: value for name, value in data.items() if name not in (key, OWN)}
        clashes = {name: record.pop(name) for name in (*SENTENCE_KEYS, LABEL_STUDIO_FIELDS) if name in record}
        held = _held_fields(task, chosen, others, key, clashes)
        if "id" in task and "id" not in record:
            record["id"] = task["id"]
        if held:
            record[LABEL_STUDIO_FIELDS] = held
        if isinstance(own.get("fields"), Mapping):
            record |= own["fields"]
        record |= {name: own[name] for name in _OWN_KEYS if name in own}
        record |= {"text": text, "entities": [entity for region in regions for entity in region.entities()]}
        self._drop_rejected(record, line)
        return sentence_from_text_record(
            record, "entities", self._path, line, self._report, self._options.split, convert
        )

    def _choose(self, task: Mapping[str, Any], line: int) -> _Chosen:
        annotations = [item for key in _ANNOTATIONS for item in self._objects(task, key, line)]
        usable = []
        for item in annotations:
            if item.get("was_cancelled") or item.get("skipped"):
                self._leave_out("cancelled annotations", "an annotation was cancelled", item, line)
            elif self._annotator is None or self._annotator in _names_of(item.get("completed_by")):
                usable.append(item)
            else:
                self._leave_out("further annotations", "an annotation is another annotator's", item, line)
        predictions = self._objects(task, "predictions", line)
        for draft in self._objects(task, "drafts", line):
            if draft.get("result"):
                self._leave_out("drafts", "a draft was not submitted", draft, line)
        if not usable:
            for item in predictions[1:]:
                self._leave_out("further predictions", "the task has another prediction", item, line)
            return _Chosen("prediction", predictions[0] if predictions else {"model_version": OWN})
        chosen = next((item for item in usable if item.get("ground_truth")), usable[0])
        for item in usable:
            if item is not chosen:
                self._leave_out("further annotations", "the task has another annotation", item, line)
        for item in predictions:
            if item.get("result"):
                self._leave_out("predictions beside annotations", "the task is annotated", item, line)
        return _Chosen("annotation", chosen)

    def _leave_out(self, kind: str, why: str, item: Mapping[str, Any], line: int) -> None:
        results = item.get("result")
        count = len(results) if isinstance(results, list) else 0
        self._report.note(kind, f"{why}; its {count} results are left out", "remove it", self._path, line)

    def _objects(self, task: Mapping[str, Any], key: str, line: int) -> list[Mapping[str, Any]]:
        items = task.get(key) or []
        if not isinstance(items, list):
            raise DataError(f'"{key}" must be a list', "export the project again", self._path, line)
        found = [item for item in items if isinstance(item, Mapping)]
        if len(found) < len(items):
            what = f'"{key}" has numbers in place of what they stand for; it is left out'
            self._report.note(f"{key} that are not in the file", what, "export them, too", self._path, line)
        return found

    def _regions(self, chosen: _Chosen, line: int) -> tuple[list[Region], list[Any]]:
        """Labeled regions, and results of other types."""
        results = chosen.content.get("result") or []
        if not isinstance(results, list) or not all(isinstance(result, Mapping) for result in results):
            raise DataError('"result" must be a list of objects', "export the project again", self._path, line)
        regions, others = [], []
        for result in results:
            value, kind = result.get("value"), result.get("type", "labels")
            if kind != "labels" or not isinstance(value, Mapping):
                others.append(result)
                if isinstance(kind, str) and kind.endswith("labels"):
                    what = f'a region of type "{kind}" is not read'
                    remedy = "annotate text with Labels over Text"
                    self._report.note("annotation that is not read", what, remedy, self._path, line)
                else:
                    self._report.unread[f"results of type {kind}"] += 1
                continue
            labels = value.get("labels")
            if not isinstance(labels, list) or not labels:
                what = "a region has no label; it is left out"
                self._report.note("regions without a label", what, "give it one", self._path, line)
                continue
            if len(labels) > 1:
                what = f"a region has {len(labels)} labels; it may have any of them"
                self._report.note("regions with several labels", what, "choose one", self._path, line)
            regions.append(Region(result, value, labels, chosen.source))
        return regions, others

    def _find_text(self, data: Mapping[str, Any], regions: Sequence[Region], line: int) -> str:
        """The key of the annotated text."""
        texts = [key for key, value in data.items() if isinstance(value, str)]
        if not texts:
            what = f"the task has no text; it has {', '.join(map(str, data)) or 'nothing'}"
            raise DataError(what, "export a project that annotates text", self._path, line)
        fitting = [key for key in texts if all(region.fits(data[key]) for region in regions)]
        hints = [self._text_key, *(hint for region in regions for hint in region.hints()), "text"]
        found = next((key for key in hints if key in (fitting or texts)), None)
        if found is None and len(fitting or texts) == 1:
            (found,) = fitting or texts
        if found is None:
            what = f"the task has several texts ({', '.join(texts)}), and nothing tells which of them was annotated"
            raise DataError(what, 'call it "text"', self._path, line)
        if regions:
            self._text_key = found
            length = max((region.value["end"] for region in regions if has_offsets(region.value)), default=0)
            if _ADDRESS.fullmatch(data[found]) and (length > len(data[found]) or found not in fitting):
                what = f'"{found}" is the address of a text, which is not in the file'
                raise DataError(what, "import texts, not their addresses, into Label Studio", self._path, line)
        return found

    def _counting(self, text: str, regions: Sequence[Region], line: int) -> Callable[[int], int] | None:
        """A converter of offsets to characters, if the texts of the regions show that they are in code units."""
        if all(region.fits_characters(text) for region in regions):
            return None
        units = units_before(text)
        if units is not None and all(region.fits_units(text, units) for region in regions):
            self._report.remark("offsets are read as UTF-16 code units, as the texts of the regions tell", self._path)
            return {offset: character for character, offset in enumerate(units)}.__getitem__
        for region in regions:
            if not region.fits_characters(text):
                what = f"a region has the text {region.text[:60]!r}, but its offsets cover {region.slice(text)[:60]!r}"
                self._report.note("regions with another text", what, "correct its offsets", self._path, line)
        return None

    def _drop_rejected(self, record: dict[str, Any], line: int) -> None:
        """Drop rejected spans that have been annotated since."""
        rejected = record.get("non_entities")
        if not isinstance(rejected, list) or not rejected:
            return
        annotated = {(entity["start"], entity["end"]) for entity in record["entities"] if has_offsets(entity)}
        kept = [item for item in rejected if not has_offsets(item) or (item["start"], item["end"]) not in annotated]
        for _ in range(len(rejected) - len(kept)):
            what = "a rejected span is annotated now"
            self._report.note("rejected spans that are annotated", what, "remove it", self._path, line)
        record["non_entities"] = kept


def _is_task(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("data"), Mapping) and "text" not in record


def _is_ours(prediction: Mapping[str, Any]) -> bool:
    return str(prediction.get("model_version")).startswith(OWN)


def _label_keys(record: Mapping[str, Any]) -> list[str]:
    """Keys with regions in the form of JSON-MIN, unless there are spans in another form as well."""
    keys = [
        key
        for key, value in record.items()
        if isinstance(value, list) and value and all(has_offsets(item) and "labels" in item for item in value)
    ]
    return [] if any(holds_spans(record, key) for key in SPAN_KEYS if key not in keys) else keys


def _task_of_min(record: Mapping[str, Any]) -> dict[str, Any]:
    keys = _label_keys(record)
    annotation: dict[str, Any] = {
        name: record[key] for key, name in _OF_MIN_ANNOTATIONS.items() if record.get(key) is not None
    }
    annotation["result"] = [
        {key: value for key, value in item.items() if key not in ("start", "end", "text", "labels")}
        | {"from_name": key, "value": {part: item[part] for part in ("start", "end", "text", "labels") if part in item}}
        for key in keys
        for item in record[key]
    ]
    known = {"id", *_OF_MIN_ANNOTATIONS, *keys}
    data = {key: value for key, value in record.items() if key not in known}
    return {key: record[key] for key in ("id",) if key in record} | {"data": data, "annotations": [annotation]}


def _names_of(annotator: object) -> list[object]:
    return [*annotator.values()] if isinstance(annotator, Mapping) else [annotator]


def _held_fields(
    task: Mapping[str, Any], chosen: _Chosen, others: list[Any], key: str, clashes: dict[str, Any]
) -> dict[str, Any]:
    ours = {"model_version", "score"} if chosen.kind == "prediction" and _is_ours(chosen.content) else set()
    parts = {
        "text_key": None if key == "text" else key,
        "task": {name: value for name, value in task.items() if name not in _PARTS},
        chosen.kind: {name: value for name, value in chosen.content.items() if name != "result" and name not in ours},
        "results": others,
        "data": clashes,
    }
    return {name: part for name, part in parts.items() if part}


def _task(index: int, sentence: Sentence, options: WriteOptions) -> dict[str, Any]:
    extra = dict(sentence.extra)
    held: Mapping[str, Any] = extra.pop(LABEL_STUDIO_FIELDS) if _is_held(extra.get(LABEL_STUDIO_FIELDS)) else {}
    of_task, key = held.get("task", {}), held.get("text_key", "text")
    if "id" in of_task and extra.get("id") == of_task["id"]:
        del extra["id"]
    if is_respelled(sentence):
        options.losses["words that the text spells otherwise"] += 1
    from_people = all(entity.source == Source.HUMAN for entity in sentence.entities)
    annotated = from_people and bool(sentence.entities or held.get("annotation")) and not options.suggestions
    kind, other = ("annotation", "prediction") if annotated else ("prediction", "annotation")
    if held.get(other) and not options.suggestions:
        extra[LABEL_STUDIO_FIELDS] = held
    data: dict[str, Any] = {key: sentence.raw_text, **held.get("data", {})}
    own = annotation_in_characters(sentence)
    clashes = {name: extra.pop(name) for name in (OWN, LABEL_STUDIO_FIELDS, *data) if name in extra}
    if clashes:
        own["fields"] = clashes
    data |= extra
    if own:
        data[OWN] = own
    content = {} if options.suggestions else dict(held.get(kind, {}))
    if kind == "prediction" and "model_version" not in content:
        content["model_version"] = options.agent
    if kind == "prediction" and "score" not in content:
        score = options.score_of(index, sentence)
        content |= {} if score is None else {"score": score}
    content["result"] = results_of(sentence, _Chosen(kind, content).source) + held.get("results", [])
    return {**of_task, "data": data, f"{kind}s": [content]}


def _is_held(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(part, _HELD_PARTS.get(key, ())) for key, part in value.items())
    )


FORMATS = [
    Format(
        "label_studio",
        read=read_label_studio,
        write=write_label_studio,
        cannot_hold=frozenset({"by_source"}),
        line_based=False,
    )
]
