"""Make the revision of the metadata durable before this broker opens a new replica, and checkpoints
that do not name an earlier replica of the partition. This is for a broker with other brokers.

So no folder has records of a topic or partition that was created after the revision that the data
directory has recorded. If a start finds older metadata, it is refused, and puts no such folder
aside. A metadata store in the data directory itself is never older, and has no recorded revision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from oncelog_server.cluster.delta import ImageDelta, PartitionChange
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.deferred import Deferred
from oncelog_server.hosting.topic_changes import TopicChanges
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import CLUSTER_REVISION

# Makes the revision of an image durable, and checkpoints without earlier replicas.
KeepRevision = Callable[[ClusterImage], Deferred[StorageError | None]]

_GIVEN_UP: Final = StorageError("write", CLUSTER_REVISION, "a defect has ended the write")


class KeptRevision:
    """Holds the changes of topics with new replicas on broker `broker_id` until the revision is
    durable. `changes` are the pending changes."""

    def __init__(self, broker_id: int, changes: TopicChanges, keep: KeepRevision) -> None:
        self._broker_id = broker_id
        self._changes = changes
        self._keep = keep
        # The error of the last attempt, None if the revision is durable.
        self._error: StorageError | None = None

    def follow(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Hold the topics with new replicas in `delta`, and make the revision durable."""
        # In the order of the changes: a set has another order in each process.
        topics = dict.fromkeys(
            change.topic.name for change in delta.partitions if self._is_new(change)
        )
        if topics:
            for topic in topics:
                self._changes.hold(topic)
            self._begin(image, topics)

    def check(self, image: ClusterImage) -> None:
        """Raise StorageError if the disk has refused the revision, and begin another attempt."""
        error = self._error
        if error is not None:
            self._begin(image, ())
            raise error

    def _is_new(self, change: PartitionChange) -> bool:
        if change.new is None or self._broker_id not in change.new.replicas:
            return False
        return change.old is None or self._broker_id not in change.old.replicas

    def _begin(self, image: ClusterImage, topics: Collection[str]) -> None:
        kept = self._keep(image)
        kept.on_complete(partial(self._end, topics))
        kept.on_abandon(partial(self._end, topics, _GIVEN_UP))

    def _end(self, topics: Collection[str], error: StorageError | None) -> None:
        """Release the topics. With an error, `check` refuses their logs."""
        self._error = error
        for topic in topics:
            self._changes.release(topic)
        self._changes.work()
