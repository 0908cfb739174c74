"""Reading topics: where a micro-batch ends, and its records as Arrow batches."""
