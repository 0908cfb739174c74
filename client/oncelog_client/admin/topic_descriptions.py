"""Topics in arguments and results of the admin client. The names are those of the Java client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from oncelog_client.values import PartitionInfo

_NONE: Final[Mapping[Any, Any]] = {}


class NewTopic(NamedTuple):
    """A topic to create. A `num_partitions` or `replication_factor` of -1 stands for the broker's
    default. `assignments` (partition -> brokers) replaces both."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = _NONE
    assignments: Mapping[int, Sequence[int]] = _NONE


class TopicListing(NamedTuple):
    """A topic in a list. `topic_id` has 16 bytes. They are all zero if the broker has no topic ids
    (KIP-516)."""

    name: str
    topic_id: bytes
    is_internal: bool


class TopicDescription(NamedTuple):
    """A topic with its partitions, in order."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
