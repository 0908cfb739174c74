"""Produce over many partitions: checks, the coordinator's part in a transaction, and acks."""
