"""Exact-match scores and error reports."""

from lacuner.evaluation.scores import LabelScores, ScoreCounts, Scores, score_entities

__all__ = ["LabelScores", "ScoreCounts", "Scores", "score_entities"]
