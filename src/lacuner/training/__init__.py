"""Epochs, early stopping, checkpoints and settings."""
