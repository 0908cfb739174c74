"""Parts of the broker that are imported after its start, or not at all."""
