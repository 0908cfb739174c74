"""The values that cross the client's public API. The names are those of the Java client.

The values are named tuples: constructor and hash run in C, and the definition takes a fifth of the
time of a dataclass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

if TYPE_CHECKING:
    # The types of keys and values, which are bytes without serializers (the defaults of PEP 696).
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K, V = TypeVar("K"), TypeVar("V")

Header = tuple[str, bytes | None]


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the offset of the *next* record to read, not of the last one read."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None

    @property
    def known_epoch(self) -> int:
        """Return the leader epoch as the wire has it: -1 for none."""
        return -1 if self.leader_epoch is None else self.leader_epoch


class OffsetAndTimestamp(NamedTuple):
    """The result of a look-up by time: the first record at or after that time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record as it was read. `timestamp_type` is 0 for create time, 1 for log append time.
    `key` and `value` are bytes unless the consumer has deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: tuple[Header, ...] = ()
    timestamp_type: int = 0
    leader_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition that holds the record."""
        return TopicPartition(self.topic, self.partition)


class RecordMetadata(NamedTuple):
    """The place of a written record. `offset` is -1 if the broker did not return it (acks=0, or an
    old duplicate). `timestamp_ms` is the broker's time under LogAppendTime, otherwise the record's
    own."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition that holds the record."""
        return TopicPartition(self.topic, self.partition)


class PartitionInfo(NamedTuple):
    """A partition in the cluster's metadata. `leader` is None if there is no leader.
    `offline_replicas` are the brokers that cannot use their log of the partition."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()

    @property
    def reason_without_leader(self) -> str:
        """Return the reason why a partition without a leader cannot be used, as text."""
        reason = "no broker leads it"
        if self.offline_replicas:
            nodes = ", ".join(map(str, self.offline_replicas))
            reason += (
                f": offline on broker {nodes} (the broker has stopped, its disk has failed, or "
                "the partition's files are damaged; the broker's log names the cause)"
            )
        return reason


class Node(NamedTuple):
    """A broker and the address for clients."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class TransactionMember(NamedTuple):
    """A transaction that another process may decide: its transactional id, producer id and
    epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionGroup(NamedTuple):
    """A transactional producer's membership in a consumer group (KIP-447, early draft): the
    generation, and the input partitions that the group has assigned to its process."""

    group_id: str
    generation_id: int
    partitions: frozenset[TopicPartition] = frozenset()


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's membership in its group, for `Producer.send_offsets_to_transaction` (KIP-447).

    By generation and member id, the group coordinator refuses offsets of a zombie. The defaults
    mean "not a member": then only the transactional id is checked.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
