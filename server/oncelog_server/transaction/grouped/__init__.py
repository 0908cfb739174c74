"""Transactions of a consumer group (KIP-447, early draft) and their commit as a group."""
