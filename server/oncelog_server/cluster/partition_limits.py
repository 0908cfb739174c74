"""The limits of the number of partitions: of a request, of the cluster, and of a client's quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_names import INTERNAL_TOPICS
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings

MAX_PARTITIONS_OF_A_REQUEST: Final = 10_000
# Takes the permits for a topic (its name, a number of partitions) from the quota of the client.
# Raises Refused if the client has none. None: there is no quota.
TakePermits = Callable[[str, int], None] | None


def too_many_in_a_request() -> Refused:
    return Refused(
        ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
    )


def partition_count(image: ClusterImage) -> int:
    """Return the number of partitions, without those of internal topics."""
    topics = image.topics
    internal = [topics[name] for name in INTERNAL_TOPICS if name in topics]
    return sum([len(topic.partitions) for topic in topics.values()]) - sum(
        len(topic.partitions) for topic in internal
    )


def check_room(count: int, settings: Settings, added: int) -> None:
    """Raise Refused if `added` more partitions exceed oncelog.max.partitions (H64).

    Each partition takes memory for as long as it exists, and time at every start.
    """
    limit = settings.oncelog_max_partitions
    if count + added > limit:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"There are {count} partitions, and {added} more would be above {limit}"
            " (oncelog.max.partitions).",
        )
