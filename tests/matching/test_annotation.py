import io
import json
import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lacuner import Corpus
from lacuner.corpus import Entity, Sentence, Span
from lacuner.corpus.corpus import stream_sentences
from lacuner.errors import DataError, LacunerError
from lacuner.matching import Dictionary, Entry, Matcher
from lacuner.matching.annotation import annotate_sentences, annotate_stream, cut_into_words, read_texts
from lacuner.sample import read_names, read_sample

MATCHER = Matcher(Dictionary.of([("Ada", "PER"), ("Turin", "LOC"), ("Nobody", "PER")]))


def test_names_become_entities_and_everything_else_stays_unknown() -> None:
    (sentence,), report = annotate_sentences(MATCHER, [Sentence(("Ada", "likes", "Turin"))])
    assert sentence.entities == (Entity(0, 1, "PER"), Entity(2, 3, "LOC"))
    assert {entity.source for entity in sentence.entities} == {"dictionary"}
    assert not sentence.complete
    assert not sentence.non_entities
    assert sentence.possible_labels(1, 2, ["PER", "LOC"]) == {"PER", "LOC", "O"}
    assert (report.sentences, report.words, report.matches, report.labels) == (1, 3, 2, {"PER": 1, "LOC": 1})


def test_what_is_annotated_already_is_kept_and_outranks_names() -> None:
    before = Sentence(("Ada", "Turin", "Ada"), (Entity(0, 2, "ORG", source="human"),))
    (sentence,), report = annotate_sentences(MATCHER, [before])
    assert sentence.entities == (Entity(0, 2, "ORG"), Entity(2, 3, "PER"))
    assert [entity.source for entity in sentence.entities] == ["human", "dictionary"]
    assert (report.kept, report.matches) == (1, 1)


def test_what_the_input_knows_not_to_be_an_entity_is_none() -> None:
    rejected = Sentence(("Ada", "likes", "Turin"), non_entities=(Span(0, 1),))
    (sentence,), report = annotate_sentences(MATCHER, [rejected])
    assert sentence == replace(rejected, entities=(Entity(2, 3, "LOC"),))
    assert (report.matches, report.contradictions) == (1, 1)


def test_in_complete_sentences_only_what_nobody_looked_for_is_found() -> None:
    words = ("Ada", "likes", "Turin")
    complete = Sentence(words, complete=True)
    persons = Sentence(words, complete=True, annotated_labels=frozenset({"PER"}))
    partly = Sentence(words, complete=True, unknown_tokens=frozenset({0}))
    known = Sentence(words, (Entity(0, 1, "ORG"),), complete=True)
    found, report = annotate_sentences(MATCHER, [complete, persons, partly, known])
    assert [sentence.entities for sentence in found] == [
        (),
        (Entity(2, 3, "LOC"),),
        (Entity(0, 1, "PER"),),
        (Entity(0, 1, "ORG"),),
    ]
    assert (report.matches, report.contradictions) == (2, 5)


def test_the_report_says_what_was_found_how_often_and_what_never() -> None:
    _, report = annotate_sentences(MATCHER, [Sentence(("Ada", "Ada", "Turin"))] * 2)
    entries = MATCHER.dictionary.entries
    assert report.most_frequent(entries, 5) == [(Entry("Ada", "PER"), 4), (Entry("Turin", "LOC"), 2)]
    assert list(report.never_found(MATCHER)) == [Entry("Nobody", "PER")]


def test_a_name_that_stands_in_the_text_was_found() -> None:
    names = Dictionary.of([("Apple", "ORG"), ("APPLE", "ORG"), ("Paris", "LOC"), ("Paris", "PER"), ("Rome", "LOC")])
    sentences = [Sentence(("apple", "Paris")), Sentence(("Rome",), complete=True)]
    for ambiguous in ("drop", "first", "both-unknown"):
        matcher = Matcher(names, ignore_case=True, ambiguous=ambiguous)  # type: ignore[arg-type]
        _, report = annotate_sentences(matcher, sentences)
        assert list(report.never_found(matcher)) == []
    assert [entry.surface for entry, _ in report.most_frequent(names.entries, 5)] == ["Apple", "Paris", "Rome"]


def test_names_with_several_labels_are_counted_apart() -> None:
    matcher = Matcher(Dictionary.of([("Ada", "PER"), ("Ada", "ORG")]), ambiguous="both-unknown")
    (sentence,), report = annotate_sentences(matcher, [Sentence(("Ada",))])
    assert (sentence.entities, report.unlabelled, report.matches) == ((), 1, 0)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("format", ["jsonl", "conll"])
def test_a_stream_is_annotated_in_order_by_any_number_of_processes(
    tmp_path: Path, workers: int, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lacuner.matching.annotation._CHUNK", 7)
    matcher = Matcher(Dictionary.of(read_names()))
    sentences = [Sentence(sentence.tokens) for sentence in read_sample("train")]
    text = io.StringIO()
    report = annotate_stream(matcher, iter(sentences), text, format, workers=workers)  # type: ignore[arg-type]
    path = tmp_path / f"out.{format}"
    path.write_text(text.getvalue(), encoding="utf-8")
    expected, counted = annotate_sentences(matcher, sentences)
    assert list(Corpus.read(path)) == expected
    assert report == counted
    assert report.matches > 100


def test_the_stream_is_not_read_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuner.matching.annotation._CHUNK", 1)
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
    annotate_stream(MATCHER, texts(), out, "jsonl", workers=2)
    assert (read, out.written) == (200, 200)
    assert out.ahead <= 8


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_written_is_said_with_file_and_number(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuner.matching.annotation._CHUNK", 2)
    texts = [*["Ada went"] * 4, Sentence(()), *["Ada"] * 5]
    with pytest.raises(DataError, match=r"^out\.conll: sentence 5 has no words"):
        annotate_stream(MATCHER, texts, io.StringIO(), "conll", workers=workers, name="out.conll")


def test_a_process_that_dies_is_noticed() -> None:
    parent = os.getpid()

    class Deadly(Matcher):
        def find(self, *sentences):  # type: ignore[no-untyped-def, override]
            if os.getpid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().find(*sentences)

    with pytest.raises(LacunerError, match=r"a process that searched for names was killed — .*--workers"):
        annotate_stream(Deadly(MATCHER.dictionary), ["Ada"], io.StringIO(), "jsonl", workers=2)


def test_processes_that_are_not_copies_of_their_parent_know_the_names_too(monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("spawn")
    monkeypatch.setattr("lacuner.matching.annotation._context", lambda: context)
    out = io.StringIO()
    assert annotate_stream(MATCHER, ["Ada"], out, "jsonl", workers=2).labels == {"PER": 1}


def test_texts_are_worked_on_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuner.matching.annotation._CHUNK_CHARACTERS", 100)
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


@pytest.mark.parametrize(
    ("name", "content", "split", "expected"),
    [
        ("a.txt", "Ada sleeps.\n", "auto", ("words", False, False)),
        ("a.txt", "邓小平在上海。\n", "auto", ("characters", True, False)),
        ("a.txt", "邓小平在上海。\n", "words", ("words", False, False)),
        ("a.txt", "Ada sleeps.\n", "characters", ("characters", True, False)),
        ("a.txt", "Ada sleeps.\n", "whitespace", ("whitespace", False, False)),
        ("a.txt", "邓 小 平 在 上 海\n", "whitespace", ("whitespace", True, False)),
        ("a.conll", "邓\n小\n平\n", "auto", ("words", True, True)),
        ("a.conll", "Ada\nsleeps\n", "auto", ("words", False, True)),
        ("a.conll", "Ada\nsleeps\n", "characters", ("characters", False, True)),
        ("a.jsonl", '{"text": "邓小平在上海"}\n', "auto", ("characters", True, False)),
        ("a.jsonl", '{"text": "邓小平在上海", "tokens": ["邓小平", "在", "上海"]}\n', "auto", ("words", False, True)),
        ("a.jsonl", '{"text": "Ada sleeps"}\n{"tokens": ["Ada"]}\n', "characters", ("characters", True, True)),
        ("a.txt", "", "auto", ("words", False, False)),
    ],
)
def test_the_beginning_of_a_file_tells_how_to_cut_it(
    tmp_path: Path, name: str, content: str, split: str, expected: tuple[str, bool, bool]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    texts = read_texts(tmp_path / name, None, split)  # type: ignore[arg-type]
    assert (texts.split, texts.characters, texts.cut_already) == expected


LINES = [f"邓小平 says {number}" for number in range(500)]


@pytest.mark.parametrize(
    ("format", "lines"),
    [
        ("text", LINES),
        ("jsonl", [json.dumps({"text": line}) for line in LINES]),
        ("conll", [f"{line.split()[-1]}\tO\n" for line in LINES]),
    ],
)
@pytest.mark.parametrize("split", ["auto", "words"])
def test_what_can_be_read_only_once_is_read_from_its_beginning(
    tmp_path: Path, format: str, lines: list[str], split: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = "\n".join(lines) + "\n"
    writer = threading.Thread(target=pipe.write_text, args=(content, "utf-8"), daemon=True)
    writer.start()
    texts = read_texts(pipe, format, split)  # type: ignore[arg-type]
    sentences = [cut_into_words(text, texts.split) for text in texts.texts]
    assert [("".join(sentence.tokens)).rpartition("s")[2] for sentence in sentences] == [str(n) for n in range(500)]
    if format != "conll":
        assert {sentence.tokens[3] for sentence in sentences} == {"s" if split == "auto" else "says"}


def test_json_that_can_be_read_only_once_keeps_what_is_annotated(tmp_path: Path) -> None:
    records = [
        {"text": "邓小平 IT 人", "entities": [[4, 6, "ORG"]], "non_entities": [[0, 3]]},
        {"tokens": ["上海", "IT"], "entities": [[0, 1, "LOC"]]},
    ]
    content = "".join(json.dumps(record) + "\n" for record in records)
    pipe, file = tmp_path / "pipe.jsonl", tmp_path / "file.jsonl"
    file.write_text(content, encoding="utf-8")
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=(content,), daemon=True).start()
    assert list(read_texts(pipe).texts) == list(read_texts(file).texts)
