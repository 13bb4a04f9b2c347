"""Version of the training procedure, separate from the package version because most releases leave results unchanged."""

TRAINING_VERSION = 3
"""Incremented when the same data, settings and seed give a different model; results of other versions are not reused."""
