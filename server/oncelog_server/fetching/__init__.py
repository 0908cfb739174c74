"""Fetch over many partitions: sessions (KIP-227), reading under one limit, and waiting."""
