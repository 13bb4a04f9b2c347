"""What must hold for whatever is read: no error but ours, no entity lost without a word, and what is written comes back."""

import json
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from corpora import (
    random_columns,
    random_document_file,
    random_named_columns,
    random_names,
    random_records,
    random_sentence,
    random_tool_file,
    random_value,
)
from mutation import mutate
from seeds import BRAT_TEXT, CONFIGS, CORPORA, LISTS

from lacuner import Recognizer
from lacuner.bench.recipe import PROFILES, known_recipes, read_recipe
from lacuner.corpus import Sentence
from lacuner.corpus.corpus import stream_sentences, write_sentences
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.corpus.formats.registry import all_formats, get_format
from lacuner.corpus.formats.span_keys import TAG_KEYS, holds_tags
from lacuner.encoders.vectors import read_vectors
from lacuner.errors import LacunerError
from lacuner.features.lexicon import read_words
from lacuner.matching.dictionary import Dictionary, read_stop_list
from lacuner.methods.registry import registry
from lacuner.training.settings import parse_assignments, read_config, resolve_settings

Property = Callable[[Random, Path], None]
"""Makes up a case in an empty folder and checks it; any exception but ours is a failure."""

READABLE = tuple(os.environ.get("LACUNER_FUZZ_FORMATS", "").split() or CORPORA)
"""Formats of text to try; LACUNER_FUZZ_FORMATS names some of them."""
BINARY = ("parquet", "spacy")
WRITABLE = sorted(known.name for known in all_formats().values() if known.can_be_written)
IN_COLUMNS = ("conll", "conllu")
WITH_IDS = ("bioc", "brat")
"""Formats that give IDs to documents and entities that have none."""
_SPLITS = ("words", "whitespace", "characters")
_LOST = ("duplicate entities", "empty entities")
"""Counts of the report that stand for one entity each."""
_RECORDS_UNREAD = ("annotation that is not read", "unaccepted records")
"""Counts of the report that stand for a key or a record with any number of entities."""
_ANSWERS_UNREAD = (
    *_RECORDS_UNREAD,
    "cancelled annotations",
    "further annotations",
    "further predictions",
    "predictions beside annotations",
    "drafts",
    "draft responses",
    "discarded responses",
)
"""The same of one annotation or answer."""


def damaged_corpora_are_read_or_refused(random: Random, folder: Path) -> None:
    """A damaged corpus in any format is refused in one sentence, or read; what was read can be written and read again."""
    name, path = random.choice(READABLE), folder / "data"
    content = mutate(random.choice(CORPORA[name]), [seed for seeds in CORPORA.values() for seed in seeds], random)
    if name == "brat":
        path.mkdir()
        text = mutate(BRAT_TEXT, [BRAT_TEXT], random) if random.random() < 0.3 else BRAT_TEXT
        (path / "a.txt").write_bytes(text)
        (path / "a.ann").write_bytes(content)
    else:
        path.write_bytes(content)
    report, tagged = ReadingReport(strict=random.random() < 0.1), random.random() < 0.8
    try:
        read = list(stream_sentences(path, name, report, tagged, random.choice(_SPLITS)))
    except LacunerError as error:
        _check_sentence(error)
        return
    _write_and_compare(read, folder, "jsonl")
    for other in WRITABLE:
        _try(lambda other=other: write_sentences(read, folder / f"other {other}", other))


def damaged_binaries_are_read_or_refused(random: Random, folder: Path) -> None:
    """A damaged Parquet file, ``.spacy`` file or folder of a dataset is refused in one sentence, or read."""
    sentences = [random_sentence(random) for _ in range(random.randint(1, 3))]
    name, path = random.choice((*BINARY, "datasets")), folder / "data"
    try:
        write_sentences(sentences, path, name)
    except LacunerError as error:
        _check_sentence(error)
        return
    damaged = random.choice(sorted(path.iterdir())) if name == "datasets" else path
    content = damaged.read_bytes()
    if name == "spacy" and random.random() < 0.8:  # what is packed, and not only the packing
        damaged.write_bytes(zlib.compress(mutate(zlib.decompress(content), [content], random)))
    else:
        damaged.write_bytes(mutate(content, [content], random))
    try:
        read = list(stream_sentences(path, name, ReadingReport(strict=random.random() < 0.1)))
    except LacunerError as error:
        _check_sentence(error)
        return
    _write_and_compare(read, folder, "jsonl")


def entities_of_records_are_read_or_reported(random: Random, folder: Path) -> None:
    """Every entity that is written in a JSON Lines file is read, or is in the report, or the file is refused."""
    made, path, report = random_records(random), folder / "data.jsonl", ReadingReport()
    path.write_text(made.content, encoding="utf-8")
    try:
        read = list(stream_sentences(path, random.choice(["jsonl", "jsonl", "prodigy", "doccano"]), report))
    except LacunerError as error:
        _check_sentence(error)
        return
    found = sum(len(sentence.entities) + len(sentence.non_entities) for sentence in read)
    found += sum(report.counts[kind] for kind in _LOST)
    if not any(report.counts[kind] for kind in _RECORDS_UNREAD):
        assert found == made.entities, (made.content, dict(report.counts))
    assert found <= made.entities, made.content
    _write_and_compare(read, folder, "jsonl")


def entities_of_tools_are_read_or_reported(random: Random, folder: Path) -> None:
    """Every entity in a file of a labeling tool is read, or is in the report, or the file is refused."""
    made, path, report = random_tool_file(random), folder / "data.json", ReadingReport()
    path.write_text(made.content, encoding="utf-8")
    try:
        read = list(stream_sentences(path, random.choice([None, made.format]), report))
    except LacunerError as error:
        _check_sentence(error)
        return
    found = sum(len(sentence.entities) for sentence in read) + sum(report.counts[kind] for kind in _LOST)
    if not any(report.counts[kind] for kind in _ANSWERS_UNREAD):
        assert found == made.entities, (made.content, dict(report.counts))
    assert found <= made.entities, made.content
    _write_and_compare(read, folder, "jsonl")
    _write_and_compare(read, folder, made.format)


def entities_of_columns_are_read_or_reported(random: Random, folder: Path) -> None:
    """A column file in any layout is read as it was made, or something is in the report, or it is refused."""
    made, path, report = random_columns(random), folder / "data.conll", ReadingReport()
    path.write_text(made.content, encoding="utf-8", newline="")
    try:
        read = list(stream_sentences(path, "conll", report))
    except LacunerError as error:
        _check_sentence(error)
        return
    if not report.counts:
        shown = [(sentence.tokens, sentence.entities) for sentence in read]
        assert shown == [(sentence.tokens, sentence.entities) for sentence in made.sentences], made.content
    _write_and_compare(read, folder, "jsonl")


def entities_of_documents_are_read_or_reported(random: Random, folder: Path) -> None:
    """Every entity in documents with offsets, or in columns with names, is read, or is in the report, or it is refused."""
    made = (random_document_file if random.random() < 0.7 else random_named_columns)(random)
    path, report = folder / "data", ReadingReport()
    for name, content in made.files.items():
        path.mkdir(exist_ok=True) if name else None
        (path / name if name else path).write_text(content, encoding="utf-8", newline="")
    try:
        read = list(stream_sentences(path, made.format, report))
    except LacunerError as error:
        _check_sentence(error)
        return
    found = sum(len(sentence.entities) for sentence in read) + sum(report.counts[kind] for kind in _LOST)
    assert found == made.entities, (made.files, dict(report.counts))
    _write_and_compare(read, folder, "jsonl")


def what_is_written_comes_back(random: Random, folder: Path) -> None:
    """Any corpus that a format can hold is read as it was written; what it cannot hold is counted, or refused."""
    name = random.choice((*READABLE, *BINARY))
    most = 1 if name == "brat" else 3  # documents in a folder are in the order of their names
    sentences = [random_sentence(random, columns=name in IN_COLUMNS) for _ in range(random.randint(0, most))]
    _write_and_compare(sentences, folder, name)
    for other in WRITABLE:
        _try(lambda other=other: write_sentences(sentences, folder / f"other {other}", other))


def damaged_lists_are_read_or_refused(random: Random, folder: Path) -> None:
    """Dictionaries, word lists, stop lists and word vectors are read, or refused in one sentence."""
    path = folder / f"list{random.choice(['', '.tsv', '.csv', '.jsonl', '.json'])}"
    content = random.choice(LISTS) if random.random() < 0.7 else random_names(random).content.encode()
    path.write_bytes(mutate(content, LISTS, random))
    label, strict = random.choice([None, None, "PER"]), random.random() < 0.1

    def read_names(read: Callable[[], Dictionary]) -> None:
        entries = read().entries
        assert entries
        assert all(entry.surface.strip() and entry.label.strip() and entry.label != "O" for entry in entries), entries

    _try(lambda: read_names(lambda: Dictionary.read(path, strict, label)))
    _try(lambda: read_names(lambda: Dictionary.read_phrases(path, strict)))
    for read in (read_words, read_stop_list, read_vectors):
        _try(lambda read=read: read(path))


def names_of_lists_are_read_or_reported(random: Random, folder: Path) -> None:
    """Every name of a list is read with its label, or is in the report, or the list is refused; nothing else is read."""
    made = random_names(random)
    path = folder / f"names{made.ending}"
    path.write_text(made.content, encoding="utf-8", newline="")
    try:
        found = Dictionary.read(path)
    except LacunerError as error:
        _check_sentence(error)
        return
    pairs = {(entry.surface, entry.label) for entry in found.entries}
    assert pairs <= set(made.rows), made.content
    counted = sum(count for kind, count in found.report.counts.items() if not kind.startswith("lists "))
    assert len(found) + counted == len(made.rows), (made.content, dict(found.report.counts))


def settings_are_taken_or_refused(random: Random, folder: Path) -> None:
    """Any settings, in a file, on the command line or in Python, make a run or are refused in one sentence."""
    made: dict[str, Any] = {}
    for _ in range(random.randint(1, 3)):
        key = random.choice(_SETTINGS)
        made[key.rpartition(".")[0] if random.random() < 0.2 and "." in key else key] = random_value(random)
    layer = random.choice(["config", "overrides"])
    _try(lambda: resolve_settings(**{layer: made}))
    _try(
        lambda: resolve_settings(
            overrides=parse_assignments([f"{key}={json.dumps(value)}" for key, value in made.items()])
        )
    )
    path = folder / "run.toml"
    path.write_bytes(mutate(random.choice(CONFIGS), CONFIGS, random))
    _try(lambda: resolve_settings(config=read_config(path)))


def recipes_are_taken_or_refused(random: Random, folder: Path) -> None:
    """A damaged recipe is refused in one sentence, or is one."""
    path = folder / "recipe.toml"
    path.write_bytes(mutate(random.choice(_RECIPES), _RECIPES, random))
    if random.random() < 0.5:
        path.write_text(_with_random_values(random.choice(_RECIPES).decode(), random), encoding="utf-8")
    _try(lambda: read_recipe(path, random.choice([*PROFILES, "other"])))


def damaged_models_are_loaded_or_refused(random: Random, folder: Path, model: Path) -> None:
    """A damaged model folder is refused in one sentence, or the model in it finds entities."""
    copy = folder / "model"
    shutil.copytree(model, copy)
    path = copy / random.choice(
        ["config.json"] * 3 + ["model.safetensors"] * 2 + sorted(file.name for file in model.iterdir())
    )
    content = path.read_bytes()
    if path.suffix == ".json" and random.random() < 0.6:
        path.write_text(json.dumps(_with_random_value(json.loads(content), random)), encoding="utf-8")
    elif path.name == "model.safetensors":
        length = 8 + int.from_bytes(content[:8], "little")
        begin = mutate(content[:length], [content[:length]], random)
        path.write_bytes((begin if random.random() < 0.8 else content[:length]) + content[length:])
    else:
        path.write_bytes(mutate(content, [content], random))
    _try(lambda: Recognizer.from_pretrained(copy, "cpu").predict("Ada Lovelace moved to Turin."))


def _write_and_compare(sentences: list[Sentence], folder: Path, format: str) -> None:
    path, known = folder / f"again {format}", get_format(format)
    try:
        write_sentences(sentences, path, format)
    except LacunerError as error:
        _check_sentence(error)
        return
    losses: Counter[str] = Counter()
    list(known.count_losses(sentences, losses))
    report = ReadingReport()
    if format == "brat" and not sentences:
        return  # an empty folder
    try:
        again = list(stream_sentences(path, format, report))
    except LacunerError:
        # without some of its words, a text may say other things
        assert losses or any(_clashes(sentence, format) for sentence in sentences), sentences
        return
    assert len(again) + report.counts["unaccepted records"] == len(sentences), sentences
    if (
        losses
        or len(again) < len(sentences)
        or "extra" in known.cannot_hold
        or any(_clashes(sentence, format) for sentence in sentences)
    ):
        return
    for sentence, wanted in zip(again, sentences, strict=True):
        assert _without_new_ids(sentence, wanted, format) == _as_held(wanted, format), f"{sentence}\nis not\n{wanted}"


def _without_new_ids(sentence: Sentence, wanted: Sentence, format: str) -> dict[str, Any]:
    record = sentence_to_record(sentence)
    if format in WITH_IDS:
        for entity, before in zip(record["entities"], wanted.entities, strict=True):
            if "id" not in before.extra:
                del entity["id"]
        if wanted.extra.get("id") is None:
            record.pop("id", None)
            record |= {"id": None} if "id" in wanted.extra else {}
    return record


def _clashes(sentence: Sentence, format: str) -> bool:
    """Whether a format has a use of its own for one of the fields, or words that a text alone does not tell."""
    if format in ("doccano", "jsonl", "prodigy") and any(holds_tags(sentence.extra, key) for key in TAG_KEYS):
        return True
    if format in ("argilla", "label_studio"):
        return not sentence.tokens or any(not token.strip() for token in sentence.tokens)
    if format == "doccano":
        return bool({"label", "labels", "tokens"} & sentence.extra.keys()) or sentence.text is None
    blank = not sentence.tokens or any(not token.strip() for token in sentence.tokens)
    if format in ("bioc", "brat", "csv", "pubtator"):
        return blank or format == "pubtator"
    return format == "prodigy" and (blank or "spans" in sentence.extra or "token_fields" in sentence.extra)


def _as_held(sentence: Sentence, format: str) -> dict[str, Any]:
    record = sentence_to_record(sentence)
    if format in ("bioc", "brat", "csv"):
        record = {"text": sentence.raw_text} | record
    if format in ("argilla", "label_studio", "prodigy"):
        record = {"text": sentence.raw_text} | record
    scores = [entity.score for entity in sentence.entities if entity.score is not None]
    if format == "prodigy" and scores and isinstance(record.get("meta"), dict | None):
        record["meta"] = {**(record.get("meta") or {}), "score": max(scores)}
    return record


def _try(action: Callable[[], object]) -> None:
    try:
        action()
    except LacunerError as error:
        _check_sentence(error)


def _check_sentence(error: LacunerError) -> None:
    """An error says something, and not a whole file."""
    assert str(error).strip()


def _with_random_value(content: Any, random: Random) -> Any:
    """The same JSON with another value somewhere."""
    if isinstance(content, dict | list) and content and random.random() < 0.9:
        key = random.choice(list(content)) if isinstance(content, dict) else random.randrange(len(content))
        changed = content.copy()
        if isinstance(content, dict) and random.random() < 0.05:
            del changed[key]
        else:
            changed[key] = _with_random_value(content[key], random)
        return changed
    return random_value(random)


def _with_random_values(toml: str, random: Random) -> str:
    lines = toml.split("\n")
    for _ in range(random.randint(1, 3)):
        index = random.randrange(len(lines))
        key, equals, _ = lines[index].partition("=")
        if equals:
            lines[index] = f"{key}= {json.dumps(random_value(random))}"
    return "\n".join(lines)


_RECIPES = [path.read_bytes() for path in known_recipes().values()]
_SETTINGS = [
    "method",
    "encoder",
    "split",
    *registry().part_kinds(),
    "training.epochs",
    "training.seed",
    "training.patience",
    "training.metric",
    "training.precision",
    "training.ema_epochs",
    "encoder.name",
    "encoder.model",
    "encoder.vectors",
    "encoder.hidden",
    "negatives.ratio",
    "head.name",
    "head.max_span_width",
    "loss.name",
    "trusted.fraction",
    "unknown.key",
    "",
    ".",
    "training",
    "trusted",
]
