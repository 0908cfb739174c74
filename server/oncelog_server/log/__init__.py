"""The log of a partition in Kafka's files: segments, indexes, producers, recovery, retention."""
