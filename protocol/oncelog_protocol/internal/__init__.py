"""Records that brokers write to internal topics and snapshots, byte for byte as Kafka's."""
