"""The delivery of a decided transaction's markers to the leaders of its partitions, and the meaning
of each error code (KIP-98, WriteTxnMarkers).

A local leader is a shortcut for the WriteTxnMarkers request that another broker would get.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog_server.coordinator.routing import NEVER_IN_TRANSACTIONS
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.markers import MarkerWork

MarkerSettled = Callable[[TopicPartition, ErrorCode], None]
# (producer id, producer epoch, committed)
OffsetsMarker = Callable[[int, int, bool], None]


class MarkerOutcome(Enum):
    WRITTEN = "the partition has it"
    RETRY = "retry later, at the leader of that time"
    STALE = "a newer coordinator has taken over: stop"


# A refusal by one leader never delays the others (scenario C-J). If the partition already has a
# higher epoch, it has a later marker of this producer and does not need this one.
MARKER_OUTCOMES: Final[dict[ErrorCode, MarkerOutcome]] = {
    ErrorCode.NONE: MarkerOutcome.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: MarkerOutcome.WRITTEN,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: MarkerOutcome.STALE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: MarkerOutcome.RETRY,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: MarkerOutcome.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS: MarkerOutcome.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: MarkerOutcome.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: MarkerOutcome.RETRY,
    ErrorCode.KAFKA_STORAGE_ERROR: MarkerOutcome.RETRY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: MarkerOutcome.RETRY,
    ErrorCode.NOT_COORDINATOR: MarkerOutcome.RETRY,
    ErrorCode.BROKER_NOT_AVAILABLE: MarkerOutcome.RETRY,
    ErrorCode.NETWORK_EXCEPTION: MarkerOutcome.RETRY,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: MarkerOutcome.RETRY,
    ErrorCode.UNKNOWN_SERVER_ERROR: MarkerOutcome.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: MarkerOutcome.RETRY,
}


def marker_outcome(code: ErrorCode) -> MarkerOutcome:
    """Return the outcome of an error code. An unknown code is retried, because a decided
    transaction must be completed."""
    return MARKER_OUTCOMES.get(code, MarkerOutcome.RETRY)


class MarkerSender(Protocol):
    # True if every outcome is known before `send` returns, unless an append has to wait for the
    # disk.
    is_local: bool

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        """Send the markers. `settled` is called once for each partition, when its marker is
        committed or refused; during this call if the outcome is known at once."""
        ...


class LocalMarkers:
    """Writes markers to partitions that this broker leads. It also serves WriteTxnMarkers requests.
    `offsets_marker` passes a marker in a partition of `__consumer_offsets` to the group
    coordinator. The function raises Refused if that partition is not coordinated here."""

    is_local = True

    def __init__(
        self,
        find: Callable[[TopicPartition], Partition | None],
        offsets_marker: Callable[[int], OffsetsMarker],
        wall_ms: Callable[[], int],
    ) -> None:
        self._find = find
        self._offsets_marker = offsets_marker
        self._wall_ms = wall_ms

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        for topic_partition in partitions:
            self._write(work, topic_partition, settled)

    def _write(
        self, work: MarkerWork, topic_partition: TopicPartition, settled: MarkerSettled
    ) -> None:
        if topic_partition.topic in NEVER_IN_TRANSACTIONS:
            settled(topic_partition, ErrorCode.INVALID_TOPIC_EXCEPTION)
            return
        partition = self._find(topic_partition)
        if partition is None:
            settled(topic_partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        on_offsets_marker: OffsetsMarker | None = None
        try:
            if topic_partition.topic == CONSUMER_OFFSETS:
                # This check comes before the append: a refused marker is retried, and would be
                # appended each time.
                on_offsets_marker = self._offsets_marker(topic_partition.partition)
            appended = partition.append_marker(
                work.producer_id,
                work.producer_epoch,
                committed=work.committed,
                coordinator_epoch=work.coordinator_epoch,
                transaction_version=work.transaction_version,
                now_ms=self._wall_ms(),
            )
        except Refused as refused:
            settled(topic_partition, refused.code)
            return
        if on_offsets_marker is not None:
            on_offsets_marker(work.producer_id, work.producer_epoch, work.committed)
        end_offset = appended.last_offset + 1
        if partition.high_watermark >= end_offset:
            settled(topic_partition, ErrorCode.NONE)
        else:
            partition.when_committed(end_offset, lambda code: settled(topic_partition, code))


class HasImage(Protocol):
    """The part of the metadata that follows the store."""

    image: ClusterImage


class ImageLeaders:
    """The leaders in the newest metadata image. `remote(broker_id)` returns the sender for another
    broker, or None if that broker is not alive."""

    def __init__(
        self,
        broker_id: int,
        metadata: HasImage,
        local: MarkerSender,
        remote: Callable[[int], MarkerSender | None],
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._local = local
        self._remote = remote

    def marker_sender(self, partition: TopicPartition) -> MarkerSender | None:
        leader = self._leader(partition)
        if leader == self._broker_id:
            return self._local
        return None if leader is None or leader < 0 else self._remote(leader)

    def is_gone(self, partition: TopicPartition) -> bool:
        """Return True if the image does not have the topic. The topic was then deleted: the image
        follows the store, and no transaction contains a topic before the image has it."""
        return self._leader(partition) is None

    def _leader(self, partition: TopicPartition) -> int | None:
        """Return the broker id of the leader, below 0 without one; None for a partition that the
        image does not have."""
        topic = self._metadata.image.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition].leader

    def shard_count(self) -> int:
        """Return the number of partitions of `__transaction_state`, 0 before it is created."""
        found = self._metadata.image.topics.get(TRANSACTION_STATE)
        return 0 if found is None else len(found.partitions)
