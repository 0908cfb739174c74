"""Transactions of a producer, and of producers in other processes, with and without a group."""
