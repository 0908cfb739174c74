"""The topics of a cluster that a source reads."""

from __future__ import annotations

from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink.protocol.state_topic import STATE_TOPIC
from oncelog_client.spark.source import logs
from oncelog_client.spark.source.plan.source_options import source_options
from oncelog_client.values import TopicPartition
from tests.harness.broker import Oncelog
from tests.spark.topics import Topics


def partitions(topics: Topics, **subscription: str) -> frozenset[TopicPartition]:
    given = {"kafka.bootstrap.servers": topics.bootstrap, **subscription}
    options = source_options(Options(given), streaming=False)
    return logs.ask(options, lambda catalogue: catalogue.partitions())


def test_a_pattern_does_not_match_the_state_topic_of_sinks(
    fresh_broker: Oncelog, name: str
) -> None:
    """The state topic is an ordinary topic for the broker. A query that reads its own sink's
    records would never end."""
    topics = Topics(fresh_broker.address)
    topics.create_all([name, STATE_TOPIC], partitions=1)
    assert partitions(topics, subscribePattern=".*") == {TopicPartition(name, 0)}
    # A source reads the state topic if its options name the topic.
    assert partitions(topics, subscribe=STATE_TOPIC) == {TopicPartition(STATE_TOPIC, 0)}
