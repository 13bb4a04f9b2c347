import copy
import pickle

import pytest

from lacuner import Entity, Recognizer, Sentence
from lacuner.inference.prediction import Prediction, Predictions

ADA, TURIN = Entity(0, 3, "PER", text="Ada", score=0.5, source="model"), Entity(10, 15, "LOC", text="Turin")


def test_a_prediction_is_a_list() -> None:
    prediction = Prediction([ADA, TURIN], "Ada is in Turin", ("LOC", "PER"))
    assert prediction == [ADA, TURIN]
    assert repr(prediction) == repr([ADA, TURIN])
    assert isinstance(prediction, list)
    for other in (pickle.loads(pickle.dumps(prediction)), copy.deepcopy(prediction)):
        assert other == prediction
        assert (type(other), other.text, other.labels) == (Prediction, prediction.text, prediction.labels)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("New  York", "New  York"),
        (["New", "York"], "New York"),
        (Sentence(("New", "York"), text="New  York"), "New  York"),
    ],
)
def test_a_notebook_shows_the_text_that_was_given(source, text) -> None:
    entity = Entity(0, len(text) if isinstance(source, str) else 2, "LOC")
    prediction = Prediction([entity], source)
    assert prediction.text == text
    assert f'title="LOC">{text}<bdi' in prediction._repr_html_()


def test_a_label_has_one_color_in_all_predictions_of_a_model() -> None:
    labels = tuple(f"L{number}" for number in range(6))
    alone = Prediction([Entity(0, 1, "L5")], "abc", labels)._repr_html_()
    together = Prediction([Entity(n % 3, n % 3 + 1, f"L{n}") for n in range(6)], "abc", labels)._repr_html_()
    mark = alone[alone.index("<mark") : alone.index('title="L5"')]
    assert mark in together


def test_predictions_are_rows() -> None:
    one, none = Prediction([ADA, TURIN], "Ada is in Turin"), Prediction([], "nothing")
    frame = one.to_pandas()
    assert [*frame.columns] == ["start", "end", "label", "text", "score", "source"]
    assert frame["text"].tolist() == ["Ada", "Turin"]
    assert frame["score"].isna().tolist() == [False, True]
    assert Predictions([none, one]).to_pandas()["sentence"].tolist() == [1, 1]
    assert len(none.to_pandas()) == 0


def test_a_notebook_shows_the_first_of_many() -> None:
    shown = Predictions([Prediction([ADA], "Ada")] * 1000)._repr_html_()
    assert shown.count("<mark") == 20
    assert "the first 20 of 1,000 texts" in shown


def test_a_model_returns_predictions(model: Recognizer) -> None:
    text = "Ada moved to New York ."
    found = model.predict(text)
    assert (type(found), found.text, found.labels) == (Prediction, text, model.labels)
    many = model.predict([text, text.split()])
    assert type(many) is Predictions
    assert [prediction.text for prediction in many] == [text, text]
    assert model.predict(text.split(), tokens=True).text == text
    assert next(model.predict(iter([text]))).text == text
