"""Epochs, early stopping, checkpoints, settings."""
