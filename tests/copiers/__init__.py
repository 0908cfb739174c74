"""Copy loops of a consumer group as real processes: they read, write and commit the offsets, all in
transactions."""
