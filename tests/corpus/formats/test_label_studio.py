import io
import json

from lacuner.corpus import Entity, Sentence
from lacuner.corpus.formats.format import WriteOptions
from lacuner.corpus.formats.label_studio import write_label_studio


def tasks_of(*sentences, **options):
    file = io.StringIO()
    write_label_studio(sentences, file, WriteOptions(**options))
    return json.loads(file.getvalue())


def test_a_sentence_is_a_task_with_pre_annotations_that_count_characters():
    sentence = Sentence(("😀", "Turin"), (Entity(1, 2, "LOC", score=0.12345),), text="😀  Turin", extra={"id": 4})
    value = {"start": 3, "end": 8, "text": "Turin", "labels": ["LOC"]}
    result = {"from_name": "label", "to_name": "text", "type": "labels", "value": value, "score": 0.1235}
    assert tasks_of(sentence, agent="somebody") == [
        {
            "data": {"text": "😀  Turin", "id": 4},
            "predictions": [{"model_version": "somebody", "score": 0.1235, "result": [result]}],
        }
    ]


def test_without_scores_none_is_written():
    (task,) = tasks_of(Sentence(("Ada",), (Entity(0, 1, "PER"),)))
    assert task["predictions"][0].keys() == {"model_version", "result"}
    assert "score" not in task["predictions"][0]["result"][0]


def test_scores_of_sentences_may_be_given():
    tasks = tasks_of(Sentence(("Ada",)), Sentence(("Bo",)), scores=[0.5, 0.25])
    assert [task["predictions"][0]["score"] for task in tasks] == [0.5, 0.25]


def test_nothing_is_an_empty_array():
    assert tasks_of() == []
