"""Bytes to requests and answers to bytes: the edge that owns sockets."""
