"""Parallel processing of many items: ordered maps over processes, and resumable maps over shards of files."""
