"""Spark's own Kafka connector against the broker, as most users of Spark read and write Kafka."""
