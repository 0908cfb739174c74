"""The Kafka protocol without any IO: messages, headers, frames, record batches."""
