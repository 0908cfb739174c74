"""The follower's side of a fetch session (KIP-227; Kafka's FetchSessionHandler): each request names
only the partitions that have changed since the last one."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_protocol.messages.fetch import FetchPartition

NO_SESSION: Final = 0
FULL: Final = 0
_MAX_INT32: Final = 2**31 - 1


class PartitionKey(NamedTuple):
    topic_id: bytes
    partition: int


class SessionPart(NamedTuple):
    """The part of a Fetch that depends on the session. `is_complete`: no partition is left for the
    next request."""

    session_id: int
    session_epoch: int
    rows: list[tuple[PartitionKey, FetchPartition]]
    forgotten: list[PartitionKey]
    is_complete: bool


class FollowerSession:
    """The partitions that a follower fetches from one leader, and the state of the leader's
    session."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL
        # The partitions to fetch.
        self._rows: dict[PartitionKey, FetchPartition] = {}
        # The rows that the leader has in its session.
        self._known: dict[PartitionKey, FetchPartition] = {}
        # Partitions with rows that the leader does not know yet.
        self._changed: dict[PartitionKey, None] = {}
        # Partitions that the leader must remove from its session.
        self._forgotten: dict[PartitionKey, None] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def want(self, key: PartitionKey, row: FetchPartition) -> None:
        """Fetch a partition, or fetch it from another offset."""
        self._rows[key] = row
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def drop(self, key: PartitionKey) -> None:
        """Stop fetching a partition."""
        self._rows.pop(key, None)
        self._changed.pop(key, None)
        if key in self._known:
            self._forgotten[key] = None

    def sent(self, key: PartitionKey) -> FetchPartition | None:
        """Return the row that the leader has for a partition, None if it has none."""
        return self._known.get(key)

    def next(self, most: int) -> SessionPart:
        """Return the session's part of the next request. It has at most `most` rows, so that no
        request and no response is too large. The caller then calls `answered` or `reset`."""
        names = list(self._changed)[:most] if len(self._changed) > most else list(self._changed)
        rows = [(key, self._rows[key]) for key in names]
        for key, row in rows:
            self._known[key] = row
            del self._changed[key]
        forgotten = list(self._forgotten)
        for key in forgotten:
            self._known.pop(key, None)
        self._forgotten.clear()
        return SessionPart(self._id, self._epoch, rows, forgotten, not self._changed)

    def answered(self, session_id: int) -> None:
        """Continue the session of a response. Without a session, the next request is full."""
        if session_id == NO_SESSION:
            self.reset()
        elif self._epoch == FULL or self._epoch == _MAX_INT32:
            self._epoch = 1
        else:
            self._epoch += 1
        self._id = session_id

    def reset(self) -> None:
        """Begin a new session with the next request, because the leader's state is unknown."""
        self._epoch = FULL
        self._known.clear()
        self._forgotten.clear()
        self._changed = dict.fromkeys(self._rows)
