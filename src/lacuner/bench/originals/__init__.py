"""Corpora as their authors distribute them, and the files that recipes read made of them."""
