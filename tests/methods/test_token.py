import pytest
import torch

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.heads import TAG_HEADS
from lacuner.methods.parts import Step, TrainingData
from lacuner.methods.token import METHODS, Likelihood, Outside
from lacuner.methods.two_step import OValues
from lacuner.methods.weighted_partial_crf import WeightedFolds
from lacuner.supervision.tags import TagSet, TokenSupervision, build_tag_targets

(METHOD,) = METHODS
SENTENCE = Sentence(("Ada", "moved", "to", "Turin"), (Entity(0, 1, "PER"),))


def test_an_unlabeled_word_is_outside() -> None:
    tags = TagSet("bioes", ("O", "LOC", "PER"))
    partly = Sentence(SENTENCE.tokens, complete=True, unknown_tokens=frozenset({2}))
    targets = build_tag_targets([SENTENCE, partly], tags)
    outside = Outside().allow(targets)
    assert outside[0].nonzero().tolist() == [[0, tags.tag("S", 2)], [1, 0], [2, 0], [3, 0]]
    assert outside[1].nonzero().tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]


def test_who_takes_unlabeled_words_as_outside_has_no_use_for_weights_of_their_tags() -> None:
    data = TrainingData(Corpus((SENTENCE,)), None)
    with pytest.raises(
        ConfigError,
        match=r"stage=tag-weights weighs the tags of untagged words, but unlabeled=outside .* unlabeled=marginalize, or",
    ):
        METHOD.model_copy(update={"stage": WeightedFolds()}).check(data)
    METHOD.model_copy(update={"stage": OValues()}).check(data)
    METHOD.check(data)


@pytest.mark.parametrize("head", TAG_HEADS)
def test_the_likelihood_is_the_heads_without_the_words_that_are_ignored(head: str) -> None:
    torch.manual_seed(0)
    tags = TagSet("bioes", ("O", "LOC", "PER"))
    targets = build_tag_targets([SENTENCE], tags, [TokenSupervision(ignored=(2,))])
    built, decisions = TAG_HEADS[head]().build(3, tags), torch.randn(1, 4, len(tags))
    weights = torch.zeros(decisions.shape).masked_fill(~targets.allowed, float("-inf"))
    found = Likelihood()(built, decisions, weights, targets, Step(0, 1, torch.Generator()), {})
    assert found.shape == ()
    assert found.equal(built.loss(decisions, weights, targets.lengths, targets.ignored))
    assert not found.equal(built.loss(decisions, weights, targets.lengths, torch.zeros_like(targets.ignored)))


def test_the_preset_takes_every_untagged_word_as_outside() -> None:
    assert (METHOD.name, METHOD.level, METHOD.unlabeled) == ("token", "token", Outside())
    assert (METHOD.sampling, METHOD.regularizer, METHOD.stage, METHOD.loss) == (None, None, None, Likelihood())
    assert (METHOD.head.name, METHOD.head.scheme, METHOD.head.angle) == ("softmax", "bioes", False)
