"""Users with drawn rights, and what they get from oncelog and from Apache Kafka."""
