from pathlib import Path

import pytest

from lacuner.errors import DataError
from lacuner.matching import Dictionary, Entry


def read(tmp_path: Path, name: str, content: str, label: str | None = None) -> Dictionary:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return Dictionary.read(tmp_path / name, label=label)


def pairs(dictionary: Dictionary) -> list[tuple[str, str]]:
    return [(entry.surface, entry.label) for entry in dictionary.entries]


ADA = [("Ada", "PER"), ("Turin", "LOC")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("names.csv", "Ada,PER\nTurin,LOC\n"),
        ("names.csv", '"Ada","PER"\r\n"Turin", LOC\r\n'),
        ("names.csv", "\ufeffAda;PER\nTurin;LOC\n"),
        ("names.csv", "Ada\tPER\nTurin\tLOC\n"),
        ("names.csv", "Ada|PER\nTurin|LOC\n"),
        ("names.csv", "name,type\nAda,PER\nTurin,LOC\n"),
        ("names.csv", "id,Type,Name\n1,PER,Ada\n2,LOC,Turin\n"),
        ("names.tsv", "Name\tEntity Type\nAda\tPER\nTurin\tLOC\n"),
        ("names.tsv", "label\tsurface\nPER\tAda\nLOC\tTurin\n"),
        ("names.tsv", "drug\ttype\nAda\tPER\nTurin\tLOC\n"),
        ("names", "Ada\tPER\n\n  \nTurin\tLOC\n"),
    ],
)
def test_columns_are_read_whatever_separates_and_names_them(tmp_path: Path, name: str, content: str) -> None:
    assert pairs(read(tmp_path, name, content)) == ADA


def test_a_header_is_no_name_and_that_is_said(tmp_path: Path) -> None:
    found = read(tmp_path, "names.tsv", "name\ttype\tcase\tid\nAda\tPER\texact\t1\nTurin\tLOC\t\t2\n")
    assert found.entries == (Entry("Ada", "PER", "exact"), Entry("Turin", "LOC"))
    assert [remark.rpartition("names.tsv: ")[2] for remark in found.report.remarks] == [
        "the first line is a header (name, type, case, id), not a name",
        "columns that are not read: id",
    ]


def test_names_with_commas_are_quoted_in_csv_and_as_they_are_elsewhere(tmp_path: Path) -> None:
    assert pairs(read(tmp_path, "names.csv", '"Acme, Inc.",ORG\nAda,PER\n')) == [("Acme, Inc.", "ORG"), ("Ada", "PER")]
    for name in ("names.tsv", "names.csv"):
        assert pairs(read(tmp_path, name, "Acme, Inc.\tORG\n")) == [("Acme, Inc.", "ORG")]
    assert pairs(read(tmp_path, "names.txt", "Acme, Inc.\nBell & Co\n", "ORG")) == [
        ("Acme, Inc.", "ORG"),
        ("Bell & Co", "ORG"),
    ]


def test_one_column_needs_a_label(tmp_path: Path) -> None:
    assert pairs(read(tmp_path, "names.txt", "Ada\nGrace\n", "PER")) == [("Ada", "PER"), ("Grace", "PER")]
    assert pairs(read(tmp_path, "names.csv", "name\nAda\n", "PER")) == [("Ada", "PER")]
    assert pairs(read(tmp_path, "names.csv", "id,name\n1,Ada\n", "PER")) == [("Ada", "PER")]
    with pytest.raises(DataError, match=r"names\.txt: there is only one column, so no label — .*--label PER"):
        read(tmp_path, "names.txt", "Ada\nGrace Hopper\n")
    with pytest.raises(DataError, match="one column"):
        read(tmp_path, "names.csv", "name\nAda\n")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("Ada\tPER\nTurin\tLOC\n", "several columns"),
        ("name\ttype\nAda\tPER\n", "the column 'type' has labels already"),
    ],
)
def test_a_label_for_names_that_have_labels_is_refused(tmp_path: Path, content: str, what: str) -> None:
    with pytest.raises(DataError, match=f"{what}.* — leave out --label"):
        read(tmp_path, "names.tsv", content, "PER")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("Ada,PER\nTurin,LOC\n", "separated by commas, if there are any, and not by tabs — .*csv.*--label"),
        ("Ada;PER\nTurin;LOC\n", "separated by semicolons"),
        ("Ada|PER|exact\nTurin|LOC|exact\n", "separated by bars"),
        ("Ada Lovelace PER\nTurin LOC\n", r"labels \(LOC, PER\) are separated by spaces — put a tab between them"),
        ("Ada Lovelace    Person\nTurin    Location\n", "are separated by spaces"),
    ],
)
def test_a_wrong_separator_is_found(tmp_path: Path, content: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        read(tmp_path, "names.tsv", content)


@pytest.mark.parametrize(
    "content",
    [
        "PER\tAda\n",
        "PER\tAda\nLOC\tTurin\n",
        "person\tAda Lovelace\nplace\tTurin\n",
        "".join(f"{'Fruit' if n % 2 else 'Herb'}\tplant {n}\n" for n in range(10)),
    ],
)
@pytest.mark.parametrize("ending", [".tsv", ".csv"])
def test_columns_the_other_way_round_are_found(tmp_path: Path, content: str, ending: str) -> None:
    with pytest.raises(DataError, match=r"the labels seem to be in the first column .* — swap the columns, or"):
        read(tmp_path, f"names{ending}", content)


@pytest.mark.parametrize(
    "content",
    [
        "Paris\tLOC\nParis\tPER\n",
        "Paris\tloc\nParis\tperson\n",
        "Paris\tCITY\nParis\tHERO\nParis\tBRAND\nParis\tSHIP\nParis\tBOOK\n",
        "Drug\tCompany\n",
        "NASA\tOrg\nIBM\tOrg\n",
        "".join(f"plant {n}\t{'Fruit' if n % 2 else 'Herb'}\n" for n in range(10)),
    ],
)
def test_columns_the_right_way_round_are_not(tmp_path: Path, content: str) -> None:
    assert len(read(tmp_path, "names.tsv", content)) == content.count("\n")


def test_a_second_column_that_holds_no_labels_is_noticed(tmp_path: Path) -> None:
    content = "".join(f"Smith{n}, John{n}\n" for n in range(30))
    assert read(tmp_path, "names.csv", content).report.counts == {"lists with nearly as many labels as names": 1}


@pytest.mark.parametrize("name", ["names.tsv", "names.csv", "names.jsonl", "names.json"])
@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_an_empty_list_is_refused(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(DataError, match=r"the file is empty: the list contains no name — write name<TAB>label"):
        read(tmp_path, name, content)


def test_a_list_of_broken_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the list contains no name"):
        read(tmp_path, "names.tsv", "Ada\tPER\tx\ty\nTurin\tLOC\tx\ty\n")


def test_a_quote_that_is_never_closed_swallows_no_names_silently(tmp_path: Path) -> None:
    for rest in ("", "Turin,LOC\n", "Turin,LOC\n" * 30_000):
        with pytest.raises(DataError, match=r"names\.csv:2: not CSV .* — close the quotes"):
            read(tmp_path, "names.csv", 'Bob,PER\n"Ada,PER\n' + rest)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("phrases.txt", "machine learning\ndeep sea\n"),
        ("phrases.txt", "0.98\tmachine learning\n0.5\tdeep sea\n"),
        ("phrases.tsv", "machine learning\tTOPIC\ndeep sea\tLOC\n"),
        ("phrases.csv", "id,phrase\n1,machine learning\n2,deep sea\n"),
        ("phrases.jsonl", '{"text": "machine learning", "label": "X"}\n{"phrase": "deep sea"}\n'),
        ("phrases.json", '[{"pattern": "machine learning"},\n {"name": "deep sea"}]\n'),
    ],
)
def test_phrases_need_no_labels(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    found = Dictionary.read_phrases(tmp_path / name)
    assert [entry.surface for entry in found.entries] == ["machine learning", "deep sea"]
