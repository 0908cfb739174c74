"""Apache Kafka 4.3.1 as the control, and its Java tools."""
