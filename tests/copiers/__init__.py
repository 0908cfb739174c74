"""Copy loops of a consumer group as real processes. They read, write and commit the offsets in
transactions."""
