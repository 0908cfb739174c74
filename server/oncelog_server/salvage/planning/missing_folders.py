"""The missing folders of a topic. They are a sign that the topic was deleted: each live broker then
removes its folders, and only a broker that was down keeps them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from oncelog_server.cluster.records import PartitionRecord


def brokers_without_folders(
    partitions: Iterable[tuple[PartitionRecord, Collection[int]]], directories: Collection[int]
) -> list[int]:
    """Return the brokers that lack folders of a topic, if this is a sign of its deletion. Otherwise
    return none.

    `partitions` are the records of the topic's partitions in older metadata, each with the brokers
    that have its folder now. `directories` are the brokers with a directory. While a topic is in
    use, each partition has as many folders as replicas, also after a reassignment to other brokers.
    Fewer folders are a sign only if all partitions have fewer, because a reassignment may reduce
    the replicas of some partitions.
    """
    missing: set[int] = set()
    for record, on_disk in partitions:
        # The reassignment may have ended or been cancelled since.
        staying = set(record.replicas).difference(record.adding, record.removing)
        expected = staying.intersection(directories)
        if not expected:
            continue  # its folders are lost in any case
        if len(on_disk) >= len(expected):
            return []
        missing |= expected.difference(on_disk)
    return sorted(missing)
