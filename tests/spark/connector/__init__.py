"""Spark's own Kafka connector against the broker, as most of Spark's users read and write Kafka."""
