"""Compaction keeps the latest record of every key (Kafka's LogCleaner, KIP-58, KIP-98, KIP-534)."""
