"""brat standoff: what other programs read of what we write, and what is kept of what they write."""

import bratly
import pytest
from bioc import brat as bioc_brat

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import DataError

TEXT = "😀 Ada Lovelace left\nNew York."
SENTENCE = Sentence(
    ("😀", "Ada", "Lovelace", "left", "New", "York", "."),
    (Entity(1, 3, "PER", source="human"), Entity(4, 6, "LOC", None, 0.5)),
    complete=True,
    text=TEXT,
    extra={"id": "a-1"},
)
OTHERS = [
    "E1\tMove:T2 Who:T1",
    "A1\tPast E1",
    "R1\tTo Arg1:T1 Arg2:T3",
    "*\tEquiv T1 T3",
    "#1\tAnnotatorNotes T1\tsure?",
]


@pytest.fixture
def read(tmp_path):
    """The corpus of one document with this annotation."""

    def read_document(annotation, text=TEXT, **options):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / "a.txt").write_bytes(text.encode())
        (tmp_path / "in" / "a.ann").write_bytes(annotation.encode())
        return Corpus.read(tmp_path / "in", **options)

    return read_document


def test_other_parsers_read_what_we_write(tmp_path):
    Corpus([SENTENCE]).write(tmp_path / "out", "brat")
    lines = (tmp_path / "out" / "a-1.ann").read_text(encoding="utf-8").splitlines()
    entities = [bratly.EntityAnnotation.from_line(line) for line in lines if line.startswith("T")]
    assert [(e.label, e.get_start(), e.get_end(), e.content) for e in entities] == [
        ("PER", 2, 14, "Ada Lovelace"),
        ("LOC", 20, 28, "New York"),
    ]
    by_id = {entity.id: entity for entity in entities}
    notes = [bratly.NoteAnnotation.from_line(line, by_id) for line in lines if line.startswith("#")]
    assert {note.label for note in notes} == {"Lacuner"}
    with (tmp_path / "out" / "a-1.txt").open() as text, (tmp_path / "out" / "a-1.ann").open() as annotation:
        document = bioc_brat.load(text, annotation)
    assert {entity.total_span: entity.type for entity in document.entities} == {(2, 14): "PER", (20, 28): "LOC"}
    assert document.text == TEXT


def test_lines_of_other_kinds_are_said_not_to_be_read_and_are_written_again(read, tmp_path):
    entities = ["T1\tPER 2 14\tAda Lovelace", "T2\tMove 15 19\tleft", "T3\tLOC 20 28\tNew York"]
    corpus = read("\n".join(entities + OTHERS) + "\n", strict=True)
    assert len(corpus[0].entities) == 3
    assert corpus.report.unread["brat"] == 1
    assert "relations (R) are kept but not interpreted" in " ".join(corpus.report.remarks)
    corpus.write(tmp_path / "out", "brat")
    assert (tmp_path / "out" / "a.ann").read_text().splitlines() == entities + OTHERS


def test_lines_about_an_entity_that_is_gone_are_left_out_and_counted(read, tmp_path, caplog):
    entities = ["T1\tPER 2 14\tAda Lovelace", "T2\tMove 15 19\tleft", "T3\tLOC 20 28\tNew York"]
    (sentence,) = read("\n".join(entities + OTHERS) + "\n")
    kept = [entity for entity in sentence.entities if entity.label != "Move"]
    left = Sentence(sentence.tokens, tuple(kept), text=sentence.text, extra=sentence.extra)
    Corpus([left]).write(tmp_path / "out", "brat")
    assert (tmp_path / "out" / "a.ann").read_text().splitlines() == [entities[0], entities[2], *OTHERS[2:]]
    assert "the format cannot store relations, attributes and notes of what is not there" in caplog.text


def test_pieces_of_an_entity_are_covered_counted_and_written_again(read, tmp_path):
    line = "T1\tPER 2 5;15 19\tAda left"
    corpus = read(line + "\n")
    assert corpus[0].entities == (Entity(1, 4, "PER"),)
    assert corpus.report.counts == {"discontinuous entities": 1}
    corpus.write(tmp_path / "out", "brat")
    assert (tmp_path / "out" / "a.ann").read_text() == line + "\n"
    with pytest.raises(
        DataError, match="has 2 pieces; what is between them belongs to it now — annotate consecutive words"
    ):
        read(line, strict=True)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("counted", [1, 2])
def test_words_tell_how_line_ends_and_a_byte_order_mark_are_counted(read, mark, counted):
    start = 4 + counted + len(mark)
    corpus = read(f"T1\tPER {start} {start + 3}\tAda\r\n", f"{mark}One.\r\nAda left", strict=True)
    assert [corpus[0].text_of(e.start, e.end) for e in corpus[0].entities] == ["Ada"]


@pytest.mark.parametrize(
    ("annotation", "what"),
    [
        ("T1 PER 2 5 Ada", "a.ann:1: not a line of brat standoff: 'T1 PER 2 5 Ada' — write ID, tab, label, start"),
        ("T1\tPER 5 2\tAda", "a.ann:1: PER at 5–2 is no span"),
        ("T1\tPER 2 500\tAda", "a.ann:1: PER at 2–500 ends after the text's 29 characters"),
        ("#1\tLacuner T1\t{", "a.ann:1: the note does not hold a JSON object"),
    ],
)
def test_a_broken_line_is_refused_with_its_number(read, annotation, what):
    with pytest.raises(DataError) as raised:
        read(annotation)
    assert what in str(raised.value)


def test_one_wrong_text_is_counted_and_many_are_refused(read):
    right = "T1\tPER 2 14\tAda Lovelace\nT2\tLOC 20 28\tNew York\n"
    corpus = read(right + "T3\tX 15 19\twent\n")
    assert corpus.report.counts == {"entities with other words than the text": 1}
    assert len(corpus[0].entities) == 3
    with pytest.raises(
        DataError, match="'Ada' is annotated at 0–3, where the text has '😀 A', and so it is with 2 of 2"
    ):
        read("T1\tPER 0 3\tAda\nT2\tLOC 5 9\tYork\n")


def test_documents_in_folders_are_named_with_them_and_one_file_can_be_read(tmp_path):
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "a.txt").write_text("Ada")
        (folder / "a.ann").write_text("T1\tPER 0 3\tAda\n")
    assert [sentence.extra["id"] for sentence in Corpus.read(tmp_path)] == ["a", "sub/a"]
    assert [sentence.extra["id"] for sentence in Corpus.read(tmp_path / "sub" / "a.ann")] == ["a"]


@pytest.mark.parametrize("given", ["../up", "a/b", "", ".hidden", "x.txt", "a" * 300, 7, None, "A", "b\n"])
def test_an_id_that_is_no_file_name_stays_an_id(tmp_path, given):
    corpus = Corpus([Sentence(("x",), extra={"id": "a"}), Sentence(("x",), extra={"id": given})])
    corpus.write(tmp_path / "out", "brat")
    assert len({path.name.casefold() for path in (tmp_path / "out").iterdir()}) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    ids = [sentence.extra["id"] for sentence in Corpus.read(tmp_path / "out")]
    assert "a" in ids
    assert given in ids or given is None


def test_a_name_that_looks_like_a_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="brat has a folder with two files a document — give the name of a folder"):
        Corpus([SENTENCE]).write(tmp_path / "out.ann")
