"""The metadata store: the real records, conditions and writes, without a network.

Each key has its own count of revisions, instead of one count for the store. This is enough, because
a revision is only compared with revisions of the same key, and the key of a registration is written
together with the key of its broker. The order of writes to different keys then leaves no trace, and
many states become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage, PartitionImage
from oncelog_server.cluster.store import Changes, Compare, Created, Delete, Entry, Event, Put, Write

TOPIC: Final = "t"
TOPIC_ID: Final = b"t" * 16


class StoredKey(NamedTuple):
    """A key. `value` is None if the key is deleted. `revision`: the number of its writes."""

    value: bytes | None
    create_revision: int
    revision: int


_ABSENT: Final = StoredKey(None, 0, 0)


class Store(NamedTuple):
    """All keys, in the order of their names."""

    keys: tuple[tuple[str, StoredKey], ...] = ()

    def applied(self, write: Write) -> Store | None:
        """Return the store after a write, None if a condition does not hold."""
        keys = dict(self.keys)
        if not all(_holds(keys, condition) for condition in write.compare):
            return None
        for operation in write.operations:
            before = keys.get(operation.key, _ABSENT)
            if isinstance(operation, Put):
                revision = before.revision + 1
                created = revision if before.value is None else before.create_revision
                keys[operation.key] = StoredKey(operation.value, created, revision)
            elif before.value is not None:
                keys[operation.key] = StoredKey(None, 0, before.revision)
        return Store(tuple(sorted(keys.items())))

    def with_writes(self, writes: Sequence[Write]) -> Store:
        store = self
        for write in writes:
            after = store.applied(write)
            assert after is not None
            store = after
        return store

    def image(self) -> ClusterImage:
        events = tuple(
            Event(name, Entry(name, key.value, key.create_revision, key.revision))
            for name, key in self.keys
            if key.value is not None
        )
        return ClusterImage().advance([Changes(1, events)])


def _holds(keys: dict[str, StoredKey], condition: Compare) -> bool:
    key = keys.get(condition.key, _ABSENT)
    if isinstance(condition, Created):
        return (key.create_revision if key.value is not None else 0) == condition.create_revision
    return (key.revision if key.value is not None else 0) == condition.mod_revision


def partition_in(image: ClusterImage) -> PartitionImage:
    """Return the only partition."""
    return image.topics[TOPIC].partitions[0]


def session_ended(broker_id: int) -> Write:
    """Return the write of the store when a broker's lease ends."""
    keys = records.broker_key(broker_id), records.draining_key(broker_id)
    return Write((), tuple(Delete(key) for key in keys))
