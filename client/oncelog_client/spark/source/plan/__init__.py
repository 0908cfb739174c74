"""The plan of a source: its partitions, their ranges of offsets, and its tasks."""
