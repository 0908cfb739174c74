"""The I/O of the client: connections, and the loops that send batches, fetch records, and keep a
consumer in its group."""
