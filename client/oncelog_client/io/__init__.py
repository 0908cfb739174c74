"""The edges of the client: connections, and the loops that send, fetch and keep a membership."""
