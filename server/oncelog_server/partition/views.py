"""The read models of the partitions of this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from oncelog_protocol.errors import ErrorCode
from oncelog_server.log.errors import CorruptLog
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.producers import describe_producers
from oncelog_server.partition.registry import Partitions
from oncelog_server.refusal import Refused
from oncelog_server.storage.files import StorageError
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.partitions import (
    OpenTransaction,
    PartitionView,
    ProducerView,
    ReplicaView,
    Traffic,
)


class PartitionViews:
    """Read models of a broker's partitions."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def count(self) -> int:
        """Return the number of partitions with an open log."""
        return len(self._partitions)

    def offline_count(self) -> int:
        """Return the number of offline partitions: those that could not be opened, and those that a
        storage error closed."""
        return len(self._partitions.offline())

    def offline_reason(self, name: TopicPartition) -> str | None:
        """Return the reason why the partition is offline. Return None if the partition is online
        or unknown."""
        return self._partitions.offline_reason(name)

    def all(self) -> Iterator[PartitionView]:
        """Yield a view of each partition that exists when the iteration begins. Each view shows
        the state at the time when it is yielded."""
        for partition in list(self._partitions):
            yield partition_view(partition)

    def removed_traffic(self) -> dict[str, Traffic]:
        """Return the traffic of the partitions that have left the broker, by topic, for the topics
        with partitions here."""
        return dict(self._partitions.removed_traffic)

    def is_open(self, name: TopicPartition, transaction: OpenTransaction) -> bool:
        """Return True if the partition still has the transaction, without a marker."""
        partition = self._partitions.get(name)
        if partition is None:
            return False
        found = partition._log.producers.ongoing_transaction(transaction.first_offset)
        return found is not None and found.producer_id == transaction.producer_id

    def replicas(
        self, names: Iterable[TopicPartition] | None, monotonic_ms: Callable[[], int]
    ) -> Iterator[ReplicaView]:
        """Yield a view of each named partition, or of all partitions if `names` is None. Each view
        shows the state at the time when it is yielded. Unknown and offline partitions are left
        out."""
        partitions = self._partitions
        if names is None:
            found = list(partitions)
        else:
            found = [known for name in names if (known := partitions.get(name)) is not None]
        for partition in found:
            if partition.offline is None:
                replicas = partition.replicas
                late = replicas.out_of_sync_ms(monotonic_ms()) if partition.is_leader else {}
                yield ReplicaView(partition.topic_partition, partition.size_bytes, late)

    def producers(self, topic: str, index: int) -> Iterator[ProducerView]:
        """Yield the known producers in the order of their ids. Raises Refused
        (UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR)."""
        try:
            yield from describe_producers(self._partitions.require(topic, index))
        except (StorageError, CorruptLog) as error:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def partition_view(partition: Partition) -> PartitionView:
    log, replicas = partition._log, partition.replicas
    producers = log.producers
    return PartitionView(
        partition.topic_partition,
        partition.is_leader,
        partition.is_leader and replicas.is_under_replicated,
        partition.is_leader and replicas.is_reassigning,
        partition.offline is None and log.refusals.current is not None,
        partition.is_leader and replicas.is_under_min_isr,
        partition.is_leader and len(replicas.isr) == replicas.effective_min_isr,
        partition.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        log.log_end_offset,
        log.size_bytes,
        len(log.segments),
        len(producers),
        partition.traffic.of(log),
        log.mismatches,
        tuple(
            OpenTransaction(
                transaction.producer_id,
                transaction.first_offset,
                None
                if (entry := producers.entry(transaction.producer_id)) is None
                else entry.updated_ms,
            )
            for transaction in producers.ongoing_transactions()
        ),
    )
