"""Distant labels from a list of names: matched names are entities, everything else is unknown."""

from lacuner.matching.dictionary import Dictionary
from lacuner.matching.entry import Entry
from lacuner.matching.matcher import Matcher, Matches

__all__ = ["Dictionary", "Entry", "Matcher", "Matches"]
