"""The offsets in memory equal those in the log, live and after any crash (I12)."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from oncelog_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog_server.group.config import GroupConfig
from oncelog_server.group.offsets import CommittedOffset, Offsets
from tests.server.coordinator.frozen import reading
from tests.server.group.auditor import audit
from tests.server.group.driver import Driver

HOUR_MS = 3_600_000


def value(offset: int, record_offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0, None, record_offset)


def test_a_tombstone_removes_pending_offsets() -> None:
    # In KAFKA-19164 the group kept the producer's transaction as open forever.
    offsets = Offsets()
    offsets.stage(7, "g", "t", 0, value(1, 0))
    offsets.remove("g", "t", 0)
    offsets.end_transaction(7, committed=True)
    assert offsets.snapshot() == ({}, {})
    assert offsets.groups() == []
    assert not offsets.is_group_in_transaction("g")


def test_a_tombstone_does_not_affect_the_producers_offsets_in_other_groups() -> None:
    offsets = Offsets()
    offsets.stage(7, "g", "t", 0, value(1, 0))
    offsets.stage(7, "h", "t", 0, value(2, 1))
    offsets.remove("g", "t", 0)
    offsets.end_transaction(7, committed=True)
    assert offsets.committed("g", "t", 0) is None
    assert offsets.committed("h", "t", 0) == value(2, 1)


def test_each_partition_has_its_producers_with_a_pending_offset() -> None:
    offsets = Offsets()
    offsets.stage(7, "g", "t", 0, value(1, 0))
    offsets.stage(8, "g", "t", 0, value(2, 1))
    offsets.stage(8, "g", "t", 1, value(3, 2))
    assert offsets.pending_producers("g", "t", 0) == {7, 8}
    assert offsets.pending_producers("g", "t", 2) == frozenset()
    assert sorted(offsets.pending_of_group("g")) == [("t", 0), ("t", 1)]


class OffsetsOfGroups(RuleBasedStateMachine):
    """Plain and transactional commits, markers, deletions, expiry, failures and crashes."""

    def __init__(self) -> None:
        super().__init__()
        config = GroupConfig(offsets_retention_ms=HOUR_MS, cleanup_records_max=2)
        self.driver = Driver(config)
        self.ever_failed = False

    groups = st.sampled_from(["g", "h"])
    topics = st.sampled_from(["t", "u"])
    partitions = st.integers(0, 1)
    producers = st.integers(1, 3)
    commits = st.lists(st.tuples(topics, partitions, st.integers(0, 99)), min_size=1, max_size=3)

    @rule(group=groups, commits=commits, retention=st.sampled_from([-1, -1, 60_000]))
    def commit(self, group: str, commits: list[tuple[str, int, int]], retention: int) -> None:
        self.driver.commit(*commits, group=group, retention_ms=retention, version=4)

    @rule(group=groups, producer_id=producers, commits=commits)
    def txn_commit(self, group: str, producer_id: int, commits: list[tuple[str, int, int]]) -> None:
        self.driver.txn_commit(producer_id, *commits, group=group)

    @rule(producer_id=producers, committed=st.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.driver.end_transaction(producer_id, committed=committed)

    @rule(group=groups, topic=topics, partition=partitions)
    def offset_delete(self, group: str, topic: str, partition: int) -> None:
        partitions = [OffsetDeleteRequestPartition(partition_index=partition)]
        request = OffsetDeleteRequest(
            group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        )
        self.driver.delete_offsets(request)

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        """Delete a group. This fails while a transaction may still commit an offset of the group
        (O10)."""
        pending = self.driver.shard.table.offsets.is_group_in_transaction(group)
        (result,) = self.driver.delete(group).value
        assert not pending or result.error_code == 68

    @rule(topic=topics)
    def delete_topic(self, topic: str) -> None:
        self.driver.topics_deleted(topic)

    @rule(ms=st.sampled_from([1_000, 700_000, 2 * HOUR_MS]))
    def advance(self, ms: int) -> None:
        """Let time pass. Expiry does not remove offsets that are pending in a transaction (O4)."""
        _, pending = audit(self.driver.log)
        self.driver.advance(ms)
        assert audit(self.driver.log)[1] == pending

    @rule(group=groups)
    def member_comes_and_goes(self, group: str) -> None:
        given = self.driver.join(group=group).value.member_id
        self.driver.join(given, group=group)
        self.driver.advance(3_000)
        self.driver.leave(given, group=group)

    @rule(fails=st.booleans())
    def fail_appends(self, fails: bool) -> None:
        self.driver.append_error = 19 if fails else None
        self.ever_failed |= fails

    @rule()
    def crash(self) -> None:
        self.driver.crash()

    @invariant()
    def offsets_are_what_the_log_says(self) -> None:
        committed, pending = audit(self.driver.log)
        live = self.driver.shard.table.offsets
        held, staged = live.snapshot()
        assert {key: row.offset for key, row in held.items()} == committed
        assert {(key[0], key[1:]): row.offset for key, row in staged.items()} == pending
        assert {row[1:] for row in staged} == {
            (group, topic, partition)
            for group in ("g", "h")
            for topic in ("t", "u")
            for partition in (0, 1)
            if live.has_pending(group, topic, partition)
        }

    @invariant()
    def a_restart_loads_the_same(self) -> None:
        live, loaded = self.driver.shard.table, self.driver.load().table
        assert loaded.offsets.snapshot() == live.offsets.snapshot()
        assert set(loaded.groups) == set(live.groups)

    @invariant()
    def an_id_with_offsets_is_a_group(self) -> None:
        table = self.driver.shard.table
        assert set(table.offsets.groups()) <= set(table.groups)

    @invariant()
    def fetches_show_the_offsets_or_that_they_are_undecided(self) -> None:
        # `reading` checks once that all these fetches together have not changed the state. The
        # driver then need not check this for each fetch.
        self.driver.compares = False
        reading(self.driver.shard, self._check_fetches)
        self.driver.compares = True

    def _check_fetches(self) -> None:
        committed, pending = audit(self.driver.log)
        unstable = {key for _, key in pending}
        for key in [("g", "t", 0), ("h", "u", 1)]:
            group, topic, partition = key
            known = committed.get(key, -1)
            stable = self.driver.fetch(topic, partition, group=group, require_stable=True)
            assert stable == ((-1, 88) if key in unstable else (known, 0))
            assert self.driver.fetch(topic, partition, group=group) == (known, 0)


OffsetsOfGroups.TestCase.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None
)
TestAfterAnySequence = OffsetsOfGroups.TestCase
