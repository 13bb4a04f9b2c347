"""Which columns of a file hold the words and the tags; whatever could be read in two ways is said, or refused."""

import pytest

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.corpus import stream_sentences
from lacuner.corpus.files import ReadingReport
from lacuner.corpus.formats.conll import read_conll
from lacuner.corpus.formats.format import ReadOptions
from lacuner.errors import DataError

ADA = Sentence(("Ada", "left"), (Entity(0, 1, "PER"),))
BOB = Sentence(("Bob",), (Entity(0, 1, "PER"),))
GERM_EVAL = "#\thttp://x [2009]\n1\tAda\tB-PER\n2\tleft\tO\n\n#\thttp://y\n1\tBob\tB-PER\n"
FROM_ZERO = "# a\n0 Ada B-PER\n1 left O\n\n0 Bob B-PER\n"
CONLL_U = (
    "# sent_id = 1\n# text = Ada left\n"
    "1\tAda\tAda\tPROPN\tNNP\t_\t2\tnsubj\t_\tB-PER\n"
    "2-3\tleft\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tleft\tleave\tVERB\tVBD\t_\t0\troot\t_\tO\n\n"
    "1\tBob\tBob\tPROPN\tNNP\t_\t2\tnsubj\t_\tB-PER\n"
)


@pytest.fixture
def read(tmp_path):
    """The sentences of a file with this content; ``read.report`` says what was repaired, ``read.path`` where it was."""

    def read_content(content, strict=False, tagged=True, **options):
        read_content.report = ReadingReport(strict=strict)
        path.write_text(content, encoding="utf-8", newline="")
        return list(read_conll(path, read_content.report, ReadOptions(tagged=tagged), **options))

    path = read_content.path = tmp_path / "data.conll"
    return read_content


def error_of(read, content, **options):
    """The message without the folder."""
    with pytest.raises(DataError) as raised:
        read(content, **options)
    return str(raised.value).removeprefix(f"{read.path.parent}/")


@pytest.mark.parametrize("content", [GERM_EVAL, CONLL_U, FROM_ZERO], ids=["GermEval", "CoNLL-U", "from 0"])
def test_numbers_of_words_are_no_words(read, content):
    assert read(content, strict=True) == [ADA, BOB]
    assert f"{read.path}: the first column counts words; the words are read from the second" in read.report.remarks
    assert f"{read.path}: comments before sentences are not read" in read.report.remarks


def test_how_a_file_was_read_is_told(read, caplog):
    with caplog.at_level("INFO", "lacuner"):
        read(GERM_EVAL)
        read.report.log()
    assert [record.getMessage().removeprefix(f"{read.path}: ") for record in caplog.records] == [
        "the first column counts words; the words are read from the second",
        "comments before sentences are not read",
    ]


def test_a_tag_of_several_words_at_once_is_said_to_be_left_out(read):
    read(CONLL_U.replace("2-3\tleft\t_\t_\t_\t_\t_\t_\t_\t_", "2-3\tleft\t_\t_\t_\t_\t_\t_\t_\tB-PER"))
    assert read.report.counts == {"lines that are no words": 1}


def test_words_that_are_numbers_stay_words(read):
    assert read("1\tO\n2\tB-X\n\n1\tO\n2\tO\n")[0].tokens == ("1", "2")
    assert read("1 CD O\n2 CD O\nmen NNS O\n\n1 CD O\n")[0].tokens == ("1", "2", "men")
    assert read("10 CD O\n2 CD O\n")[0].tokens == ("10", "2")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (
            "1\tAda\tB-PER\n\n1\tBob\tO\n",
            "data.conll: 1 is in the first column of every line: a word, or the number of one?"
            " — write two columns, the word and its tag",
        ),
        (
            "1\tAda\tB-PER\n2\tleft\tO\n\n3\tBob\tO\n",
            "data.conll: the first column counts words through the whole file: are they words, or numbers of words?"
            " — write two columns, the word and its tag",
        ),
        (
            "1\tAda\n2\tleft\n",
            "data.conll: there are numbers and words, but no tags — remove the numbers (cut -f 2)",
        ),
    ],
)
def test_numbers_that_may_be_words_or_not_are_refused(read, content, what):
    assert error_of(read, content) == what
    assert error_of(read, content, tagged=False) == what


def test_a_sentence_that_is_counted_wrongly_is_refused_where_it_is(read, monkeypatch):
    monkeypatch.setattr("lacuner.corpus.formats.conll.LOOK_AHEAD", 1)
    assert error_of(read, "1\tAda\tO\n2\tleft\tO\n\n1\tBob\tO\n3\tsat\tO\n") == (
        "data.conll:5: the first column counts words, but here it is '3' instead of 2"
        " — correct the number, or remove the column everywhere (cut -f 2-)"
    )


def test_a_column_is_asked_for_by_its_number_in_the_file(read):
    content = "1\tAda\tB-PER\tO\n2\tleft\tO\tO\n\n1\tBob\tB-PER\tO\n"
    assert read(content, column=2) == [ADA, BOB]
    assert [sentence.entities for sentence in read(content, column=3)] == [(), ()]


def test_words_without_tags_may_be_numbered(read):
    content = CONLL_U.replace("B-PER", "_").replace("\tO\n", "\t_\n")
    assert read(content, tagged=False) == [Sentence(("Ada", "left")), Sentence(("Bob",))]
    assert error_of(read, content) == (
        "data.conll:3: the tag '_' says neither O (no entity) nor ? (unknown) — correct the tag (the file reads as IO)"
    )


@pytest.mark.parametrize("separator", ["\t", " ", ","])
def test_a_line_with_more_columns_is_refused(read, separator):
    rows = [("Ada", "NNP", "B-PER"), ("left", "VBD", "O"), ("New", "York", "NNP", "B-LOC"), ("x", "X", "O")]
    content = "".join(separator.join(row) + "\n" for row in rows)
    shown = separator.join(rows[2])
    assert error_of(read, content) == (
        f"data.conll:3: 4 columns instead of 3: {shown!r} — give every line the same columns"
    )


def test_a_line_with_fewer_columns_is_counted_if_its_last_one_is_a_tag(read):
    content = "Ada\tNNP\tB-PER\nleft\tO\n\nBob\tNNP\tB-PER\n"
    assert read(content) == [ADA, BOB]
    assert read.report.counts == {"lines with fewer columns": 1}
    assert error_of(read, content, strict=True).startswith("data.conll:2: 2 columns instead of 3")


def test_a_line_that_lacks_its_tag_is_refused(read):
    content = "Ada\tNNP\tPER\nleft\tVBD\tO\nBob\tNNP\n"  # in IO, NNP would be a label
    assert error_of(read, content) == (
        "data.conll:3: 2 columns instead of 3: 'Bob\\tNNP' — give every line the same columns"
    )


def test_tags_in_another_column_are_said_not_to_be_read(read):
    content = "1\tAda\tB-PER\tO\n2\tleft\tO\tO\n"  # GermEval: entities, and those inside them
    assert read(content) == [Sentence(("Ada", "left"))]
    assert read.report.examples == {
        "columns with tags that are not read": (
            f"{read.path}:1: column 3 holds tags, too (PER, …); only the last column is read"
        )
    }
    assert error_of(read, content, strict=True).endswith("write two columns, the word and its tag")


def test_chunks_are_no_entities(read):
    read("Ada NNP I-NP B-PER\nleft VBD I-VP O\n", strict=True)


def test_a_last_column_without_tags_is_refused_if_another_has_them(read):
    content = "1\tAda\tB-PER\t-\tzoe\n2\tleft\tO\t-\tzoe\n"
    assert error_of(read, content) == (
        "data.conll: there are tags in column 3, but not in the last one, where they belong"
        " — write two columns, the word and its tag"
    )


def test_a_field_that_the_csv_module_refuses_is_refused_in_one_sentence(read):
    long = "a" * 140_000
    assert error_of(read, f'Ada,B-PER\n"{long}",O\n') == (
        "data.conll:2: not a line of a CSV file (field larger than field limit (131072)) — separate columns with tabs"
    )


@pytest.mark.parametrize(
    "content", ['"Ada"\r,B-PER\n"left",O\n', '"Ada\rx",B-PER\n', "Ada\tB-PER\rBob\tB-PER\nleft\tO\n"]
)
def test_a_carriage_return_inside_a_line_is_refused(read, content):
    assert error_of(read, content) == (
        "data.conll:1: there is a carriage return inside the line — end lines with line feeds (tr '\\r' '\\n')"
    )


def test_old_mac_line_ends_are_refused_by_every_reader(tmp_path):
    for name, content in {
        "a.conll": "Ada\tB-PER\rleft\tO\r\rBob\tB-PER\r",
        "a.jsonl": '{"tokens": ["Ada"]}\r{"tokens": ["Bob"]}\r',
    }.items():
        (tmp_path / name).write_bytes(content.encode())
        with pytest.raises(DataError, match="lines end in carriage returns, as on old Macs"):
            Corpus.read(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "Ada moved to Turin.\nBob left Paris yesterday.\n",
            r"this looks like raw text.* — read it with --input-format text",
        ),
        (
            "Ada moved to Turin\nBob left\n\nEve saw Bob leave\n",
            r"this looks like raw text.* — read it with --input-format",
        ),
        (
            "id,body\n1,Ada moved to Turin\n",
            r"no column is called text: 'id,body' — let the first line name its columns",
        ),
        ("id;body\n1;Ada left\n2;Bob left\n3;Eve left\n", r"no column is called text: 'id;body'"),
    ],
)
def test_texts_are_not_read_as_words_where_tags_are_not_needed(tmp_path, content, message):
    path = tmp_path / "data.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        list(stream_sentences(path, tagged=False))


@pytest.mark.parametrize(
    "content",
    [
        "Ada\nmoved\n.\n",
        "Ada NNP\nmoved VBD\n. .\n",
        "Ada NNP I-NP\nmoved VBD I-VP\n. . O\n",
        "New York\tNNP\nis\tVBZ\ncold\tJJ\n",
    ],
)
def test_words_with_and_without_other_columns_stay_words(tmp_path, content):
    path = tmp_path / "data.conll"
    path.write_text(content)
    (sentence,) = stream_sentences(path, tagged=False)
    assert len(sentence.tokens) == 3


def test_a_table_with_texts_is_no_list_of_words_with_labels(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("id,body\n1,Ada moved to Turin\n")
    with pytest.raises(DataError, match="this looks like a table with texts, but no column is called text"):
        Corpus.read(path)
