"""Argilla: the JSON array that ``dataset.records.from_json`` reads. It can be written, not read.

The text is a field ``text``, the entities are suggestions for a span question ``entities``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from lacuner.corpus.formats.format import Format, WriteOptions
from lacuner.corpus.formats.json_lines import to_line
from lacuner.corpus.sentence import Sentence


def write_argilla(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write records to import. A sentence's ``id`` and ``metadata`` become those of its record."""
    records = [_record(index, sentence, options) for index, sentence in enumerate(sentences)]
    file.write(
        to_line(records, indent=1, ascii_only=True)
    )  # in ASCII, because it is read in whatever encoding a system has


def _record(index: int, sentence: Sentence, options: WriteOptions) -> dict[str, Any]:
    offsets = sentence.offsets()
    spans = [
        {"start": offsets[entity.start][0], "end": offsets[entity.end - 1][1], "label": entity.label}
        for entity in sentence.entities
    ]
    suggestion: dict[str, Any] = {"value": spans}
    score = options.score_of(index, sentence)
    if score is not None:
        suggestion["score"] = score
    metadata = sentence.extra.get("metadata")
    kept = {"id"} | ({"metadata"} if isinstance(metadata, Mapping) else set())
    options.losses.update(f"the field {key!r}" for key in sentence.extra if key not in kept)
    return {
        "id": str(sentence.extra.get("id", index)),
        "fields": {"text": sentence.raw_text},
        "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
        "suggestions": {"entities": suggestion | {"agent": options.agent}},
    }


FORMATS = [
    Format(
        "argilla",
        write=write_argilla,
        cannot_hold=frozenset(
            {"tokens", "non_entities", "complete", "annotated_labels", "unknown_tokens", "source", "entity_extra"}
        ),
        line_based=False,
    )
]
