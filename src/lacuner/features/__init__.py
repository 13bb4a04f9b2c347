"""Words → indices → length-bucketed batches."""
