"""Corpora in their original distributions, and their conversion to the files that recipes read."""
