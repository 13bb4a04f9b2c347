"""What to do with the unknown, which loss, what at inference: one file a paper."""
