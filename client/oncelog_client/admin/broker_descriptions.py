"""Brokers and their disks as the admin client describes them. Names as in the Java client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog_client.values import Node, TopicPartition


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
