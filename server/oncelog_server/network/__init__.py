"""The network edge, which owns the sockets: bytes to requests and responses to bytes."""
