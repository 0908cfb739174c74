"""The partitions that start empty, because the disk of their only replica was replaced."""

from __future__ import annotations

from collections.abc import Callable, Container

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_change import Candidates
from oncelog_server.storage.layout import partition_directory
from oncelog_server.topic_partition import TopicPartition


def emptied_replicas(
    image: ClusterImage,
    broker_id: int,
    directory_id: str,
    list_folders: Callable[[], Container[str]],
) -> list[TopicPartition]:
    """Return the partitions with their only replica on a broker, and without a folder there, if the
    broker was last registered with another data directory. No other replica has more, so the broker
    leads them, empty (`Candidates.epoch`). `list_folders` returns those of the data directory, and
    is called for a new directory only. `image` is that before the new registration."""
    last = image.registrations.get(broker_id)
    if last is not None and last.directory_id == directory_id:
        return []
    folders = list_folders()
    return [
        TopicPartition(topic.name, partition.partition)
        for topic in image.topics.values()
        for partition in topic.partitions
        if broker_id in partition.replicas
        and Candidates(image, partition).is_single
        and partition_directory(topic.name, partition.partition) not in folders
    ]
