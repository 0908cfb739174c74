"""Stray folders of a data directory: partitions that a start of the broker has put aside, because
they were deleted or moved to other brokers while the broker was down. They can be removed if the
cluster has whole copies, or has deleted the topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog_client.values import PartitionInfo

# A text, not a compiled pattern, because most commands need none. The topic's name may be cut.
_NAME: Final = r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d{1,10})\.[0-9a-f]{32}-stray"


class Stray(NamedTuple):
    """A folder. `topic_id` is None if its file cannot be read. `topic` may be cut."""

    folder: str
    topic: str
    partition: int
    topic_id: bytes | None
    size_bytes: int


class Verdict(NamedTuple):
    """`reason` is why the folder is, or is not, `removable`."""

    removable: bool
    reason: str


def parse_stray(folder: str) -> tuple[str, int] | None:
    """Return the topic and the partition in the name of a folder, None for other folders."""
    found = re.fullmatch(_NAME, folder)
    return None if found is None else (found["topic"], int(found["partition"]))


def judge(
    stray: Stray, partitions: Mapping[bytes, Mapping[int, PartitionInfo]], broker_id: int
) -> Verdict:
    """Return whether a stray folder of the broker can be removed. `partitions` are all partitions
    of the cluster, by topic id and number."""
    if stray.topic_id is None:
        return Verdict(False, "the topic id in partition.metadata cannot be read")
    of_topic = partitions.get(stray.topic_id)
    if of_topic is None:
        return Verdict(True, "the topic is deleted")
    info = of_topic.get(stray.partition)
    if info is None:
        return Verdict(False, "the topic has no such partition")
    if broker_id in info.replicas:
        return Verdict(False, f"broker {broker_id} has a replica of the partition again")
    missing = [str(broker) for broker in info.replicas if broker not in info.in_sync_replicas]
    if info.leader is None or missing or not info.replicas:
        return Verdict(False, f"not in sync: broker {', '.join(missing) or 'unknown'}")
    whole = ", ".join(map(str, info.replicas))
    return Verdict(True, f"whole on broker {whole}")
