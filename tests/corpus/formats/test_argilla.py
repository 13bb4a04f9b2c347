import io
import json

from lacuner.corpus import Entity, Sentence
from lacuner.corpus.formats.argilla import write_argilla
from lacuner.corpus.formats.format import WriteOptions


def records_of(*sentences, **options):
    file, chosen = io.StringIO(), WriteOptions(**options)
    write_argilla(sentences, file, chosen)
    assert file.getvalue().isascii()
    records_of.losses = dict(chosen.losses)
    return json.loads(file.getvalue())


def test_a_sentence_is_a_record_with_suggestions_that_count_characters():
    sentence = Sentence(("😀", "Turin"), (Entity(1, 2, "LOC", score=0.12345),), text="😀 Turin")
    value = [{"start": 2, "end": 7, "label": "LOC"}]
    assert records_of(sentence, agent="somebody") == [
        {
            "id": "0",
            "fields": {"text": "😀 Turin"},
            "metadata": {},
            "suggestions": {"entities": {"value": value, "score": 0.1235, "agent": "somebody"}},
        }
    ]


def test_identifier_and_metadata_are_those_of_the_sentence():
    (record,) = records_of(Sentence(("Ada",), extra={"id": 17, "metadata": {"page": 3}}))
    assert (record["id"], record["metadata"]) == ("17", {"page": 3})
    assert records_of.losses == {}


def test_other_fields_are_left_out_and_said():
    records_of(Sentence(("Ada",), extra={"author": "Bo", "metadata": "none"}))
    assert records_of.losses == {"the field 'author'": 1, "the field 'metadata'": 1}
