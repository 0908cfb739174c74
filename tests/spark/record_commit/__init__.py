"""A-record, the sink's back-end for any Kafka-protocol broker."""
