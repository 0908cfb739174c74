"""Compaction: of every key the latest record (Kafka's LogCleaner, KIP-58, KIP-98, KIP-534)."""
