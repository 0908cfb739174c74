"""The admin client's descriptions of brokers and their disks. The names are those of the Java
client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oncelog_client.errors import KafkaError
from oncelog_client.values import Node, TopicPartition


class ClusterDescription(NamedTuple):
    """The cluster. `controller` is None if the cluster has no controller. `fenced` are the brokers
    that have registered and are not alive, if they were requested. `versions` are the versions of
    the brokers' software, by broker id; Apache Kafka's brokers do not report theirs."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    fenced: tuple[Node, ...] = ()
    versions: Mapping[int, str] = {}


class BrokerCondition(NamedTuple):
    """The state of a broker, as the broker itself reports it. `store_silence_ms`: the time for
    which the metadata store (etcd) has not responded to it, 0 while it responds. `is_suspended`:
    the broker leads nothing, because it may not be registered any more. `supported_features` has
    the highest level that the broker supports of each feature, and `features` has the finalized
    level."""

    store_silence_ms: int
    is_suspended: bool
    supported_features: Mapping[str, int]
    features: Mapping[str, int]


class EligibleReplicas(NamedTuple):
    """The replicas that can lead a partition although they are not in the ISR, because they have
    all committed records (KIP-966). If no replica is certain to have them all, `last_known` has the
    replicas of the last ISR."""

    eligible: tuple[int, ...]
    last_known: tuple[int, ...]


class ReplicaInfo(NamedTuple):
    """One replica on disk. `offset_lag` is the number of offsets that the replica lacks.
    `is_future` is true for a replica that is moving to this directory (KIP-113). If the broker
    leads the partition, `out_of_sync_ms` has the replicas outside of the ISR, with the time since
    each was caught up. A replica that has not been caught up since the broker became the leader is
    left out."""

    size_bytes: int
    offset_lag: int
    is_future: bool
    out_of_sync_ms: Mapping[int, int] = {}


class LogDirDescription(NamedTuple):
    """One data directory of a broker. A size of -1 means that the broker did not report the size.
    `error` is the reason why the broker cannot use the directory."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaInfo]
    error: KafkaError | None = None
