"""Audits: find missing and wrong annotations in a corpus."""
