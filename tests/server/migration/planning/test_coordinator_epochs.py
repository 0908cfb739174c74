"""The leader epochs of the partitions to which transactional ids move."""

from __future__ import annotations

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import PartitionRecord, TopicRecord
from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.migration.planning.coordinator_epochs import with_one_coordinator_epoch


def image_of(epochs: dict[str, tuple[int, ...]]) -> ClusterImage:
    values: dict[str, object] = {}
    for number, (name, of_topic) in enumerate(epochs.items()):
        id_text = uuid_to_string(bytes([number]) * 16)
        values[records.topic_key(name)] = TopicRecord(id_text, len(of_topic), {})
        for partition, epoch in enumerate(of_topic):
            key = records.partition_key(id_text, partition)
            values[key] = PartitionRecord((1,), (1,), 1, epoch)
    entries = [Entry(key, records.encode(value), 1, 1) for key, value in sorted(values.items())]
    return ClusterImage.of(Snapshot(1, tuple(entries)))


def epochs_of(image: ClusterImage) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(partition.leader_epoch for partition in topic.partitions)
        for name, topic in image.topics.items()
    }


def test_each_partition_has_the_highest_epoch() -> None:
    """Otherwise a marker from the new partition of an id would be refused."""
    image = with_one_coordinator_epoch(image_of({TRANSACTION_STATE: (12, 3), "orders": (1, 7)}))
    assert epochs_of(image) == {TRANSACTION_STATE: (12, 12), "orders": (1, 7)}


def test_without_transactions_nothing_changes() -> None:
    image = image_of({"orders": (1, 7)})
    assert with_one_coordinator_epoch(image) is image
