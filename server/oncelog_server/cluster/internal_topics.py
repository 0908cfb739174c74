"""The internal topics to create: __consumer_offsets, __transaction_state and __oncelog_sink."""

from __future__ import annotations

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, SINKS, TRANSACTION_STATE
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.settings.log import SMALLEST_SEGMENT
from oncelog_server.settings.model import Settings


def internal_topic(image: ClusterImage, settings: Settings, name: str) -> NewTopic:
    """Return an internal topic to create, with the settings that Kafka gives it.

    Unlike in Kafka, it has at most as many replicas as there are brokers, so that a single broker
    works without settings. __oncelog_sink has no records: it exists because offsets can be
    committed only for an existing topic. Raises ValueError if `name` is no internal topic.
    """
    if name == CONSUMER_OFFSETS:
        partitions = settings.offsets_topic_num_partitions
        replicas = settings.offsets_topic_replication_factor
        own = {
            "compression.type": "producer",
            **_segment_bytes(settings.offsets_topic_segment_bytes),
        }
    elif name == TRANSACTION_STATE:
        partitions = settings.transaction_state_log_num_partitions
        replicas = settings.transaction_state_log_replication_factor
        own = {
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            **_segment_bytes(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
    elif name == SINKS:
        partitions, replicas, own = 1, settings.offsets_topic_replication_factor, {}
    else:
        raise ValueError(f"{name} is no internal topic")
    return NewTopic(
        name,
        partitions,
        min(replicas, len(image.brokers)),
        settings={"cleanup.policy": "compact", **own},
    )


def _segment_bytes(size: int) -> dict[str, str]:
    """Return the setting of a topic for segments of `size` bytes.

    The broker's settings for internal topics have no minimum, but `segment.bytes` has one. The
    setting for sizes below it is `internal.segment.bytes`.
    """
    name = "segment.bytes" if size >= SMALLEST_SEGMENT else "internal.segment.bytes"
    return {name: str(size)}
