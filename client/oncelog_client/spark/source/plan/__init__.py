"""The plan of a source: what it reads, from where, up to where, and in which tasks."""
