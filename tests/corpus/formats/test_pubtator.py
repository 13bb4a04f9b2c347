"""PubTator: what other programs read of what we write, and what is kept of what they write."""

import logging

import pytest
from bioc import pubtator

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import DataError

CONTENT = (
    "12|t|Ada left 😀\n12|a|She saw New York.\n"
    "12\t0\t3\tAda\tPER\tD1\n12\t19\t27\tNew York\tLOC\tD2|D3\tNew|York\n12\tCID\tD1\tD2\n\n"
)


@pytest.fixture
def read(tmp_path):
    def read_content(content, **options):
        (tmp_path / "a.pubtator").write_text(content, encoding="utf-8", newline="")
        return Corpus.read(tmp_path / "a.pubtator", **options)

    return read_content


def test_a_file_comes_back_as_it_was(read, tmp_path, caplog):
    corpus = read(CONTENT, strict=True)
    assert corpus[0].text == "Ada left 😀\nShe saw New York."
    assert corpus[0].texts_of(corpus[0].entities) == ["Ada", "New York"]
    assert "relations are kept but not interpreted" in " ".join(corpus.report.remarks)
    corpus.write(tmp_path / "out.pubtator")
    assert (tmp_path / "out.pubtator").read_text(encoding="utf-8") == CONTENT
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_another_parser_reads_what_we_write(tmp_path):
    text = "Ada left 😀\nShe saw New York."
    sentence = Sentence(
        ("Ada", "left", "😀", "She", "saw", "New", "York", "."), (Entity(0, 1, "PER"), Entity(5, 7, "LOC")), text=text
    )
    Corpus([sentence, sentence]).write(tmp_path / "out.pubtator")
    with (tmp_path / "out.pubtator").open(encoding="utf-8") as file:
        documents = pubtator.load(file)
    assert [document.text for document in documents] == [text, text]
    assert all(text[int(a.start) : int(a.end)] == a.text for document in documents for a in document.annotations)


def test_a_title_alone_is_a_document_and_documents_need_no_blank_line(read):
    corpus = read("1|t|Ada\n2|t|Bo\n2|a|\n2\t0\t2\tBo\tPER\t-1\n", strict=True)
    assert [(sentence.text, len(sentence.entities)) for sentence in corpus] == [("Ada", 0), ("Bo", 1)]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("12\t0\t3\tAda\tPER\n", "1: no line ID|t|title comes before '12"),
        ("12|t|Ada\n13\t0\t3\tAda\tPER\tD1\n", "2: the line is about '13', but stands below '12' — move it"),
        ("12|t|Ada\n13|a|left\n", "2: this abstract does not follow its title"),
        ("12|t|Ada\nhello\n", "2: not a line of PubTator: 'hello' — write ID|t|title"),
        ("12|t|Ada\n12\t0\tx\tAda\tPER\tD1\n", "2: not an entity of PubTator"),
        ("12|t|Ada\n12\t2\t9\tAda\tPER\tD1\n", "2: PER at 2–9 ends after the text's 3 characters"),
    ],
)
def test_a_broken_line_is_refused_with_its_number(read, content, what):
    with pytest.raises(DataError) as raised:
        read(content)
    assert f"a.pubtator:{what}" in str(raised.value)


def test_line_breaks_that_it_cannot_hold_are_said(tmp_path, caplog):
    Corpus([Sentence(("a", "b", "c"), (Entity(2, 3, "X"),), text="a\nb\nc")]).write(tmp_path / "a.pubtator")
    assert "the format cannot store line breaks and tabs of the text (lost in 1 sentences)" in caplog.text
    (again,) = Corpus.read(tmp_path / "a.pubtator")
    assert (again.text, again.entities) == ("a\nb c", (Entity(2, 3, "X"),))
