"""Fetch over many partitions: sessions (KIP-227), reading within one byte limit, and waiting."""
