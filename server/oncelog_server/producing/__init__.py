"""Produce over many partitions: the checks, the request to the transaction coordinator, and
acks."""
