"""Tables with a header: words and tags with the number of a sentence, or texts and spans; a file without header stays one."""

import csv
import json

import pytest

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.corpus.formats.table import find_header
from lacuner.errors import DataError

KAGGLE = 'Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-per\n,left,VBD,O\nSentence: 2,"""",``,O\n,Oslo,NNP,B-geo\n'


@pytest.fixture
def read(tmp_path):
    def read_content(content, **options):
        (tmp_path / "a.csv").write_text(content, encoding="utf-8", newline="")
        return Corpus.read(tmp_path / "a.csv", **options)

    return read_content


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
def test_a_table_of_words_is_read_with_any_separator(read, separator, end):
    corpus = read(KAGGLE.replace(",", separator).replace("\n", end), strict=True)
    assert [(s.tokens, s.entities, s.extra["id"]) for s in corpus] == [
        (("Ada", "left"), (Entity(0, 1, "per"),), "Sentence: 1"),
        (('"', "Oslo"), (Entity(1, 2, "geo"),), "Sentence: 2"),
    ]
    assert "columns that are not read: POS" in " ".join(corpus.report.remarks)


@pytest.mark.parametrize(
    "line", ["Ada,NNP,B-PER", "word\tO", "Ada\tPER", "text,NN,O", "word", "# text, label", '{"text": 1, "label": 2}']
)
def test_a_line_that_is_no_header_is_none(line):
    assert find_header(line) is None


def test_a_quotation_mark_between_tabs_is_a_word(read):
    corpus = read('id\tword\ttag\n1\t"\tO\n2\tAda\tB-PER\n3\t"\tO\n', strict=True)
    assert corpus[0].tokens == ('"', "Ada", '"')


def test_a_sentence_that_goes_on_later_is_counted(read):
    corpus = read("sentence_id,word,tag\n1,Ada,B-PER\n2,Bo,B-PER\n1,left,O\n")
    assert [sentence.tokens for sentence in corpus] == [("Ada",), ("Bo",), ("left",)]
    assert corpus.report.counts == {"sentences that go on later": 1}


def test_sentences_that_are_numbered_anew_in_every_document_stay_apart(read):
    corpus = read("doc_id,sentence_id,word,tag\na,1,Ada,B-PER\nb,1,Bo,B-PER\n", strict=True)
    assert [sentence.extra["id"] for sentence in corpus] == ["a 1", "b 1"]


def test_spans_in_cells_are_read_and_other_columns_are_handed_on(read):
    corpus = read("text,spans,source\nAda left,\"[{'start': 0, 'end': 3, 'label': 'PER'}]\",web\nBo,,\n", strict=True)
    assert corpus.sentences == (
        Sentence(("Ada", "left"), (Entity(0, 1, "PER"),), text="Ada left"),
        Sentence(("Bo",), text="Bo"),
    )
    assert corpus[0].extra == {"source": "web"}


def test_a_cell_may_be_long_and_have_line_breaks(read):
    text = "Ada\r\n\n" + "left " * 40_000 + "Turin"
    spans = json.dumps([[0, 3, "PER"], [len(text) - 5, len(text), "LOC"]]).replace('"', '""')
    limit = csv.field_size_limit()
    corpus = read(f'text,entities\n"{text}","{spans}"\n', strict=True)
    assert corpus[0].text == text
    assert corpus[0].texts_of(corpus[0].entities) == ["Ada", "Turin"]
    assert csv.field_size_limit() == limit


def test_the_csv_library_reads_what_we_write(tmp_path):
    text = 'Ada, "Bo"\n😀'
    sentence = Sentence(("Ada", ",", '"', "Bo", '"', "😀"), (Entity(3, 4, "PER"),), text=text, extra={"id": "7"})
    Corpus([sentence]).write(tmp_path / "a.csv", "csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["id"], row["text"], row["lacuner"]) == ("7", text, "")
    assert json.loads(row["entities"]) == [{"start": 6, "end": 8, "label": "PER"}]
    assert Corpus.read(tmp_path / "a.csv").sentences == (sentence,)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (
            "sentence_id,word,tag\n1,Ada\n",
            "a.csv:2: 2 columns instead of 3: '1,Ada' — give every row the columns of the header",
        ),
        ("sentence_id,word,tag\n1,Ada,\n", "a.csv:2: the tag of 'Ada' is empty"),
        ("sentence_id,word,tag\n1,,O\n", "a.csv:2: the word is empty"),
        ('sentence_id,word,tag\n1,",O\n1,Ada,O\n', "a.csv:2: not a row of a table (unexpected end of data)"),
        ('word,tag\n",O\n",O\n', "a.csv:2: a quotation mark opens a cell that goes on in the next line"),
        ("word,word,tag\nAda,Ada,O\n", "a.csv:1: two columns are called 'word' — rename one of them"),
        ("text,annotation\nAda,\"[[0, 3, 'PER']]\"\n", "a.csv:1: none of the columns text, annotation holds spans"),
        (
            "text,entities\nAda,\"[[0, 9, 'PER']]\"\n",
            "a.csv:2: Entity(start=0, end=9, label='PER') ends after the text's 3",
        ),
        ("text,entities\nAda,5\n", "a.csv:2: the column entities holds no list of spans: '5'"),
        ("text,entities,tokens\nAda,[],\"['Ada']\"\n", "a.csv:1: the column 'tokens' is not read here"),
    ],
)
def test_what_cannot_be_read_is_refused(read, content, what):
    with pytest.raises(DataError) as raised:
        read(content)
    assert what in str(raised.value)


def test_a_file_without_header_is_no_table(tmp_path):
    (tmp_path / "a").write_text("Ada,B-PER\n")
    with pytest.raises(
        DataError, match=r"a:1: the first line is no header that can be read: 'Ada,B-PER' — name the columns"
    ):
        Corpus.read(tmp_path / "a", "csv")
