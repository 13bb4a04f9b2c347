import io
import json

import pytest

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.corpus.formats.doccano import write_doccano
from lacuner.corpus.formats.format import WriteOptions
from lacuner.errors import DataError

FIREMEN = "👨🏻\u200d🚒 firemen drive firetrucks"
"""doccano issue 2290: a project says that "firetrucks" is at 22 to 32; in Python it is at 19 to 29."""


@pytest.fixture
def read(tmp_path):
    """The sentences of a file with these records."""

    def read_records(*records, format=None):
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return list(Corpus.read(path, format))

    path = tmp_path / "data.jsonl"
    return read_records


def written(*sentences):
    file, options = io.StringIO(), WriteOptions()
    write_doccano(sentences, file, options)
    written.losses = dict(options.losses)
    return [json.loads(line) for line in file.getvalue().splitlines()]


@pytest.mark.parametrize("format", [None, "doccano"])
@pytest.mark.parametrize(
    "spans",
    [
        {"label": [[22, 32, "X"]]},
        {"labels": [[22, 32, "X"]]},
        {"entities": [{"id": 1, "label": "X", "start_offset": 22, "end_offset": 32}], "relations": []},
        {"entities": [[22, 32, "X"]], "cats": ["news"]},
        {"entities": [[22, 32, "X"]], "Comments": []},
    ],
    ids=["label", "labels", "relations", "categories", "comments"],
)
def test_offsets_are_those_that_doccano_counts_in_the_browser(read, spans, format):
    (sentence,) = read({"text": FIREMEN} | spans, format=format)
    (entity,) = sentence.entities
    assert sentence.text_of(entity.start, entity.end) == "firetrucks"


def test_the_same_offsets_are_written():
    sentence = Corpus.from_texts([FIREMEN])[0]
    last = len(sentence) - 1
    assert written(Sentence(sentence.tokens, (Entity(last, last + 1, "X"),), text=FIREMEN)) == [
        {"text": FIREMEN, "label": [[22, 32, "X"]]}
    ]


def test_other_tools_count_characters(read):
    (sentence,) = read({"text": FIREMEN, "entities": [[19, 29, "X"]]})
    (entity,) = sentence.entities
    assert sentence.text_of(entity.start, entity.end) == "firetrucks"


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (
            [1, 3, "X"],
            "offset 1 is inside '😀', as doccano counts it (in UTF-16 code units)"
            ' — if the offsets count characters, write them under "entities"',
        ),
        ([3, 9, "X"], "an entity ends at 9, after the text's 8 UTF-16 code units — correct its offsets"),
    ],
)
def test_offsets_that_doccano_cannot_have_written_are_refused(read, span, message):
    with pytest.raises(DataError) as raised:
        read({"text": "😀 Turin", "label": [span]})
    assert str(raised.value).endswith(f":1: {message}")


def test_identifiers_and_relations_are_handed_on_together(read):
    entities = [{"id": 7, "label": "PER", "start_offset": 0, "end_offset": 3}]
    relations = [{"id": 1, "from_id": 7, "to_id": 7, "type": "self"}]
    (sentence,) = read({"id": 1, "text": "Ada", "entities": entities, "relations": relations, "Comments": []})
    assert sentence.extra == {"id": 1, "relations": relations, "Comments": []}
    assert sentence.entities[0].extra == {"id": 7}


def test_what_is_known_and_unknown_fields_become_metadata_of_doccano(read):
    sentence = Sentence(
        ("😀", "Ada", "left"),
        (Entity(1, 2, "PER"),),
        (Span(2, 3, "reviewer"),),
        complete=True,
        annotated_labels=frozenset({"PER"}),
        text="😀 Ada left",
        extra={"id": 5},
    )
    (record,) = written(sentence)
    assert record["id"] == 5
    (again,) = read(record, format="doccano")
    assert again == sentence
    assert again.extra == {"id": 5}
    assert again.non_entities[0].source == "reviewer"


def test_a_field_that_doccano_has_a_use_for_is_left_out_and_said():
    assert written(Sentence(("Ada",), extra={"label": "positive", "id": 1})) == [{"text": "Ada", "label": [], "id": 1}]
    assert written.losses == {"the field 'label', which doccano has a use for": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"text": "Ada", "annotations": [{"label": 3, "start_offset": 0, "end_offset": 3, "user": 1}]},
            '"annotations" has numbers for labels, and only doccano knows their names — export as JSONL with text labels',
        ),
        ({"data": "Ada"}, '"text" (a string) is not there — export as JSONL from doccano'),
        ({"text": "Ada", "tokens": ["Ada"]}, '"tokens" is given, which doccano does not know — read it as jsonl'),
    ],
)
def test_what_is_no_doccano_file_is_refused(read, record, message):
    with pytest.raises(DataError) as raised:
        read(record, format="doccano")
    assert str(raised.value).endswith(f":1: {message}")
