"""Transactions of a producer: its session with the coordinator, groups, shared transactions."""
