"""The tools under Kafka's names, compared with Kafka's own tools."""
