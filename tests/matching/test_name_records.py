import json
from pathlib import Path

import pytest

from lacuner.errors import DataError
from lacuner.matching import Dictionary, Entry


def read(tmp_path: Path, content: str, name: str = "names.jsonl", **options) -> Dictionary:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return Dictionary.read(tmp_path / name, **options)


@pytest.mark.parametrize("name", ["surface", "name", "text", "pattern"])
@pytest.mark.parametrize("label", ["label", "type"])
def test_names_and_labels_have_several_keys(tmp_path: Path, name: str, label: str) -> None:
    record = {name: " Ada  Lovelace ", label: "PER", "id": 3}
    found = read(tmp_path, json.dumps(record) + "\n\n")
    assert found.entries == (Entry("Ada Lovelace", "PER"),)
    assert found.report.unread == {"id": 1}


def test_objects_are_noticed_whatever_the_file_is_called(tmp_path: Path) -> None:
    assert read(tmp_path, '{"name": "Ada", "type": "PER", "case": "exact"}\n', "names.txt").entries == (
        Entry("Ada", "PER", "exact"),
    )


def test_a_label_is_for_names_without_one(tmp_path: Path) -> None:
    content = '{"name": "Ada"}\n{"name": "Turin", "label": "LOC"}\n'
    assert read(tmp_path, content, label="PER").entries == (Entry("Ada", "PER"), Entry("Turin", "LOC"))
    assert read(tmp_path, content).report.counts == {"names without a label": 1}


PATTERNS = [
    {"label": "ORG", "pattern": "Apple"},
    {"label": "GPE", "pattern": [{"LOWER": "san"}, {"LOWER": "francisco"}], "id": "san-francisco"},
    {"label": "ORG", "pattern": [{"TEXT": "US"}, {"ORTH": "Steel"}]},
    {"label": "ORG", "pattern": [{"LOWER": "us"}, {"TEXT": "Steel"}]},
    {"label": "ORG", "pattern": [{"LOWER": {"IN": ["a", "b"]}}]},
    {"label": "ORG", "pattern": [{"TEXT": "a", "OP": "?"}]},
    {"label": "ORG", "pattern": [{"IS_DIGIT": True}]},
    {"label": "ORG", "pattern": []},
]


@pytest.mark.parametrize("name", ["patterns.jsonl", "patterns.json"])
def test_patterns_of_spacy_are_read_if_they_are_plain_words(tmp_path: Path, name: str) -> None:
    lines = "".join(json.dumps(pattern) + "\n" for pattern in PATTERNS)
    found = read(tmp_path, lines if name.endswith("l") else json.dumps(PATTERNS, indent=2), name)
    assert found.entries == (
        Entry("Apple", "ORG"),
        Entry("san francisco", "GPE", "ignore"),
        Entry("US Steel", "ORG", "exact"),
    )
    assert found.report.counts == {"patterns that are not plain words": 5}


def test_spacy_finds_the_same_with_its_patterns(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(PATTERNS[:3])
    nlp.get_pipe("entity_ruler").to_disk(tmp_path / "patterns.jsonl")
    from lacuner.matching import Matcher

    matcher = Matcher(Dictionary.read(tmp_path / "patterns.jsonl"))
    for text in ("Apple left San Francisco for US Steel", "apple SAN FRANCISCO us steel"):
        doc = nlp(text)
        ours = matcher.entities([[token.text for token in doc]])[0]
        assert [(e.start, e.end, e.label) for e in ours] == [(e.start, e.end, e.label_) for e in doc.ents]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ('{"id": "Ada", "label": "PER"}', "objects without a name"),
        ('{"name": 3, "label": "PER"}', "patterns that are not plain words"),
        ('{"name": "Ada", "label": 3}', "names without a label"),
        ('{"name": "Ada", "label": "O"}', "names without a label"),
        ('{"name": " ", "label": "PER"}', "names without a label"),
        ('{"name": "Ada", "label": "PER", "case": "upper"}', "unknown cases"),
    ],
)
def test_objects_that_are_no_names_are_left_out_and_counted(tmp_path: Path, content: str, kind: str) -> None:
    content = f'{{"name": "Bob", "label": "PER"}}\n{content}\n'
    found = read(tmp_path, content)
    assert (len(found), found.report.counts) == (1, {kind: 1})
    with pytest.raises(DataError, match=r"names\.jsonl:2: "):
        read(tmp_path, content, strict=True)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("names.jsonl", '{"name": \n', r"names\.jsonl:1: not JSON"),
        ("names.json", '[{"name": "a"}\n {"name": "b"}]', r"names\.json:2: not JSON"),
        ("names.json", '["Ada"]', "item 1 of the list is no JSON object"),
        ("names.jsonl", '"Ada"\n', "the line is not a JSON object"),
        ("names.json", "[]", "the list contains no name"),
    ],
)
def test_what_is_no_list_of_objects_is_refused(tmp_path: Path, name: str, content: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        read(tmp_path, content, name)
