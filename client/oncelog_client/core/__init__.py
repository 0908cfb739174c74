"""The pure rules of the client: batching, membership, transaction states, settings."""
