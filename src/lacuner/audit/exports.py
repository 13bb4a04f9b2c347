"""Findings for annotation tools: files that they import, each finding as a suggestion in its sentence."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lacuner.audit.finding import Finding
from lacuner.corpus import OUTSIDE, Corpus, Sentence
from lacuner.corpus.corpus import open_for_writing

Row = tuple[int, Sentence, list[Finding]]
"""Number of a sentence, the sentence, and what was found in it."""


def write_exports(folder: Path, corpus: Corpus, findings: Iterable[Finding]) -> list[Path]:
    """One file for each tool; only sentences in which something was found."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(_rows(corpus, findings))
    written = []
    for name, write in _WRITERS.items():
        with open_for_writing(folder / name) as file:
            file.writelines(write(rows))
        written.append(folder / name)
    return written


def _rows(corpus: Corpus, findings: Iterable[Finding]) -> Iterator[Row]:
    """In the order of the best finding of each sentence."""
    by_sentence: dict[int, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_sentence[finding.sentence].append(finding)
    return ((number, corpus[number], found) for number, found in by_sentence.items())


def _text(sentence: Sentence) -> str:
    return " ".join(sentence.tokens) if sentence.text is None else sentence.text


def _spans(sentence: Sentence, found: Iterable[Finding]) -> Iterator[dict[str, Any]]:
    """What is annotated, and what was found, in characters; an entity that a finding would replace is left out."""
    offsets = sentence.offsets()
    replaced = {(f.annotated.start, f.annotated.end, f.annotated.label) for f in found if f.annotated is not None}
    for entity in sentence.entities:
        if (entity.start, entity.end, entity.label) not in replaced:
            place = {"start": offsets[entity.start][0], "end": offsets[entity.end - 1][1]}
            yield place | {"label": entity.label, "score": None, "kind": "annotated"}
    for finding in found:
        if finding.label != OUTSIDE:
            place = {"start": offsets[finding.start][0], "end": offsets[finding.end - 1][1]}
            yield place | {"label": finding.label, "score": round(finding.probability, 4), "kind": finding.kind}


def _label_studio(rows: Iterable[Row]) -> Iterator[str]:
    """A JSON array of tasks with pre-annotations; the labels belong to a control ``label`` over a text ``text``."""
    tasks = []
    for number, sentence, found in rows:
        text = _text(sentence)
        results = [
            {
                "from_name": "label",
                "to_name": "text",
                "type": "labels",
                "value": {
                    "start": span["start"],
                    "end": span["end"],
                    "text": text[span["start"] : span["end"]],
                    "labels": [span["label"]],
                },
            }
            | ({"score": span["score"]} if span["score"] is not None else {})
            for span in _spans(sentence, found)
        ]
        score = max(finding.probability for finding in found)
        prediction = {"model_version": "lacuner audit", "score": round(score, 4), "result": results}
        tasks.append({"data": {"text": text, "sentence": number}, "predictions": [prediction]})
    yield json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def _lines(
    describe: Callable[[int, Sentence, list[Finding]], Mapping[str, Any]],
) -> Callable[[Iterable[Row]], Iterator[str]]:
    return lambda rows: (json.dumps(describe(*row), ensure_ascii=False) + "\n" for row in rows)


def _doccano(number: int, sentence: Sentence, found: list[Finding]) -> dict[str, Any]:
    """Its offsets are those of JavaScript, where an emoji counts as two characters."""
    text = _text(sentence)
    labels = [
        [_in_utf16(text, span["start"]), _in_utf16(text, span["end"]), span["label"]]
        for span in _spans(sentence, found)
    ]
    return {"text": text, "label": labels, "sentence": number}


def _in_utf16(text: str, offset: int) -> int:
    return len(text[:offset].encode("utf-16-le")) // 2


def _prodigy(number: int, sentence: Sentence, found: list[Finding]) -> dict[str, Any]:
    tokens = [
        {"text": token, "start": start, "end": end, "id": place}
        for place, (token, (start, end)) in enumerate(zip(sentence.tokens, sentence.offsets(), strict=True))
    ]
    first = {token["start"]: token["id"] for token in tokens}
    last = {token["end"]: token["id"] for token in tokens}
    spans = [
        {"start": s["start"], "end": s["end"], "label": s["label"]}
        | {"token_start": first[s["start"]], "token_end": last[s["end"]]}
        for s in _spans(sentence, found)
    ]
    meta = {"sentence": number, "score": round(max(finding.probability for finding in found), 4)}
    return {"text": _text(sentence), "tokens": tokens, "spans": spans, "meta": meta}


def _argilla(rows: Iterable[Row]) -> Iterator[str]:
    """What ``dataset.records.from_json`` reads: a field ``text``, and a suggestion for a span question ``entities``."""
    records = []
    for number, sentence, found in rows:
        spans = [{key: span[key] for key in ("start", "end", "label")} for span in _spans(sentence, found)]
        score = round(max(finding.probability for finding in found), 4)
        records.append(
            {
                "id": str(number),
                "fields": {"text": _text(sentence)},
                "metadata": {"sentence": number},
                "suggestions": {"entities": {"value": spans, "score": score, "agent": "lacuner audit"}},
            }
        )
    yield json.dumps(records, indent=1) + "\n"  # in ASCII, because it is read in whatever encoding a system has


_WRITERS: dict[str, Callable[[Iterable[Row]], Iterator[str]]] = {
    "label-studio.json": _label_studio,
    "doccano.jsonl": _lines(_doccano),
    "prodigy.jsonl": _lines(_prodigy),
    "argilla.json": _argilla,
}
