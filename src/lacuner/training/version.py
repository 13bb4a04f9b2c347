"""Version of the training procedure, separate from the package version because most releases leave results unchanged."""

TRAINING_VERSION = 3
"""Raised when the same data, settings and seed give another model than before; results of other versions are not reused."""
