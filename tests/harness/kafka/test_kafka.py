"""The harness starts Apache Kafka. Kafka's own tools reach it, and it restarts after kill -9."""

from __future__ import annotations

from tests.harness.kafka.kafka import Kafka
from tests.harness.kafka.tools import run_tool


def test_kafka_keeps_a_topic_over_a_kill(fresh_kafka: Kafka) -> None:
    """The harness can kill Apache Kafka and start it again on the same data and address."""
    server = ("--bootstrap-server", fresh_kafka.address)
    run_tool("topics", *server, "--create", "--topic", "kept", "--partitions", "2")
    fresh_kafka.kill()
    fresh_kafka.start()
    assert "kept" in run_tool("topics", *server, "--list").lines
