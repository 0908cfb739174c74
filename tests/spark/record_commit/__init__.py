"""The commit by record: the sink's back-end for any broker that speaks Kafka's protocol."""
