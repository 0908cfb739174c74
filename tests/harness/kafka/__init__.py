"""Apache Kafka 4.3.1 and its Java tools beside the project: the control and foreign tools."""
