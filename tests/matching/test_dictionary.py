from pathlib import Path

import pytest

from lacuner.corpus import Entity, Sentence
from lacuner.errors import DataError
from lacuner.matching import Dictionary, Entry
from lacuner.matching.dictionary import read_stop_list


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_names_are_read_in_order_with_their_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "names.tsv", "Ada Lovelace\tPER\nTurin\tLOC\texact\n\nturin\tLOC\tignore\n")
    found = Dictionary.read(path)
    assert found.entries == (
        Entry("Ada Lovelace", "PER"),
        Entry("Turin", "LOC", "exact"),
        Entry("turin", "LOC", "ignore"),
    )
    assert found.labels == ("LOC", "PER")
    assert found.counts() == {"LOC": 2, "PER": 1}


def test_spaces_around_and_inside_a_name_do_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "names.tsv", "  New \u00a0 York \t LOC \r\n")
    assert Dictionary.read(path).entries == (Entry("New York", "LOC"),)


@pytest.mark.parametrize(
    ("line", "kind", "what"),
    [
        ("Turin LOC", "lines without a tab", "no tab"),
        ("\tLOC", "empty names", "no name before the label 'LOC'"),
        ("   \tLOC", "empty names", "no name"),
        ("Turin\t", "names without a label", "'Turin'"),
        ("Turin\tO", "names without a label", "'O'"),
        ("Turin\tLOC\tsometimes", "unknown third columns", "neither exact nor ignore"),
        ("Turin\tLOC\texact\tmore", "lines with too many columns", "4 columns"),
    ],
)
def test_broken_lines_are_left_out_and_counted(tmp_path: Path, line: str, kind: str, what: str) -> None:
    path = write(tmp_path / "names.tsv", f"Ada\tPER\n{line}\nGrace\tPER\n")
    found = Dictionary.read(path)
    assert [entry.surface for entry in found.entries] == ["Ada", "Grace"]
    assert found.report.counts == {kind: 1}
    with pytest.raises(DataError, match=what) as caught:
        Dictionary.read(path, strict=True)
    assert caught.value.line == 2


def test_a_name_that_stands_there_twice_counts_once_and_is_mentioned(tmp_path: Path) -> None:
    path = write(tmp_path / "names.tsv", "Ada\tPER\nAda\tPER\nAda\tORG\n")
    found = Dictionary.read(path)
    assert found.entries == (Entry("Ada", "PER"), Entry("Ada", "ORG"))
    assert found.report.counts == {"duplicate names": 1}


def test_stopped_and_short_names_are_left_out(tmp_path: Path) -> None:
    stop = write(tmp_path / "stop.txt", "may\n\nWILL\tPER\n")
    names = Dictionary.of([("May", "PER"), ("Will", "PER"), ("Mayer", "PER"), ("Bo", "PER")])
    assert [entry.surface for entry in names.without(read_stop_list(stop), 3).entries] == ["Mayer"]
    assert names.without([]).entries == names.entries


def test_accents_of_stopped_names_may_be_composed_or_not() -> None:
    names = Dictionary.of([("Jos\u00e9", "PER"), ("Rene\u0301", "PER")])
    assert names.without(["JOSE\u0301", "ren\u00e9"]).entries == ()


def test_the_names_that_a_dictionary_has_annotated_are_a_dictionary() -> None:
    words = ("Ada", "met", "Grace", "Hopper", "in", "Turin")
    entities = (
        Entity(0, 1, "PER", source="human"),
        Entity(2, 4, "PER", source="dictionary"),
        Entity(5, 6, "LOC", source="dictionary"),
    )
    names = Dictionary.of_annotation([Sentence(words, entities), Sentence(words, entities[1:2])])
    assert names.entries == (Entry("Grace Hopper", "PER"), Entry("Turin", "LOC"))
    assert not Dictionary.of_annotation([Sentence(words, entities[:1])]).entries


def test_names_that_cannot_be_in_a_text_need_not_be_searched_for() -> None:
    names = Dictionary.of(
        [("New York", "LOC"), ("new guinea", "LOC"), ("York", "LOC"), ("U.S.", "LOC"), ("É", "PER"), ("&", "X")]
    )
    text = [Sentence(("NEW", "YORK", ",", "US")), Sentence(("e\u0301",))]
    assert [entry.surface for entry in names.occurring_in(text)] == ["New York", "York", "É", "&"]
    loose = [entry.surface for entry in names.occurring_in(text, variants=True)]
    assert loose == ["New York", "new guinea", "York", "U.S.", "É", "&"]
    characters = [Sentence(tuple("inNewYork"), text="in New York")]
    assert [entry.surface for entry in names.occurring_in(characters, characters=True)][:3] == [
        "New York",
        "new guinea",
        "York",
    ]


@pytest.mark.parametrize("pairs", [["UK"], [("Ada",)], {"Ada": "PER"}])
def test_names_without_labels_are_no_dictionary(pairs) -> None:
    with pytest.raises(TypeError, match="names with their labels"):
        Dictionary.of(pairs)
