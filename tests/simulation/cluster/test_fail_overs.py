"""The coordinator of a transaction, or the leader of a partition, is lost at a chosen point. The
crash matrix has more points. These tests add circumstances that the matrix lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from oncelog_protocol.features import TRANSACTION_VERSION
from tests.simulation.checking.internal_records import (
    COMPLETE_ABORT,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from tests.simulation.checking.logs import PartitionLog
from tests.simulation.cluster.crash_points import Moment, Place, Point
from tests.simulation.cluster.stage import OPTIONS, SECOND_US, play
from tests.simulation.cluster.transaction_stage import AWAY_US, TransactionStage
from tests.simulation.cluster.watched_disk import WatchedDisk

Logs = Mapping[tuple[str, int], PartitionLog]

OPEN: Final = Point("open", Moment.BEFORE, Place.TRANSACTIONS, 5, "")
PREPARED: Final = Point("prepared", Moment.COMMITTED, Place.TRANSACTIONS, 5, "")


class AtPoint(TransactionStage):
    """A committed transaction with a fault at its `point`, and then a second one."""

    point: Point
    has_struck = False

    def strike(self, log: str) -> None:
        self.has_struck = True
        self.at_point(log)

    def at_point(self, log: str) -> None:
        raise NotImplementedError

    async def act(self) -> None:
        await self.prepare()
        self.arm(self.point, self.strike)
        await self.run_first()
        if not self.has_struck:
            self.violate("the point was never reached")
        await self.run_second()

    def judge(self, logs: Logs) -> None:
        self.check_outcome(logs, committed=True)


class LostResponse(AtPoint):
    """The record is on all replicas, and the leader dies before its response."""

    point = Point("committed", Moment.COMMITTED, Place.THIRD, 1, "")

    def at_point(self, log: str) -> None:
        self.kill(self.leader(log), AWAY_US)


def test_r10_a_record_is_sent_again_to_the_next_leader_and_is_there_once() -> None:
    play(LostResponse)


class CoordinatorThatLeads(AtPoint):
    """The coordinator leads one of the partitions, and dies when it has written the marker
    there."""

    has_local_leader = True
    point = Point("one marker", Moment.BEFORE, Place.MARKERS, 2, "")

    def at_point(self, log: str) -> None:
        assert self.logs is not None
        if self.leader(self.logs.data[2]) is not self.leader(self.logs.transactions):
            self.violate("the coordinator leads no partition")
        assert self.trap is not None
        if log == self.logs.data[2] or self.trap.appends[self.logs.data[2]] != 2:
            self.violate("the coordinator has not written its own marker")
        self.kill(self.leader(self.logs.transactions), AWAY_US)


def test_cg_the_coordinator_and_the_leader_of_a_partition_die_together() -> None:
    play(CoordinatorThatLeads)


class CrashLoop(AtPoint):
    """Each coordinator dies when the first of its markers is written, five times in all."""

    point = Point("first marker", Moment.APPENDED, Place.MARKERS, 1, "")
    deaths = 0

    def at_point(self, log: str) -> None:
        for node in self.nodes.values():
            assert isinstance(node.disk, WatchedDisk)
            node.disk.ends = self._appended
        self._kill()

    def _appended(self, path: str) -> None:
        """Kill the coordinator after an append. From the first marker on, all appends in these logs
        are markers."""
        assert self.logs is not None
        log, _, file = path.rpartition("/")
        is_marker = log in self.logs.marked and file.endswith(".log")
        if is_marker and self.deaths < 5 and self._is_served():
            self._kill()

    def _kill(self) -> None:
        assert self.logs is not None
        node = self.nodes[self.leader_of(self.logs.transactions)]
        if (state := self.found(node).state) != PREPARE_COMMIT:
            self.violate(f"a coordinator dies in the state {state}")
        self.deaths += 1
        self.kill(node, 3 * SECOND_US)

    def _is_served(self) -> bool:
        """Return True if a coordinator of the transaction has loaded its shard."""
        assert self.logs is not None
        node = self.nodes.get(self.leader_of(self.logs.transactions))
        index = int(self.logs.transactions.rpartition("-")[2])
        return (
            node is not None
            and node.is_up
            and index in dict(node.broker.transactions.runtime.shards())
        )

    def judge(self, logs: Logs) -> None:
        super().judge(logs)
        if self.deaths < 5:
            self.violate(f"only {self.deaths} coordinators have died")


def test_cf_five_coordinators_die_one_after_the_other_between_their_markers() -> None:
    play(CrashLoop)


class LostGroupCoordinator(AtPoint):
    """The coordinator of the group dies with the offsets pending."""

    point = OPEN

    def at_point(self, log: str) -> None:
        assert self.logs is not None
        self.kill(self.leader(self.logs.offsets), AWAY_US)


def test_o7_the_pending_offsets_are_committed_by_the_next_coordinator_of_the_group() -> None:
    play(LostGroupCoordinator)


class UnreachableLeader(AtPoint):
    """The leader of two partitions is cut off from the coordinator before the markers."""

    point = PREPARED
    committed_s = 0.0

    def at_point(self, log: str) -> None:
        assert self.logs is not None
        self.restored_s = self.loop.time() + AWAY_US / 1e6
        self.cut(self.leader(self.logs.transactions), self.leader(self.logs.data[0]), AWAY_US)

    async def run_second(self) -> None:
        await self.second.start()
        if self.loop.time() < self.restored_s:
            self.violate("the next instance has not waited for the markers")
        await super().run_second()


def test_z7_the_next_instance_waits_for_the_markers_of_an_unreachable_leader() -> None:
    play(UnreachableLeader)


class PausedCoordinator(AtPoint):
    """The coordinator stands still before it sends its markers, and continues after another broker
    has taken over."""

    point = PREPARED

    def at_point(self, log: str) -> None:
        assert self.logs is not None
        self.pause(self.leader(self.logs.transactions), AWAY_US)

    def judge(self, logs: Logs) -> None:
        super().judge(logs)
        for place in self.places:
            markers = [batch.marker for batch in logs[place].batches if batch.marker is not None]
            epochs = [epoch for _, epoch in markers]
            if len(markers) != 2 or epochs[0] < 1:
                self.violate(f"{place} has the markers {markers}")


def test_z13_a_paused_coordinator_continues_and_writes_no_second_marker() -> None:
    play(PausedCoordinator)


class CutVerification(AtPoint):
    """The coordinator has added the second partition, and the partition's leader does not get the
    response."""

    point = Point("added", Moment.COMMITTED, Place.TRANSACTIONS, 2, "")
    version = 2

    async def prepare(self) -> None:
        await self.finalize(TRANSACTION_VERSION, self.version)
        await super().prepare()

    def at_point(self, log: str) -> None:
        assert self.logs is not None
        leader = self.leader(self.logs.data[1])
        self.cut(self.leader(log), leader, AWAY_US)
        self.after(AWAY_US - 1, partial(self._check_empty, leader.broker_id))

    def _check_empty(self, leader: int) -> None:
        assert self.logs is not None
        if self.replica(leader, self.logs.data[1]).log_end_offset:
            self.violate("a record was appended without the coordinator's response")


@pytest.mark.parametrize("version", [0, 2])
def test_n6_nothing_is_appended_while_the_coordinator_cannot_be_asked(version: int) -> None:
    class Cut(CutVerification):
        pass

    Cut.version = version
    play(Cut)


class LaggingFollowers(AtPoint):
    """The followers of a leader do not get its marker."""

    point = Point("marker", Moment.APPENDED, Place.MARKERS, 1, "")

    def at_point(self, log: str) -> None:
        leader = self.leader(log)
        for node in self.nodes.values():
            if node is not leader:
                self.cut(leader, node, SECOND_US)
        stable = self.replica(leader.broker_id, log).last_stable_offset
        self.after(SECOND_US - 1, partial(self._check_stable, leader.broker_id, log, stable))

    def _check_stable(self, leader: int, log: str, stable: int) -> None:
        found = self.replica(leader, log)
        if (found.last_stable_offset, found.log_end_offset) != (stable, stable + 2):
            self.violate(f"{log}: LSO {found.last_stable_offset} of {found.log_end_offset}")


def test_l3_the_last_stable_offset_waits_for_the_followers_that_lack_the_marker() -> None:
    play(LaggingFollowers)


class UnreplicatedState(TransactionStage):
    """The coordinator cannot replicate the next epoch of an id for a second."""

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        await self.run_first()
        coordinator = self.leader(self.logs.transactions)
        restored_s = self.loop.time() + 1.0
        for node in self.nodes.values():
            if node is not coordinator:
                self.cut(coordinator, node, SECOND_US)
        await self.second.start()
        if self.loop.time() < restored_s:
            self.violate("the id has a new epoch, and no other broker knows it")
        await self.run_second()


def test_m9_an_epoch_is_not_given_before_it_is_replicated() -> None:
    play(UnreplicatedState)


# --- timeouts

TIMEOUT_S: Final = 4.0
TIMING_OUT: Final = replace(OPTIONS, transaction_timeout_ms=int(TIMEOUT_S * 1000))
SCAN_S: Final = 0.1
# Time for the election and the load of the next coordinator.
ELECTION_S: Final = 5.0
TEN_MINUTES_MS: Final = 600_000


class TimesOut(TransactionStage):
    """A transaction is left open. Its coordinator is lost when the part `lost_at` of the timeout
    has passed."""

    lost_at = 0.9
    # By the order in which the brokers coordinate the transaction.
    wall_offsets_ms = (0, 0)

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        log = self.logs.transactions
        coordinator = self.leader(log)
        self._skew(coordinator.broker_id)
        began_s = self.loop.time()
        await self.first.open(self.places)
        await asyncio.sleep(self.lost_at * TIMEOUT_S + began_s - self.loop.time())
        # So long that this broker does not coordinate the transaction again.
        self.kill(coordinator, 3 * AWAY_US)
        await self.until(lambda: self._state() == COMPLETE_ABORT, "aborted")
        took_s = self.loop.time() - began_s
        if not self.lost_at * TIMEOUT_S <= took_s <= TIMEOUT_S + SCAN_S + ELECTION_S:
            self.violate(f"aborted after {took_s} s")
        await self.run_second()

    def _skew(self, coordinator: int) -> None:
        first, next_ones = self.wall_offsets_ms
        for id, node in self.nodes.items():
            node.clock.wall_offset_ms = first if id == coordinator else next_ones

    def _state(self) -> int | None:
        assert self.logs is not None
        leader = self.leader_of(self.logs.transactions)
        return None if leader < 0 else self.found(self.nodes[leader]).state

    def judge(self, logs: Logs) -> None:
        self.check_outcome(logs, committed=False)


def test_t5_a_fail_over_does_not_begin_the_timeout_again() -> None:
    play(TimesOut, TIMING_OUT)


@pytest.mark.parametrize("ahead", [True, False], ids=["ahead", "behind"])
def test_k4_the_timeout_holds_though_the_next_coordinators_clock_differs_by_minutes(
    ahead: bool,
) -> None:
    """A clock that is behind lets the timeout begin again at the fail-over."""

    class Skewed(TimesOut):
        lost_at = 0.5
        wall_offsets_ms = (
            (-TEN_MINUTES_MS, TEN_MINUTES_MS) if ahead else (TEN_MINUTES_MS, -TEN_MINUTES_MS)
        )

    play(Skewed, TIMING_OUT)


class TimesOutBehindACut(TimesOut):
    """The leader of two partitions is cut off from the coordinator for long after the timeout."""

    async def act(self) -> None:
        await self.prepare()
        assert self.logs is not None
        await self.first.open(self.places)
        away_us = int(2.5 * TIMEOUT_S) * SECOND_US
        restored_s = self.loop.time() + away_us / 1e6
        self.cut(self.leader(self.logs.transactions), self.leader(self.logs.data[0]), away_us)
        await self.until(lambda: self._state() == PREPARE_ABORT, "the abort is decided")
        await asyncio.sleep(restored_s - self.loop.time() - 0.01)
        if self._state() != PREPARE_ABORT:
            self.violate(f"the state before the end of the cut is {self._state()}")
        await self.until(lambda: self._state() == COMPLETE_ABORT, "aborted")
        if self.loop.time() > restored_s + 5.0:
            self.violate("the abort has taken more than 5 s after the end of the cut")
        await self.run_second()


def test_t7_an_abort_by_timeout_ends_soon_after_a_leader_can_be_reached_again() -> None:
    play(TimesOutBehindACut, TIMING_OUT)
