"""The clients' view: the same scripts against oncelog and, as a control, against Apache Kafka."""
