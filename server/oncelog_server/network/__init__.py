"""Bytes to requests and answers to bytes: the edge that owns sockets (performance brief, section
7)."""
