"""Label Studio: a JSON array of tasks with pre-annotations. It can be written, not read.

The labels belong to a control called ``label`` over a text called ``text``. Offsets count characters (code points).
"""

from collections.abc import Iterable
from typing import Any, TextIO

from lacuner.corpus.formats.format import Format, WriteOptions
from lacuner.corpus.formats.json_lines import to_line
from lacuner.corpus.sentence import Sentence


def write_label_studio(sentences: Iterable[Sentence], file: TextIO, options: WriteOptions) -> None:
    """Write tasks to import; fields that we do not know become data of the task."""
    tasks = [_task(index, sentence, options) for index, sentence in enumerate(sentences)]
    file.write(to_line(tasks, indent=1))


def _task(index: int, sentence: Sentence, options: WriteOptions) -> dict[str, Any]:
    text, offsets = sentence.raw_text, sentence.offsets()
    results = []
    for entity in sentence.entities:
        start, end = offsets[entity.start][0], offsets[entity.end - 1][1]
        value = {"start": start, "end": end, "text": text[start:end], "labels": [entity.label]}
        result: dict[str, Any] = {"from_name": "label", "to_name": "text", "type": "labels", "value": value}
        results.append(result if entity.score is None else result | {"score": round(entity.score, 4)})
    prediction: dict[str, Any] = {"model_version": options.agent}
    score = options.score_of(index, sentence)
    if score is not None:
        prediction["score"] = score
    return {"data": {"text": text} | dict(sentence.extra), "predictions": [prediction | {"result": results}]}


FORMATS = [
    Format(
        "label_studio",
        write=write_label_studio,
        cannot_hold=frozenset(
            {"tokens", "non_entities", "complete", "annotated_labels", "unknown_tokens", "source", "entity_extra"}
        ),
        line_based=False,
    )
]
