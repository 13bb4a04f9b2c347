"""Comparison of a model with the dictionary that it was trained from, alone and combined."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lacuner.corpus import Entity, Sentence
from lacuner.evaluation.scores import Scores, score_entities
from lacuner.inference.combination import combine
from lacuner.matching.dictionary import Dictionary
from lacuner.matching.matcher import Matcher, are_cut_into_characters

Pairs = Sequence[tuple[Sentence, list[Entity]]]
"""Annotated sentences with a model's predictions."""
MIN_SCORES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
"""Minimum scores tried on dev data."""


@dataclass(frozen=True)
class DictionaryComparison:
    """Scores of a model alone, a dictionary alone, and both combined."""

    model: Scores
    dictionary: Scores
    both: Scores

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the combined scores, and the others under their names."""
        return self.both.as_dict() | {"model": self.model.as_dict(), "dictionary": self.dictionary.as_dict()}

    def table(self) -> str:
        """Format the three side by side, in percent, followed by the labels of the combination."""
        lines = [f"{'':10}  precision  recall      F1"]
        for name, scores in (("model", self.model), ("dictionary", self.dictionary), ("both", self.both)):
            values = (100 * value for value in (scores.precision, scores.recall, scores.f1))
            lines.append("{:10}  {:9.2f}  {:6.2f}  {:6.2f}".format(name, *values))
        return "\n".join([*lines, "", "both, by label", self.both.table()])


@dataclass(frozen=True)
class DictionaryChoice:
    """The best way to combine a dictionary with a model, and its scores on the data used to choose it.

    Attributes:
        names: number of names in the dictionary.
        ignore_case: whether names are matched case-insensitively in the combination.
        min_score: minimum score of the model's entities in the combination; the model alone is scored without it.
        scores: of model and dictionary, each alone at its best, and of both combined.
        alone_ignores_case: whether the dictionary alone is best when case is ignored.
    """

    names: int
    ignore_case: bool
    min_score: float
    scores: DictionaryComparison
    alone_ignores_case: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON; fractions, not percent."""
        result: dict[str, Any] = {"names": self.names, "ignore_case": self.ignore_case, "min_score": self.min_score}
        scores = {name: getattr(self.scores, name) for name in ("model", "dictionary", "both")}
        return result | {
            name: {key: getattr(each, key) for key in ("precision", "recall", "f1")} for name, each in scores.items()
        }


def match_corpus(dictionary: Dictionary, corpus: Sequence[Sentence], ignore_case: bool = False) -> list[list[Entity]]:
    """Match a dictionary against sentences, ignoring their annotation; names that do not occur cost next to nothing."""
    words = [sentence.tokens for sentence in corpus]
    characters = are_cut_into_characters(words)
    names = Dictionary(tuple(dictionary.occurring_in(corpus, characters)))
    matcher = Matcher(names, ignore_case, characters=characters)
    return matcher.entities(words, [sentence.text for sentence in corpus])


def combine_pairs(pairs: Pairs, matches: Sequence[list[Entity]], nested: bool = False) -> Pairs:
    """The sentences with the combined entities of model and dictionary."""
    return [(sentence, combine(names, found, nested)) for (sentence, found), names in zip(pairs, matches, strict=True)]


def compare_with_dictionary(
    pairs: Pairs, matches: Sequence[list[Entity]], nested: bool = False
) -> DictionaryComparison:
    """Score a model and a dictionary on annotated sentences, alone and combined.

    Args:
        pairs: the sentences, and the model's predictions.
        matches: the dictionary's matches in each.
        nested: entities may overlap.
    """
    alone = [(sentence, names) for (sentence, _), names in zip(pairs, matches, strict=True)]
    both = combine_pairs(pairs, matches, nested)
    return DictionaryComparison(*map(score_entities, (pairs, alone, both)))


def choose_dictionary_use(dictionary: Dictionary, pairs: Pairs, nested: bool = False) -> DictionaryChoice:
    """Choose case sensitivity and a minimum score of the model's entities to maximize the F1 of the combination.

    A model trained from a dictionary is mostly right where the dictionary is. What it finds beyond needs a higher score than
    without the dictionary. Of ties, prefer case-sensitive matching, and the lowest score.

    Args:
        dictionary: the names.
        pairs: annotated dev sentences, and the model's predictions.
        nested: entities may overlap.
    """
    corpus = [sentence for sentence, _ in pairs]
    model = score_entities(pairs)
    found = {ignore_case: match_corpus(dictionary, corpus, ignore_case) for ignore_case in (False, True)}
    lists = {ignore_case: score_entities(zip(corpus, found[ignore_case], strict=True)) for ignore_case in found}
    best = max(lists, key=lambda ignore_case: lists[ignore_case].f1)
    choices = []
    for ignore_case, matches in found.items():
        for min_score in MIN_SCORES:
            both = score_entities(combine_pairs(_without_lower(pairs, min_score), matches, nested))
            scores = DictionaryComparison(model, lists[best], both)
            choices.append(DictionaryChoice(len(dictionary), ignore_case, min_score, scores, best))
    return max(choices, key=lambda choice: choice.scores.both.f1)


def _without_lower(pairs: Pairs, min_score: float) -> Pairs:
    return [(sentence, [e for e in found if e.score is None or e.score >= min_score]) for sentence, found in pairs]
