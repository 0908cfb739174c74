"""Commits of offsets by a librdkafka consumer, also to a coordinator that has just started."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.harness.waiting import wait_until


def commit_offsets(consumer: Consumer, offsets: Sequence[TopicPartition]) -> None:
    """Commit the offsets once the group's coordinator has loaded. Raises KafkaException with every
    other error.

    librdkafka itself sends a commit again twice only, 0.1 s apart. On a busy computer, Apache Kafka
    loads a new partition of its offsets for longer.
    """

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=list(offsets), asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return False
        return True

    wait_until(is_committed, "the coordinator has loaded and accepts the offsets")
