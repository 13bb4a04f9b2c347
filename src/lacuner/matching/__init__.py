"""From a list of names to labels: where a name is, there is an entity, everything else is unknown."""

from lacuner.matching.dictionary import Dictionary
from lacuner.matching.entry import Entry
from lacuner.matching.matcher import Matcher, Matches

__all__ = ["Dictionary", "Entry", "Matcher", "Matches"]
