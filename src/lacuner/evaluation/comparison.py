"""Is the model better than the list that it was trained from? Scores of both, alone and together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lacuner.corpus import Entity, Sentence
from lacuner.evaluation.scores import Scores, score_entities
from lacuner.inference.combination import combine
from lacuner.matching.dictionary import Dictionary
from lacuner.matching.matcher import Matcher, are_cut_into_characters

Pairs = Sequence[tuple[Sentence, list[Entity]]]
"""Annotated sentences, and what a model finds in them."""
MIN_SCORES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
"""Least scores that are tried on dev data."""


@dataclass(frozen=True)
class DictionaryComparison:
    """Scores of a model alone, of a dictionary alone, and of both together."""

    model: Scores
    dictionary: Scores
    both: Scores

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the scores of both together, with the others under their names."""
        return self.both.as_dict() | {"model": self.model.as_dict(), "dictionary": self.dictionary.as_dict()}

    def table(self) -> str:
        """The three side by side, in percent; the labels follow, for both together."""
        lines = [f"{'':10}  precision  recall      F1"]
        for name, scores in (("model", self.model), ("dictionary", self.dictionary), ("both", self.both)):
            values = (100 * value for value in (scores.precision, scores.recall, scores.f1))
            lines.append("{:10}  {:9.2f}  {:6.2f}  {:6.2f}".format(name, *values))
        return "\n".join([*lines, "", "both, by label", self.both.table()])


@dataclass(frozen=True)
class DictionaryChoice:
    """How a dictionary is best used with a model, and what is reached then on the data on which that was chosen.

    Attributes:
        names: how many the dictionary has.
        ignore_case: whether case is ignored when they are matched and the model is asked, too.
        min_score: entities of the model with a lower score are left out; the model alone is scored without that.
        scores: of model and dictionary, each alone at its best, and of both together.
        alone_ignores_case: whether case is ignored where the dictionary alone is best.
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
    """What a dictionary finds in sentences, whatever is annotated in them; names that are not there cost next to nothing."""
    words = [sentence.tokens for sentence in corpus]
    characters = are_cut_into_characters(words)
    names = Dictionary(tuple(dictionary.occurring_in(corpus, characters)))
    matcher = Matcher(names, ignore_case, characters=characters)
    return matcher.entities(words, [sentence.text for sentence in corpus])


def combine_pairs(pairs: Pairs, matches: Sequence[list[Entity]], nested: bool = False) -> Pairs:
    """The sentences, and what model and dictionary find in them together."""
    return [(sentence, combine(names, found, nested)) for (sentence, found), names in zip(pairs, matches, strict=True)]


def compare_with_dictionary(
    pairs: Pairs, matches: Sequence[list[Entity]], nested: bool = False
) -> DictionaryComparison:
    """Scores of a model and a dictionary on annotated sentences, alone and together.

    Args:
        pairs: the sentences, and what the model finds in them.
        matches: what the dictionary finds in each.
        nested: entities may overlap.
    """
    alone = [(sentence, names) for (sentence, _), names in zip(pairs, matches, strict=True)]
    both = combine_pairs(pairs, matches, nested)
    return DictionaryComparison(*map(score_entities, (pairs, alone, both)))


def choose_dictionary_use(dictionary: Dictionary, pairs: Pairs, nested: bool = False) -> DictionaryChoice:
    """Whether to ignore case, and which of the model's entities to keep, so that both together have the best F1.

    A model that was trained from a list is most often right where the list is. What it finds beyond needs a greater score
    than it does without the list. Of equals, the choice is the exact case, and the lowest score.

    Args:
        dictionary: the names.
        pairs: annotated dev sentences, and what the model finds in them.
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
