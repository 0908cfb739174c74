"""What brokers write for themselves, to internal topics and snapshots, byte for byte Kafka's."""
