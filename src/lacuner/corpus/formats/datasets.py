"""Hugging Face datasets: Parquet files, folders of ``save_to_disk``, and objects of the library ``datasets``.

Files and folders are read and written with pyarrow alone. The features of a dataset, including the names of its tags, are in
the metadata of its schema, under ``huggingface``.
"""

import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from lacuner.corpus.files import STANDARD_INPUT, ReadingReport, is_compressed, open_binary, open_seekable
from lacuner.corpus.formats.format import Format, ReadOptions, WriteOptions
from lacuner.corpus.formats.kept_records import KEPT
from lacuner.corpus.formats.ner_tags import (
    RESERVED,
    TAG_COLUMNS,
    UNKNOWN_NUMBER,
    WORD_COLUMNS,
    row_of,
    scheme_of_rows,
    sentences_of_rows,
)
from lacuner.corpus.sentence import OUTSIDE, Sentence
from lacuner.corpus.tokenize import Splitting, cut_words
from lacuner.errors import DataError

_METADATA = b"huggingface"
_DATA_FILE, _INFO_FILE, _STATE_FILE, _SPLITS_FILE = (
    "data-00000-of-00001.arrow",
    "dataset_info.json",
    "state.json",
    "dataset_dict.json",
)
_BATCH = 1000


def read_parquet(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield sentences of a Parquet file, or of some of its row groups."""
    with _opened(path) as file:
        with _reporting_damage(path):
            names = names_of(_features_of(file.schema_arrow))
        groups = None if options.range is None else list(range(options.range.begin, options.range.end))
        rows = _rows(file.iter_batches(_BATCH, groups), path)
        if not options.tagged and not _has_tags(file):
            for _, row in rows:
                yield _untagged(row, options.split, path)
            return
        scheme = None if groups is None else scheme_of_rows(_rows(file.iter_batches(_BATCH), path), names, path)
        yield from sentences_of_rows(rows, names, path, report, scheme)


def count_row_groups(path: str | Path) -> int:
    """Number of independently readable parts of a Parquet file."""
    with _opened(path) as file:
        return int(file.num_row_groups)


def holds_texts(path: str | Path) -> bool:
    """Whether the rows of a Parquet file are untokenized texts."""
    with _opened(path) as file:
        return not _has_tags(file) and "tokens" not in file.schema_arrow.names


@contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    _check_installed("pyarrow", path)
    from pyarrow import BufferReader, parquet

    whole = str(path) == STANDARD_INPUT or is_compressed(path)
    with open_binary(path) if whole else open_seekable(path) as file:
        with _reporting_damage(path):
            opened = parquet.ParquetFile(BufferReader(file.read()) if whole else file)  # its footer is read first
        yield opened


def _has_tags(file: Any) -> bool:
    return all(not set(names).isdisjoint(file.schema_arrow.names) for names in (WORD_COLUMNS, TAG_COLUMNS))


def _untagged(row: dict[str, Any], split: Splitting, path: str | Path) -> Sentence:
    """The words of a row, or its text, with its other columns."""
    words, text = row.pop("tokens", None), row.pop("text", None)
    if isinstance(words, list):
        return Sentence(tuple(words), text=text if isinstance(text, str) else None, extra=row)
    if not isinstance(text, str):
        what = f"there are no columns with words or texts, only: {', '.join(map(str, row))[:100]}"
        raise DataError(what, 'call one "tokens" or "text"', path)
    return Sentence(cut_words(text, split), text=text, extra=row)


def write_parquet(sentences: Iterable[Sentence], file: BinaryIO, options: WriteOptions) -> None:
    """Write a file for ``load_dataset("parquet", …)``. All sentences are in memory, to determine labels and columns."""
    _check_installed("pyarrow", options.name)
    from pyarrow import BufferOutputStream, parquet

    sink = BufferOutputStream()
    parquet.write_table(table_of(sentences, options.name, options.first), sink)
    file.write(sink.getvalue())


def read_folder(path: str | Path, report: ReadingReport, options: ReadOptions) -> Iterator[Sentence]:
    """Yield sentences of a folder written by ``Dataset.save_to_disk``."""
    _check_installed("pyarrow", path)
    folder = Path(path)
    if not folder.is_dir():
        raise DataError("it is not a folder", "give a folder written by save_to_disk", path)
    if (folder / _SPLITS_FILE).exists():
        listed = _json_of(folder / _SPLITS_FILE).get("splits")
        splits = [str(split) for split in listed] if isinstance(listed, list) and listed else ["train"]
        what = f"the folder holds several splits ({', '.join(splits)})"
        raise DataError(what, f"give one of them: {folder / splits[0]}", path)
    features = _json_of(folder / _INFO_FILE).get("features")
    state = _json_of(folder / _STATE_FILE)
    files = state.get("_data_files")
    files = [item.get("filename") for item in files if isinstance(item, dict)] if isinstance(files, list) else []
    if not files or any(not isinstance(name, str) or name != Path(name).name for name in files):
        what = f'"_data_files" in {_STATE_FILE} names no files of the folder'
        raise DataError(what, "write the folder again with save_to_disk", path)
    if state.get("_indices_data_files"):
        what = "rows were chosen or shuffled when the folder was written"
        raise DataError(what, "write it again: dataset.flatten_indices().save_to_disk(…)", path)
    names = names_of(features if isinstance(features, dict) else {})
    return sentences_of_rows(_rows(_arrow_batches([folder / name for name in files]), path), names, path, report)


def write_folder(sentences: Iterable[Sentence], folder: Path, options: WriteOptions) -> None:
    """Write a folder for ``datasets.load_from_disk``."""
    _check_installed("pyarrow", options.name)
    from pyarrow import OSFile, ipc

    table = table_of(sentences, options.name, options.first)
    with OSFile(str(folder / _DATA_FILE), "wb") as sink, ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BATCH)
    fingerprint = hashlib.sha256((folder / _DATA_FILE).read_bytes()).hexdigest()[:16]
    info = {"citation": "", "description": "", "features": _features_of(table.schema), "homepage": "", "license": ""}
    state: dict[str, Any] = {
        "_data_files": [{"filename": _DATA_FILE}],
        "_fingerprint": fingerprint,
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    for name, content in ((_INFO_FILE, info), (_STATE_FILE, state)):
        (folder / name).write_text(json.dumps(content, indent=2), encoding="utf-8")


def sentences_of_dataset(dataset: Any, names: Sequence[str] | None, report: ReadingReport) -> Iterator[Sentence]:
    """Yield sentences of a ``Dataset`` or ``IterableDataset``.

    Args:
        dataset: with columns of words and tags.
        names: of integer tags, if its features lack them.
        report: counts broken tags.
    """
    if isinstance(dataset, Mapping):
        splits = ", ".join(map(str, dataset))
        raise DataError(
            f"there are several splits ({splits})", f"give one of them: dataset[{next(iter(dataset), '')!r}]"
        )
    if not hasattr(dataset, "features") or not hasattr(dataset, "with_format"):
        raise DataError(f"{type(dataset).__name__} is not a dataset", "give a Dataset of the library datasets")
    plain = dataset.with_format(None)
    features = dataset.features.to_dict() if dataset.features is not None else {}
    known = names_of(features)
    if names is not None:
        known = dict.fromkeys((*known, "ner_tags", "tags", "ner"), tuple(names))
    return sentences_of_rows(enumerate(plain, 1), known, "the dataset", report)


def dataset_of(sentences: Iterable[Sentence]) -> Any:
    """A ``Dataset`` with the features ``tokens``, ``ner_tags`` and those of other fields."""
    _check_installed("datasets", None)
    from datasets import Dataset

    return Dataset(table_of(sentences, "the dataset", 1))


def table_of(sentences: Iterable[Sentence], path: str | Path, first: int) -> Any:
    """An Arrow table of rows, with the features of its columns in the metadata."""
    import pyarrow as pa

    corpus = list(sentences)
    found = {entity.label for sentence in corpus for entity in sentence.entities}
    labels = sorted(found.union(*(sentence.annotated_labels or () for sentence in corpus)))
    names = [OUTSIDE, *(f"{prefix}-{label}" for label in labels for prefix in "BI")]
    numbers = {name: number for number, name in enumerate(names)}
    columns = _typed_columns(corpus)
    rows = [row_of(sentence, path, number, columns) for number, sentence in enumerate(corpus, first)]
    tags = [[numbers.get(tag, UNKNOWN_NUMBER) for tag in row["ner_tags"]] for row in rows]
    arrays = {
        "tokens": pa.array([row["tokens"] for row in rows], pa.list_(pa.string())),
        "ner_tags": pa.array(tags, pa.list_(pa.int64())),
        **{key: pa.array([row.get(key) for row in rows], kind) for key, kind in columns.items()},
    }
    for key in ("text", KEPT):
        if any(row[key] is not None for row in rows):
            arrays[key] = pa.array([row[key] for row in rows], pa.string())
    table = pa.table(arrays)
    features = {name: _feature(table.schema.field(name).type) for name in table.column_names}
    features["ner_tags"] = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    return table.replace_schema_metadata({_METADATA: json.dumps({"info": {"features": features}})})


def names_of(features: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The names of tags of each column that has them, from features as JSON."""
    found = {}
    for column, feature in features.items():
        inner = feature
        while isinstance(inner, list | dict) and (isinstance(inner, list) or "feature" in inner):
            inner = inner["feature"] if isinstance(inner, dict) else inner[0] if inner else None
        names = inner.get("names") if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" else None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            found[column] = tuple(names)
    return found


def _typed_columns(corpus: Sequence[Sentence]) -> dict[str, Any]:
    """Fields that have one type in all sentences, and so can be columns; with that type."""
    import pyarrow as pa

    columns = {}
    for key in dict.fromkeys(key for sentence in corpus for key in sentence.extra):
        values = [sentence.extra.get(key) for sentence in corpus]
        try:
            array = pa.array(values)
            same = json.dumps(array.to_pylist()) == json.dumps(values)
        except (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError):
            continue
        if same and _is_name(key) and key not in RESERVED and _can_be_stored(array.type):
            columns[key] = array.type
    return columns


def _is_name(key: str) -> bool:
    return bool(key) and key.isprintable()


def _can_be_stored(kind: Any) -> bool:
    """Whether Parquet and datasets support this type: no empty objects, and no columns of nulls only."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return _can_be_stored(kind.value_type)
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return bool(fields) and all(_is_name(field.name) and _can_be_stored(field.type) for field in fields)
    return not pa.types.is_null(kind)


def _feature(kind: Any) -> Any:
    """The feature of a column of this type."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "Sequence"}
    if pa.types.is_struct(kind):
        return {kind.field(index).name: _feature(kind.field(index).type) for index in range(kind.num_fields)}
    return {"dtype": {"double": "float64"}.get(str(kind), str(kind)), "_type": "Value"}


def _features_of(schema: Any) -> dict[str, Any]:
    """The features described in the metadata of a schema; empty if there are none."""
    try:
        features = json.loads((schema.metadata or {}).get(_METADATA, b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _rows(batches: Iterable[Any], path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    remaining = iter(batches)
    while True:
        with _reporting_damage(path):
            batch = next(remaining, None)
            if batch is not None:
                batch.validate(full=True)  # pyarrow trusts the offsets in a file, and could read out of bounds
            rows = [] if batch is None else batch.to_pylist()
        if batch is None:
            return
        for row in rows:
            number += 1
            yield number, row


def _arrow_batches(paths: Sequence[Path]) -> Iterator[Any]:
    from pyarrow import OSFile, ipc

    for path in paths:
        with open_binary(path):
            pass  # system errors
        with _reporting_damage(path), OSFile(str(path), "rb") as source:
            yield from ipc.open_stream(source)


def _json_of(path: Path) -> dict[str, Any]:
    try:
        with open_binary(path) as file:
            content = json.loads(file.read())
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise DataError("it does not hold a JSON object", "write the folder again with save_to_disk", path)
    return content


@contextmanager
def _reporting_damage(path: str | Path) -> Iterator[None]:
    """Report errors of pyarrow as a damaged file."""
    import pyarrow as pa

    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        reason = (str(error).splitlines() or ["?"])[0][:100]
        raise DataError(f"the file is damaged, or in another format ({reason})", "write it again", path) from None


def _check_installed(library: str, path: str | Path | None) -> None:
    if importlib.util.find_spec(library) is None:
        what = f"this needs {library}, which is not installed"
        raise DataError(what, f"install it with: pip install {library}", path)


FORMATS = [
    Format("parquet", (".parquet",), read_parquet, write_binary=write_parquet, unit=lambda path: "row group"),
    Format("datasets", read=read_folder, write_folder=write_folder, folder_files=(_INFO_FILE, _SPLITS_FILE)),
]
