"""The network edge, which owns the sockets of clients."""
