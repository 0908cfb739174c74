"""The partitions of this broker. They follow the metadata image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import Final, TypeVar

from oncelog_protocol.errors import ErrorCode
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.refused_sequences import EarlySequences
from oncelog_server.partition.waiting import raise_all
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.partitions import Traffic

K = TypeVar("K")

NO_PARTITIONS: Final[Mapping[int, Partition]] = MappingProxyType({})


def _do_nothing() -> None:
    pass


class Partitions:
    """Partitions by topic name and index. `is_known` returns True if the cluster has a partition,
    on this broker or another.

    A partition of a deleted topic is among all partitions until `remove`, because its log is open.
    No look-up by name returns it: a new topic may have the name."""

    def __init__(self, is_known: Callable[[str, int], bool] = lambda topic, index: False) -> None:
        self._is_known = is_known
        # The partitions that requests find. All partitions of a topic name have the same topic id.
        self._topics: dict[str, dict[int, Partition]] = {}
        # The partitions of deleted topics by topic id, until they are removed.
        self._deleted: dict[bytes, dict[int, Partition]] = {}
        # Partitions that could not be opened, each with the reason. Error responses and logs show
        # the reason.
        self._offline: dict[TopicPartition, str] = {}
        # The lowest refused sequences for partitions that are not open.
        self.early_sequences = EarlySequences()
        # The traffic of removed partitions by topic, while other partitions of the topic are here.
        # Otherwise the counters of the topic would decrease when a partition moves away.
        self.removed_traffic: dict[str, Traffic] = {}
        # True while this broker may not act as the leader of any partition.
        self.is_suspended = False
        # Called when a partition goes offline or comes back, when the disk refuses a write of an
        # open log, and when the disk accepts the write later.
        self.on_storage_change: Callable[[], None] = _do_nothing

    def __iter__(self) -> Iterator[Partition]:
        # `map` makes one view of a dict at a time. 10,000 views at once would trigger a long
        # garbage collection.
        topics = chain(self._topics.values(), self._deleted.values())
        return chain.from_iterable(map(dict.values, topics))

    def __len__(self) -> int:
        return sum(map(len, chain(self._topics.values(), self._deleted.values())))

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        partitions = self._topics.get(topic_partition.topic)
        return None if partitions is None else partitions.get(topic_partition.partition)

    def require(self, topic: str, index: int) -> Partition:
        """Return the partition. Raises the error of `missing`."""
        partitions = self._topics.get(topic)
        partition = None if partitions is None else partitions.get(index)
        if partition is None:
            raise self.missing(topic, index)
        return partition

    def of_topic(self, topic: str) -> Mapping[int, Partition]:
        """Return the topic's partitions by index, for requests with several partitions of a topic.
        If an index is missing, `missing` returns the error."""
        return self._topics.get(topic, NO_PARTITIONS)

    def missing(self, topic: str, index: int) -> Refused:
        """Return the error of a partition that is not here: UNKNOWN_TOPIC_OR_PARTITION or
        KAFKA_STORAGE_ERROR, or NOT_LEADER_OR_FOLLOWER if the partition is on other brokers (Kafka's
        ReplicaManager.getPartitionOrError)."""
        reason = self._offline.get(TopicPartition(topic, index))
        if reason is not None:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        if self._is_known(topic, index):
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def add(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        self.early_sequences.move_to(
            partition.refused_sequences, (topic, partition.topic_id), index
        )
        self._topics.setdefault(topic, {})[index] = partition

    def add_offline(self, topic_partition: TopicPartition, reason: str) -> None:
        self._offline[topic_partition] = reason
        self.on_storage_change()

    def take_online(self, topic_partition: TopicPartition) -> None:
        """Forget the reason why the partition was offline, because the partition was opened."""
        if self._offline.pop(topic_partition, None) is not None:
            self.on_storage_change()

    def delete_topic(self, topic: str, topic_id: bytes) -> list[Partition]:
        """Let no request find the partitions of a deleted topic, and retire them. Return them."""
        partitions = self._topics.get(topic)
        if partitions is None or next(iter(partitions.values())).topic_id != topic_id:
            return []
        self._deleted[topic_id] = self._topics.pop(topic)
        self.removed_traffic.pop(topic, None)
        retired = list(partitions.values())
        for partition in retired:
            partition.retire()
        return retired

    def remove(
        self, topic_partition: TopicPartition, topic_id: bytes | None = None
    ) -> Partition | None:
        """Remove a partition and return it. With `topic_id`, remove the partition of this topic
        only, also if the topic is deleted. Return None if there is no such partition."""
        self.take_online(topic_partition)
        topic, index = topic_partition
        partition = None if topic_id is None else _taken(self._deleted, topic_id, index)
        if partition is None:
            found = self.get(topic_partition)
            if found is not None and topic_id in {None, found.topic_id}:
                partition = _taken(self._topics, topic, index)
                self._keep_traffic(topic, found)
        if partition is not None and partition.offline is not None:
            self.on_storage_change()
        return partition

    def _keep_traffic(self, topic: str, removed: Partition) -> None:
        """Keep the traffic of a removed partition with its topic, until the topic's last partition
        is removed (Kafka's ReplicaManager.maybeRemoveTopicMetrics)."""
        if topic in self._topics:
            left = self.removed_traffic.get(topic, Traffic())
            self.removed_traffic[topic] = left.plus(removed.traffic.of(removed._log))
        else:
            self.removed_traffic.pop(topic, None)

    def offline_reason(self, topic_partition: TopicPartition) -> str | None:
        """Return the reason why the partition is offline. Return None if the partition is online or
        unknown."""
        partition = self.get(topic_partition)
        return self._offline.get(topic_partition) if partition is None else partition.offline

    def suspend(self) -> None:
        """Act as the leader of no partition until `resume`."""
        self.is_suspended = True
        for partition in self:
            partition.suspend()

    def resume(self, still_leads: Callable[[Partition], bool]) -> None:
        """Act as the leader again where `still_leads` says so. The other partitions wait for the
        change of their leader, which is not made yet. All partitions resume, even after an
        exception of a waiting request. The exceptions are raised at the end."""
        self.is_suspended = False
        raised: list[Exception] = []
        for partition in self:
            if not still_leads(partition):
                continue
            try:
                partition.resume()
            except Exception as failure:
                raised.append(failure)
        raise_all(raised)

    def synced(self) -> None:
        """Set each recovery point to the end of the log, because all its records are durable."""
        for partition in self:
            partition.synced()

    def offline(self) -> dict[TopicPartition, str]:
        """Return the offline partitions with the reason of each."""
        failed = {
            partition.topic_partition: partition.offline
            for partition in self
            if partition.offline is not None
        }
        return self._offline | failed

    def refusing(self) -> dict[TopicPartition, str]:
        """Return the partitions with a log that takes no append at the moment, and the reason of
        each."""
        return {
            partition.topic_partition: str(error)
            for partition in self
            if (error := partition.refuses_appends) is not None
        }


def are_of(topic_id: bytes, partitions: Mapping[int, Partition]) -> bool:
    """Return True if these partitions of one topic, from `Partitions.of_topic`, have this topic id,
    or if there are none."""
    return all(partition.topic_id == topic_id for partition in islice(partitions.values(), 1))


def _taken(topics: dict[K, dict[int, Partition]], topic: K, index: int) -> Partition | None:
    """Remove a partition from `topics` and return it, None if it is not there."""
    partitions = topics.get(topic)
    if partitions is None:
        return None
    partition = partitions.pop(index, None)
    if not partitions:
        del topics[topic]
    return partition
