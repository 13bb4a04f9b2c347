"""The method ``kb``: match the names of a dataset's dictionary on test data, without training.

Its score is the baseline of a model trained on labels from that dictionary.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from lacuner.corpus import Corpus, Entity, Sentence
from lacuner.errors import ConfigError
from lacuner.matching import Dictionary, Matcher
from lacuner.parts import Settings, validate

METHOD = "kb"
"""Its name among the methods of a recipe."""
EXPERIMENT = "kb"
"""Its name in the configuration of a run."""


class MatchSettings(Settings):
    """How names are matched."""

    ignore_case: bool = Field(False, description="upper and lower case do not matter")


def match_settings(settings: Mapping[str, Any]) -> MatchSettings:
    """Parse settings of a recipe: ``kb ignore_case=true``."""
    return validate(MatchSettings, settings, f"{METHOD} ")


def match_names(dictionary: Dictionary, corpus: Corpus, settings: MatchSettings) -> list[tuple[Sentence, list[Entity]]]:
    """Match names in each sentence, in the same way as ``annotate``."""
    tokens = corpus.tokens
    matcher = Matcher.for_sentences(dictionary, tokens, settings.ignore_case)
    return list(zip(corpus, matcher.entities(tokens, [sentence.text for sentence in corpus]), strict=True))


def check_names(dictionary: Dictionary, corpus: Corpus) -> None:
    """Reject a dictionary with other labels: none of its matches could be right."""
    if set(dictionary.labels).isdisjoint(corpus.labels):
        known = ", ".join(dictionary.labels) or "none"
        raise ConfigError(
            f"the dictionary has no label of the test data, which are {', '.join(corpus.labels)}; it has {known} — "
            "rename them in one of the two"
        )
