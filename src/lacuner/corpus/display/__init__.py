"""Texts with their entities as people see them: in pages, in notebooks and in a terminal, with one color for each label."""
