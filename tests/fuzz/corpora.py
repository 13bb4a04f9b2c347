"""Sentences, records and column files made up at random, with what is in them known."""

import csv
import io
import json
from random import Random
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from lacuner.corpus import Entity, Sentence, Span
from lacuner.corpus.formats.tag_schemes import SCHEMES, encode_tags

_WORDS = [
    "Ada",
    "left",
    "New",
    "York",
    ".",
    ",",
    "#",
    "1",
    "2",
    "O",
    "-",
    "?",
    "_",
    "B-PER",
    "東",
    "😀",
    "é",
    "e\u0301",
    '"',
    "a,b",
    "|",
    "{}",
]
_ODD_WORDS = ["# lacuner", "-DOCSTART-x", "\u2028", "\u00a0", "\ufeff", "a b", "\x00", "\u200b", "1-2", "\x85"]
_LABELS = ["PER", "LOC", "geo-loc", "x y", "_", "-", "O-x", "B-PER", "国名"]
_KEYS = ["id", "meta", "extra", "sources", "entity_fields", "note", "tags", "relations", "", "text2"]


def random_sentence(random: Random, columns: bool = False) -> Sentence:
    """Any sentence; with ``columns``, one that column files can hold: it has words, and its entities do not overlap."""
    words = _WORDS + _ODD_WORDS * (random.random() < 0.2)
    tokens = [random.choice(words) for _ in range(random.randint(1 if columns else 0, 8))]
    entities: dict[tuple[int, int, str], Entity] = {}
    position = 0
    while position < len(tokens) and random.random() < 0.6:
        start = random.randint(position, len(tokens) - 1)
        end = random.randint(start + 1, len(tokens))
        label = random.choice(_LABELS)
        score, source = random.choice([None, 0.5, 1.0]), random.choice([None, "human", "model", "somebody"])
        entities[start, end, label] = Entity(start, end, label, None, score, source, _fields(random, 0.2))
        position = end if columns or random.random() < 0.7 else start
        if position == start and random.random() < 0.5:
            break
    taken = {(start, end) for start, end, _ in entities}
    free = [(i, j) for i in range(len(tokens)) for j in range(i + 1, len(tokens) + 1) if (i, j) not in taken]
    rejected = random.sample(free, min(len(free), random.choice([0, 0, 0, 2])))
    text, offsets = None, None
    if random.random() < 0.4:
        text, offsets = _text(tokens, random)
    return Sentence(
        tuple(tokens),
        tuple(entities.values()),
        tuple(Span(start, end, random.choice([None, "me"]), _fields(random, 0.2)) for start, end in rejected),
        complete=random.random() < 0.3,
        annotated_labels=random.choice([None, None, frozenset({"PER"}), frozenset()]),
        unknown_tokens=frozenset(random.sample(range(len(tokens)), min(len(tokens), random.choice([0, 0, 0, 2])))),
        text=text,
        token_offsets=offsets,
        extra=_fields(random, 0.4),
    )


def _text(tokens: list[str], random: Random) -> tuple[str, tuple[tuple[int, int], ...]]:
    text, offsets = random.choice(["", " ", "Ada: "]), []
    for token in tokens:
        offsets.append((len(text), len(text) + len(token)))
        text += token + random.choice(["", " ", "  "])
    return text, tuple(offsets)


def _fields(random: Random, probability: float) -> dict[str, Any]:
    fields = {}
    while random.random() < probability:
        fields[random.choice(_KEYS)] = random_value(random)
    return fields


def random_value(random: Random, depth: int = 2) -> Any:
    """Any JSON value."""
    simple = [None, True, False, 0, 1, -1, 5, 0.5, 10**30, "", "PER", "O", "B-PER", "a\nb", "none", "auto", "😀"]
    kind = random.random()
    if depth == 0 or kind < 0.6:
        return random.choice(simple)
    if kind < 0.8:
        return [random_value(random, depth - 1) for _ in range(random.randint(0, 3))]
    return {
        random.choice(["name", "a", "start", "end", "label", "text"]): random_value(random, depth - 1) for _ in range(2)
    }


class RecordFile(NamedTuple):
    """A JSON Lines file, and how many entities are written in it, under whatever key."""

    content: str
    entities: int


def random_records(random: Random) -> RecordFile:
    """Records as tools write them, or would if they were a little different."""
    lines, count = [], 0
    for _ in range(random.randint(1, 3)):
        tokens = [random.choice(_WORDS[:12]) for _ in range(random.randint(1, 6))]
        text = " ".join(tokens)
        starts = [sum(len(token) + 1 for token in tokens[:index]) for index in range(len(tokens))]
        record: dict[str, Any] = {}
        by_words = random.random() < 0.4
        if by_words or random.random() < 0.2:
            record["tokens"] = tokens
        if not by_words or random.random() < 0.3:
            record["text"] = text
        for key in random.sample(_SPAN_KEYS, random.choice([0, 1, 1, 1, 1, 2, 3])):
            spans = []
            for _ in range(random.choice([0, 1, 1, 2])):
                first = random.randrange(len(tokens))
                last = random.randint(first, min(len(tokens) - 1, first + 2))
                start, end = (first, last + 1) if by_words else (starts[first], starts[last] + len(tokens[last]))
                spans.append(_span(start, end, random.choice(_LABELS), random))
            count += len(spans)
            record[key] = (
                random.choice([spans] * 6 + [{"sc": spans}, {"sc": {"x": spans}}]) if spans else random.choice(_EMPTY)
            )
        if random.random() < 0.15:
            record[random.choice(["ner_tags", "tags", "bio"])] = ["B-PER", *["O"] * (len(tokens) - 1)]
            count += 1
        if random.random() < 0.1:
            record["answer"] = random.choice(["accept", "reject", "ignore", "maybe"])
        lines.append(json.dumps(_fields(random, 0.3) | record))
    return RecordFile("\n".join(lines) + "\n", count)


_SPAN_KEYS = ["entities", "spans", "ents", "label", "labels", "annotations", "ner"]
_EMPTY = [[], None, [], {}]


def _span(start: int, end: int, label: str, random: Random) -> Any:
    kind = random.random()
    if kind < 0.4:
        return [start, end, label]
    if kind < 0.5:
        return {"start_offset": start, "end_offset": end, "label": label}
    return {"start": start, "end": end, "label": label}


class DocumentFile(NamedTuple):
    """The files of a format with documents (or the one file, without a name), and how many entities are written in them."""

    format: str
    files: dict[str, str]
    entities: int


def random_document_file(random: Random) -> DocumentFile:
    """Documents as tools write them; offsets may cut words, overlap, be there twice, or have several pieces."""
    name = random.choice(["brat", "pubtator", "bioc", "csv"])
    files, parts, count = {}, [], 0
    for number in range(random.randint(1, 3)):
        title, abstract = (" ".join(random.choices(_WORDS[:18], k=random.randint(0, 5))) for _ in range(2))
        text = f"{title}\n{abstract}"
        spans = []
        for _ in range(random.choice([0, 1, 2, 4]) if len(text) > 1 else 0):
            start = random.randrange(len(text) - 1)
            end = random.randint(start + 1, min(len(text), start + 8))
            spans.append((start, end, random.choice(_LABELS[:3])))
        count += len(spans)
        if name == "brat":
            files[f"{number}.txt"] = text
            lines = [f"T{i}\t{label} {a} {b}\t{_flat(text[a:b])}" for i, (a, b, label) in enumerate(spans, 1)]
            lines += random.sample(["A1\tNegation T1", "#1\tAnnotatorNotes T1\tx", "R1\tx Arg1:T1 Arg2:T2"], 1)
            files[f"{number}.ann"] = "".join(line + "\n" for line in lines)
        elif name == "pubtator":
            parts += [f"{number}|t|{title}", f"{number}|a|{abstract}"]
            if not abstract:
                count -= len(spans)
                spans = []
            parts += [f"{number}\t{a}\t{b}\t{_flat(text[a:b])}\t{label}\tD1" for a, b, label in spans]
            parts += [""] * random.choice([0, 1, 2])
        elif name == "bioc":
            first = [span for span in spans if span[1] <= len(title)]
            second = [span for span in spans if span[0] > len(title)]
            count -= len(spans) - len(first) - len(second)
            passages = _passage(0, title, text, first) + _passage(len(title) + 1, abstract, text, second)
            parts.append(f"<document><id>{number}</id>{passages}</document>")
        else:
            parts.append(",".join(['"' + cell.replace('"', '""') + '"' for cell in (text, repr(spans), str(number))]))
    if name == "bioc":
        parts = [f"<collection>{''.join(parts)}</collection>"]
    elif name == "csv":
        parts = ["text,entities,id", *parts]
    return DocumentFile(name, files or {"": "\n".join(parts) + "\n"}, count)


def _passage(offset: int, content: str, text: str, spans: list[tuple[int, int, str]]) -> str:
    annotations = [
        f'<annotation id="{number}"><infon key="type">{label}</infon><location offset="{start}" length="{end - start}"/>'
        f"<text>{escape(text[start:end])}</text></annotation>"
        for number, (start, end, label) in enumerate(spans)
    ]
    return f"<passage><offset>{offset}</offset><text>{escape(content)}</text>{''.join(annotations)}</passage>"


def _flat(text: str) -> str:
    return text.replace("\n", " ")


def random_named_columns(random: Random) -> DocumentFile:
    """Words and tags in CoNLL-U or in a table with a header."""
    name = random.choice(["conllu", "csv"])
    usual = [word for word in _WORDS if word != '"']
    lines, count = ["id,sentence_id,word,tag"] if name == "csv" else [], 0
    for sentence in range(random.randint(1, 4)):
        tokens = [random.choice(usual) for _ in range(random.randint(1, 6))]
        entities, position = [], 0
        while position < len(tokens) and random.random() < 0.6:
            start = random.randint(position, len(tokens) - 1)
            position = random.randint(start + 1, len(tokens))
            entities.append(Entity(start, position, random.choice(["PER", "LOC", "geo-loc"])))
        count += len(entities)
        if name == "conllu" and random.random() < 0.7:
            lines += [f"# sent_id = {sentence}", f"# text = {random.choice(['', ' ']).join(tokens)}"]
        for number, (token, tag) in enumerate(zip(tokens, encode_tags(entities, len(tokens)), strict=True), 1):
            if name == "csv":
                lines.append(f'{number},{sentence},"{token}",{tag}')
            else:
                misc = random.choice([f"NER={tag}", f"NER={tag}|SpaceAfter=No", f"A=b|NER={tag}"])
                lines.append("\t".join([str(number), token, *["_"] * 7, misc]))
        lines += [""] * (name == "conllu")
    return DocumentFile(name, {"": "\n".join(lines) + "\n"}, count)


class ToolFile(NamedTuple):
    """A file of a labeling tool, its format, and how many entities are written in it."""

    content: str
    format: str
    entities: int


def random_tool_file(random: Random) -> ToolFile:
    """Records of Label Studio, Argilla or GLiNER, with several annotators, old names, and what is not of text."""
    kind = random.choice(["label_studio", "min", "argilla", "gliner"])
    records, count = [], 0
    for number in range(random.randint(1, 3)):
        tokens = [random.choice(_WORDS[:16]) for _ in range(random.randint(1, 6))]
        make = {"label_studio": _task, "min": _flat_task, "argilla": _argilla_record, "gliner": _gliner_record}[kind]
        record, entities = make(tokens, number, random)
        records.append(record)
        count += entities
    lines = random.random() < 0.4
    content = "\n".join(map(json.dumps, records)) if lines else json.dumps(records, indent=random.choice([None, 1]))
    return ToolFile(content, "label_studio" if kind == "min" else kind, count)


def _spans_of(tokens: list[str], random: Random) -> list[tuple[int, int, str]]:
    """Words ``[first, last]`` with labels, each once."""
    spans = set()
    for _ in range(random.choice([0, 1, 1, 2])):
        first = random.randrange(len(tokens))
        spans.add((first, random.randint(first, len(tokens) - 1), random.choice(_LABELS)))
    return sorted(spans)


def _in_characters(tokens: list[str], random: Random) -> tuple[str, list[dict[str, Any]]]:
    text = " ".join(tokens)
    starts = [sum(len(token) + 1 for token in tokens[:index]) for index in range(len(tokens))]
    spans = [
        {"start": starts[first], "end": starts[last] + len(tokens[last]), "label": label}
        for first, last, label in _spans_of(tokens, random)
    ]
    return text, spans


def _regions(tokens: list[str], random: Random) -> list[dict[str, Any]]:
    text, spans = _in_characters(tokens, random)
    return [
        {"start": span["start"], "end": span["end"], "labels": [span["label"]]}
        | ({"text": text[span["start"] : span["end"]]} if random.random() < 0.8 else {})
        for span in spans
    ]


def _task(tokens: list[str], number: int, random: Random) -> tuple[dict[str, Any], int]:
    key, count = random.choice(["text", "text", "article"]), 0
    task: dict[str, Any] = {"id": number, "data": {key: " ".join(tokens)} | _fields(random, 0.1)}
    for name in random.sample(["annotations", "predictions", "completions", "drafts"], random.choice([0, 1, 1, 2])):
        task[name] = []
        for _ in range(random.choice([1, 1, 2])):
            values = _regions(tokens, random)
            count += len(values)
            kinds = ["labels"] * 9 + ["hypertextlabels"]
            result = [{"from_name": "ner", "to_name": "x", "type": random.choice(kinds), "value": v} for v in values]
            if random.random() < 0.2:
                result.append({"type": "choices", "value": {"choices": ["x"]}})
            task[name].append({"result": result, "was_cancelled": random.random() < 0.1} | _fields(random, 0.1))
    return task, count


def _flat_task(tokens: list[str], number: int, random: Random) -> tuple[dict[str, Any], int]:
    values = _regions(tokens, random)
    record = {"text": " ".join(tokens), "id": random.choice([1, number]), "annotator": 1, "annotation_id": number}
    return record | ({random.choice(["label", "ner"]): values} if values else {}) | _fields(random, 0.1), len(values)


def _argilla_record(tokens: list[str], number: int, random: Random) -> tuple[dict[str, Any], int]:
    record: dict[str, Any] = {
        "id": str(number),
        "fields": {"text": " ".join(tokens)},
        "suggestions": {},
        "responses": {},
    }
    count = 0
    if random.random() < 0.6:
        _, spans = _in_characters(tokens, random)
        record["suggestions"]["entities"] = {"value": spans, "score": [0.5] * len(spans), "agent": "m"}
        count += len(spans)
    for _ in range(random.choice([0, 1, 2])):
        _, spans = _in_characters(tokens, random)
        status = random.choice(["submitted", "submitted", "draft", "discarded", None])
        record["responses"].setdefault("entities", []).append({"value": spans, "user_id": "u", "status": status})
        count += len(spans)
    return record, count


def _gliner_record(tokens: list[str], number: int, random: Random) -> tuple[dict[str, Any], int]:
    spans = [list(span) for span in _spans_of(tokens, random)]
    return _fields(random, 0.2) | {"tokenized_text": tokens, "ner": spans}, len(spans)


class ColumnFile(NamedTuple):
    """A column file, and what is in it."""

    content: str
    sentences: list[Sentence]


def random_columns(random: Random) -> ColumnFile:
    """Words and tags in one of the layouts that are in use, or in a mixture of them."""
    scheme = random.choice(SCHEMES)
    separator = random.choice(["\t", "\t", " ", ",", ";", "|"])
    usual = [word for word in _WORDS if separator not in word and not word.startswith(('"', "{"))]
    between, numbered = random.choice([0, 0, 1, 3]), random.random() < 0.25
    bare = scheme == "io" and random.random() < 0.3
    lines, sentences = [], []
    for _ in range(random.randint(1, 5)):
        tokens = tuple(random.choice(usual) for _ in range(random.randint(1, 6)))
        entities, position = [], 0
        while position < len(tokens) and random.random() < 0.6:
            start = random.randint(position, len(tokens) - 1)
            position = random.randint(start + 1, len(tokens))
            entities.append(Entity(start, position, random.choice(["PER", "LOC", "geo-loc"])))
            position += scheme == "io"
        sentences.append(Sentence(tokens, tuple(entities)))
        if random.random() < 0.15:
            lines.append(random.choice(["-DOCSTART-", separator.join(["-DOCSTART-", "O"]), "# text = x", ""]))
        for number, (token, tag) in enumerate(zip(tokens, encode_tags(entities, len(tokens), scheme), strict=True), 1):
            others = ["NN"] * between
            if random.random() < 0.02:
                others = others[1:] if random.random() < 0.5 else [*others, "x"]
            shown = tag.removeprefix("I-") if bare else tag
            lines.append(separator.join([*([str(number)] if numbered else []), token, *others, shown]))
        lines.append("")
    return ColumnFile(random.choice(["\n", "\n", "\n", "\r\n", "\r"]).join(lines) + "\n", sentences)


class NameList(NamedTuple):
    """A list of names: how the file ends, what is in it, and the names and labels, one a row."""

    ending: str
    content: str
    rows: list[tuple[str, str]]


_NAMES = [
    "Ada",
    "Acme, Inc.",
    "New York",
    "a;b",
    '"Weird" Al',
    "北京",
    "iPhone 15",
    "e\u0301",
    "1.5",
    "#",
    "x|y",
    "{",
    "Name",
]
_TYPES = ["PER", "LOC", "ORG", "product", "国名", "B-PER", "work of art"]


def random_names(random: Random) -> NameList:
    """A list of names in one of the forms that are read, or nearly so."""
    rows = [(random.choice(_NAMES), random.choice(_TYPES)) for _ in range(random.randint(1, 30))]
    kind = random.choice(["tsv", "csv", "jsonl", "json", "patterns"])
    if kind in ("tsv", "csv"):
        separator = "\t" if kind == "tsv" else random.choice([",", ",", ";", "\t"])
        swapped, header = random.random() < 0.2, random.random() < 0.4
        if swapped and not header:  # labels that nobody knows may as well be names
            rows = [(name, random.choice(_TYPES[:3])) for name, _ in rows]
        table = [[label, name] if swapped else [name, label] for name, label in rows]
        if header:
            titles = [random.choice(["label", "Type"]), random.choice(["name", "surface", "Text"])]
            table.insert(0, titles if swapped else titles[::-1])
        file = io.StringIO()
        quoting = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]) if kind == "csv" else csv.QUOTE_NONE
        csv.writer(file, delimiter=separator, quoting=quoting, quotechar='"' if kind == "csv" else None).writerows(
            table
        )
        return NameList(f".{kind}", file.getvalue(), rows)
    keys = [random.choice(["name", "surface", "text", "pattern"]), random.choice(["label", "type"])]
    records: list[Any] = [dict(zip(keys, row, strict=True)) | _fields(random, 0.1) for row in rows]
    if kind == "patterns":
        records = [
            {"label": label, "pattern": [{random.choice(["LOWER", "TEXT", "OP"]): word} for word in name.split()]}
            for name, label in rows
        ]
    lines = (
        json.dumps(records, indent=random.choice([None, 1])) if kind == "json" else "\n".join(map(json.dumps, records))
    )
    return NameList(".json" if kind == "json" else ".jsonl", lines, rows)
