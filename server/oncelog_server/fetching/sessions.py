"""Fetch sessions (KIP-227). A reader names its partitions once, and later names only changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.unread import Unread
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import Principal

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_INT32: Final = 2**31 - 1
CONSUMER: Final = -1
# A session may be evicted if it was unused for this time, or if it is older than this time and
# smaller than the new session. The value is Kafka's.
MIN_EVICTION_MS: Final = 120_000


class FetchSession(msgspec.Struct):
    id: int
    principal: Principal
    uses_topic_ids: bool
    created_ms: int
    used_ms: int
    # The broker id of the follower that reads, CONSUMER for other readers.
    replica_id: int = CONSUMER
    epoch: int = 1
    # In the order of reading. A partition that returned data moves to the end, so that all
    # partitions get their turn.
    partitions: dict[PartitionKey, FetchedPartition] = msgspec.field(default_factory=dict)
    # The partitions that the next Fetch of a follower reads. None: all partitions are read.
    unread: Unread | None = None

    def to_end(self, key: PartitionKey) -> None:
        wanted = self.partitions.pop(key, None)
        if wanted is not None:
            self.partitions[key] = wanted


class FetchScope(msgspec.Struct, frozen=True):
    """The partitions that one Fetch reads. `session` is None outside of sessions. `is_incremental`:
    the response contains only changes."""

    partitions: list[FetchedPartition]
    session: FetchSession | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        return self.session.id if self.session is not None else NO_SESSION

    @property
    def unread(self) -> Unread | None:
        return None if self.session is None else self.session.unread


class FetchSessions:
    """Holds at most `slots` sessions (max.incremental.fetch.session.cache.slots). A reader without
    a session sends full requests. `new_id` returns random numbers from 0 to 2^31 - 1.

    A session belongs to the principal that created it. For other principals it does not exist, so
    that a request with a guessed id learns no topics and changes nothing. In Kafka every client may
    use every session.

    A follower has one session, which is never evicted. It does not count as one of the slots: there
    are as many followers as brokers, and without sessions they would send all their partitions in
    each request.
    """

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        # Least recently used first.
        self._sessions: dict[int, FetchSession] = {}
        # The sessions of followers by broker id, which are also in `_sessions`.
        self._of_followers: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def scope(
        self,
        session_id: int,
        session_epoch: int,
        wanted: list[FetchedPartition],
        forgotten: Iterable[PartitionKey],
        *,
        principal: Principal,
        uses_topic_ids: bool,
        now_ms: int,
        replica_id: int = CONSUMER,
    ) -> FetchScope:
        """Return the partitions of a request and its session. `replica_id` is the broker id of a
        follower that may fetch from this broker. Raises Refused with FETCH_SESSION_ID_NOT_FOUND,
        INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR."""
        session = self._sessions.get(session_id)
        if session is not None and session.principal != principal:
            session = None
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self.forget(session_id)
            if session_epoch == FINAL_EPOCH or not wanted:
                return FetchScope(wanted)
            created = self._create(wanted, principal, uses_topic_ids, now_ms, replica_id)
            return FetchScope(wanted, created)
        if session is None:
            raise Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != session_epoch:
            raise Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise Refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._use(session, now_ms)
        session.epoch = 1 if session.epoch == _MAX_INT32 else session.epoch + 1
        for partition in wanted:
            _update(session, partition)
        # As in Kafka, a partition that the request also names as forgotten is forgotten.
        for key in forgotten:
            session.partitions.pop(key, None)
            if session.unread is not None:
                session.unread.forget(key)
        if not session.partitions:
            self.forget(session.id)
            return FetchScope(wanted)
        unread = session.unread
        read = list(session.partitions.values()) if unread is None else unread.rows()
        return FetchScope(read, session, is_incremental=True)

    def forget(self, session_id: int) -> None:
        """End a session, if there is one."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        if session.unread is not None:
            session.unread.close()
        if self._of_followers.get(session.replica_id) is session:
            del self._of_followers[session.replica_id]

    def _use(self, session: FetchSession, now_ms: int) -> None:
        session.used_ms = now_ms
        if session.unread is not None:
            session.unread.fetched_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)

    def _create(
        self,
        wanted: list[FetchedPartition],
        principal: Principal,
        uses_topic_ids: bool,
        now_ms: int,
        replica_id: int,
    ) -> FetchSession | None:
        older = self._of_followers.get(replica_id)
        if older is not None:
            self.forget(older.id)
        if replica_id == CONSUMER:
            taken = len(self._sessions) - len(self._of_followers)
            if taken >= self._slots and not self._evict(len(wanted), now_ms):
                return None
        new_id = self._new_id()
        while new_id in self._sessions or new_id == NO_SESSION:
            new_id = self._new_id()
        session = FetchSession(new_id, principal, uses_topic_ids, now_ms, now_ms, replica_id)
        session.partitions = {partition.key: partition for partition in wanted}
        self._sessions[new_id] = session
        if replica_id != CONSUMER:
            self._of_followers[replica_id] = session
            session.unread = Unread(replica_id, wanted, now_ms)
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Make room for a session of this size. Evict the least recently used session if it was
        unused for MIN_EVICTION_MS. Otherwise evict the smallest session that is older than
        MIN_EVICTION_MS, if it is smaller than `size`. Return True if there is room."""
        of_consumers = [
            session for session in self._sessions.values() if session.replica_id == CONSUMER
        ]
        oldest = next(iter(of_consumers), None)
        if oldest is None:
            return False
        victim: FetchSession | None = None
        if now_ms - oldest.used_ms > MIN_EVICTION_MS:
            victim = oldest
        else:
            settled = (
                session for session in of_consumers if now_ms - session.created_ms > MIN_EVICTION_MS
            )
            smallest = min(settled, key=lambda session: len(session.partitions), default=None)
            if smallest is not None and len(smallest.partitions) < size:
                victim = smallest
        if victim is None:
            return False
        del self._sessions[victim.id]
        return True


def _update(session: FetchSession, wanted: FetchedPartition) -> None:
    known = session.partitions.get(wanted.key)
    if session.unread is not None:
        session.unread.add(known or wanted)
    if known is None:
        session.partitions[wanted.key] = wanted
        return
    known.fetch_offset = wanted.fetch_offset
    known.max_bytes = wanted.max_bytes
    known.current_leader_epoch = wanted.current_leader_epoch
    known.last_fetched_epoch = wanted.last_fetched_epoch
    known.follower_high_watermark = wanted.follower_high_watermark
    known.follower_log_start_offset = wanted.follower_log_start_offset
