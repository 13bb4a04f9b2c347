import json
from collections.abc import Iterator

import pytest
import torch

from lacuner.errors import ConfigError
from lacuner.integrations.pipeline import EntityPipeline, pipeline

TEXT = "Grace Hopper moved to Oslo ."
TEXTS = [TEXT, "", "Nothing .", "Ada moved to New York ."]


@pytest.fixture(scope="module")
def original(toy_bert):
    """A pipeline of transformers, with a random model that takes nearly every word for an entity."""
    from transformers import AutoModelForTokenClassification, AutoTokenizer
    from transformers import pipeline as transformers_pipeline

    names = {0: "B-PER", 1: "I-PER", 2: "B-LOC"}
    torch.manual_seed(1)
    tagger = AutoModelForTokenClassification.from_pretrained(toy_bert, num_labels=3, id2label=names)
    tokenizer = AutoTokenizer.from_pretrained(toy_bert)
    return transformers_pipeline(
        "token-classification", model=tagger, tokenizer=tokenizer, aggregation_strategy="simple", device="cpu"
    )


def shape(value):
    """What kinds of things a value is made of."""
    if isinstance(value, dict):
        return {key: type(item) if key != "score" else "number" for key, item in value.items()}
    return [type(value), *([shape(value[0])] if value else [])]


@pytest.mark.parametrize("given", [TEXT, [TEXT], [TEXT, TEXT]], ids=["one", "list of one", "list"])
def test_answers_have_the_shape_of_those_of_transformers(original, model, given):
    ours, theirs = EntityPipeline(model)(given), original(given)
    assert shape(ours) == shape(theirs)
    assert len(ours) == len(theirs) or isinstance(given, str)


def test_a_stream_is_answered_with_a_stream_as_in_transformers(original, model):
    for called in (original, EntityPipeline(model)):
        answers = called(text for text in (TEXT, TEXT))
        assert not isinstance(answers, list)
        assert [type(answer) for answer in answers] == [list, list]


def test_entities_are_those_of_the_recognizer(model):
    found = EntityPipeline(model)(TEXT)
    expected = model.predict(TEXT)
    assert [(e["entity_group"], e["word"], e["start"], e["end"]) for e in found] == [
        ("PER", "Grace Hopper", 0, 12),
        ("LOC", "Oslo", 22, 26),
    ]
    assert [e["score"] for e in found] == [e.score for e in expected]
    assert [TEXT[e["start"] : e["end"]] for e in found] == [e["word"] for e in found]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_texts_are_answered_in_their_order_whatever_the_batches(model, batch_size):
    called = EntityPipeline(model)
    expected = [called(text) for text in TEXTS]
    assert called(TEXTS, batch_size=batch_size) == called(tuple(TEXTS)) == expected
    assert list(called(iter(TEXTS), batch_size=batch_size)) == expected
    assert called([]) == []
    assert called("") == []


def test_a_stream_is_read_as_it_is_answered(model):
    taken = []

    def texts() -> Iterator[str]:
        for number in range(100):
            taken.append(number)
            yield TEXT

    answers = EntityPipeline(model, batch_size=4)(texts())
    assert taken == []
    next(answers)
    assert len(taken) == 4
    assert sum(1 for _ in answers) == 99


def test_a_dataset_of_torch_is_a_stream(model):
    class Texts(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> str:
            return [TEXT, "Nothing ."][index]

    assert [len(found) for found in EntityPipeline(model)(Texts())] == [2, 0]


def test_it_is_made_as_pipelines_of_transformers_are(model, model_folder):
    for made in (
        pipeline("token-classification", model=str(model_folder), aggregation_strategy="simple", device=-1),
        pipeline("ner", model_folder, aggregation_strategy="max", device="cpu"),
        pipeline(model=model),
    ):
        assert made(TEXT) == EntityPipeline(model)(TEXT)
        assert made.task == "token-classification"
        assert made.device == torch.device("cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "translation"}, "there is no pipeline for 'translation'; give token-classification or ner"),
        ({"aggregation_strategy": "none"}, "whole entities are found"),
        ({}, "give model="),
        ({"model": "absent", "device": 3}, "there is no folder absent|'cuda:3' is not available"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments, message):
    with pytest.raises(Exception, match=message) as caught:
        pipeline(**arguments)
    assert "\n" not in str(caught.value)


def test_a_gpu_is_counted_as_transformers_counts(model):
    with pytest.raises(ConfigError, match="'cuda:3' is not available"):
        pipeline(model=model, device=3)


@pytest.mark.parametrize("given", [[["Ada", "left"]], [None], [TEXT, 7]])
def test_what_is_no_text_is_refused(model, given):
    with pytest.raises(TypeError, match=r"a pipeline takes texts, but not .*Recognizer\.predict takes words"):
        EntityPipeline(model)(given)
