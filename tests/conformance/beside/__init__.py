"""The same random requests to oncelog and to Apache Kafka, side by side."""
