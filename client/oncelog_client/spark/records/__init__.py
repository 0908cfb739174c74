"""Records as Arrow columns: batches decoded for the source, rows encoded for the sink."""
