"""Random frames from the message tables, hostile in some places, next to a working client."""
