"""What is no column file is refused with what it looks like; what is one, however odd, is read."""

import pytest

from lacuner.corpus import Corpus
from lacuner.errors import DataError


@pytest.fixture
def read(tmp_path):
    def read_content(content):
        (tmp_path / "a.conll").write_text(content, encoding="utf-8")
        return Corpus.read(tmp_path / "a.conll")

    return read_content


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("Ada left Turin.\n", "raw text"),
        ("Hello world\n\nGood morning\n", "raw text"),
        ("He drove a B-52 .\nIs it so ?\nIt was on I-95\nWe all saw it then .\n" * 5, "raw text"),
        ("北京是中国的首都，也是政治中心和文化中心之一。\n", "raw text"),
        ("Ada Lovelace,PER\nTurin,LOC\n", "a dictionary"),
        ("Turin\tLOC\texact\nOslo\tLOC\tignore\nAda\tPER\texact\nNASA\tORG\texact\n", "a dictionary"),
        ("12|t|Ada\n12|a|left\n", "PubTator"),
        ("<?xml version='1.0'?>\n<collection>\n", "BioC XML"),
        ("T1\tPER 0 3\tAda\n", "brat standoff"),
        ('[\n{"text": "Ada"}\n]\n', "JSON"),
        ("# global.columns = ID FORM X\n1\tAda\tNNP\n", "CoNLL-U Plus"),
    ],
)
def test_it_is_refused_with_what_it_looks_like(read, content, what):
    with pytest.raises(DataError, match=f"this looks like {what}"):
        read(content)


@pytest.mark.parametrize("content", ["Ada\tb-per\nleft\to\n", "Ada b-per\nLovelace i-per\nleft o\n. o\n"])
def test_tags_in_lower_case_are_refused_and_o_is_no_label(read, content):
    with pytest.raises(DataError, match=r"the tags are in lower case \(b-per, .*o\) — write O"):
        read(content)


def test_tags_that_are_numbers_are_refused(read):
    with pytest.raises(DataError, match="the tags are numbers"):
        read("Ada\t1\nleft\t0\nfor\t0\nTurin\t5\n")


@pytest.mark.parametrize(
    "content",
    [
        "Ada PER\nBob PER\n", "Ada\tPER\n\nTurin\tLOC\n\nBob\tPER\n\nNASA\tORG\n",
        "Ada\tB-PER\nBob\tB-PER\nEve\tB-PER\nJo\tB-PER\n",
        "Ada ?\nleft ?\n", "{ O\n[ O\n", "12|t|x O\n", "New York\tB-LOC\nis\tO\n", "Ada PER\nleft O\n. O\n",
    ],
)  # fmt: skip
def test_words_with_tags_are_read(read, content):
    assert len(read(content)) > 0
