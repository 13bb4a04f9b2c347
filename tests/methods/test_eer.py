from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lacuner.methods.tagging import Anything

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.heads import TAG_HEADS
from lacuner.methods.eer import METHODS, USUAL, EntityRatio
from lacuner.methods.registry import registry
from lacuner.parts import build_part
from lacuner.supervision.tags import TagSet
from lacuner.training.settings import RunSettings, resolve_settings

SHARES = st.floats(0, 1)


@given(SHARES, SHARES, SHARES, st.floats(0, 100))
def test_only_what_differs_by_more_than_the_margin_costs(
    share: float, ratio: float, margin: float, weight: float
) -> None:
    cost = EntityRatio(ratio=ratio, margin=margin, weight=weight)(torch.tensor(share, dtype=torch.float64)).item()
    distance = abs(share - ratio)
    assert cost == pytest.approx(weight * (distance - margin) if distance > margin else 0.0, abs=1e-9)


@pytest.mark.parametrize(("share", "direction"), [(0.5, 1), (0.26, 1), (0.24, 0), (0.16, 0), (0.14, -1), (0.0, -1)])
def test_the_gradient_leads_into_the_band(share: float, direction: int) -> None:
    expected = torch.tensor(share, requires_grad=True)
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
    balance = EntityRatio(ratio=0.3, margin=0.02)
    optimizer = torch.optim.Adam([decisions], 0.3)
    shares = []
    for _ in range(80):
        share = head.expected(decisions, lengths, counted).sum() / lengths.sum()
        shares.append(share.item())
        optimizer.zero_grad()
        balance(share).backward()
        assert decisions.grad.isfinite().all()
        optimizer.step()
    assert abs(shares[0] - 0.3) > 0.1
    assert abs(shares[-1] - 0.3) <= 0.05


def settings_of(**more: object) -> RunSettings:
    return resolve_settings("eer", overrides=more)


def ratio(settings: RunSettings) -> float | None:
    return settings.method.balance.ratio


GAPS = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"), Entity(3, 4, "LOC")))
OTHER = Sentence(
    ("Kurt", "Gödel", "left", "Brno", "Czech"), (Entity(0, 2, "PER"), Entity(1, 2, "PER"), Entity(3, 4, "LOC"))
)


def test_the_ratio_is_that_of_complete_sentences_or_of_dev_data_or_the_usual_one() -> None:
    """A word that belongs to two entities is one word."""
    complete = replace(OTHER, complete=True)
    assert ratio(settings_of()) is None
    assert ratio(settings_of().for_corpus([GAPS, *[complete] * 20], [GAPS] * 50)) == 3 / 5
    assert ratio(settings_of().for_corpus([GAPS, *[complete, replace(GAPS, complete=True)] * 20])) == 5 / 9
    assert ratio(settings_of().for_corpus([GAPS], Corpus((GAPS, OTHER) * 20))) == 5 / 9
    assert ratio(settings_of().for_corpus([GAPS])) == USUAL == 0.15
    assert ratio(settings_of().for_corpus([GAPS], [Sentence(())])) == USUAL


def test_a_few_complete_words_or_labels_do_not_tell_the_ratio() -> None:
    complete = replace(OTHER, complete=True)
    assert ratio(settings_of().for_corpus([complete] * 19)) == USUAL
    assert ratio(settings_of().for_corpus([replace(complete, annotated_labels=frozenset({"PER"}))] * 50)) == USUAL
    assert ratio(settings_of().for_corpus([replace(complete, unknown_tokens=frozenset({0}))] * 50)) == USUAL


def test_dev_data_with_gaps_does_not_tell_the_ratio() -> None:
    assert ratio(settings_of(**{"training.metric": "pu"}).for_corpus([GAPS], [OTHER] * 50)) == USUAL


def test_a_ratio_that_is_given_is_taken() -> None:
    settings = settings_of(**{"regularizer.ratio": 0.4})
    assert ratio(settings.for_corpus([replace(OTHER, complete=True)] * 50, [GAPS])) == 0.4
    assert ratio(settings_of(**{"regularizer.ratio": 0}).for_corpus([GAPS], [GAPS] * 50)) == 0.0


def test_what_was_prepared_is_what_the_model_remembers() -> None:
    settings = settings_of().for_corpus([replace(OTHER, complete=True)] * 20)
    assert RunSettings.model_validate(settings).method.balance == EntityRatio(ratio=3 / 5)


def test_without_preparation_the_usual_ratio_counts() -> None:
    share = torch.tensor(0.35)
    assert EntityRatio()(share).item() == pytest.approx(EntityRatio(ratio=USUAL)(share).item())


@pytest.mark.parametrize(("key", "value"), [("ratio", 1.1), ("ratio", -0.1), ("margin", -1), ("weight", -1)])
def test_a_ratio_without_sense_is_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"balance\.{key}"):
        build_part("balance", {"name": "entity-ratio", key: value}, registry().choices("balance"))


def test_the_preset_has_the_numbers_of_the_paper() -> None:
    (method,) = METHODS
    assert (method.name, method.untagged, method.sampling, method.stage) == ("eer", Anything(), None, None)
    assert method.balance == EntityRatio(ratio=None, margin=0.05, weight=10.0)
    assert method.head.name == "crf"
