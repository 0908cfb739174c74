"""Reading topics: offsets, their planning, and the records as Arrow batches."""
