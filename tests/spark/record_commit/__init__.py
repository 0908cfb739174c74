"""Tests of the Spark sink with `sinkProtocol=record`, on any broker that speaks Kafka's protocol. A
record in the topic `__spark_sink_state` holds the decision to commit."""
