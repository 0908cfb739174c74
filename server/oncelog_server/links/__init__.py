"""The edge of connections to other brokers, on top of the protocol's request core."""
