"""The admin client's descriptions of brokers and their disks. The names are those of the Java
client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oncelog_client.errors import KafkaError
from oncelog_client.values import Node, TopicPartition


class ClusterDescription(NamedTuple):
    """The cluster. `controller` is None if the cluster has no controller. `fenced` are the brokers
    that have registered and are not alive, if they were requested."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    fenced: tuple[Node, ...] = ()


class ReplicaInfo(NamedTuple):
    """One replica on disk. `offset_lag` is the number of offsets that the replica lacks.
    `is_future` is true for a replica that is moving to this directory (KIP-113)."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """One data directory of a broker. A size of -1 means that the broker did not report the size.
    `error` is the reason why the broker cannot use the directory."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaInfo]
    error: KafkaError | None = None
