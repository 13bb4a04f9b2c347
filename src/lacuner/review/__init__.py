"""Decisions about what an audit has found: items, store, export. No HTTP in here."""
