import json
from collections.abc import Iterator

import pytest
import torch

from lacuner import Corpus, Recognizer
from lacuner.analysis.threshold_size import SizedThreshold, measure_threshold_size
from lacuner.evaluation import score_entities
from lacuner.inference.threshold import fit_threshold
from lacuner.models.model import Model
from lacuner.recognizer import TrainingRecord
from lacuner.training.settings import resolve_settings


@pytest.fixture
def shy(unsure: Model) -> Iterator[Recognizer]:
    """A model that would find more if entities had to weigh less."""
    yield Recognizer(unsure, resolve_settings("full"), "words", TrainingRecord())
    unsure.threshold.zero_()


def test_each_threshold_is_the_one_that_its_sentences_ask_for(shy: Recognizer, toy: Corpus) -> None:
    none, *parts, whole = measure_threshold_size(shy, toy, toy, seed=1, sizes=(5, 10), draws=3)
    assert (none.sentences, none.thresholds) == (0, (0.0,))
    assert none.f1 == (shy.evaluate(toy).f1,)
    assert [(one.sentences, len(one.thresholds), len(one.f1)) for one in parts] == [(5, 3, 3), (10, 3, 3)]
    fit_threshold(shy.model, toy, lambda pairs: score_entities(pairs).f1)
    assert (whole.sentences, whole.thresholds) == (25, (float(shy.model.threshold),))
    assert whole.f1 == (shy.evaluate(toy).f1,)
    assert whole.f1[0] > none.f1[0]
    assert all(f1 <= whole.f1[0] for one in parts for f1 in one.f1)  # the dev data is the test data here


def test_the_model_is_as_before(shy: Recognizer, toy: Corpus) -> None:
    shy.model.threshold.fill_(0.75)
    before = {name: value.clone() for name, value in shy.model.state_dict().items()}
    measure_threshold_size(shy, toy, toy[:5], seed=1, sizes=(3,), draws=2)
    assert all(torch.equal(value, before[name]) for name, value in shy.model.state_dict().items())


def test_sizes_that_the_dev_data_does_not_exceed_are_left_out(shy: Recognizer, toy: Corpus) -> None:
    found = measure_threshold_size(shy, toy[:10], toy[:5], seed=1, sizes=(5, 10, 20), draws=1)
    assert [one.sentences for one in found] == [0, 5, 10]


def test_the_seed_decides_what_is_drawn(shy: Recognizer, toy: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(seed: int) -> list[tuple[tuple[str, ...], ...]]:
        parts: list[tuple[tuple[str, ...], ...]] = []
        monkeypatch.setattr(
            "lacuner.analysis.threshold_size.fit_threshold", lambda model, part, quality: parts.append(part.tokens)
        )
        measure_threshold_size(shy, toy, toy[:2], seed, sizes=(4, 8), draws=2)
        return parts

    small, other, large, _, everything = drawn(1)
    assert drawn(1)[0] == small != other
    assert drawn(2)[0] != small
    assert large[:4] == small
    assert len(set(small)) == 4
    assert everything == toy.tokens


def test_it_can_be_written_as_json_and_read_again() -> None:
    one = SizedThreshold(25, (-0.5, 1.0), (0.25, 0.5))
    assert SizedThreshold.from_dict(json.loads(json.dumps(one.as_dict()))) == one
