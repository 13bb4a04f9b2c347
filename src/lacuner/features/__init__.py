"""Words → numbers → length-bucketed batches."""
