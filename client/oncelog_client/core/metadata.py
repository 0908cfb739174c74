"""A client's view of the cluster: brokers, topics, leaders. The view is immutable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from oncelog_client.core.leader_hints import LeaderHints
from oncelog_client.errors import KafkaError, RetriableError, error_for
from oncelog_client.values import Node, PartitionInfo, TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

# The errors of a topic that no retry resolves.
HOPELESS_TOPIC_ERRORS: Final = (
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)

# A Metadata response has no error message, so Kafka's rule for topic names is repeated here.
_RULE: Final = (
    "the broker refuses the name. A topic has 1 to 249 characters out of a-z, A-Z, 0-9, '.', '_' "
    "and '-', and is not '.' or '..'"
)


def refusal_of(topic: str, code: int) -> str:
    """Return the topic's name, followed by the rule if the broker refuses the name."""
    return f"{topic}: {_RULE}" if code == ErrorCode.INVALID_TOPIC_EXCEPTION else topic


class TopicInfo(NamedTuple):
    """One topic. `error` is NONE if the broker returned the topic's partitions."""

    name: str
    topic_id: bytes = bytes(16)
    is_internal: bool = False
    partitions: tuple[PartitionInfo, ...] = ()
    error: int = ErrorCode.NONE

    @property
    def usable(self) -> bool:
        return self.error == ErrorCode.NONE and bool(self.partitions)


class Metadata(NamedTuple):
    """The cluster as the responses so far describe it. A response for some topics leaves the other
    topics unchanged."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Node] = MappingProxyType({})
    topics: Mapping[str, TopicInfo] = MappingProxyType({})

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the node id of the leader, or None if the leader is unknown or there is none."""
        info = self.partition(partition)
        return None if info is None else info.leader

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        """Return the metadata of a partition."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def no_leader(self, partition: TopicPartition) -> KafkaError:
        """Return the error of a partition without a known leader: LEADER_NOT_AVAILABLE if the topic
        has the partition, else the topic's error or UNKNOWN_TOPIC_OR_PARTITION."""
        info = self.partition(partition)
        if info is not None:
            return error_for(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{partition}: {info.reason_without_leader}"
            )
        topic = self.topics.get(partition.topic)
        if topic is not None and topic.usable:
            reason = f"the topic has only the partitions 0 to {len(topic.partitions) - 1}"
            return error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition}: {reason}")
        code = (topic and topic.error) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error_for(code, str(partition))

    def refusal(self, topics: Iterable[str]) -> KafkaError | None:
        """Return the error of topics with an illegal name, else of topics that the principal may
        not use, or None (Metadata.maybeThrowAnyException of the Java client)."""
        refused: dict[int, list[str]] = {}
        for name in sorted(topics):
            info = self.topics.get(name)
            if info is not None and info.error in HOPELESS_TOPIC_ERRORS:
                refused.setdefault(info.error, []).append(name)
        for code in HOPELESS_TOPIC_ERRORS:
            if names := refused.get(code):
                return error_for(code, refusal_of(", ".join(names), code))
        return None

    def lacks_any(self, topics: Iterable[str]) -> bool:
        """Return True if a topic is unknown, or has an error that a later response may resolve."""
        known = (self.topics.get(name) for name in topics)
        return any(
            info is None or (info.error and isinstance(error_for(info.error), RetriableError))
            for info in known
        )

    def partition_counts(self, topics: frozenset[str]) -> dict[str, int]:
        """Return the number of partitions of each topic, without unknown topics."""
        return {
            name: len(self.topics[name].partitions)
            for name in topics
            if name in self.topics and self.topics[name].usable
        }

    def led_by(self, hints: LeaderHints) -> Metadata:
        """Return the metadata with the leaders of `hints`. A hint counts if its leader epoch is
        newer than the known one, and the address of its leader is known."""
        brokers = {**self.brokers, **{node.node_id: node for node in hints.nodes}}
        topics = dict(self.topics)
        for partition, leader, epoch in hints.leaders:
            known = self.partition(partition)
            if known is None or epoch <= known.leader_epoch or leader not in brokers:
                continue
            rows = list(topics[partition.topic].partitions)
            rows[partition.partition] = known._replace(leader=leader, leader_epoch=epoch)
            topics[partition.topic] = topics[partition.topic]._replace(partitions=tuple(rows))
        return self._replace(brokers=brokers, topics=topics)

    def without(self, topics: Collection[str]) -> Metadata:
        """Return the metadata without these topics."""
        if not topics:
            return self
        kept = {name: info for name, info in self.topics.items() if name not in topics}
        return self._replace(topics=kept)

    def merged(self, response: MetadataResponse, *, whole: bool) -> Metadata:
        """Return the metadata with a response merged in. `whole`: the response lists every topic,
        so topics that it does not list are deleted.

        A lower leader epoch comes from a broker with stale metadata: the known leader stays
        (KIP-320).
        """
        topics = {} if whole else dict(self.topics)
        for row in response.topics:
            if row.name:
                topics[row.name] = _newer(self.topics.get(row.name), _topic_info(row, row.name))
        return self._replace(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers={
                row.node_id: Node(row.node_id, row.host, row.port, row.rack)
                for row in response.brokers
            },
            topics=topics,
        )


def _topic_info(row: MetadataResponseTopic, name: str) -> TopicInfo:
    partitions = sorted(row.partitions, key=lambda partition: partition.partition_index)
    error = row.error_code
    if [partition.partition_index for partition in partitions] != [*range(len(partitions))]:
        # A partition's place in `TopicInfo.partitions` is its number. With a missing row, later
        # partitions would have wrong places.
        partitions, error = [], error or ErrorCode.LEADER_NOT_AVAILABLE
    return TopicInfo(
        name,
        row.topic_id,
        row.is_internal,
        tuple(
            PartitionInfo(
                name,
                partition.partition_index,
                partition.leader_id if partition.leader_id >= 0 else None,
                partition.leader_epoch,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
                tuple(partition.offline_replicas),
            )
            for partition in partitions
        ),
        error,
    )


def _newer(known: TopicInfo | None, answered: TopicInfo) -> TopicInfo:
    if known is None or known.topic_id != answered.topic_id:
        return answered
    old = {info.partition: info for info in known.partitions}
    return answered._replace(
        partitions=tuple(
            old[info.partition]
            if info.partition in old and 0 <= info.leader_epoch < old[info.partition].leader_epoch
            else info
            for info in answered.partitions
        ),
    )
