"""Benchmarks from recipes: what is compared, the runs needed for it, and the report of their results."""
