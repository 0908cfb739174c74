"""Links: connections to other brokers, on top of `oncelog_protocol.requests`."""
