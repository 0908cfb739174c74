"""The source: plans the end of each micro-batch, and reads its records as Arrow batches."""
