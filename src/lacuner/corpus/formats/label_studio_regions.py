"""Conversion between Label Studio regions, which are labeled text spans, and entities."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lacuner.corpus.formats.code_units import character_at, units_before
from lacuner.corpus.formats.records import has_offsets
from lacuner.corpus.sentence import Entity, Sentence, Source

OWN = "lacuner"
"""Key of data specific to Lacuner."""
_NAMES = {"from_name": "label", "to_name": "text"}
_OF_RESULTS = frozenset({"value", "type", "score", "meta", "source"})
_OF_ENTITIES = frozenset({"start", "end", "label", "text", "score", "source", "start_offset", "end_offset"})


class Region(NamedTuple):
    """A labeled text span."""

    result: Mapping[str, Any]
    value: Mapping[str, Any]
    labels: list[Any]
    source: str | None

    @property
    def text(self) -> str:
        """The text as seen by the tool."""
        return str(self.value.get("text"))

    def fits(self, text: str) -> bool:
        """Whether the region may be of this text."""
        units = units_before(text)
        return self.fits_characters(text) or (units is not None and self.fits_units(text, units))

    def fits_characters(self, text: str) -> bool:
        """The same, assuming offsets in characters."""
        if not has_offsets(self.value) or not isinstance(self.value.get("text"), str):
            return True
        return _letters(self.slice(text)) == _letters(self.text)

    def fits_units(self, text: str, units: list[int]) -> bool:
        """The same, assuming offsets in UTF-16 code units."""
        if not has_offsets(self.value):
            return True
        start, end = character_at(units, self.value["start"]), character_at(units, self.value["end"])
        if start is None or end is None:
            return False
        return not isinstance(self.value.get("text"), str) or _letters(text[start:end]) == _letters(self.text)

    def slice(self, text: str) -> str:
        """The text at the offsets, assuming characters."""
        return text[max(0, self.value["start"]) : max(0, self.value["end"])]

    def hints(self) -> list[str]:
        """Possible keys of its text."""
        named = [self.result.get("source"), self.result.get("to_name")]
        return [name.removeprefix("$") for name in named if isinstance(name, str)]

    def entities(self) -> list[dict[str, Any]]:
        """One record per label."""
        meta = self.result.get("meta")
        own = meta.get(OWN) if isinstance(meta, Mapping) else None
        own = own if isinstance(own, Mapping) else {}
        fields = {key: value for key, value in self.result.items() if key not in _OF_RESULTS}
        fields = {key: value for key, value in fields.items() if value != _NAMES.get(key)}
        others = {key: value for key, value in self.value.items() if key not in ("start", "end", "text", "labels")}
        if others:
            fields["value"] = others
        if isinstance(meta, Mapping):
            meta = {key: value for key, value in meta.items() if key != OWN}
        if meta or (meta is not None and not own):
            fields["meta"] = meta
        if isinstance(own.get("fields"), Mapping):
            fields |= own["fields"]
        odd = {key: fields.pop(key) for key in _OF_ENTITIES & fields.keys()}
        if odd:
            fields["result"] = odd
        known = {"score": self.result.get("score"), "source": self.source}
        if self.source != Source.HUMAN and "source" in own:
            known["source"] = own["source"]
        offsets = {key: self.value[key] for key in ("start", "end") if key in self.value}
        return [fields | known | offsets | {"label": label} for label in self.labels]


def results_of(sentence: Sentence, usual: str | None) -> list[dict[str, Any]]:
    """Results with the entities of a sentence; those that were labels of one region become one again.

    Args:
        sentence: any.
        usual: the default source of entities.
    """
    text, offsets = sentence.raw_text, sentence.offsets()
    results: list[dict[str, Any]] = []
    for entity in sentence.entities:
        start, end = offsets[entity.start][0], offsets[entity.end - 1][1]
        value = {"start": start, "end": end, "text": text[start:end], "labels": [entity.label]}
        result = _result(entity, usual) | {"value": value}
        before = results[-1] if results else {}
        same = "id" in result and result | {"value": None} == before | {"value": None}
        if same and (before["value"]["start"], before["value"]["end"]) == (start, end):
            before["value"]["labels"].append(entity.label)
        else:
            results.append(result)
    return results


def _result(entity: Entity, usual: str | None) -> dict[str, Any]:
    fields = dict(entity.extra)
    result: dict[str, Any] = {}
    for key in ("id", "origin", *_NAMES):
        if isinstance(fields.get(key), str) and fields[key] != _NAMES.get(key):
            result[key] = fields.pop(key)
    result = {**_NAMES, "type": "labels"} | result
    if entity.score is not None:
        result["score"] = round(entity.score, 6)
    own: dict[str, Any] = {} if entity.source == usual else {"source": entity.source}
    meta = fields.pop("meta") if isinstance(fields.get("meta"), Mapping) and fields["meta"] else {}
    if OWN in meta:
        fields["meta"], meta = meta, {}
    if fields:
        own["fields"] = fields
    if meta or own:
        result["meta"] = {**meta, OWN: own} if own else dict(meta)
    return result


def _letters(text: str) -> str:
    """The text without spaces, which browsers change, and without the ``\\n`` that old versions use for line ends."""
    return "".join(text.replace("\\n", "\n").split())
