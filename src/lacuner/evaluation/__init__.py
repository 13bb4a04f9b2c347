"""Exact-match scores and error reports."""

from lacuner.evaluation.scores import LabelScores, Scores, score_entities

__all__ = ["LabelScores", "Scores", "score_entities"]
