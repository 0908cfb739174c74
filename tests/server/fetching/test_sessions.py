"""Fetch sessions, step by step as in KIP-227."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.sessions import CONSUMER, MIN_EVICTION_MS, FetchScope, FetchSessions
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import Principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


def key(index: int) -> PartitionKey:
    return PartitionKey("topic", index)


def wanted(*indexes: int, offset: int = 0) -> list[FetchedPartition]:
    return [FetchedPartition(key(index), offset, 1_000) for index in indexes]


class Broker:
    """A broker with space for `slots` sessions. Their ids are 1, 2, 3 …"""

    def __init__(self, slots: int = 10) -> None:
        self.ids = iter(range(1, 1_000))
        self.sessions = FetchSessions(slots, lambda: next(self.ids))
        self.now_ms = 0

    def fetch(
        self,
        session_id: int,
        epoch: int,
        *indexes: int,
        offset: int = 0,
        forgotten: Iterable[int] = (),
        topic_ids: bool = False,
        principal: Principal = ALICE,
        replica_id: int = CONSUMER,
    ) -> FetchScope:
        return self.sessions.scope(
            session_id,
            epoch,
            wanted(*indexes, offset=offset),
            [key(index) for index in forgotten],
            principal=principal,
            uses_topic_ids=topic_ids,
            now_ms=self.now_ms,
            replica_id=replica_id,
        )

    def refused(
        self,
        session_id: int,
        epoch: int,
        *,
        topic_ids: bool = False,
        principal: Principal = ALICE,
    ) -> ErrorCode:
        with pytest.raises(Refused) as refused:
            self.fetch(session_id, epoch, topic_ids=topic_ids, principal=principal)
        return refused.value.code


def indexes(scope: FetchScope) -> list[int]:
    return [partition.key.partition for partition in scope.partitions]


def test_a_full_fetch_makes_a_session_and_reads_all_its_partitions() -> None:
    scope = Broker().fetch(0, 0, 0, 1)
    assert (scope.session_id, scope.is_incremental, indexes(scope)) == (1, False, [0, 1])


def test_an_incremental_fetch_reads_also_partitions_that_it_does_not_name() -> None:
    broker = Broker()
    broker.fetch(0, 0, 0, 1, 2)
    scope = broker.fetch(1, 1)
    assert (scope.session_id, scope.is_incremental, indexes(scope)) == (1, True, [0, 1, 2])
    scope = broker.fetch(1, 2, 1, 3, offset=7, forgotten=[0])
    assert {partition.key.partition: partition.fetch_offset for partition in scope.partitions} == {
        1: 7,
        2: 0,
        3: 7,
    }


def test_a_new_fetch_offset_does_not_change_the_last_sent_high_watermark() -> None:
    broker = Broker()
    broker.fetch(0, 0, 0)
    broker.fetch(1, 1).partitions[0].last_sent_high_watermark = 55
    (partition,) = broker.fetch(1, 2, 0, offset=9).partitions
    assert (partition.fetch_offset, partition.last_sent_high_watermark) == (9, 55)


def test_a_wrong_session_id_or_epoch_or_a_change_to_topic_ids_is_refused() -> None:
    broker = Broker()
    broker.fetch(0, 0, 0)
    assert broker.refused(2, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.refused(1, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert broker.refused(1, 1, topic_ids=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert indexes(broker.fetch(1, 1)) == [0]
    assert broker.refused(1, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH  # a repeated request


def test_the_epoch_wraps_to_1() -> None:
    broker = Broker()
    session = broker.fetch(0, 0, 0).session
    assert session is not None
    session.epoch = 2**31 - 1
    broker.fetch(1, 2**31 - 1)
    assert session.epoch == 1
    assert indexes(broker.fetch(1, 1)) == [0]


def test_a_full_fetch_in_a_session_replaces_it() -> None:
    broker = Broker()
    broker.fetch(0, 0, 0)
    scope = broker.fetch(1, 0, 5)
    assert (scope.session_id, indexes(scope), len(broker.sessions)) == (2, [5], 1)
    assert broker.refused(1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_final_epoch_ends_a_session_and_fetches_without_a_session() -> None:
    broker = Broker()
    broker.fetch(0, 0, 0)
    scope = broker.fetch(1, -1, 4)
    assert (scope.session_id, indexes(scope), len(broker.sessions)) == (0, [4], 0)
    assert indexes(broker.fetch(0, -1, 1)) == [1]


def test_a_session_without_partitions_ends() -> None:
    broker = Broker()
    broker.fetch(0, 0, 0)
    scope = broker.fetch(1, 1, forgotten=[0])
    assert (scope.session_id, indexes(scope), len(broker.sessions)) == (0, [], 0)


def test_a_partition_that_is_fetched_and_forgotten_is_forgotten() -> None:
    broker = Broker()
    broker.fetch(0, 0, 0)
    assert indexes(broker.fetch(1, 1, 4, forgotten=[4])) == [0]
    # The session ends, and the response has the partition of the request.
    scope = broker.fetch(1, 2, 0, forgotten=[0])
    assert (scope.session_id, indexes(scope), len(broker.sessions)) == (0, [0], 0)


def test_a_reader_without_partitions_takes_no_slot() -> None:
    broker = Broker()
    assert broker.fetch(0, 0).session_id == 0
    assert len(broker.sessions) == 0


def test_an_id_that_is_taken_or_0_is_drawn_again() -> None:
    broker = Broker()
    broker.ids = iter([3, 3, 0, 4])
    assert broker.fetch(0, 0, 0).session_id == 3
    assert broker.fetch(0, 0, 0).session_id == 4


def test_a_partition_that_returned_data_is_the_last_of_the_next_fetch() -> None:
    broker = Broker()
    session = broker.fetch(0, 0, 0, 1, 2).session
    assert session is not None
    session.to_end(key(0))
    session.to_end(key(9))
    assert indexes(broker.fetch(1, 1)) == [1, 2, 0]


# --- eviction


def test_h29_a_reader_without_a_free_session_slot_gets_full_fetches() -> None:
    broker = Broker(slots=1)
    broker.fetch(0, 0, 0)
    scope = broker.fetch(0, 0, 1, 2)
    assert (scope.session_id, indexes(scope)) == (0, [1, 2])
    assert Broker(slots=0).fetch(0, 0, 1).session_id == 0


def test_h29_a_stale_session_is_evicted_for_a_new_one() -> None:
    broker = Broker(slots=2)
    broker.fetch(0, 0, 0)
    broker.fetch(0, 0, 1)
    broker.now_ms = MIN_EVICTION_MS
    broker.fetch(1, 1)  # now session 2 is the least recently used
    broker.now_ms += 1
    assert broker.fetch(0, 0, 2).session_id == 3
    assert broker.refused(2, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert indexes(broker.fetch(1, 2)) == [0]


def test_a_larger_session_replaces_a_smaller_one_that_is_old_enough() -> None:
    broker = Broker(slots=2)
    broker.fetch(0, 0, 0, 1)
    broker.now_ms = MIN_EVICTION_MS + 1
    broker.fetch(1, 1)
    broker.fetch(0, 0, 3)  # session 2: smaller, but too new to be evicted
    assert broker.fetch(0, 0, 5, 6).session_id == 0  # not larger than session 1
    assert broker.fetch(0, 0, 5, 6, 7).session_id == 3
    assert broker.refused(1, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [1, 2, 7])
def test_the_session_of_another_principal_does_not_exist(epoch: int) -> None:
    """A wrong epoch of an existing session must look like a session that does not exist, too."""
    broker = Broker()
    session_id = broker.fetch(0, 0, 1).session_id
    refused = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.refused(session_id, epoch, principal=BOB) is refused
    assert broker.refused(session_id, epoch, topic_ids=True, principal=BOB) is refused
    assert broker.refused(session_id + 1, epoch, principal=BOB) is refused
    assert indexes(broker.fetch(session_id, 1)) == [1]


@pytest.mark.parametrize("epoch", [0, -1])
def test_another_principal_cannot_end_a_session(epoch: int) -> None:
    broker = Broker()
    session_id = broker.fetch(0, 0, 1).session_id
    scope = broker.fetch(session_id, epoch, 2, principal=BOB)
    assert indexes(scope) == [2]
    assert scope.session_id != session_id
    assert indexes(broker.fetch(session_id, 1)) == [1]


# --- followers


def test_the_session_of_a_follower_is_never_evicted_and_takes_no_slot() -> None:
    broker = Broker(slots=1)
    follower = broker.fetch(0, 0, 1, replica_id=7)
    broker.now_ms = 2 * MIN_EVICTION_MS
    consumer = broker.fetch(0, 0, 1, 2, 3)
    broker.now_ms = 4 * MIN_EVICTION_MS
    newer = broker.fetch(0, 0, 1, 2, 3, 4)
    assert broker.refused(consumer.session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert newer.session_id
    assert indexes(broker.fetch(follower.session_id, 1, replica_id=7)) == [1]


def test_a_follower_has_one_session() -> None:
    """A follower that connects again cannot close the session of its lost connection."""
    broker = Broker(slots=0)
    first = broker.fetch(0, 0, 1, replica_id=7)
    other = broker.fetch(0, 0, 1, replica_id=8)
    second = broker.fetch(0, 0, 1, replica_id=7)
    assert broker.refused(first.session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(broker.sessions) == 2
    broker.sessions.forget(second.session_id)
    broker.sessions.forget(other.session_id)
    assert len(broker.sessions) == 0
    assert broker.fetch(0, 0, 1, replica_id=7).session_id
