"""Supervision of spans and words as tensors."""
