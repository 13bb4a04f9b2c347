from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.heads import TAG_HEADS
from lacuner.methods.eer import METHODS, USUAL_RATIO, EntityRatio
from lacuner.methods.method import TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.registry import registry
from lacuner.methods.token import Likelihood
from lacuner.parts import build_part
from lacuner.supervision.tags import TagSet
from lacuner.training.settings import RunSettings, resolve_settings

FRACTIONS = st.floats(0, 1)


@given(FRACTIONS, FRACTIONS, FRACTIONS, st.floats(0, 100))
def test_only_what_differs_by_more_than_the_margin_costs(
    fraction: float, ratio: float, margin: float, weight: float
) -> None:
    cost = EntityRatio(ratio=ratio, margin=margin, weight=weight)(torch.tensor(fraction, dtype=torch.float64)).item()
    distance = abs(fraction - ratio)
    assert cost == pytest.approx(weight * (distance - margin) if distance > margin else 0.0, abs=1e-9)


@pytest.mark.parametrize(("fraction", "direction"), [(0.5, 1), (0.26, 1), (0.24, 0), (0.16, 0), (0.14, -1), (0.0, -1)])
def test_the_gradient_leads_into_the_band(fraction: float, direction: int) -> None:
    expected = torch.tensor(fraction, requires_grad=True)
    EntityRatio(ratio=0.2, margin=0.05, weight=3.0)(expected).backward()
    assert expected.grad.item() == pytest.approx(3.0 * direction)


@pytest.mark.parametrize("name", TAG_HEADS)
@pytest.mark.parametrize("begin", [-4.0, 4.0])
def test_a_tagger_that_learns_nothing_else_comes_to_expect_as_many_words_as_usual(name: str, begin: float) -> None:
    """Whether it sees entities nowhere or everywhere at first."""
    torch.manual_seed(0)
    tags = TagSet("bioes", ("O", "LOC", "PER"))
    head, lengths = TAG_HEADS[name]().build(3, tags), torch.tensor([9, 4, 1])
    decisions = torch.randn(3, 9, len(tags))
    decisions[..., 0] -= begin
    decisions.requires_grad_()
    counted = torch.tensor(tags.label_of).ne(0).float()
    regularizer = EntityRatio(ratio=0.3, margin=0.02)
    optimizer = torch.optim.Adam([decisions], 0.3)
    fractions = []
    for _ in range(80):
        fraction = head.expected(decisions, lengths, counted).sum() / lengths.sum()
        fractions.append(fraction.item())
        optimizer.zero_grad()
        regularizer(fraction).backward()
        assert decisions.grad.isfinite().all()
        optimizer.step()
    assert abs(fractions[0] - 0.3) > 0.1
    assert abs(fractions[-1] - 0.3) <= 0.05


def settings_of(**more: object) -> RunSettings:
    return resolve_settings("eer", overrides=more)


def ratio(settings: RunSettings) -> float | None:
    return settings.method.regularizer.ratio


GAPS = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC")))
OTHER = Sentence(
    ("Kurt", "Gödel", "left", "Brno", "Czech"), (Entity(0, 2, "PER"), Entity(1, 2, "PER"), Entity(3, 4, "LOC"))
)


def test_the_ratio_is_that_of_complete_sentences_or_of_dev_data_or_the_usual_one() -> None:
    """A word that belongs to two entities is one word."""
    complete = replace(OTHER, complete=True)
    assert ratio(settings_of()) is None
    assert ratio(settings_of().for_data([GAPS, *[complete] * 20], [GAPS] * 50)) == 3 / 5
    assert ratio(settings_of().for_data([GAPS, *[complete, replace(GAPS, complete=True)] * 20])) == 5 / 9
    assert ratio(settings_of().for_data([GAPS], Corpus((GAPS, OTHER) * 20))) == 5 / 9
    assert ratio(settings_of().for_data([GAPS])) == USUAL_RATIO == 0.15
    assert ratio(settings_of().for_data([GAPS], [Sentence(())])) == USUAL_RATIO


def test_a_few_complete_words_or_labels_do_not_tell_the_ratio() -> None:
    complete = replace(OTHER, complete=True)
    assert ratio(settings_of().for_data([complete] * 19)) == USUAL_RATIO
    assert ratio(settings_of().for_data([replace(complete, annotated_labels=frozenset({"PER"}))] * 50)) == USUAL_RATIO
    assert ratio(settings_of().for_data([replace(complete, unknown_tokens=frozenset({0}))] * 50)) == USUAL_RATIO


def test_dev_data_with_gaps_does_not_tell_the_ratio() -> None:
    assert ratio(settings_of(**{"training.metric": "pu"}).for_data([GAPS], [OTHER] * 50)) == USUAL_RATIO


def test_a_ratio_that_is_given_is_taken() -> None:
    settings = settings_of(**{"regularizer.ratio": 0.4})
    assert ratio(settings.for_data([replace(OTHER, complete=True)] * 50, [GAPS])) == 0.4
    assert ratio(settings_of(**{"regularizer.ratio": 0}).for_data([GAPS], [GAPS] * 50)) == 0.0


def test_what_was_prepared_is_what_the_model_remembers() -> None:
    settings = settings_of().for_data([replace(OTHER, complete=True)] * 20)
    assert RunSettings.model_validate(settings).method.regularizer == EntityRatio(ratio=3 / 5)


def test_without_preparation_the_usual_ratio_counts() -> None:
    fraction = torch.tensor(0.35)
    assert EntityRatio()(fraction).item() == pytest.approx(EntityRatio(ratio=USUAL_RATIO)(fraction).item())


@pytest.mark.parametrize(("key", "value"), [("ratio", 1.1), ("ratio", -0.1), ("margin", -1), ("weight", -1)])
def test_a_ratio_without_sense_is_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"regularizer\.{key}"):
        build_part("regularizer", {"name": "entity-ratio", key: value}, registry().choices("regularizer", TokenMethod))


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    (method,) = METHODS
    assert (method.name, method.unlabeled, method.sampling, method.stage) == ("eer", Marginalize(), None, None)
    assert method.loss == Likelihood()
    assert method.regularizer == EntityRatio(ratio=None, margin=0.05, weight=10.0)
    assert method.head.name == "crf"
