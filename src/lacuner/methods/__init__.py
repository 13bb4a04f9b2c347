"""Training methods, one file per paper: treatment of unlabeled text, loss, and inference."""
