"""Delivers the markers of a decided transaction to the leaders of its partitions. A table gives the
meaning of each error code (KIP-98, WriteTxnMarkers).

If the leader is local, a direct call takes the place of the WriteTxnMarkers request that another
broker would get.
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
    WRITTEN = "the partition has the marker, or does not need it"
    RETRY = "find the leader again later, and retry"
    STALE = "a newer coordinator has taken over: stop"


# A leader that refuses its marker never delays the other leaders (scenario C-J).
# INVALID_PRODUCER_EPOCH means that the partition already has a higher epoch, so it has a later
# marker of this producer and does not need this one.
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
    """Return the outcome of an error code. A marker with an unknown code is retried, because a
    decided transaction must be completed."""
    return MARKER_OUTCOMES.get(code, MarkerOutcome.RETRY)


class MarkerSender(Protocol):
    # True if the leader is this broker. Every outcome is then known when `send` returns, except
    # that of an append that waits for the disk.
    is_local: bool

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        """Send the markers. `settled` is called once for each partition, when the marker is
        committed or refused. The call may happen before `send` returns."""
        ...


class LocalMarkers:
    """Writes markers to partitions that this broker leads. WriteTxnMarkers requests use this class
    too. `offsets_marker` returns the function that passes a marker in a partition of
    `__consumer_offsets` to the group coordinator. It raises Refused if this broker does not
    coordinate the partition."""

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
                # This check comes before the append. Otherwise every retry of a refused marker
                # would append another marker.
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
    """A metadata component with the newest image."""

    image: ClusterImage


class ImageLeaders:
    """Finds leaders in the newest metadata image. `remote(broker_id)` returns the sender for
    another broker. It returns None if that broker is not alive."""

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
        leader = self.leader(partition)
        if leader == self._broker_id:
            return self._local
        return None if leader is None or leader < 0 else self._remote(leader)

    def is_gone(self, partition: TopicPartition) -> bool:
        """Return True if the image does not have the partition. Its topic was then deleted, because
        a transaction contains only partitions that an image has had."""
        return self.leader(partition) is None

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the broker id of the leader. A value below 0 means that the partition has no
        leader. Return None if the image does not have the partition."""
        topic = self._metadata.image.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition].leader

    def shard_count(self) -> int:
        """Return the number of partitions of `__transaction_state`. Return 0 before the topic is
        created."""
        found = self._metadata.image.topics.get(TRANSACTION_STATE)
        return 0 if found is None else len(found.partitions)
