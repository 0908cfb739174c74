"""The rules of the client, without I/O: batching, membership, transaction states, settings."""
