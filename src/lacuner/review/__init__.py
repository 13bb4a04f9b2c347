"""Decisions about the findings of an audit: items, decisions, store, export. No HTTP in here."""
