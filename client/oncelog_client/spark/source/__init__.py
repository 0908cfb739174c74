"""Reads topics: the end of a micro-batch, and its records as Arrow batches."""
