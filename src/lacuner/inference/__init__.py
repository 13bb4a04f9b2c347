"""Texts → entities: backends, prediction, thresholds."""
