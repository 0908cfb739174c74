"""Commits of offsets by a librdkafka consumer, also to a coordinator that has just started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.harness.waiting import wait_until

# Error codes until the broker that leads the group's partition of offsets knows that it does, and
# has loaded the partition.
LOADING: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def commit_offsets(consumer: Consumer, offsets: Sequence[TopicPartition]) -> None:
    """Commit the offsets once the group's coordinator has loaded. Raises KafkaException with every
    other error.

    librdkafka itself sends a commit again twice only, 0.1 s apart. On a busy computer, Apache Kafka
    or a broker of a cluster loads a new partition of offsets for longer.
    """

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=list(offsets), asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in LOADING:
                raise
            return False
        return True

    wait_until(is_committed, "the coordinator has loaded and accepts the offsets")
