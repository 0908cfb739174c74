"""Tests of the broker with Spark's own Kafka connector, with which most users of Spark read and
write Kafka."""
