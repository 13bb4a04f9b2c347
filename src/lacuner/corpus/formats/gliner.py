"""GLiNER: ``{"tokenized_text": […], "ner": [[first, last, label], …]}``, in a JSON array or one object per line.

``last`` is inclusive. ``ner_labels`` and ``ner_negatives`` (``label`` and ``negative`` in older files) are the annotated
labels: those of the example, and those that do not occur in it. What GLiNER cannot represent is in an object ``lacuner``,
which it ignores.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.json_lines import read_objects, write_array
from lacuner.corpus.formats.records import entity_from_record, entity_to_record, own_fields, sentence_from_record
from lacuner.corpus.sentence import Entity, Sentence
from lacuner.errors import DataError

_TOKENS, _SPANS, _LABELS, _NEGATIVES, _OWN = "tokenized_text", "ner", "ner_labels", "ner_negatives", "lacuner"
_OLD_NAMES = {"label": _LABELS, "negative": _NEGATIVES}
_USED = {_TOKENS, _SPANS, _LABELS, _NEGATIVES, _OWN, *_OLD_NAMES}


def is_shape(record: Mapping[str, Any]) -> bool:
    """Whether this is a GLiNER record."""
    return isinstance(record.get(_TOKENS), list) and _SPANS in record and not record.keys() & {"tokens", "entities"}


def read_gliner(path: str | Path, report: ReadingReport, options: ReadOptions | None = None) -> Iterator[Sentence]:
    """Yield sentences of a file, in constant memory if it is JSON Lines."""
    for number, record in read_objects(path):
        yield sentence_of_gliner(record, path, number, report)


def sentence_of_gliner(record: Mapping[str, Any], path: str | Path, line: int, report: ReadingReport) -> Sentence:
    """The sentence of a record."""
    if not isinstance(record.get(_TOKENS), list):
        what = f'"{_TOKENS}" (a list of words) is not there'
        raise DataError(what, "if this is not a GLiNER file, name another format", path, line)
    own = record.get(_OWN)
    own = own if isinstance(own, Mapping) else {}
    entities = _entities(record, own.get("entities"), path, line)
    known = {key: value for key, value in record.items() if key not in _USED}
    if isinstance(own.get("fields"), Mapping):
        known |= own["fields"]
    known |= {key: value for key, value in own.items() if key not in ("entities", "fields")}
    known |= {"tokens": record[_TOKENS], "entities": [entity_to_record(entity) for entity in entities]}
    if "annotated_labels" not in known:
        labels = _looked_for(record, entities, path, line)
        known |= {} if labels is None else {"annotated_labels": labels}
    if isinstance(known.get("relations"), list):
        known["relations"] = _renumbered(known["relations"], entities)
    return sentence_from_record(known, path, line, report)


def write_gliner(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions | None = None) -> None:
    """Write an array of records, as loaded by GLiNER's training scripts."""
    write_array(map(_record, sentences), file)


def _record(sentence: Sentence) -> dict[str, Any]:
    record: dict[str, Any] = {_TOKENS: list(sentence.tokens)}
    record[_SPANS] = [[entity.start, entity.end - 1, entity.label] for entity in sentence.entities]
    own = {key: value for key, value in own_fields(sentence).items() if key not in ("tokens", "entities")}
    present = {entity.label for entity in sentence.entities}
    if sentence.annotated_labels is not None and present <= sentence.annotated_labels:
        record |= {_LABELS: sorted(present), _NEGATIVES: sorted(sentence.annotated_labels - present)}
        del own["annotated_labels"]
    others = [_other_fields(entity) for entity in sentence.entities]
    if any(others):
        own["entities"] = others
    clashes = {key: value for key, value in sentence.extra.items() if key in _USED}
    if clashes:
        own["fields"] = clashes
    if own:
        record[_OWN] = own
    return record | {key: value for key, value in sentence.extra.items() if key not in clashes}


def _other_fields(entity: Entity) -> dict[str, Any]:
    return {key: value for key, value in entity_to_record(entity).items() if key not in ("start", "end", "label")}


def _entities(record: Mapping[str, Any], others: object, path: str | Path, line: int) -> list[Entity]:
    items = record.get(_SPANS)
    if not isinstance(items, list):
        raise DataError(f'"{_SPANS}" must be a list', "write [[first, last, label], …]", path, line)
    if not isinstance(others, list) or len(others) != len(items):
        others = [{}] * len(items)
    entities = []
    for item, other in zip(items, others, strict=True):
        if not isinstance(item, list) or [type(part) for part in item] != [int, int, str]:
            what = f"{item!r} is not an entity of GLiNER's"
            raise DataError(what, "write [first, last, label], which count words", path, line)
        fields = other if isinstance(other, Mapping) else {}
        entity = {**fields, "start": item[0], "end": item[1] + 1, "label": item[2]}
        entities.append(entity_from_record(entity, path, line))
    return entities


def _looked_for(record: Mapping[str, Any], entities: Iterable[Entity], path: str | Path, line: int) -> list[str] | None:
    """The labels named by the record, and those of its entities; ``None`` if it names none."""
    given = [key for key in (_LABELS, _NEGATIVES, *_OLD_NAMES) if record.get(key) is not None]
    labels = {entity.label for entity in entities}
    for key in given:
        if not isinstance(record[key], list) or not all(isinstance(label, str) for label in record[key]):
            raise DataError(f'"{key}" must be a list of labels', "correct the record", path, line)
        labels.update(record[key])
    return sorted(labels) if given else None


def _renumbered(relations: list[Any], entities: list[Entity]) -> list[Any]:
    """Update entity indices in relations to the sorted and distinct entities of a sentence."""
    order = {entity: index for index, entity in enumerate(sorted(set(entities)))}
    return [
        [order[entities[item[0]]], order[entities[item[1]]], *item[2:]]
        if isinstance(item, list)
        and len(item) == 3
        and all(type(index) is int and 0 <= index < len(entities) for index in item[:2])
        else item
        for item in relations
    ]


FORMATS = [Format("gliner", read=read_gliner, write=write_gliner, line_based=False)]
