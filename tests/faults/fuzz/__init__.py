"""Frames drawn from the schema tables, hostile in some place, beside a client at its work."""
