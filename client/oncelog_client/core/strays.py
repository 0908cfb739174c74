"""Stray folders of a data directory: partitions that a start of the broker has put aside, because
they were deleted or moved to other brokers while the broker was down. A folder can be removed if
all replicas of its partition on other brokers are in sync. If the cluster has no such topic, the
topic was deleted, or its metadata was lost: only an operator knows which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog_client.errors import KafkaError
from oncelog_client.values import PartitionInfo
from oncelog_protocol.errors import ErrorCode

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
    """Return the topic and the partition in the name of a folder, or None for other folders."""
    found = re.fullmatch(_NAME, folder)
    return None if found is None else (found["topic"], int(found["partition"]))


def judge(
    stray: Stray,
    topics: Mapping[bytes, Mapping[int, PartitionInfo] | KafkaError],
    broker_id: int,
    *,
    unknown_topics: bool = False,
) -> Verdict:
    """Return whether a stray folder of the broker can be removed. `topics` has the partitions of
    each topic by number, or the error of its id. `unknown_topics`: the operator says that topics
    which the cluster does not know are deleted."""
    if stray.topic_id is None:
        return Verdict(False, "the topic id in partition.metadata cannot be read")
    found = topics.get(stray.topic_id)
    if found is None:
        return Verdict(False, "the broker did not describe the topic")
    if isinstance(found, KafkaError):
        if found.code is not ErrorCode.UNKNOWN_TOPIC_ID:
            return Verdict(False, f"the topic is not known: {found.code.name}")
        return Verdict(unknown_topics, "the cluster has no such topic")
    info = found.get(stray.partition)
    if info is None:
        return Verdict(False, "the topic has no such partition")
    if broker_id in info.replicas:
        return Verdict(False, f"broker {broker_id} has a replica of the partition again")
    missing = [str(broker) for broker in info.replicas if broker not in info.in_sync_replicas]
    if info.leader is None or missing or not info.replicas:
        return Verdict(False, f"not in sync: broker {', '.join(missing) or 'unknown'}")
    whole = ", ".join(map(str, info.replicas))
    return Verdict(True, f"whole on broker {whole}")
