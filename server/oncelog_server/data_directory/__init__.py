"""The data directory as a whole: its lock, its owner, its checkpoints."""
