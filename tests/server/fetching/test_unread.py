"""The Fetch of a follower reads only the partitions with changes, and misses none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.read import FetchResult, read_partitions
from oncelog_server.fetching.sessions import FetchScope, FetchSessions
from oncelog_server.partition.follower_fetch import FetchingFollower
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.security.resources import ANONYMOUS
from oncelog_server.slices import at_its_end
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition

RU = Isolation.READ_UNCOMMITTED
LEADER, FOLLOWER, OTHER = 0, 1, 2
ALL = (LEADER, FOLLOWER, OTHER)
SESSION_ID = 7
MAX_LAG_MS = 1_000
# Each segment has one batch.
SEGMENT_BYTES = len(batch())


def led_partition() -> Partition:
    return partition(isr=ALL, replicas=ALL, segment_bytes=SEGMENT_BYTES, retention_ms=0)


class Session:
    """Follower 1 with a fetch session of several partitions, each with one record. The follower has
    all records and values."""

    def __init__(self, partitions: int = 3) -> None:
        self.now_ms = 10_000
        self.max_bytes = 1 << 20
        self.led = [led_partition() for _ in range(partitions)]
        self.sessions = FetchSessions(10, lambda: SESSION_ID)
        self.epoch = 0
        self.offsets = [0] * partitions
        self.sent: dict[int, int] = {}
        self.joining: list[Partition] = []
        for index in range(partitions):
            self.append(index)
            self.replicate(index)
        for _ in range(3):
            self.fetch()

    def append(self, index: int) -> None:
        self.led[index].append(batch(), now_ms=NOW_MS)

    def replicate(self, index: int) -> None:
        """Let follower 2 fetch from the log end."""
        led = self.led[index]
        if led.replicas.is_follower(OTHER):
            led.replicas.record_fetch(OTHER, led.log_end_offset, led.log_end_offset, self.now_ms)
            led.recompute_high_watermark()

    def scope(
        self, rows: list[FetchedPartition], forgotten: Sequence[PartitionKey] = ()
    ) -> FetchScope:
        scope = self.sessions.scope(
            SESSION_ID, self.epoch, rows, forgotten, principal=ANONYMOUS, uses_topic_ids=True,
            now_ms=self.now_ms, replica_id=FOLLOWER,
        )  # fmt: skip
        self.epoch += 1
        return scope

    def row(self, index: int) -> FetchedPartition:
        self.sent[index] = self.offsets[index]
        key = PartitionKey("topic", index)
        return FetchedPartition(key, self.offsets[index], 1 << 20, follower_high_watermark=-1)

    def read(self, rows: list[FetchedPartition], scope: FetchScope | None) -> FetchResult:
        follower = FetchingFollower(
            FOLLOWER, 5, 5, self.now_ms, is_repeated=scope is None, joins=self.joining.append
        )
        unread = None if scope is None else scope.unread
        return at_its_end(
            read_partitions(
                rows, lambda key: self.led[key.partition], RU, self.max_bytes, follower, unread
            )
        )

    def fetch(self) -> list[int]:
        """Fetch, and take the response. Return the partitions that the leader has read."""
        named = [
            index for index, offset in enumerate(self.offsets) if self.sent.get(index) != offset
        ]
        scope = self.scope([self.row(index) for index in named])
        found = self.read(scope.partitions, scope)
        for result in found.partitions:
            if result.is_news():
                result.mark_sent()
            if result.read is not None and result.read.records is not None:
                index = result.wanted.key.partition
                self.offsets[index] = self.led[index].log_end_offset
        return [result.wanted.key.partition for result in found.partitions]

    def left_out(self) -> list[FetchedPartition]:
        """Return the rows of the session that the next Fetch will not read."""
        (session,) = self.sessions._sessions.values()
        assert session.unread is not None
        unread = {row.key for row in session.unread.rows()}
        return [row for key, row in session.partitions.items() if key not in unread]

    def lose(self, index: int) -> None:
        """Let the follower leave the ISR, as the controller does for a fenced broker."""
        self.led[index].become_leader(LEADER, 0, (LEADER, OTHER), ALL, self.now_ms)

    def join(self, index: int) -> None:
        self.led[index].become_leader(LEADER, 0, ALL, ALL, self.now_ms)

    def delete_segments(self, index: int) -> None:
        at_its_end(self.led[index].apply_retention(NOW_MS + 1))

    def delete_records(self, index: int) -> None:
        led = self.led[index]
        at_its_end(led.delete_records_before(led.high_watermark, NOW_MS))


def test_a_fetch_reads_the_partitions_with_changes_only() -> None:
    session = Session(partitions=1_000)
    assert session.fetch() == []
    session.append(500)
    assert session.fetch() == [500]
    session.replicate(500)
    session.append(7)
    # The request names the row of partition 500 again, because its offset has changed.
    assert session.fetch() == [500, 7]
    assert [session.fetch() for _ in range(3)][1:] == [[], []]


CHANGES = [
    Session.append,
    Session.replicate,
    Session.lose,
    Session.join,
    Session.delete_segments,
    Session.delete_records,
]


@given(steps=st.lists(st.tuples(st.sampled_from([*CHANGES, None]), st.integers(0, 2)), max_size=30))
def test_a_partition_that_is_left_out_has_nothing_for_its_follower(
    steps: list[tuple[Callable[[Session, int], None] | None, int]],
) -> None:
    session = Session()
    for change, index in steps:
        session.now_ms += 1
        if change is None:
            session.fetch()
        else:
            change(session, index)
        left_out = session.left_out()
        for result in session.read(left_out, None).partitions:
            led = session.led[result.wanted.key.partition]
            assert not result.is_news()
            assert result.wanted.fetch_offset == led.log_end_offset
            assert FOLLOWER in led.replicas.isr


def test_a_follower_outside_of_the_isr_joins_though_nothing_is_appended() -> None:
    session = Session()
    session.lose(1)
    session.joining.clear()
    session.fetch()
    session.fetch()
    assert session.joining == [session.led[1]] * 2
    session.join(1)
    session.fetch()
    assert session.fetch() == []


def test_a_follower_of_an_idle_partition_stays_in_the_isr_while_it_fetches() -> None:
    """The leader does not read an idle partition. The Fetches of the session count nevertheless:
    the time of a lag begins with the last of them."""
    session = Session()
    for _ in range(10):
        session.now_ms += MAX_LAG_MS
        session.fetch()
    last_ms = session.now_ms
    led = session.led[0]
    session.now_ms += 1
    session.append(0)
    session.replicate(0)

    def out_of_sync() -> tuple[int, ...]:
        return led.replicas.out_of_sync(led.log_end_offset, session.now_ms, MAX_LAG_MS)

    assert out_of_sync() == ()
    session.now_ms = last_ms + MAX_LAG_MS
    assert out_of_sync() == ()
    session.now_ms += 1
    assert out_of_sync() == (FOLLOWER,)


def test_an_append_between_a_read_and_the_response_is_not_missed() -> None:
    """The reads of many partitions are made in slices. Here partition 0 grows after its read."""
    session = Session()
    scope = session.scope([session.row(0)])
    steps = read_partitions(
        scope.partitions,
        lambda key: session.led[key.partition],
        RU,
        1 << 20,
        FetchingFollower(FOLLOWER, 5, 5, session.now_ms),
        scope.unread,
    )
    next(steps)
    assert len(session.left_out()) == 3
    session.append(0)
    at_its_end(steps)
    assert session.fetch() == [0]


def test_a_partition_beyond_the_limit_of_bytes_is_read_next() -> None:
    session = Session()
    for index in range(3):
        session.append(index)
    session.max_bytes = SEGMENT_BYTES
    assert [session.fetch()[0] for _ in range(3)] == [0, 1, 2]
    assert session.offsets == [2, 2, 2]


def test_a_partition_that_is_opened_again_is_watched_again() -> None:
    session = Session()
    before, after = session.led[0], partition(isr=ALL, replicas=ALL)
    session.led[0] = after
    before.resign()
    after.append(batch(), now_ms=NOW_MS)
    session.fetch()
    session.fetch()
    assert not before.read_waiters
    assert not before.follower_waiters
    assert session.fetch() == []
    after.append(batch(), now_ms=NOW_MS)
    assert session.fetch() == [0]


def test_a_partition_that_is_opened_again_while_a_fetch_waits_wakes_the_fetch() -> None:
    session = Session()
    unread = session.scope([]).unread
    assert unread is not None
    woken: list[int] = []
    unread.await_changes(lambda: woken.append(0), lambda: None)
    before, after = session.led[0], partition(isr=ALL, replicas=ALL)
    session.led[0] = after
    before.resign()
    after.append(batch(), now_ms=NOW_MS)
    session.read(unread.rows(), session.scope([]))
    after.append(batch(), now_ms=NOW_MS)
    assert woken
    assert not before.read_waiters
    assert not before.follower_waiters


def test_news_that_was_not_sent_yet_is_read_again() -> None:
    """A Fetch that waits is read several times, and its response has the last read."""
    session = Session()
    session.delete_records(0)
    scope = session.scope([])
    assert scope.unread is not None
    for _ in range(3):
        found = session.read(scope.unread.rows(), scope)
        assert [(of.wanted.key.partition, of.is_news()) for of in found.partitions] == [(0, True)]


def test_a_deleted_partition_is_not_kept_in_memory() -> None:
    """The session of a broker that is gone for good stays."""
    session = Session()
    session.led[0].resign()
    assert not session.led[0].read_waiters
    assert not session.led[0].follower_waiters
    session.led[0].become_leader(LEADER, 1, ALL, ALL)
    session.append(0)
    assert session.fetch() == [0]


def test_the_latest_fetch_of_a_follower_waits() -> None:
    """The follower may have connected again, before the leader has noticed the end of the earlier
    connection."""
    session = Session()
    unread = session.scope([]).unread
    assert unread is not None
    woken: list[str] = []

    def earlier() -> None:
        woken.append("earlier")

    def later() -> None:
        woken.append("later")

    unread.await_changes(earlier, earlier)
    unread.await_changes(later, later)
    unread.answered(earlier)
    session.append(0)
    assert woken == ["later"]
    unread.answered(later)
    session.append(0)
    assert woken == ["later"]


def test_a_partition_that_has_left_the_session_is_not_watched() -> None:
    session = Session()
    session.scope([], [row.key for row in session.left_out()][:2])
    watched = [bool(led.read_waiters and led.follower_waiters) for led in session.led]
    assert watched == [False, False, True]


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_session_that_has_ended_watches_no_partition(is_replaced: bool) -> None:
    session = Session()
    if is_replaced:
        session.epoch = 0
        session.scope([session.row(0)])
    else:
        session.sessions.forget(SESSION_ID)
    assert not any(led.read_waiters or led.follower_waiters for led in session.led)
