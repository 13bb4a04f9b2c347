"""Lacuner inside other libraries."""
