import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from lacuner.methods.tagging import Anything, Findings, Outside, RandomSpans, StageContext, TokenMethod
from torch import Tensor

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import TrainingError
from lacuner.methods.partial_crf import METHODS, WeightedFolds
from lacuner.supervision.tags import TokenSupervision

PRESETS = {method.name: method for method in METHODS}
TAGS = 3


def corpus_of(unsure: int, complete: int = 0) -> Corpus:
    """Sentences with gaps, and complete ones between them."""
    sentences = [Sentence((f"name{number}", "sleeps"), (Entity(0, 1, "PER"),)) for number in range(unsure + complete)]
    every = max(1, (unsure + complete) // max(1, complete))
    trusted = [number for number in range(unsure + complete) if number % every == 0][:complete]
    return Corpus(tuple(replace(s, complete=number in trusted) for number, s in enumerate(sentences)))


@dataclass
class Judge:
    """A model that has learned from some sentences and gives each tag a weight that tells who gave it."""

    number: int
    learned: list[int]
    asked: list[tuple[list[int], bool]] = field(default_factory=list)

    def tag_weights(self, corpus: Corpus, places: list[int], hard: bool = False) -> Any:
        self.asked.append((list(places), hard))
        return {  # batches have an order of their own
            place: torch.tensor([[0.0, 1.0, 1 / (2 + self.number)]] * len(corpus[place])) for place in reversed(places)
        }


@dataclass
class School:
    """A studio in which nobody learns anything, but it is written down who would have."""

    judges: list[Judge] = field(default_factory=list)
    fits: list[dict[str, Any]] = field(default_factory=list)
    kept: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def run(self, stage: WeightedFolds, corpus: Corpus, method: TokenMethod, seed: int = 1) -> Findings:
        def fit(
            name: str, title: str, method: TokenMethod, places: list[int], advice: dict[int, TokenSupervision]
        ) -> Judge:
            self.fits.append({"name": name, "title": title, "method": method, "advice": dict(advice)})
            self.judges.append(Judge(len(self.judges), list(places)))
            return self.judges[-1]

        def remember(name: str, find_out: Any) -> dict[str, Tensor]:
            if name not in self.kept:
                self.kept[name] = find_out()
            return self.kept[name]

        return stage.run(StageContext(corpus, method, seed, fit, remember))


METHOD = PRESETS["weighted-partial-crf"]


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("folds", [2, 3])
@pytest.mark.parametrize(("unsure", "complete"), [(6, 0), (7, 3), (2, 2), (1, 1)])
def test_every_sentence_with_gaps_is_judged_by_a_model_that_has_not_seen_it(
    unsure: int, complete: int, folds: int, rounds: int
) -> None:
    corpus, school = corpus_of(unsure, complete), School()
    findings = school.run(WeightedFolds(folds=folds, rounds=rounds), corpus, METHOD)
    with_gaps = [place for place, sentence in enumerate(corpus) if not sentence.complete]
    assert len(school.judges) == rounds * min(folds, unsure)
    for judge in school.judges:
        ((judged, hard),) = judge.asked
        assert not hard
        assert sorted(judge.learned + judged) == list(range(len(corpus)))
        assert abs(len(judged) - unsure / folds) < 1
    each = len(school.judges) // rounds
    for number in range(rounds):
        judged = [place for judge in school.judges[each * number : each * (number + 1)] for place in judge.asked[0][0]]
        assert sorted(judged) == with_gaps
    assert sorted(findings.advice) == with_gaps
    assert findings.reports == {}


def test_the_first_round_takes_untagged_words_as_outside_and_later_ones_what_was_thought_before() -> None:
    school, corpus = School(), corpus_of(6, 1)
    findings = school.run(WeightedFolds(folds=2, rounds=3), corpus, METHOD)
    first, second, third = school.fits[:2], school.fits[2:4], school.fits[4:]
    assert [fit["method"] for fit in first] == [METHOD.model_copy(update={"unlabeled": Outside()})] * 2
    assert [fit["advice"] for fit in first] == [{}, {}]
    assert [fit["method"] for fit in second + third] == [METHOD] * 4
    for fits, judges in ((second, school.judges[:2]), (third, school.judges[2:4]), ([findings], school.judges[4:])):
        for fit in fits:
            advice = fit.advice if fit is findings else fit["advice"]
            assert len(advice) == 6
            for judge in judges:
                for place in judge.asked[0][0]:
                    expected = [math.log(1e-9), 0.0, -math.log(2 + judge.number)]
                    assert advice[place].weights.tolist() == [pytest.approx(expected, rel=1e-5)] * 2
                    assert (advice[place].removed, advice[place].open) == ((), ())


def test_a_method_that_draws_non_entities_draws_them_in_every_round() -> None:
    school = School()
    school.run(WeightedFolds(), corpus_of(4), METHOD.model_copy(update={"sampling": RandomSpans()}))
    assert all(fit["method"].sampling == RandomSpans() for fit in school.fits)


def test_models_have_names_of_their_own_and_say_how_far_they_are() -> None:
    school = School()
    school.run(WeightedFolds(folds=2, rounds=2), corpus_of(4), METHOD)
    assert [fit["title"] for fit in school.fits] == [
        "round 1, fold 1/2",
        "round 1, fold 2/2",
        "round 2, fold 1/2",
        "round 2, fold 2/2",
    ]
    assert len({fit["name"] for fit in school.fits}) == 4


def test_what_was_found_out_before_a_kill_is_not_asked_again() -> None:
    school, corpus = School(), corpus_of(5, 1)
    first = school.run(WeightedFolds(), corpus, METHOD)
    for name in ("fold-1-1", "fold-1-2", "fold-2-1"):
        assert name in school.kept
    school.judges.clear()
    del school.kept["fold-2-2"]
    again = school.run(WeightedFolds(), corpus, METHOD)
    assert len(school.judges) == 1
    assert again.advice.keys() == first.advice.keys()


def test_only_the_best_sequence_counts_if_that_is_wanted() -> None:
    school = School()
    school.run(WeightedFolds(hard=True), corpus_of(4), METHOD)
    assert all(judge.asked[0][1] for judge in school.judges)


def test_folds_depend_on_the_seed() -> None:
    parts = []
    for seed in (1, 1, 2):
        school = School()
        school.run(WeightedFolds(), corpus_of(30), METHOD, seed)
        parts.append(school.judges[0].asked[0][0])
    assert parts[0] == parts[1] != parts[2]
    assert parts[0] == sorted(parts[0])


def test_where_everything_is_complete_nothing_is_judged() -> None:
    school = School()
    findings = school.run(WeightedFolds(), corpus_of(0, 3), METHOD)
    assert findings.advice == {}
    assert school.judges == []


@pytest.mark.parametrize("others", [(), (Sentence(("nothing", "here")),), (Sentence(("nor", "there"), complete=True),)])
def test_where_nothing_is_left_to_learn_from_the_reason_is_said(others: tuple[Sentence, ...]) -> None:
    corpus = Corpus((Sentence(("Ada", "sleeps"), (Entity(0, 1, "PER"),)), *others))
    with pytest.raises(TrainingError, match=r"fold ./2: no annotated entity is left to learn from — annotate more"):
        School().run(WeightedFolds(), corpus, METHOD)


def test_the_presets_marginalise_over_untagged_words() -> None:
    assert set(PRESETS) == {"partial-crf", "weighted-partial-crf"}
    for method in METHODS:
        assert (method.head.name, method.untagged) == ("crf", Anything())
        assert (method.sampling, method.balance) == (None, None)
    assert PRESETS["partial-crf"].stage is None
    assert PRESETS["weighted-partial-crf"].stage == WeightedFolds(folds=2, hard=False)
