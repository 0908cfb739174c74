"""Fetch over many partitions: sessions (KIP-227), the reading of all partitions under one limit,
and waiting."""
