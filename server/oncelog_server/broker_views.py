"""The read models of this broker, of its partitions and of the cluster's metadata image."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import NO_LEADER, PartitionImage, TopicImage
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.operating_system.disk_space import disk_space
from oncelog_server.partition.registry import Partitions
from oncelog_server.partition.views import PartitionViews
from oncelog_server.slices import Steps
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.broker import BrokerView, LogDirView, StoreView
from oncelog_server.views.partitions import PartitionState


class BrokerViews:
    """Read models of a broker and its cluster."""

    def __init__(
        self,
        broker_id: int,
        metadata: ClusterMetadata,
        partitions: Partitions,
        data_directory: str,
    ) -> None:
        self.partitions = PartitionViews(partitions)
        self._offline_reason = partitions.offline_reason
        self._broker_id = broker_id
        self._metadata = metadata
        self._data_directory = data_directory

    def log_dir(self) -> LogDirView:
        """Return the data directory with the space of its disk."""
        space = disk_space(self._data_directory)
        return LogDirView(space.path, space.total_bytes, space.usable_bytes)

    def store(self) -> StoreView:
        """Return for how long the metadata store has not responded, and whether this broker may act
        on its registration."""
        membership = self._metadata.membership
        return StoreView(membership.store_silence_ms, membership.is_valid)

    def broker(self) -> Steps[BrokerView]:
        """Count the topics and partitions of the image, with a step for each partition."""
        image = self._metadata.image
        partitions = without_leader = imbalanced = 0
        for topic in image.topics.values():
            partitions += len(topic.partitions)
            for partition in topic.partitions:
                without_leader += self.leader_of(topic.name, partition) == NO_LEADER
                imbalanced += not partition.has_preferred_leader
                yield
        return BrokerView(
            is_controller=image.controller_id == self._broker_id,
            is_draining=self._broker_id in image.draining,
            brokers=len(image.brokers),
            fenced=len(image.fenced),
            topics=len(image.topics),
            partitions=partitions,
            without_leader=without_leader,
            imbalanced=imbalanced,
        )

    def leader_of(self, topic: str, partition: PartitionImage) -> int:
        """Return the broker that serves the partition; NO_LEADER if its leader is not alive, or is
        this broker and cannot use the log."""
        leader = partition.leader
        if leader not in self._metadata.image.brokers:
            return NO_LEADER
        if leader == self._broker_id:
            name = TopicPartition(topic, partition.partition)
            if self._offline_reason(name) is not None:
                return NO_LEADER
        return leader

    def states(
        self, topic: TopicImage, first: int = 0, *, listener: str | None = None
    ) -> Iterator[PartitionState]:
        """Yield the partitions from number `first` on, as a client on `listener` sees them, or as
        an operator sees them if `listener` is None. A replica is offline if its broker is not alive
        or has no such listener, or cannot use its log (Kafka's KRaftMetadataCache)."""
        image = self._metadata.image
        brokers = image.brokers
        reachable = {
            number
            for number, broker in brokers.items()
            if listener is None or broker.endpoint(listener) is not None
        }
        for partition in topic.partitions[first:]:
            offline = [
                broker
                for broker in partition.replicas
                if broker not in reachable
                or (image.failed and (broker, topic.id, partition.partition) in image.failed)
            ]
            if self._broker_id in partition.replicas and self._broker_id not in offline:
                name = TopicPartition(topic.name, partition.partition)
                if self._offline_reason(name) is not None:
                    offline.append(self._broker_id)
            leader = self.leader_of(topic.name, partition)
            code = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE
            if leader != NO_LEADER and leader not in reachable:
                leader, code = NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
            yield PartitionState(
                code,
                partition.partition,
                leader,
                partition.leader_epoch,
                partition.replicas,
                partition.isr,
                tuple(offline),
                partition.elr,
                partition.last_known_elr,
            )
