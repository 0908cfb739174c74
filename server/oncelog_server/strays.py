"""Directories of partitions that belong to no topic any more: a crash came between the deletion of
a topic in the store and that of its files.

They are put aside under another name, as Kafka does, not removed: were the metadata lost, they
would be all that is left. What was on its way out already is removed.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog_server.cluster.image import ClusterImage
from oncelog_server.log.checkpoints import MalformedCheckpoint, decode_partition_metadata
from oncelog_server.log.whole_files import read_whole
from oncelog_server.storage.files import Files
from oncelog_server.storage.layout import (
    PARTITION_METADATA,
    TopicPartition,
    is_deleted_directory,
    parse_partition_directory,
    stray_directory,
)


def put_strays_aside(
    files: Files, image: ClusterImage, broker_id: int, new_uuid: Callable[[], bytes]
) -> list[tuple[str, str]]:
    """(old name, new name) of each directory put aside. Raises StorageError."""
    moved = []
    leaving = []
    for name in files.list(""):
        if is_deleted_directory(name):
            leaving.append(name)
            continue
        partition = parse_partition_directory(name)
        if partition is None or _belongs(files, name, partition, image, broker_id):
            continue
        aside = stray_directory(*partition, new_uuid())
        files.rename(name, aside)
        moved.append((name, aside))
    if leaving:
        files.remove(leaving)
    return moved


def _belongs(
    files: Files, name: str, partition: TopicPartition, image: ClusterImage, broker_id: int
) -> bool:
    """Whether the image puts this very partition here; its topic id is in its own file."""
    known = image.partition(*partition)
    if known is None or broker_id not in known.replicas:
        return False
    return is_of_topic(files, name, known.topic_id)


def is_of_topic(files: Files, directory: str, topic_id: bytes) -> bool:
    """Whether a directory may be a partition of that topic, by the id in it: one without an id
    may."""
    data = read_whole(files, f"{directory}/{PARTITION_METADATA}")
    if data is None:
        return True
    try:
        return decode_partition_metadata(data) == topic_id
    except MalformedCheckpoint:
        return True
