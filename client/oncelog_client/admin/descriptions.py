"""What the admin client is given and what it answers. Names as in the Java client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple

from oncelog_client.values import Node, PartitionInfo, TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 leaves a number to the broker; `assignments` (partition -> brokers)
    replaces both numbers."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic as it is listed. `topic_id` is 16 bytes, all zero before KIP-516."""

    name: str
    topic_id: bytes
    is_internal: bool


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, in order."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


class ResourceType(IntEnum):
    """What a setting belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One owner of settings; a broker's name is its id."""

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """Another place the setting could come from, best first."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. The value of a sensitive one is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """A change of one setting; append and subtract are for lists (KIP-339)."""

    name: str
    value: str | None = None
    op: Literal["set", "delete", "append", "subtract"] = "set"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as it is listed."""

    group_id: str
    protocol_type: str
    state: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a classic group, with the partitions the last rebalance gave it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group. `partition_assignor` is empty while the group has none."""

    group_id: str
    state: str
    protocol_type: str
    partition_assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster: `controller` is None while there is none."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """One replica on disk; sizes in bytes, `offset_lag` in records."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One data directory of a broker. -1 bytes: the broker did not say."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaInfo]
