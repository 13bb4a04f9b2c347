import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import TrainingError
from lacuner.methods.method import TokenMethod
from lacuner.methods.partial_crf import Marginalize
from lacuner.methods.stages import StageContext, StageResult
from lacuner.methods.token import Likelihood, Outside
from lacuner.methods.two_step import RandomSpans
from lacuner.methods.weighted_partial_crf import METHODS, WeightedFolds
from lacuner.models.model import Model
from lacuner.models.tag_model import TagModel
from lacuner.supervision.tags import TokenSupervision
from lacuner.training.cross_fit import Fold, fold_tasks, plan_folds
from lacuner.training.tasks import run_tasks

(METHOD,) = METHODS


def corpus_of(incomplete: int, complete: int = 0) -> Corpus:
    """Sentences with gaps, and complete ones between them."""
    count = incomplete + complete
    sentences = [Sentence((f"name{number}", "sleeps"), (Entity(0, 1, "PER"),)) for number in range(count)]
    every = max(1, count // max(1, complete))
    trusted = [number for number in range(count) if number % every == 0][:complete]
    return Corpus(tuple(replace(s, complete=number in trusted) for number, s in enumerate(sentences)))


class Judge(TagModel):
    """A model that has learned from some sentences, and gives each tag a weight that tells who gave it."""

    def __init__(self, number: int, learned: Sequence[int]) -> None:
        nn.Module.__init__(self)
        self.number, self.learned = number, list(learned)
        self.asked: list[tuple[list[int], bool]] = []

    def tag_weights(self, corpus: Corpus, indices: Sequence[int], hard: bool = False) -> dict[int, Tensor]:
        self.asked.append((list(indices), hard))
        return {  # batches have an order of their own
            index: torch.tensor([[0.0, 1.0, 1 / (2 + self.number)]] * len(corpus[index])) for index in reversed(indices)
        }


@dataclass
class School:
    """Nobody learns anything here, but it is written down who would have."""

    seed: int = 1
    judges: list[Judge] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    kept: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def run(self, stage: WeightedFolds, corpus: Corpus, method: TokenMethod = METHOD) -> StageResult:
        def cached(name: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
            if name not in self.kept:
                self.kept[name] = compute()
            return self.kept[name]

        def cross_fitted(
            name: str,
            title: str,
            indices: Sequence[int],
            folds: int,
            predict: Callable[[Model, Sequence[int]], dict[str, Tensor]],
            *,
            method: TokenMethod,
            supervision: Mapping[int, TokenSupervision],
        ) -> list[dict[str, Tensor]]:
            self.asked.append({"name": name, "title": title, "method": method, "supervision": dict(supervision)})
            plan = plan_folds(corpus, folds, self.seed, indices)
            return run_tasks(fold_tasks(corpus, plan, self._fit, predict, name), cached, 1)

        fit = partial(pytest.fail, "only models that leave out a fold are trained")
        return stage.run(StageContext(corpus, ("O", "PER"), method, fit, cross_fitted, cached))

    def _fit(self, fold: Fold) -> Judge:
        self.judges.append(Judge(len(self.judges), fold.train))
        return self.judges[-1]


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("folds", [2, 3])
@pytest.mark.parametrize(("incomplete", "complete"), [(6, 0), (7, 3), (2, 2), (1, 1)])
def test_every_sentence_with_gaps_is_judged_by_a_model_that_has_not_seen_it(
    incomplete: int, complete: int, folds: int, rounds: int
) -> None:
    corpus, school = corpus_of(incomplete, complete), School()
    found = school.run(WeightedFolds(folds=folds, rounds=rounds), corpus)
    with_gaps = [index for index, sentence in enumerate(corpus) if not sentence.complete]
    assert len(school.judges) == rounds * min(folds, incomplete)
    for judge in school.judges:
        ((judged, hard),) = judge.asked
        assert not hard
        assert sorted(judge.learned + judged) == list(range(len(corpus)))
        assert abs(len(judged) - incomplete / folds) < 1
    each = len(school.judges) // rounds
    for number in range(rounds):
        judged = [index for judge in school.judges[each * number : each * (number + 1)] for index in judge.asked[0][0]]
        assert sorted(judged) == with_gaps
    assert sorted(found.tokens) == with_gaps
    assert found.reports == {}
    assert found.spans is None


def test_the_first_round_takes_untagged_words_as_outside_and_later_ones_what_models_said_before() -> None:
    school, corpus = School(), corpus_of(6, 1)
    found = school.run(WeightedFolds(folds=2, rounds=3), corpus)
    first, *later = school.asked
    assert first["method"] == METHOD.model_copy(update={"unlabeled": Outside()})
    assert first["supervision"] == {}
    assert [asked["method"] for asked in later] == [METHOD] * 2
    for number, known in enumerate([*(asked["supervision"] for asked in later), found.tokens]):
        assert len(known) == 6
        for judge in school.judges[2 * number : 2 * number + 2]:
            for index in judge.asked[0][0]:
                expected = [math.log(1e-9), 0.0, -math.log(2 + judge.number)]
                assert known[index].tag_weights.tolist() == [pytest.approx(expected, rel=1e-5)] * 2
                assert (known[index].ignored, known[index].unconstrained) == ((), ())


def test_a_method_that_draws_non_entities_draws_them_in_every_round() -> None:
    school = School()
    school.run(WeightedFolds(), corpus_of(4), METHOD.model_copy(update={"sampling": RandomSpans()}))
    assert len(school.asked) == 2
    assert all(asked["method"].sampling == RandomSpans() for asked in school.asked)


def test_models_have_names_of_their_own_and_say_how_far_they_are() -> None:
    school = School()
    school.run(WeightedFolds(folds=2, rounds=2), corpus_of(4))
    assert [asked["title"] for asked in school.asked] == ["round 1, fold", "round 2, fold"]
    assert sorted(school.kept) == ["fold-1-1", "fold-1-2", "fold-2-1", "fold-2-2"]


def test_what_was_found_out_before_an_interruption_is_not_asked_again() -> None:
    school, corpus = School(), corpus_of(5, 1)
    first = school.run(WeightedFolds(), corpus)
    for name in ("fold-1-1", "fold-1-2", "fold-2-1"):
        assert name in school.kept
    school.judges.clear()
    del school.kept["fold-2-2"]
    again = school.run(WeightedFolds(), corpus)
    assert len(school.judges) == 1
    assert again.tokens.keys() == first.tokens.keys()


def test_only_the_best_sequence_counts_if_that_is_wanted() -> None:
    school = School()
    school.run(WeightedFolds(hard=True), corpus_of(4))
    assert len(school.judges) == 4
    assert all(judge.asked[0][1] for judge in school.judges)


def test_folds_depend_on_the_seed() -> None:
    parts = []
    for seed in (1, 1, 2):
        school = School(seed)
        school.run(WeightedFolds(), corpus_of(30))
        parts.append(school.judges[0].asked[0][0])
    assert parts[0] == parts[1] != parts[2]
    assert parts[0] == sorted(parts[0])


def test_a_sentence_is_not_judged_by_a_model_that_has_read_the_same_words() -> None:
    """Whether the other one has gaps, too, or is complete."""
    twins = [Sentence((f"name{number}", "sleeps"), (Entity(0, 1, "PER"),)) for number in range(6)]
    corpus, school = Corpus((*twins, *twins, replace(twins[0], complete=True))), School()
    school.run(WeightedFolds(), corpus)
    for judge in school.judges:
        read = {corpus.tokens[index] for index in judge.learned}
        assert read.isdisjoint({corpus.tokens[index] for index in judge.asked[0][0]})


def test_where_everything_is_complete_nothing_is_judged() -> None:
    school = School()
    assert school.run(WeightedFolds(), corpus_of(0, 3)).tokens == {}
    assert school.judges == []


@pytest.mark.parametrize("others", [(), (Sentence(("nothing", "here")),), (Sentence(("nor", "there"), complete=True),)])
def test_where_nothing_is_left_to_learn_from_the_reason_is_said(others: tuple[Sentence, ...]) -> None:
    corpus = Corpus((Sentence(("Ada", "sleeps"), (Entity(0, 1, "PER"),)), *others))
    with pytest.raises(
        TrainingError, match=r"without fold . of . no annotated entity is left to learn from — annotate"
    ):
        School().run(WeightedFolds(), corpus)


def test_the_preset_marginalizes_over_untagged_words_with_weights() -> None:
    assert (METHOD.name, METHOD.head.name, METHOD.unlabeled) == ("weighted-partial-crf", "crf", Marginalize())
    assert (METHOD.sampling, METHOD.regularizer, METHOD.loss) == (None, None, Likelihood())
    assert METHOD.stage == WeightedFolds(folds=2, rounds=2, hard=False)
    assert METHOD.stage.gives_tag_weights
