"""The interface of the disk, and names on disk."""
