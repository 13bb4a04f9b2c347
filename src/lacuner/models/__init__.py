"""Models: an encoder with a head."""
