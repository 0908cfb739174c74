"""Copy loops of a consumer group as real processes: read, write, commit the offsets, all in
transactions."""
