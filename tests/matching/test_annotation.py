import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from growth import assert_linear
from lacuner.corpus import Entity, Sentence, Span
from lacuner.matching import Dictionary, Entry, Matcher
from lacuner.matching.annotation import AnnotationReport, annotate_sentences, cut_into_words, read_texts

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
    assert report.most_frequent(MATCHER.dictionary.entries, 5) == [(Entry("Ada", "PER"), 1)]  # Turin was found, too
    assert AnnotationReport.from_dict(report.as_dict()) == report


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
    assert [entry.surface for entry, _ in report.most_frequent(names.entries, 5)] == [
        "Apple"
    ]  # the others became no entity


def test_names_with_several_labels_are_counted_apart() -> None:
    matcher = Matcher(Dictionary.of([("Ada", "PER"), ("Ada", "ORG")]), ambiguous="both-unknown")
    (sentence,), report = annotate_sentences(matcher, [Sentence(("Ada",))])
    assert (sentence.entities, report.unlabeled, report.matches) == ((), 1, 0)


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


LINES = [f"邓小平 3.5 says {number}" for number in range(500)]


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
        assert {sentence.tokens[3] for sentence in sentences} == {"3" if split == "auto" else "3.5"}


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


@pytest.mark.parametrize("complete", [False, True])
def test_rejected_spans_of_a_long_sentence_take_time_that_is_linear(complete: bool) -> None:
    def prepare(size: int) -> Callable[[], object]:
        words = ("Ada", "likes", "Turin", ".") * size
        rejected = tuple(Span(4 * n, 4 * n + 1) for n in range(size))
        sentence = Sentence(words, (), rejected, complete, annotated_labels=frozenset({"PER"}))
        return lambda: annotate_sentences(MATCHER, [sentence])

    assert_linear(prepare, 100)


PHRASES = Matcher(Dictionary.of([(name, "?") for name in ("Turin Opera", "Ada", "the moon", "likes Turin")]))


def test_names_without_a_label_make_their_words_unknown() -> None:
    (sentence,), report = annotate_sentences(MATCHER, [Sentence(("Bob", "saw", "the", "moon"))], PHRASES)
    assert sentence.unknown_tokens == {2, 3}
    assert not sentence.complete
    assert (report.phrases, report.matches) == (1, 0)


def test_the_longest_name_counts_with_or_without_a_label() -> None:
    (sentence,), report = annotate_sentences(MATCHER, [Sentence(("Ada", "saw", "Turin", "Opera"))], PHRASES)
    assert (sentence.entities, sentence.unknown_tokens) == ((Entity(0, 1, "PER"),), {2, 3})
    assert (report.labels, report.inside_phrases, report.phrases) == ({"PER": 1}, 1, 1)
    assert report.most_frequent(MATCHER.dictionary.entries, 5) == [(Entry("Ada", "PER"), 1)]


def test_what_the_input_says_outranks_names_without_a_label() -> None:
    words = ("Turin", "Opera", "the", "moon")
    before = [
        Sentence(words, (Entity(0, 1, "LOC", source="human"),), (Span(2, 4),)),
        Sentence(words, complete=True),
    ]
    (first, second), report = annotate_sentences(MATCHER, before, PHRASES)
    assert (first.entities, first.unknown_tokens) == ((Entity(0, 1, "LOC"),), {1})
    assert second == before[1]
    assert report.contradictions == 4


def test_a_name_with_a_label_outranks_one_without_that_only_overlaps_it() -> None:
    matcher = Matcher(Dictionary.of([("Turin Opera House", "ORG")]))
    (sentence,), report = annotate_sentences(matcher, [Sentence(("likes", "Turin", "Opera", "House"))], PHRASES)
    assert (sentence.entities, sentence.unknown_tokens) == ((Entity(1, 4, "ORG"),), {0})
    assert (report.phrases, report.inside_phrases) == (1, 0)
