"""The topics that a session may write, so that Produce looks up the rights and the partitions of a
topic once for each image of the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog_server.partition.partition import Partition

# Maximum number of topics of a session. All are dropped when there are more.
MAX_TOPICS: Final = 256


class WritableTopics:
    """Topics that the principal of one session may write, each with its partitions on this broker.

    They hold at `revision`, that of the metadata with the access rules by which they were found.
    An idle session must not keep the metadata itself in memory. `topics` are the partitions as
    Partitions.of_topic returns them. If a topic has no partition left, the caller looks it up
    again: the partitions may be open again, in another object.
    """

    __slots__ = ("revision", "topics")

    def __init__(self) -> None:
        self.revision = -1
        self.topics: dict[str, Mapping[int, Partition]] = {}

    def begin(self, revision: int) -> None:
        """Drop all topics, because the metadata has changed."""
        self.revision = revision
        self.topics.clear()

    def add(self, topic: str, partitions: Mapping[int, Partition]) -> None:
        """Add a topic that the session may write. A topic without partitions is not added, because
        a client may name any topic."""
        if not partitions:
            return
        if len(self.topics) >= MAX_TOPICS:
            self.topics.clear()
        self.topics[topic] = partitions
