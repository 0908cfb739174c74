"""Sending a decided transaction's markers to the leaders of its partitions: one call, two ways
(seam 4).

A local leader is a short cut of the same request that another broker would get as WriteTxnMarkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS
from oncelog_server.coordinator.routing import NEVER_IN_TRANSACTIONS
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.markers import MarkerWork

MarkerSettled = Callable[[TopicPartition, ErrorCode], None]
# (producer id, producer epoch, committed)
OffsetsMarker = Callable[[int, int, bool], None]


class MarkerSender(Protocol):
    # Whether all is settled before `send` returns, unless an append has to wait for the disk.
    is_local: bool

    def send(
        self, work: MarkerWork, partitions: list[TopicPartition], settled: MarkerSettled
    ) -> None:
        """`settled` is called once for each partition, when its marker is committed there or was
        refused; before this returns if that is known by then."""
        ...


class LocalMarkers:
    """Writes markers to partitions that this broker leads; also what serves WriteTxnMarkers
    requests. `offsets_marker` tells the group coordinator of one in that partition of
    `__consumer_offsets`; it raises Refused where that is not coordinated here."""

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
                # Before the append: a marker that is refused is sent again, and would be appended
                # each time.
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
