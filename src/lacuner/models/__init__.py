"""What is trained, and what predicts: an encoder with a head."""
