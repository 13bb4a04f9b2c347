import shutil
import threading
from pathlib import Path

import pytest

from lacuner import ConfigError, Corpus, Recognizer
from lacuner.errors import LacunerError
from lacuner.web import served_models
from lacuner.web.served_models import (
    Answer,
    GivenUpError,
    Query,
    ServedModel,
    ServedModels,
    answer_together,
    named_paths,
    version_of,
)

TEXTS = ["Ada moved to Turin .", "", "Kurt moved to New York .", "nobody " * 300 + "Ada moved to Oslo ."]


def scored(entities: object) -> list[tuple[object, object]]:
    return [(entity, entity.score) for entity in entities]  # type: ignore[attr-defined]


def test_texts_in_company_are_answered_as_predict_answers_each(model: Recognizer) -> None:
    served = ServedModel.of(model)
    assert served.encodes_alike
    for nested, min_score in ((False, 0.0), (True, 0.0), (False, 0.9)):
        answers = served.answer([Query(text, nested, min_score) for text in TEXTS])
        expected = [model.predict(text, nested=nested, min_score=min_score) for text in TEXTS]
        assert [scored(answer.entities) for answer in answers] == [scored(found) for found in expected]


def test_an_encoder_that_depends_on_company_is_asked_about_each_text_alone(model: Recognizer, monkeypatch) -> None:
    monkeypatch.setattr(served_models, "encodes_alike", lambda *_: False)
    monkeypatch.setattr(served_models, "EncodedTogether", None)
    answers = ServedModel.of(model).answer([Query(text) for text in TEXTS])
    assert [scored(answer.entities) for answer in answers] == [scored(model.predict(text)) for text in TEXTS]


def test_each_query_is_answered_by_its_own_model(model: Recognizer) -> None:
    one, other = ServedModel.of(model, "1"), ServedModel.of(model, "2")
    queries = [(served, Query(text)) for text, served in zip(TEXTS, (one, other, one, other), strict=True)]
    answers = answer_together(queries)
    assert [answer.version for answer in answers] == ["1", "2", "1", "2"]
    assert [scored(answer.entities) for answer in answers] == [scored(model.predict(text)) for text in TEXTS]


def test_one_text_that_fails_does_not_fail_the_others(toy: Corpus, small_settings) -> None:
    small = {key: value for key, value in small_settings.items() if not key.startswith("head")}
    tagger = ServedModel.of(Recognizer.train(toy, method="crf", epochs=1, settings=small))
    failed, answered = tagger.answer([Query(TEXTS[0], nested=True), Query(TEXTS[0])])
    assert isinstance(failed, ConfigError)
    assert answered.version == "unsaved"


def test_what_nobody_waits_for_is_not_computed_and_a_long_text_ends_early(model: Recognizer, monkeypatch) -> None:
    encoded: list[int] = []
    encode = type(model.model).encode
    monkeypatch.setattr(
        type(model.model), "encode", lambda self, words: (encoded.append(len(words)), encode(self, words))[1]
    )
    served = ServedModel.of(model)
    encoded.clear()
    left, answered = served.answer([Query(TEXTS[0]), Query(TEXTS[2])], lambda index: index == 1)
    assert isinstance(left, GivenUpError)
    assert scored(answered.entities) == scored(model.predict(TEXTS[2]))
    monkeypatch.setattr("lacuner.models.model._BATCH_TOKENS", 300)
    long = "Ada moved to Turin . " * 300
    encoded.clear()
    (whole,) = served.answer([Query(long)])
    assert isinstance(whole, Answer)
    assert len(encoded) > 4
    encoded.clear()
    (left,) = served.answer([Query(long)], lambda index: len(encoded) < 2)
    assert isinstance(left, GivenUpError)
    assert len(encoded) == 2


def test_of_several_models_each_knows_for_itself_what_is_wanted(model: Recognizer) -> None:
    one, other = ServedModel.of(model, "1"), ServedModel.of(model, "2")
    queries = [(served, Query(TEXTS[0])) for served in (one, other, one, other)]
    answers = answer_together(queries, lambda index: index in (1, 2))
    assert [isinstance(answer, GivenUpError) for answer in answers] == [True, False, False, True]


def test_what_is_annotated_is_not_missing(model: Recognizer) -> None:
    text = TEXTS[0]
    queries = [Query(text, rate_missing=True), Query(text, rate_missing=True, marked=()), Query(text)]
    queries.append(Query(text, rate_missing=True, marked=((0, 3), (13, 18))))
    predicted, nothing, unasked, annotated = ServedModel.of(model).answer(queries)
    assert predicted.missing < 0.5 < nothing.missing
    assert annotated.missing == predicted.missing
    assert unasked.missing is None


def test_a_changed_folder_is_loaded_again_and_an_unchanged_one_is_not(
    model_folder: Path, tmp_path: Path, model
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    models = ServedModels({"m": folder})
    before = models["m"]
    assert models.reload() == {}
    assert models["m"] is before
    (folder / "README.md").write_text("another description")
    assert models.reload() == {}
    assert models["m"] is before, "what is said about a model is not the model"
    model.model.threshold.fill_(1.0)
    try:
        model.save_pretrained(folder)
    finally:
        model.model.threshold.fill_(0.0)
    assert models.reload() == {}
    assert models["m"] is not before
    assert models["m"].version == version_of(folder) != before.version


def test_a_model_that_cannot_be_loaded_again_stays_what_it_was(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    models = ServedModels({"m": folder})
    before = models["m"]
    (folder / "config.json").write_text("{")
    failed = models.reload()
    assert list(failed) == ["m"]
    assert models["m"] is before
    assert scored(models["m"].answer([Query(TEXTS[0])])[0].entities)


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(
    model: Recognizer, model_folder: Path, tmp_path: Path, monkeypatch
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    read, from_pretrained = [], Recognizer.from_pretrained

    def load(path: Path, device: object) -> Recognizer:
        read.append(from_pretrained(path, device))
        if len(read) == 1:
            model.model.threshold.fill_(1.0)
            try:
                model.save_pretrained(folder)
            finally:
                model.model.threshold.fill_(0.0)
        return read[-1]

    monkeypatch.setattr(Recognizer, "from_pretrained", load)
    served = ServedModel.load(folder)
    assert len(read) == 2
    assert served.recognizer is read[1]
    assert float(served.recognizer.model.threshold) == 1.0
    assert served.version == version_of(folder) != version_of(model_folder)


def test_a_folder_that_never_stays_the_same_is_refused(model_folder: Path, monkeypatch) -> None:
    versions = iter(range(100))
    monkeypatch.setattr(served_models, "version_of", lambda folder: str(next(versions)))
    with pytest.raises(LacunerError, match="replaced again and again"):
        ServedModel.load(model_folder)


def test_requests_are_answered_while_a_model_is_loaded(model_folder: Path, monkeypatch) -> None:
    models = ServedModels({"m": model_folder})
    loading, go_on = threading.Event(), threading.Event()

    def load(*_: object) -> ServedModel:
        loading.set()
        assert go_on.wait(20)
        return before

    before = models["m"]
    monkeypatch.setattr(served_models, "version_of", lambda folder: "another")
    monkeypatch.setattr(ServedModel, "load", load)
    thread = threading.Thread(target=models.reload)
    thread.start()
    assert loading.wait(20)
    assert answer_together([(models["m"], Query(TEXTS[0]))])[0].entities
    go_on.set()
    thread.join()


def test_models_are_called_as_their_folders_or_as_they_are_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "b=1").mkdir(parents=True)
    assert named_paths(["a=models", "models", "user/medical"]) == {
        "a": "models",
        "models": "models",
        "medical": "user/medical",
    }
    for given, why in (
        (["x/a", "y/a"], "two models are called 'a' — name them, such as a=x/a other=y/a"),
        (["=model"], "cannot be part of an address"),
        (["a="], "cannot be part of an address"),
        (["a b=model"], "name it, such as news=model"),
        (["models/b=1"], "'b=1' cannot be part of an address"),
    ):
        with pytest.raises(ConfigError, match=why):
            named_paths(given)
