"""The broker: Kafka's protocol in, Kafka's files out, every record once."""
