from dataclasses import replace

import pytest
import torch

from lacuner.corpus import Corpus, Entity, Sentence, Span
from lacuner.errors import ConfigError
from lacuner.methods.eer import EntityRatio
from lacuner.methods.partial_crf import METHODS, Marginalize
from lacuner.methods.parts import TrainingData
from lacuner.methods.token import Likelihood, Outside
from lacuner.methods.two_step import OValues, RandomSpans
from lacuner.methods.weighted_partial_crf import WeightedFolds
from lacuner.supervision.tags import TagSet, build_tag_targets

(METHOD,) = METHODS
GAPS = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),))


def test_an_unlabeled_word_may_be_anything() -> None:
    tags = TagSet("bioes", ("O", "LOC", "PER"))
    partly = Sentence(GAPS.tokens, complete=True, unknown_tokens=frozenset({2}))
    targets = build_tag_targets([GAPS, partly], tags)
    allowed = Marginalize().allow(targets)
    assert allowed.all(-1).tolist() == [[False, True, True, True], [False, False, True, False]]
    known = ~targets.unknown
    assert known.any()
    assert allowed[known].equal(Outside().allow(targets)[known])
    assert allowed.dtype == torch.bool


def data(*sentences: Sentence) -> TrainingData:
    return TrainingData(Corpus(sentences), None)


@pytest.mark.parametrize(
    "sentence", [GAPS, replace(GAPS, non_entities=(Span(1, 2), Span(2, 4)))], ids=["gaps", "rejected spans"]
)
def test_who_learns_from_entities_alone_is_told_what_is_missing(sentence: Sentence) -> None:
    """A rejected span is no entity, but no word of it is known to be outside."""
    expected = r"partial-crf cannot learn what is not an entity: no sentence is complete — .*--trusted.*sampling=spans"
    with pytest.raises(ConfigError, match=expected):
        METHOD.check(data(sentence))
    with pytest.raises(ConfigError, match=expected):
        METHOD.model_copy(update={"stage": OValues()}).check(data(sentence))


@pytest.mark.parametrize(
    "changes",
    [{"sampling": RandomSpans(label="O")}, {"regularizer": EntityRatio()}, {"stage": WeightedFolds()}],
    ids=["sampling", "regularizer", "stage"],
)
def test_a_part_that_says_what_is_no_entity_is_enough(changes: dict[str, object]) -> None:
    METHOD.model_copy(update=changes).check(data(GAPS))


def test_a_complete_sentence_is_enough() -> None:
    METHOD.check(data(GAPS, replace(GAPS, complete=True)))


def test_the_preset_marginalizes_over_untagged_words() -> None:
    assert (METHOD.name, METHOD.head.name, METHOD.unlabeled) == ("partial-crf", "crf", Marginalize())
    assert (METHOD.sampling, METHOD.regularizer, METHOD.stage, METHOD.loss) == (None, None, None, Likelihood())
