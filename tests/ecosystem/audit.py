"""What a reader of committed records sees, and what a row of the matrix leaves behind."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from oncelog.testing.wire import Wire
from oncelog_client import TopicPartition
from oncelog_client.sync import Admin
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest

_CALL_TIMEOUT_S = 10.0
# The start of a transaction of a producer without one.
_NONE = {None, -1}
_OPEN = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A committed record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Audit:
    """A reader of committed records of the broker at `address`, during kills and after them."""

    def __init__(self, address: str) -> None:
        self.address = address

    def _consumer(self) -> Any:
        return Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "audit",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )

    def ends(self, topic: str) -> dict[int, int]:
        """Return the last stable offset of each partition. Raises KafkaException."""
        with closing(self._consumer()) as consumer:
            return _ends(consumer, topic)

    def progress(self, *topics: str) -> int | None:
        """Return the sum of the last stable offsets, or None while the broker is down."""
        try:
            return sum(sum(self.ends(topic).values()) for topic in topics)
        except KafkaException:
            return None

    def records(self, topic: str) -> list[Seen]:
        """Return all committed records of the topic, in the order of each partition."""
        seen: list[Seen] = []
        with closing(self._consumer()) as consumer:
            left = {partition: end for partition, end in _ends(consumer, topic).items() if end}
            places = [Place(topic, partition, OFFSET_BEGINNING) for partition in left]
            consumer.assign(places)
            while any(place.offset < left[place.partition] for place in consumer.position(places)):
                batch = consumer.consume(500, 1)
                for message in batch:
                    assert message.error() is None, message.error()
                    seen.append(
                        Seen(
                            message.partition(),
                            message.offset(),
                            message.key(),
                            message.value(),
                        )
                    )
        return seen

    def committed(self, group: str, topic: str) -> int:
        """Return the sum of the offsets that the group has committed in the topic."""
        with Admin(self.address) as admin:
            offsets = admin.list_group_offsets(group)
            return sum(
                committed.offset for place, committed in offsets.items() if place.topic == topic
            )

    def open_transactions(self) -> list[tuple[str, str]]:
        """Return the id and the state of each transaction that has not ended."""
        with Wire(self.address) as wire:
            response = wire.call(ListTransactionsRequest(state_filters=_OPEN), 0)
            return [
                (row.transactional_id, row.transaction_state) for row in response.transaction_states
            ]

    def hanging(self) -> list[str]:
        """Return the partitions with a transaction that holds readers back, and that no coordinator
        knows as open."""
        with Admin(self.address) as admin:
            known = {listing.producer_id for listing in admin.list_transactions(states=_OPEN)}
            topics = admin.describe_topics(admin.list_topics())
            places = [
                TopicPartition(topic, info.partition)
                for topic, description in topics.items()
                for info in description.partitions
            ]
            return [
                f"{place.topic}-{place.partition} (producer {producer.producer_id})"
                for place, producers in admin.describe_producers(places).items()
                for producer in producers
                if producer.current_transaction_start_offset not in _NONE
                and producer.producer_id not in known
            ]


def _ends(consumer: Any, topic: str) -> dict[int, int]:
    metadata = consumer.list_topics(topic, timeout=_CALL_TIMEOUT_S)
    return {
        partition: consumer.get_watermark_offsets(Place(topic, partition), timeout=_CALL_TIMEOUT_S)[
            1
        ]
        for partition in metadata.topics[topic].partitions
    }
