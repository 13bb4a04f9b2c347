"""spaCy: a ``DocBin`` of documents with entities, missing values, and span groups (``.spacy``).

spaCy has three values, too: an entity, a word outside of all entities, and a missing value. Rejected spans are in the group
``incorrect_spans``, one for each label, which is read by the setting ``incorrect_spans_key`` of its ``ner``. Overlapping
entities are in the group ``sc``, which its span categorizer reads.
"""

import importlib.util
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.doc_bin import DocContent, DocFile, LabeledSpan, pack_docs
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.kept_records import KEPT, is_json, kept_record, restored
from lacuner.corpus.formats.records import SENTENCE_KEYS, build_sentence
from lacuner.corpus.overlaps import without_overlaps
from lacuner.corpus.sentence import Entity, Sentence, Span
from lacuner.errors import DataError

OVERLAPPING, REJECTED = "sc", "incorrect_spans"
"""Span groups: the default of spaCy's span categorizer, and the documented one for rejected spans."""
_EXTENSION = "._."
_EXTENSIONS, _CATEGORIES = "_", "cats"
"""Keys of custom attributes and categories in ``Doc.to_json``."""
_LARGEST = 2**63


def read_spacy(path: str | Path, report: ReadingReport, options: ReadOptions | None = None) -> Iterator[Sentence]:
    """The documents of a file, each as one sentence with spaCy's tokens. The whole file is in memory."""
    check_spacy(path)
    file = DocFile(path)
    if file.others:
        report.remark(f"attributes of words are not read: {', '.join(file.others)}", path)
    for number, content in enumerate(file, 1):
        plain = decode(content, file.labels, path, number, report)
        kept = content.user_data.get(KEPT)

        def plain_of(sentence: Sentence) -> Sentence:
            return decode(encode(sentence, file.labels), file.labels, path, 1, ReadingReport())

        sentence = restored(plain, kept if isinstance(kept, str) else None, plain_of, path, number, report)
        if content.outside and not sentence.complete:
            report.remark(
                "words outside of entities are read as unknown, because they may not have been annotated", path
            )
        yield sentence


def write_spacy(sentences: Iterable[Sentence], file: BinaryIO, options: WriteOptions) -> None:
    """Write a file for ``spacy train``. spaCy packs all documents together, so they are in memory."""
    check_spacy(options.name)
    corpus = list(sentences)
    labels = {entity.label for sentence in corpus for entity in sentence.entities}
    overlapping = any(len(without_overlaps(sentence.entities)) < len(sentence.entities) for sentence in corpus)
    contents = []
    for number, sentence in enumerate(corpus, options.first):
        if not all(sentence.tokens):
            raise DataError(f"sentence {number} has an empty word, which spaCy refuses", "remove it", options.name)
        content = encode(sentence, labels, overlapping)
        plain = decode(content, labels, options.name, number, ReadingReport())
        kept = kept_record(sentence, plain)
        if kept is not None:
            content = replace(content, user_data={**content.user_data, KEPT: kept})
        contents.append(content)
    file.write(pack_docs(contents))


def check_spacy(path: str | Path | None = None) -> None:
    """Raise an error if spaCy is not installed."""
    if importlib.util.find_spec("spacy") is None:
        raise DataError("this needs spaCy, which is not installed", "install it with: pip install spacy", path)


def encode(sentence: Sentence, labels: Collection[str], overlapping: bool = True) -> DocContent:
    """Convert a sentence to a document.

    Args:
        sentence: the sentence.
        labels: of all entities of the corpus; a rejected span is written once for each.
        overlapping: whether the group for overlapping entities contains all entities.
    """
    words, spaces, place = _pieces(sentence)

    def span(of: Entity | Span, label: str, extra: Mapping[str, Any], score: float | None = None) -> LabeledSpan:
        kb_id, span_id = (value if isinstance(value := extra.get(key), str) else "" for key in ("kb_id", "id"))
        return LabeledSpan(place[of.start], place[of.end - 1] + 1, label, kb_id, span_id, score)

    flat = without_overlaps(sentence.entities)
    ents = tuple(span(entity, entity.label, entity.extra) for entity in flat)
    outside: set[int] = set()
    if sentence.complete and (sentence.annotated_labels is None or sentence.annotated_labels.issuperset(labels)):
        covered = {index for entity in sentence.entities for index in range(entity.start, entity.end)}
        outside = set(range(len(words))) - {place[index] for index in covered | sentence.unknown_tokens}
        outside -= {index for ent in ents for index in range(ent.start, ent.end)}
    groups: dict[str, tuple[LabeledSpan, ...]] = {}
    if overlapping and (sentence.entities or sentence.complete):
        groups[OVERLAPPING] = tuple(span(e, e.label, e.extra, e.score) for e in sentence.entities)
    if sentence.non_entities:
        groups[REJECTED] = tuple(
            span(rejected, label, {}) for rejected in sentence.non_entities for label in sorted(labels) or [""]
        )
    user_data, cats = _user_data(sentence.extra)
    return DocContent(words, spaces, ents, frozenset(outside), groups, user_data, cats)


def decode(
    content: DocContent, labels: Collection[str], path: str | Path, number: int, report: ReadingReport
) -> Sentence:
    """Convert a document to a sentence, according to spaCy alone.

    Words outside of entities are unknown, since they may not have been annotated, unless the document marks other words as
    missing: then they are known.
    """
    kept = [index for index, word in enumerate(content.words) if word.strip()]
    text, offsets = _text(content)
    entities = _entities(content, kept, path, number, report)
    rejected = _rejected(content, kept, {e.span for e in entities}, labels, path, number, report)
    covered = {index for entity in entities for index in range(entity.start, entity.end)}
    known = {word for word, index in enumerate(kept) if index in content.outside}
    missing = set(range(len(kept))) - known - covered
    mixed = bool(known and missing)
    record = {
        "text": text,
        "token_offsets": None if offsets is None else [offsets[index] for index in kept],
        "complete": mixed,
        "unknown_tokens": sorted(missing) if mixed else None,
    }
    extra = _extra(content, path, number, report)
    tokens = [content.words[index] for index in kept]
    return build_sentence(record | {"tokens": tokens}, tokens, entities, rejected, extra, path, number, report)


def _pieces(sentence: Sentence) -> tuple[tuple[str, ...], tuple[bool, ...] | None, list[int]]:
    """spaCy's tokens, which cover the whole text, whether a space follows each, and which of them are our words."""
    if sentence.text is None:
        return sentence.tokens, None, list(range(len(sentence)))
    words: list[str] = []
    spaces: list[bool] = []
    place = []
    position = 0

    def fill(end: int) -> None:
        gap = sentence.raw_text[position:end]
        if gap.startswith(" ") and words:
            spaces[-1], gap = True, gap[1:]
        if gap:
            words.append(gap)
            spaces.append(False)

    for start, end in sentence.offsets():
        fill(start)
        place.append(len(words))
        words.append(sentence.text[start:end])
        spaces.append(False)
        position = end
    fill(len(sentence.text))
    return tuple(words), tuple(spaces), place


def _text(content: DocContent) -> tuple[str | None, list[tuple[int, int]] | None]:
    if content.spaces is None:
        return None, None
    offsets, position = [], 0
    for word, space in zip(content.words, content.spaces, strict=True):
        offsets.append((position, position + len(word)))
        position += len(word) + space
    pairs = zip(content.words, content.spaces, strict=True)
    return "".join(word + " " * space for word, space in pairs), offsets


def _entities(
    content: DocContent, kept: Sequence[int], path: str | Path, number: int, report: ReadingReport
) -> list[Entity]:
    """The entities of ``doc.ents``, and those only in the group for overlapping ones."""
    for index in content.broken:
        what = f"the word {content.words[index]!r} continues an entity that never began; one begins here now"
        report.note("repaired tags", what, "set doc.ents again", path, number)
    for name in content.groups.keys() - {OVERLAPPING, REJECTED}:
        if content.groups[name]:
            what = f'doc.spans["{name}"] is not read; only "{OVERLAPPING}" and "{REJECTED}" are'
            report.note("annotation that is not read", what, f'copy it to doc.spans["{OVERLAPPING}"]', path, number)
    found = [entity for ent in content.ents if (entity := _entity(ent, kept, path, number, report))]
    group = [
        entity for span in content.groups.get(OVERLAPPING, ()) if (entity := _entity(span, kept, path, number, report))
    ]
    scored = {entity: entity for entity in reversed(group)}
    in_ents = set(found)
    return [scored.get(entity, entity) for entity in found] + [entity for entity in group if entity not in in_ents]


def _entity(
    span: LabeledSpan, kept: Sequence[int], path: str | Path, number: int, report: ReadingReport
) -> Entity | None:
    words = _words(span, kept, path, number, report)
    if words is None:
        return None
    extra = {key: value for key, value in (("kb_id", span.kb_id), ("id", span.id)) if value}
    try:
        return Entity(*words, span.label, score=span.score, extra=extra)
    except ValueError as error:
        raise DataError(str(error), "give it another label", path, number) from None


def _rejected(
    content: DocContent,
    kept: Sequence[int],
    annotated: Collection[Span],
    labels: Collection[str],
    path: str | Path,
    number: int,
    report: ReadingReport,
) -> list[Span]:
    """Spans rejected for every label; one without a label stands for all."""
    by_span: dict[Span, set[str]] = {}
    for item in content.groups.get(REJECTED, ()):
        words = _words(item, kept, path, number, report)
        if words is not None:
            by_span.setdefault(Span(*words), set()).add(item.label)
    rejected = []
    for span, wrong in by_span.items():
        if span in annotated:
            continue  # its label is known
        if "" in wrong or wrong.issuperset(labels):
            rejected.append(span)
        else:
            what = f"{span} is rejected as {', '.join(sorted(wrong))}, and may have another label; it stays unknown"
            remedy = f'reject it with all labels in doc.spans["{REJECTED}"]'
            report.note("spans rejected with some labels only", what, remedy, path, number)
    return rejected


def _words(
    span: LabeledSpan, kept: Sequence[int], path: str | Path, number: int, report: ReadingReport
) -> tuple[int, int] | None:
    """The words covered by a span; our words are spaCy's non-whitespace tokens."""
    first, after = bisect_left(kept, span.start), bisect_left(kept, span.end)
    if first < after:
        return first, after
    what = f"the {span.label} entity at {span.start} covers no word; it is left out"
    report.note("empty entities", what, "remove it", path, number)
    return None


def _user_data(extra: Mapping[str, Any]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Convert the fields of a sentence to custom attributes, categories, and other user data."""
    user_data: dict[Any, Any] = {}
    cats: dict[str, Any] = {}
    for key, value in extra.items():
        if not _fits(value) or key == KEPT:
            continue
        if key == _EXTENSIONS and isinstance(value, dict) and value:
            user_data |= {(_EXTENSION, name, None, None): item for name, item in value.items()}
        elif key == _CATEGORIES and isinstance(value, dict) and value:
            cats = value
        else:
            user_data[key] = value
    return user_data, cats


def _extra(content: DocContent, path: str | Path, number: int, report: ReadingReport) -> dict[str, Any]:
    """Inverse of :func:`_user_data`; what JSON cannot represent is dropped, and counted."""
    extra: dict[str, Any] = {}
    extensions: dict[str, Any] = {}
    known: Mapping[Any, Any] = content.user_data
    for key, item in known.items():
        if key == KEPT and isinstance(item, str):
            continue
        value, of_document = _listed(item), isinstance(key, tuple) and key[:1] == (_EXTENSION,) and len(key) == 4
        if of_document and key[2:] == (None, None) and isinstance(key[1], str) and is_json(value):
            extensions[key[1]] = value
        elif of_document:
            report.remark("custom attributes of words and spans are not read", path)
        elif isinstance(key, str) and key not in SENTENCE_KEYS and is_json(value):
            extra[key] = value
        else:
            what = f"doc.user_data[{str(key)[:40]!r}] cannot be a field of a record; it is left out"
            report.note("fields left out", what, "give it another name, or remove it", path, number)
    if extensions:
        extra.setdefault(_EXTENSIONS, extensions)
    if content.cats and is_json(_listed(content.cats)):
        extra.setdefault(_CATEGORIES, _listed(content.cats))
    return extra


def _listed(value: Any) -> Any:
    """Convert tuples to lists, as in JSON."""
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def _fits(value: Any) -> bool:
    """Whether MessagePack can represent a JSON value: it has no integers beyond 64 bits."""
    if isinstance(value, Mapping):
        return all(map(_fits, value.values()))
    if isinstance(value, list):
        return all(map(_fits, value))
    return not isinstance(value, int) or -_LARGEST <= value < _LARGEST


FORMATS = [Format("spacy", (".spacy",), read_spacy, write_binary=write_spacy)]
