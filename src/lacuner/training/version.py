"""The version of training: a number, because a release of the package may leave every result as it was."""

TRAINING_VERSION = 3
"""Raised when the same data, settings and seed give another model than before; results of other versions are not reused."""
