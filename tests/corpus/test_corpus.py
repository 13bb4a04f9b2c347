import gzip
import io
import logging
import os
import stat
import sys
import threading
import tracemalloc
from dataclasses import FrozenInstanceError, replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence, SourceAnnotation, Span
from lacuner.corpus.corpus import (
    merge,
    open_for_writing,
    sentence_from_text,
    stream_sentences,
    write_sentences,
)
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.records import sentence_to_record
from lacuner.corpus.formats.registry import format_of
from lacuner.corpus.formats.tag_schemes import SCHEMES
from lacuner.errors import DataError

ADA = Sentence(("Ada", "left", "Turin"), (Entity(0, 1, "PER"), Entity(2, 3, "LOC")))
BOB = Sentence(("Bob", "stayed"), (Entity(0, 1, "PER"),))
FORMATS = ["conll", "jsonl"]


def test_a_corpus_is_a_sequence_of_sentences():
    corpus = Corpus([ADA, BOB])
    assert len(corpus) == 2
    assert list(corpus) == [ADA, BOB]
    assert corpus[0] == corpus[-2] == corpus[np.int64(0)] == ADA
    assert BOB in corpus
    assert list(corpus[1:]) == [BOB]
    assert isinstance(corpus[1:], Corpus)
    with pytest.raises(IndexError):
        corpus[2]


def test_a_corpus_cannot_be_changed():
    sentences = [ADA]
    corpus = Corpus(sentences)
    sentences.append(BOB)
    assert corpus.sentences == (ADA,)
    with pytest.raises(FrozenInstanceError):
        corpus.sentences = ()
    with pytest.raises(TypeError):
        corpus[0] = BOB


@pytest.mark.parametrize(
    ("given", "message"),
    [("dev.conll", "Corpus.read reads a file"), (["Ada left"], "^a corpus holds objects of Sentence, not 'Ada left'$")],
)
def test_a_corpus_holds_sentences_and_nothing_else(given, message):
    with pytest.raises(TypeError, match=message):
        Corpus(given)


def test_the_labels_are_those_annotated_and_those_looked_for():
    searched = Sentence(("x",), annotated_labels=frozenset({"ORG", "PER"}))
    assert Corpus([ADA, searched]).labels == ("LOC", "ORG", "PER")
    assert Corpus([]).labels == ()


def test_a_corpus_introduces_itself():
    assert repr(Corpus([ADA, BOB])) == "Corpus(2 sentences, 3 entities, labels LOC, PER)"
    assert repr(Corpus([])) == "Corpus(0 sentences, 0 entities, labels none)"


def test_corpora_add_up_with_their_reports():
    one, other = Corpus([ADA]), Corpus([BOB])
    one.report.note("repaired tags", "a", "", "a", 1)
    other.report.note("repaired tags", "b", "", "b", 1)
    for both in (one + other, merge([one, other])):
        assert list(both) == [ADA, BOB]
        assert both.report.counts == {"repaired tags": 2}
    assert list(merge([])) == []


def test_trusted_sentences_leave_nothing_open():
    corpus = Corpus([ADA])
    assert corpus.as_complete()[0].possible_labels(1, 2, {"PER"}) == {"O"}
    assert not corpus[0].complete


def test_several_corpora_with_different_labels_become_one():
    corpus = Corpus([ADA]).as_complete().with_annotated_labels(["PER"]) + Corpus([BOB])
    assert corpus[0].possible_labels(1, 2, corpus.labels) == {"O", "LOC"}
    assert corpus[1].possible_labels(1, 2, corpus.labels) == {"O", "LOC", "PER"}


def test_one_label_is_not_a_list_of_letters():
    with pytest.raises(TypeError, match="set of labels"):
        Corpus([ADA]).with_annotated_labels("PER")


def test_raw_texts_become_sentences_about_which_nothing_is_known():
    assert list(Corpus.from_texts(["Ada left.", ""])) == [
        Sentence(("Ada", "left", "."), text="Ada left."),
        Sentence((), text=""),
    ]
    assert sentence_from_text("東京 x", "characters").tokens == ("東", "京", "x")


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.conll", "conll"), ("a.bio", "conll"), ("a.iob2", "conll"), ("a.bmes", "conll"), ("a.tsv", "conll"),
        ("a.csv", "conll"), ("a.txt", "conll"), ("A.CONLL.GZ", "conll"), ("a.jsonl", "jsonl"), ("a.ndjson", "jsonl"),
        ("train.conll.jsonl", "jsonl"), ("folder.jsonl/a.conll", "conll"),
    ],
)  # fmt: skip
def test_the_ending_tells_the_format(name, format):
    assert format_of(name).name == format


def test_a_format_that_is_asked_for_outranks_the_ending():
    assert format_of("a.conll", "jsonl").name == "jsonl"
    assert format_of("-", "conll").name == "conll"


@pytest.mark.parametrize("name", ["data.html", "data", "data.gz"])
def test_an_unknown_ending_is_refused(name):
    with pytest.raises(DataError) as raised:
        Corpus.read(name)
    assert str(raised.value).startswith(
        f"{name}: the name does not tell the format — give the format (answers, argilla, bioc, "
    )
    assert ".jsonl" in str(raised.value)


def test_a_pipe_has_no_ending_that_could_be_changed():
    with pytest.raises(
        DataError, match=r"^-: what comes or goes through a pipe has no name .* — give the format"
    ) as raised:
        Corpus.read("-")
    assert ".jsonl" not in str(raised.value)


@pytest.mark.parametrize("format", FORMATS)
def test_a_missing_file_is_named(tmp_path, format):
    path = tmp_path / f"missing.{format}"
    with pytest.raises(DataError) as raised:
        Corpus.read(path)
    assert str(raised.value) == f"{path}: No such file or directory — check the path and the file"


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_file_is_an_empty_corpus(tmp_path, format):
    path = tmp_path / f"empty.{format}"
    path.write_bytes(b"")
    corpus = Corpus.read(path)
    assert len(corpus) == 0
    assert corpus.report.examples == {"empty files": f"{path}:1: the file contains no sentences"}
    with pytest.raises(DataError, match="the file contains no sentences — check that it is the right file"):
        Corpus.read(path, strict=True)


def test_what_was_repaired_is_logged_and_kept(tmp_path, caplog):
    path = tmp_path / "a.conll"
    path.write_text("Ada\tB-PER\n\nTurin\tI-LOC\nBob\tB-PER\n")
    with caplog.at_level(logging.WARNING, "lacuner"):
        corpus = Corpus.read(path)
    what = f"{path}:3: I-LOC continues nothing; an entity begins here now"
    assert caplog.messages == [f"repaired tags: 1; the first: {what}"]
    assert corpus.report.counts == {"repaired tags": 1}
    with pytest.raises(DataError) as raised:
        Corpus.read(path, strict=True)
    assert str(raised.value) == f"{what} — correct the tag (the file reads as BIO2)"


WHOLE_STORY = [
    Sentence(
        ("Ada", "left", "Turin", "for", "Oslo"),
        (Entity(0, 1, "PER", source="human"), Entity(2, 3, "geo-loc"), Entity(4, 5, "geo-loc", source="dictionary")),
        non_entities=(Span(1, 2, "reviewer"), Span(2, 5)),
        complete=True,
        annotated_labels=frozenset({"PER", "geo-loc"}),
    ),
    Sentence(("Bob", "?", "-"), complete=True, unknown_tokens=frozenset({1, 2})),
    Sentence(("nothing", "known")),
    Sentence(("rain",), unknown_tokens=frozenset({0})),
    Sentence(("rain", "."), annotated_labels=frozenset(), text="rain."),
    Sentence(("👩\u200d🚀", " ", "#", "O", "a,b"), (Entity(0, 1, "PER.NOM"),), complete=True),
]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["a.conll", "a.conll.gz", "a.jsonl", "a.jsonl.gz"])
def test_the_whole_story_survives_a_file(tmp_path, name, scheme):
    Corpus(WHOLE_STORY).write(tmp_path / name, scheme=scheme)
    again = Corpus.read(tmp_path / name)
    assert [sentence_to_record(sentence) for sentence in again] == [sentence_to_record(s) for s in WHOLE_STORY]
    assert not again.report.counts


def test_what_only_json_lines_can_say_survives_there(tmp_path):
    corpus = [
        Sentence(()),
        Sentence(("Turin\t",), (Entity(0, 1, "LOC", score=0.25), Entity(0, 1, "ORG", text="Turin"))),
        Sentence(("a", "b"), (Entity(0, 2, "x\n"), Entity(1, 2, "y"))),
    ]
    write_sentences(corpus, tmp_path / "a.jsonl")
    again = Corpus.read(tmp_path / "a.jsonl")
    assert [sentence_to_record(sentence) for sentence in again] == [sentence_to_record(s) for s in corpus]


SOURCES = st.sampled_from([None, "human", "dictionary", "reviewer"])
WORDS = st.one_of(
    st.sampled_from(
        ["Ada", "left", " ", ",", "#", "O", "-", "?", "B-PER", "東", "👩\u200d🚀", "\u2028", "\ufeffa", '"']
    ),
    st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=5),
)
ENTITY_LABELS = st.sampled_from(["PER", "geo-loc", "PER.NOM", "国名", "x y"])
KEYS = st.sampled_from(["id", "meta", "extra", "sources", "entity_fields", "spans", "answer", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "text"]), inner, max_size=2),
)
UNKNOWN_FIELDS = st.dictionaries(KEYS, VALUES, max_size=3).filter(
    lambda fields: fields.get("answer") not in ("reject", "ignore")
)
SCORES = st.none() | st.sampled_from([0.0, 0.25, 1.0])


@st.composite
def sentences(draw):
    """Any sentence that columns can hold: entities do not overlap."""
    tokens = draw(st.lists(WORDS, min_size=1, max_size=8))
    entities, position = [], 0
    while position < len(tokens) and draw(st.booleans()):
        start = draw(st.integers(position, len(tokens) - 1))
        position = draw(st.integers(start + 1, len(tokens)))
        entities.append(
            Entity(start, position, draw(ENTITY_LABELS), None, draw(SCORES), draw(SOURCES), draw(UNKNOWN_FIELDS))
        )
    spans = {(start, end) for start in range(len(tokens)) for end in range(start + 1, len(tokens) + 1)}
    free = sorted(spans - {(entity.start, entity.end) for entity in entities})
    rejected = draw(st.sets(st.sampled_from(free), max_size=3)) if free else ()
    before, separator = draw(st.sampled_from(["", "".join(tokens)])), draw(st.sampled_from(["", " ", "  "]))
    ends = accumulate((len(separator) + len(token) for token in tokens), initial=len(before) - len(separator))
    offsets = [(end - len(token), end) for token, end in zip(tokens, list(ends)[1:], strict=True)]
    has_text, has_offsets = draw(st.booleans()), draw(st.booleans())
    return Sentence(
        tuple(tokens),
        tuple(entities),
        tuple(Span(start, end, draw(SOURCES), draw(UNKNOWN_FIELDS)) for start, end in sorted(rejected)),
        complete=draw(st.booleans()),
        annotated_labels=draw(st.none() | st.frozensets(ENTITY_LABELS, max_size=2)),
        unknown_tokens=draw(st.frozensets(st.integers(0, len(tokens) - 1), max_size=3)),
        text=before + separator.join(tokens) if has_text else None,
        token_offsets=offsets if has_text and has_offsets else None,
        extra=draw(UNKNOWN_FIELDS),
    )


@pytest.mark.parametrize("format", FORMATS)
@given(corpus=st.lists(sentences(), max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_sentence_comes_back_as_it_was_written(tmp_path_factory, format, corpus):
    path = tmp_path_factory.getbasetemp() / f"any.{format}"
    write_sentences(corpus, path)
    again = list(stream_sentences(path))
    assert [sentence_to_record(sentence) for sentence in again] == [sentence_to_record(s) for s in corpus]


def test_a_file_read_in_one_scheme_can_be_written_in_another(tmp_path):
    (tmp_path / "a.bmes").write_text("New B-LOC\nSouth M-LOC\nWales E-LOC\nwon S-X\n")
    Corpus.read(tmp_path / "a.bmes").write(tmp_path / "a.bio")
    assert (tmp_path / "a.bio").read_text() == "New\tB-LOC\nSouth\tI-LOC\nWales\tI-LOC\nwon\tB-X\n\n"


@pytest.mark.parametrize("format", FORMATS)
def test_a_failure_half_way_leaves_the_old_file_and_no_other(tmp_path, format):
    def failing():
        yield from [ADA] * 10_000
        raise RuntimeError("the power is gone")

    path = tmp_path / f"a.{format}"
    path.write_text("the old file")
    with pytest.raises(RuntimeError, match="the power is gone"):
        write_sentences(failing(), path)
    assert path.read_text() == "the old file"
    assert list(tmp_path.iterdir()) == [path]


def test_a_sentence_that_columns_cannot_hold_leaves_no_file(tmp_path):
    with pytest.raises(DataError, match=r"a\.conll: sentence 2 has no words"):
        write_sentences([ADA, Sentence(())], tmp_path / "a.conll")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_not_there_until_it_is_whole(tmp_path):
    path = tmp_path / "a.jsonl"
    with open_for_writing(path) as file:
        file.write("half")
        file.flush()
        assert not path.exists()
    assert path.read_text() == "half"


def test_a_new_file_may_be_read_by_whom_the_user_allows(tmp_path):
    mask = os.umask(0o027)
    try:
        Corpus([ADA]).write(tmp_path / "a.conll")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.conll").stat().st_mode) == 0o640


def test_line_ends_are_the_same_on_every_platform(tmp_path):
    Corpus([BOB]).write(tmp_path / "a.conll")
    assert (tmp_path / "a.conll").read_bytes() == b"Bob\tB-PER\nstayed\tO\n\n"


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "missing" / "a.conll"
    with pytest.raises(DataError) as raised:
        Corpus([ADA]).write(path)
    assert str(raised.value) == f"{path.parent}: the folder does not exist — create it first"


def test_a_folder_cannot_be_written_over(tmp_path):
    path = tmp_path / "a.conll"
    path.mkdir()
    with pytest.raises(DataError) as raised:
        Corpus([ADA]).write(path)
    assert str(raised.value) == f"{path}: it is a folder — give the name of a file"


def test_compressed_files_are_the_same_whenever_they_are_written(tmp_path):
    for name in ("a.conll.gz", "b.conll.gz"):
        Corpus([BOB]).write(tmp_path / name)
    assert (tmp_path / "a.conll.gz").read_bytes() == (tmp_path / "b.conll.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.conll.gz").read_bytes()) == b"Bob\tB-PER\nstayed\tO\n\n"


def test_a_dash_is_standard_output(capsys):
    Corpus([BOB]).write("-", "conll")
    assert capsys.readouterr().out == "Bob\tB-PER\nstayed\tO\n\n"


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Bob\tB-PER\nstayed\tO\n")))
    assert list(Corpus.read("-", "conll")) == [BOB]


def test_sentences_can_be_written_into_a_pipe(tmp_path):
    path = tmp_path / "pipe.conll"
    os.mkfifo(path)
    read = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()), daemon=True)
    reader.start()
    Corpus([BOB]).write(path)
    reader.join(10)
    assert read == [b"Bob\tB-PER\nstayed\tO\n\n"]
    assert stat.S_ISFIFO(path.stat().st_mode)


WORD = "w" * 10_000
SENTENCE = {
    "conll": "".join(f"{WORD}\t{tag}\n" for tag in ["B-PER", "I-PER", *["O"] * 8]) + "\n",
    "jsonl": '{"tokens": [' + ", ".join([f'"{WORD}"'] * 10) + '], "entities": [[0, 2, "PER"]]}\n',
}


@pytest.mark.parametrize(
    ("format", "size"), [("conll", 1_000_000_000), ("jsonl", 250_000_000)], ids=["1 GB conll", "250 MB jsonl"]
)
def test_a_large_file_is_read_in_constant_memory(tmp_path, format, size):
    path = tmp_path / f"pipe.{format}"
    os.mkfifo(path)
    chunk = SENTENCE[format].encode() * 10
    chunks = size // len(chunk) + 1

    def write():
        with path.open("wb", buffering=0) as file:
            for _ in range(chunks):
                file.write(chunk)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    tracemalloc.start()
    try:
        count = entities = 0
        for sentence in stream_sentences(path, report=ReadingReport(strict=True)):
            count, entities = count + 1, entities + len(sentence.entities)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    writer.join(10)
    assert count == entities == 10 * chunks
    assert peak < 50_000_000


# sentences, entities, tokens
COUNTS = {
    "ec/train.conll": (3657, 4325, 30611),
    "ec/train.human.conll": (1097, 1264, 8635),
    "ec/train.distant.conll": (2560, 3061, 21976),
    "ec/dev.conll": (400, 475, 3104),
    "ec/test.conll": (798, 918, 6107),
    "news/train.conll": (6722, 6221, 326522),
    "news/train.gold.conll": (6722, 7728, 326522),
    "news/train.human.conll": (3000, 1746, 139828),
    "news/train.distant.conll": (3722, 4475, 186694),
    "news/dev.conll": (3328, 1157, 149005),
    "news/test.conll": (3186, 1004, 132122),
    "conll03/train.conll": (14041, 17781, 203621),
    "conll03/train.gold.conll": (14041, 23499, 203621),
    "conll03/dev.conll": (3250, 5942, 51362),
    "conll03/test.conll": (3453, 5648, 46435),
    "wikigold/train.conll": (1142, 2282, 25819),
    "wikigold/train.gold.conll": (1142, 2295, 25819),
    "wikigold/dev.conll": (280, 650, 6650),
    "wikigold/dev.topneg.conll": (280, 648, 6650),
    "wikigold/test.conll": (274, 613, 6538),
    "wikigold/test.topneg.conll": (274, 607, 6538),
    "wnut16/train.conll": (2393, 994, 44076),
    "wnut16/train.bond.conll": (2393, 1002, 44076),
    "wnut16/train.gold.conll": (2393, 1479, 44076),
    "wnut16/dev.conll": (1000, 661, 16261),
    "wnut16/test.conll": (3849, 3473, 61896),
    "bc5cdr/train.conll": (4560, 6452, 118170),
    "bc5cdr/train.confmpu.conll": (4560, 7024, 118170),
    "bc5cdr/train.gold.conll": (4560, 9385, 118170),
    "bc5cdr/dev.conll": (4579, 9591, 117453),
    "bc5cdr/test.conll": (4797, 9809, 124750),
    "weibo/train.gold.conll": (1350, 1895, 73778),
    "weibo/dev.conll": (270, 389, 14509),
    "weibo/test.conll": (270, 418, 14842),
    "resume/train.gold.conll": (3821, 13440, 124099),
    "resume/dev.conll": (463, 1497, 13890),
    "resume/test.conll": (477, 1630, 15100),
}


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_real_corpora_are_read_to_the_last_word(data_folder, name):
    sentences = entities = tokens = 0
    for sentence in stream_sentences(data_folder / name, report=ReadingReport(strict=True)):
        sentences, entities, tokens = sentences + 1, entities + len(sentence.entities), tokens + len(sentence)
    assert (sentences, entities, tokens) == COUNTS[name]


@pytest.mark.parametrize("name", ["a.jsonl", "a.conll"])
def test_half_of_a_surrogate_pair_is_not_written(tmp_path, name):
    with pytest.raises(DataError, match=f"{name}: there is half of a surrogate pair — write whole characters"):
        Corpus([Sentence(("\ud800",))]).write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["jsonl", "prodigy", "label_studio", "argilla", "conll"])
def test_a_score_that_is_no_number_is_not_written(tmp_path, format):
    broken = Sentence(("Ada",), (Entity(0, 1, "PER", score=float("nan")),))
    with pytest.raises(DataError, match="a record holds what JSON cannot"):
        Corpus([broken]).write(tmp_path / "out", format)
    assert list(tmp_path.iterdir()) == []


def test_labels_can_get_other_names_and_those_with_the_same_name_become_one() -> None:
    both = Sentence(("Ada", "in", "Paris"), (Entity(0, 1, "PER"), Entity(2, 3, "PER"), Entity(2, 3, "LOC")))
    persons = replace(both, entities=both.entities[:1], annotated_labels=frozenset({"PER"}))
    everything = replace(persons, annotated_labels=frozenset({"PER", "LOC"}))
    renamed = Corpus((both, persons, everything)).rename_labels({"PER": "entity", "LOC": "entity"})
    assert [(e.start, e.end, e.label) for e in renamed[0].entities] == [(0, 1, "entity"), (2, 3, "entity")]
    assert [sentence.annotated_labels for sentence in renamed] == [None, frozenset(), frozenset({"entity"})]
    assert [(e.label, e.start) for e in renamed[1].entities] == [("entity", 0)]
    assert Corpus((persons,)).rename_labels({"LOC": "place"})[0] == persons


def test_labels_that_only_one_source_has_are_labels_and_are_renamed():
    said = SourceAnnotation("a", (Entity(0, 1, "PER"), Entity(1, 2, "LOC")), annotated_labels={"PER", "LOC"})
    corpus = Corpus([Sentence(("a", "b"), (Entity(0, 1, "PER"),), by_source=(said,))])
    assert corpus.labels == ("LOC", "PER")
    (renamed,) = corpus.rename_labels({"LOC": "place"})[0].by_source
    assert renamed == SourceAnnotation("a", (Entity(0, 1, "PER"), Entity(1, 2, "place")), (), False, {"PER", "place"})
