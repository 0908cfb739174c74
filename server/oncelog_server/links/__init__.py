"""Connections to other brokers: the edge that stands on the protocol's request core."""
