"""The disk: its interface, the operating system's implementation, and names on disk."""
