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

    The topics were found with the metadata of `revision`, which has the access rules. Only the
    revision is kept, because an idle session must not keep the metadata itself in memory. `topics`
    has the mapping that Partitions.of_topic returned for each topic. The key is the topic's name
    or, from Produce v13 on, the topic id of the partitions. If the mapping has become empty, the
    caller looks the topic up again: its partitions may be open again, in another mapping.
    """

    __slots__ = ("revision", "topics")

    def __init__(self) -> None:
        self.revision = -1
        self.topics: dict[str | bytes, Mapping[int, Partition]] = {}

    def begin(self, revision: int) -> None:
        """Drop all topics, because the metadata has changed."""
        self.revision = revision
        self.topics.clear()

    def add(self, topic: str | bytes, partitions: Mapping[int, Partition]) -> None:
        """Add a topic that the session may write. A topic without partitions is not added, because
        a client may name any topic."""
        if not partitions:
            return
        if len(self.topics) >= MAX_TOPICS:
            self.topics.clear()
        self.topics[topic] = partitions
