"""The operating system: its files, its descriptors, the space of its disk, owners of its locks."""
