"""Readers of the formats in which authors distribute corpora, dictionaries and vectors."""

import json
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.files import ReadingReport, read_lines
from lacuner.corpus.formats.conll import read_conll
from lacuner.corpus.formats.tag_schemes import Scheme, decode_tags
from lacuner.errors import DataError

SPACE = "␣"
"""Replaces whitespace tokens, which column files cannot represent."""
_AS_IT_IS = "take the file of the repository as it is"


def read_columns(*paths: Path, scheme: Scheme = "bio2", column: int | None = None) -> Corpus:
    """Read column files as one corpus.

    Args:
        paths: the files.
        scheme: their tagging scheme.
        column: the column with the tags, from 0; the last one by default.
    """
    report = ReadingReport()
    sentences = (sentence for path in paths for sentence in read_conll(path, report, scheme=scheme, column=column))
    return _finished((_visible(sentence.tokens, sentence.entities) for sentence in sentences), report)


def read_zipped_columns(path: Path) -> Corpus:
    """Read the training set from an archive with one column file per split, or that file itself."""
    if not zipfile.is_zipfile(path):
        return read_columns(path)
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        names = [name for name in archive.namelist() if Path(name).name in ("msra_train_bio", "msra_train_bio.txt")]
        if not names:
            raise DataError("there is no msra_train_bio in the archive", _AS_IT_IS, path)
        try:
            member = archive.extract(names[0], folder)
        except (zipfile.BadZipFile, RuntimeError, OSError, zlib.error) as error:
            raise DataError(f"{names[0]} cannot be unpacked ({error})", _AS_IT_IS, path) from error
        return read_columns(Path(member))


def read_spans(path: Path) -> Corpus:
    """Read a JSON list of ``{"tokens": […], "entities": [[first, last, label], …]}``; ``last`` is inclusive."""

    def sentence(record: Any) -> Sentence:
        entities = (Entity(first, last + 1, label) for first, last, label in record["entities"])
        return _visible(record["tokens"], entities)

    return _finished(_from_records(path, sentence), ReadingReport())


def read_tag_numbers(path: Path, numbers: Path) -> Corpus:
    """Read a JSON list of ``{"str_words": […], "tags": [number, …]}``; ``numbers`` is a JSON object from tags to numbers."""
    report = ReadingReport()
    tags = {number: tag for tag, number in _read_json(numbers, dict).items()}

    def sentence(record: Any) -> Sentence:
        return _tagged(record["str_words"], [tags[number] for number in record["tags"]], path, 1, report)

    return _finished(_from_records(path, sentence), report)


def read_texts(path: Path) -> Corpus:
    """Read unlabeled sentences, one per line, with spaces between words."""
    return Corpus(tuple(Sentence(tuple(_words(line))) for _, line in read_lines(path)))


def read_tagged_texts(texts: Path, tags: Path) -> Corpus:
    """Read sentences from one file and their tags from another, one sentence per line, separated by spaces."""
    report = ReadingReport()
    ours, theirs = list(read_lines(texts)), list(read_lines(tags))
    if len(ours) != len(theirs):
        raise DataError(f"{len(theirs)} lines of tags for {len(ours)} sentences", _AS_IT_IS, tags)

    def sentences() -> Iterator[Sentence]:
        for (line, words), (_, their_tags) in zip(ours, theirs, strict=True):
            try:
                yield _tagged(_words(words), _words(their_tags), tags, line, report)
            except ValueError as error:
                raise DataError(str(error), _AS_IT_IS, tags, line) from None

    return _finished(sentences(), report)


def read_names(labels: Sequence[str]) -> Callable[..., list[str]]:
    """Make a reader of one name list per label, which returns a dictionary without duplicates."""

    def read(*paths: Path) -> list[str]:
        pairs = (
            (line.strip(), label) for path, label in zip(paths, labels, strict=True) for _, line in read_lines(path)
        )
        return _entries(pairs)

    return read


def read_labels_and_names(path: Path) -> list[str]:
    """Read a dictionary whose lines have the label first, with the name first."""
    rows = ((number, line.split("\t")) for number, line in read_lines(path) if line)
    pairs = []
    for number, row in rows:
        if len(row) != 2:
            raise DataError(f"{len(row)} columns instead of a label and a name", _AS_IT_IS, path, number)
        pairs.append((row[1].strip(), row[0].strip()))
    return _entries(pairs)


def read_raw_words(path: Path) -> list[str]:
    """Read one word per line, with a blank line after every sentence, as one sentence per line."""
    sentences: list[list[str]] = [[]]
    for _, line in read_lines(path):
        if line.strip():
            sentences[-1].append(line.strip())
        elif sentences[-1]:
            sentences.append([])
    return [" ".join(words) for words in sentences if words]


def read_vectors(path: Path) -> list[str]:
    """Read tab-separated vectors as word2vec text: the numbers of rows and columns first."""
    rows = [line.split("\t") for _, line in read_lines(path) if line]
    widths = {len(row) - 1 for row in rows}
    if len(widths) != 1:
        raise DataError(f"vectors of {len(widths)} different lengths", _AS_IT_IS, path)
    return [f"{len(rows)} {widths.pop()}", *(" ".join(row) for row in rows)]


def _words(line: str) -> list[str]:
    return [word for word in line.split(" ") if word]


def _entries(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(f"{name}\t{label}" for name, label in pairs if name))


def _visible(tokens: Sequence[str], entities: Iterable[Entity]) -> Sentence:
    return Sentence(tuple(token if token.strip() else SPACE for token in tokens), tuple(entities))


def _tagged(tokens: Sequence[str], tags: Sequence[str], path: Path, line: int, report: ReadingReport) -> Sentence:
    """The sentence of words and their tags; a ``ValueError`` says what is wrong with them."""
    if len(tokens) != len(tags):
        raise ValueError(f"{len(tags)} tags for {len(tokens)} words")
    entities, repairs, _ = decode_tags(tags, "bio2")
    for repair in repairs:
        report.note("repaired tags", repair.what, _AS_IT_IS, path, line)
    return _visible(tokens, entities)


def _finished(sentences: Iterable[Sentence], report: ReadingReport) -> Corpus:
    corpus = Corpus(tuple(sentences), report)
    report.log()
    return corpus


def _read_json(path: Path, kind: type[Any]) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(f"it cannot be read as JSON ({error})", _AS_IT_IS, path) from error
    if not isinstance(content, kind):
        raise DataError(f"it holds a {type(content).__name__}, not a {kind.__name__}", _AS_IT_IS, path)
    return content


def _from_records(path: Path, sentence: Callable[[Any], Sentence]) -> Iterator[Sentence]:
    for number, record in enumerate(_read_json(path, list), 1):
        try:
            yield sentence(record)
        except (KeyError, TypeError, ValueError) as error:
            what = f"sentence {number} has another form than expected ({type(error).__name__}: {error})"
            raise DataError(what, _AS_IT_IS, path) from error
