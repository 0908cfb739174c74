"""The internal topics to create: __consumer_offsets, __transaction_state and __oncelog_sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.placement import Assignment, Placeable
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, SINKS, TRANSACTION_STATE
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.refusal import Refused
from oncelog_server.settings.log import SMALLEST_SEGMENT
from oncelog_server.settings.model import Settings

_Topic = tuple[int, int, dict[str, str]]


def internal_topic(
    image: ClusterImage, settings: Settings, name: str, *, is_alone: bool = True
) -> NewTopic:
    """Return an internal topic to create, with the settings that Kafka gives it.

    A broker that is a cluster by itself (`is_alone`) works without settings: the topic has a single
    replica. In a cluster it has as many replicas as the settings say. If possible, partitions of
    the same number have the same replicas for both coordinators. __oncelog_sink has no records: it
    exists because offsets can be committed only for an existing topic.

    Raises Refused with COORDINATOR_NOT_AVAILABLE while too few brokers of the cluster are alive.
    Raises ValueError if `name` is no internal topic.
    """
    if name not in _SETTINGS:
        raise ValueError(f"{name} is no internal topic")
    partitions, replicas, own = _SETTINGS[name](settings)
    own = {"cleanup.policy": "compact", **own}
    if is_alone:
        return NewTopic(name, partitions, min(replicas, len(image.brokers)), settings=own)
    live = len(Placeable.of(image).live)
    if live < replicas:
        raise Refused(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"{name} needs {replicas} live brokers ({_FACTORS[name]}), and {live} are alive.",
        )
    assignments = _other_coordinator(image, name, partitions, replicas)
    if assignments:
        return NewTopic(name, assignments=assignments, settings=own)
    return NewTopic(name, partitions, replicas, settings=own)


def _other_coordinator(
    image: ClusterImage, name: str, partitions: int, replicas: int
) -> tuple[tuple[int, Assignment], ...]:
    """Return the assignments of the other coordinator's topic, if this topic can have the same."""
    other = image.topics.get(_OTHERS.get(name, ""))
    if other is None or other.missing or len(other.partitions) != partitions:
        return ()
    live = Placeable.of(image).live
    for partition in other.partitions:
        if len(partition.replicas) != replicas or not live.keys() & set(partition.replicas):
            return ()
        if not image.registered >= set(partition.replicas):
            return ()
    return tuple((partition.partition, partition.replicas) for partition in other.partitions)


def _of_offsets(settings: Settings) -> _Topic:
    own = {
        "compression.type": "producer",
        **_segment_bytes(settings.offsets_topic_segment_bytes),
    }
    return (
        settings.offsets_topic_num_partitions,
        settings.offsets_topic_replication_factor,
        own,
    )


def _of_transactions(settings: Settings) -> _Topic:
    own = {
        "compression.type": "uncompressed",
        "min.insync.replicas": str(settings.transaction_state_log_min_isr),
        **_segment_bytes(settings.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
    return (
        settings.transaction_state_log_num_partitions,
        settings.transaction_state_log_replication_factor,
        own,
    )


def _of_sinks(settings: Settings) -> _Topic:
    return 1, settings.offsets_topic_replication_factor, {}


def _segment_bytes(size: int) -> dict[str, str]:
    """Return the setting of a topic for segments of `size` bytes.

    The broker's settings for internal topics have no minimum, but `segment.bytes` has one. The
    setting for sizes below it is `internal.segment.bytes`.
    """
    name = "segment.bytes" if size >= SMALLEST_SEGMENT else "internal.segment.bytes"
    return {name: str(size)}


# Functions of the settings that return the number of partitions, the replication factor and the
# topic's own settings.
_SETTINGS: Final[Mapping[str, Callable[[Settings], _Topic]]] = {
    CONSUMER_OFFSETS: _of_offsets,
    TRANSACTION_STATE: _of_transactions,
    SINKS: _of_sinks,
}
_FACTORS: Final = {
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
    SINKS: "offsets.topic.replication.factor",
}
_OTHERS: Final = {CONSUMER_OFFSETS: TRANSACTION_STATE, TRANSACTION_STATE: CONSUMER_OFFSETS}
