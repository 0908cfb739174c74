"""Produce over many partitions: who may append, what a transaction has to be told first, what acks
wait for."""
