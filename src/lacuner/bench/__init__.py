"""Recipes that make tables and figures: what is compared with what, run cell by cell, reported from what was written down."""
