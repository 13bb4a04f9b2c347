import io
import os
import signal
from pathlib import Path

import pytest

from lacuner import Corpus
from lacuner.corpus import Entity, Sentence
from lacuner.corpus.corpus import stream_sentences
from lacuner.errors import DataError, LacunerError
from lacuner.matching import Dictionary, Matcher
from lacuner.matching.annotation import annotate_sentences, read_texts
from lacuner.sample import read_names, read_sample
from lacuner.streams.annotate import annotate_stream
from lacuner.streams.engine import LocalEngine

MATCHER = Matcher(Dictionary.of([("Ada", "PER"), ("Turin", "LOC"), ("Nobody", "PER")]))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("format", ["jsonl", "conll"])
def test_a_stream_is_annotated_in_order_by_any_number_of_processes(
    tmp_path: Path, workers: int, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lacuner.streams.annotate._CHUNK", 7)
    matcher = Matcher(Dictionary.of(read_names()))
    sentences = [Sentence(sentence.tokens) for sentence in read_sample("train")]
    text = io.StringIO()
    report = annotate_stream(matcher, iter(sentences), text, format, engine=LocalEngine(workers))  # type: ignore[arg-type]
    path = tmp_path / f"out.{format}"
    path.write_text(text.getvalue(), encoding="utf-8")
    expected, counted = annotate_sentences(matcher, sentences)
    assert list(Corpus.read(path)) == expected
    assert report == counted
    assert report.matches > 100


def test_the_stream_is_not_read_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuner.streams.annotate._CHUNK", 1)
    read = 0

    class Out(io.StringIO):
        ahead = 0

        def write(self, text: str) -> int:
            self.ahead = max(self.ahead, read - self.written)
            self.written += 1
            return super().write(text)

        written = 0

    def texts():
        nonlocal read
        for _ in range(200):
            read += 1
            yield "Ada"

    out = Out()
    annotate_stream(MATCHER, texts(), out, "jsonl", engine=LocalEngine(2))
    assert (read, out.written) == (200, 200)
    assert out.ahead <= 8


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_written_is_said_with_file_and_number(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuner.streams.annotate._CHUNK", 2)
    texts = [*["Ada went"] * 4, Sentence(()), *["Ada"] * 5]
    with pytest.raises(DataError, match=r"^out\.conll: sentence 5 has no words"):
        annotate_stream(MATCHER, texts, io.StringIO(), "conll", engine=LocalEngine(workers), name="out.conll")


def test_an_engine_of_somebody_else_will_do() -> None:
    class Patient:
        """Collects everything before it begins."""

        def map(self, start, items):  # type: ignore[no-untyped-def]
            work = start()
            return [work(item) for item in list(items)]

        def run_each(self, task, items, watch=None):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    ours, theirs = io.StringIO(), io.StringIO()
    report = annotate_stream(MATCHER, ["Ada", "Turin"], theirs, "jsonl", engine=Patient())  # type: ignore[arg-type]
    assert report == annotate_stream(MATCHER, ["Ada", "Turin"], ours, "jsonl")
    assert ours.getvalue() == theirs.getvalue()


def test_a_process_that_dies_is_noticed() -> None:
    parent = os.getpid()

    class Deadly(Matcher):
        def find(self, *sentences):  # type: ignore[no-untyped-def, override]
            if os.getpid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().find(*sentences)

    with pytest.raises(LacunerError, match=r"a worker process was killed at about texts 1 to 1 — .*--workers"):
        annotate_stream(Deadly(MATCHER.dictionary), ["Ada"], io.StringIO(), "jsonl", engine=LocalEngine(2))


def test_processes_that_are_not_copies_of_their_parent_know_the_names_too() -> None:
    engine = LocalEngine(2, start_method="spawn")
    assert annotate_stream(MATCHER, ["Ada"], io.StringIO(), "jsonl", engine=engine).labels == {"PER": 1}


def test_texts_are_worked_on_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuner.streams.annotate._CHUNK_CHARACTERS", 100)
    sizes = []

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            sizes.append(text.count("\n"))
            return super().write(text)

    long, words = "Ada " * 20, Sentence(("Ada",) * 20)
    annotate_stream(MATCHER, [long, long, long, words, words, "Ada"], Out(), "jsonl")
    assert sizes == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("raw.txt", "Ada sleeps.\n\nTurin\n"),
        ("raw", "Ada sleeps.\nTurin\n"),
        ("raw.conll", "Ada\tO\nsleeps\tO\n.\tO\n\nTurin\tO\n"),
        ("raw.jsonl", '{"text": "Ada sleeps."}\n{"tokens": ["Turin"]}\n'),
    ],
)
def test_texts_columns_and_json_are_read(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    out = io.StringIO()
    annotate_stream(MATCHER, read_texts(tmp_path / name).texts, out, "jsonl")
    (tmp_path / "out.jsonl").write_text(out.getvalue(), encoding="utf-8")
    found = list(stream_sentences(tmp_path / "out.jsonl"))
    assert [sentence.tokens for sentence in found] == [("Ada", "sleeps", "."), ("Turin",)]
    assert [sentence.entities for sentence in found] == [(Entity(0, 1, "PER"),), (Entity(0, 1, "LOC"),)]
