"""The disk: its interface, the operating system's implementation, names in the data directory."""
