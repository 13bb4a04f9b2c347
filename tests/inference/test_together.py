"""What is encoded together is decided about one by one."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuner import Recognizer
from lacuner.inference.backends import TorchBackend
from lacuner.inference.predict import predict_texts
from lacuner.inference.together import EncodedTogether, encodes_alike, rows_of
from lacuner.models.model import EncodedBatch, Model
from lacuner.sample import read_sample


class Counting(TorchBackend):
    """Remembers the sizes of its batches, and adds to the vectors what the company makes of them."""

    def __init__(self, model: Model, noise: float = 0.0) -> None:
        super().__init__(model)
        self.sizes: list[int] = []
        self.noise = noise

    def encode(self, sentences: Sequence[Sequence[str]]) -> EncodedBatch:
        self.sizes.append(len(sentences))
        batch = super().encode(sentences)
        words = type(batch.words)(*(vectors + self.noise * len(sentences) for vectors in batch.words))
        return EncodedBatch(words, batch.lengths)


def test_the_default_encoder_gives_the_same_vectors_in_any_company(model: Recognizer) -> None:
    assert encodes_alike(model.model)


def test_an_encoder_whose_vectors_depend_on_the_company_is_noticed(model: Recognizer) -> None:
    assert not encodes_alike(model.model, Counting(model.model, noise=1e-6))


@settings(max_examples=20)
@given(st.lists(st.integers(0, 24), min_size=1, max_size=12))
def test_texts_in_company_are_predicted_bit_by_bit_as_alone(model: Recognizer, numbers: list[int]) -> None:
    every = [
        *(" ".join(sentence.tokens) for sentence in read_sample("dev")[:23]),
        "Ada moved to New York .",
        "",
    ]
    texts = [every[number] for number in numbers]
    backend = EncodedTogether.of_texts(model.model, texts, model.split)
    for text in texts:
        (found,) = predict_texts(model.model, [text], model.split, backend=backend)
        expected = model.predict(text)
        assert found == expected
        assert [entity.score for entity in found] == [entity.score for entity in expected]


def test_what_is_encoded_once_is_not_encoded_again(model: Recognizer) -> None:
    texts = ["Ada moved to Turin .", "Kurt moved to Oslo .", "Ada moved to Turin ."]
    counting = Counting(model.model)
    backend = EncodedTogether.of_texts(model.model, texts, model.split, counting)
    assert counting.sizes == [2], "equal texts once"
    for text in texts:
        assert [entity.label for entity in next(predict_texts(model.model, [text], backend=backend))] == ["PER", "LOC"]
    assert counting.sizes == [2]


def test_long_texts_keep_the_company_of_their_own_passages(model: Recognizer) -> None:
    text = "Ada moved to Turin . " * 100
    counting = Counting(model.model)
    backend = EncodedTogether.of_texts(model.model, [text], model.split, counting)
    assert counting.sizes == []
    (found,) = predict_texts(model.model, [text], model.split, backend=backend)
    assert [(entity.score, entity) for entity in found] == [(entity.score, entity) for entity in model.predict(text)]


def test_rows_have_no_padding(model: Recognizer) -> None:
    rows = list(rows_of(model.model.encode([("Ada", "moved"), ("Kurt",)])))
    assert [tuple(row.words.first.shape[:2]) for row in rows] == [(1, 2), (1, 1)]
    assert torch.equal(torch.cat([row.lengths for row in rows]), torch.tensor([2, 1]))


@pytest.mark.slow
def test_a_transformer_may_depend_on_the_company_and_then_says_so(minilm: str) -> None:
    trained = Recognizer.train(read_sample("train")[:8], method="full", encoder=minilm, epochs=1)
    alike, backend = encodes_alike(trained.model), TorchBackend(trained.model)
    words = [sentence.tokens for sentence in read_sample("train")[:48]]
    with torch.no_grad():
        alone = [backend.encode([each]).words.first for each in words]
        company = [row.words.first for row in rows_of(backend.encode(words))]
    assert alike <= all(torch.equal(*pair) for pair in zip(alone, company, strict=True))
