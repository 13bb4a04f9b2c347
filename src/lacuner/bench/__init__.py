"""Experiments from recipes: what is compared, the runs that it takes, and the report of their results."""
