"""One leader epoch for all partitions of `__transaction_state`.

A transactional id that moves to another partition keeps its producer id. Its markers have the
leader epoch of its coordinator's partition, and the partitions with its records refuse a marker
with a lower epoch than the last one (TRANSACTION_COORDINATOR_FENCED, KIP-360). The id's transaction
would never end if the new partition had a lower epoch than the former one.
"""

from __future__ import annotations

from msgspec.structs import replace

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import TRANSACTION_STATE


def with_one_coordinator_epoch(image: ClusterImage) -> ClusterImage:
    """Return the image with the highest leader epoch in each partition of `__transaction_state`."""
    topic = image.topics.get(TRANSACTION_STATE)
    if topic is None or not topic.partitions:
        return image
    highest = max(partition.leader_epoch for partition in topic.partitions)
    partitions = tuple(replace(partition, leader_epoch=highest) for partition in topic.partitions)
    topics = {**image.topics, topic.name: replace(topic, partitions=partitions)}
    return replace(image, topics=topics)
