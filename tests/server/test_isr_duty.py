"""The ISR is checked at half of replica.lag.time.max.ms, and the proposals of a turn are written
together."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
import pytest

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import BrokerImage, ClusterImage
from oncelog_server.deferred import Deferred
from oncelog_server.isr_duty import IsrDuty, IsrWriter
from oncelog_server.partition.partition import Partition
from oncelog_server.replica.isr_changes import IsrOutcome, IsrProposal
from oncelog_server.slices import Slices
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import partition

MAX_LAG_MS = 100


def spawn(work: Coroutine[Any, Any, None]) -> Deferred[None]:
    """Run a coroutine that never waits."""
    result: Deferred[None] = Deferred()
    try:
        work.send(None)
    except StopIteration:
        result.complete(None)
    except Exception as failure:
        result.on_abandon(lambda: None)
        result.abandon(failure)
    return result


class Duty:
    def __init__(self, outcome: IsrOutcome | Exception = IsrOutcome.COMMITTED) -> None:
        self.outcome = outcome
        self.written: list[Sequence[IsrProposal]] = []
        self.timers = ManualTimers()
        self.partitions = [self._led(index) for index in range(2)]
        self.image = ClusterImage(
            brokers={id: BrokerImage(id, 1, "", (), None, {}) for id in (0, 1)}
        )
        clock = lambda: self.timers.now_ms  # noqa: E731
        self.duty = IsrDuty(
            self.partitions,
            IsrWriter(self.write, spawn, self.timers),
            lambda: self.image,
            self.timers,
            Slices(self.timers, clock, steps_per_slice=100),
            monotonic_ms=clock,
            max_lag_ms=MAX_LAG_MS,
        )
        self.duty.start()

    def _led(self, index: int) -> Partition:
        found = partition(name=TopicPartition("topic", index), isr=(0, 1), replicas=(0, 1))
        found.append(batch(), now_ms=NOW_MS)
        return found

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrOutcome]:
        self.written.append(proposals)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return [self.outcome] * len(proposals)


def test_followers_that_lag_leave_by_one_write() -> None:
    found = Duty()
    found.timers.advance(MAX_LAG_MS)
    assert found.written == []
    found.timers.advance(MAX_LAG_MS)
    (proposals,) = found.written
    assert [(proposal.partition, proposal.isr) for proposal in proposals] == [(0, (0,)), (1, (0,))]


@pytest.mark.parametrize("outcome", [IsrOutcome.REFUSED, OSError("a defect")])
def test_a_failed_write_settles_every_proposal(outcome: IsrOutcome | Exception) -> None:
    found = Duty(outcome)
    found.timers.advance(2 * MAX_LAG_MS)
    assert found.duty.updates.failures == 2
    in_flight = [led.replicas.has_change_in_flight for led in found.partitions]
    assert in_flight == [isinstance(outcome, Exception)] * 2


def test_a_change_of_the_brokers_leads_to_a_check_at_once() -> None:
    found = Duty()
    for led in found.partitions:
        led.become_leader(0, 0, (0,), (0, 1), 5)
        led.replicas.record_fetch(1, 1, 1, 0, 1)
    found.duty.follow(found.image, found.image, ImageDelta())
    found.timers.run_soon()
    assert found.written == []
    found.duty.follow(found.image, found.image, ImageDelta(brokers_changed=True))
    found.timers.run_soon()
    assert [proposal.isr for proposal in found.written[0]] == [(0, 1), (0, 1)]


def test_after_a_stop_nothing_is_checked() -> None:
    found = Duty()
    found.duty.stop()
    found.timers.advance(10 * MAX_LAG_MS)
    assert found.written == []


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_failed_replica_joins_no_isr_and_holds_no_other_back(has_failed: bool) -> None:
    """A proposal with a failed replica would be refused as a whole."""
    found = Duty()
    for led in found.partitions:
        led.become_leader(0, led.leader_epoch, (0,), (0, 1, 2), 11)
        for follower in (1, 2):
            led.replicas.record_fetch(follower, led.log_end_offset, led.log_end_offset, 0, 1)
    brokers = {id: BrokerImage(id, 1, "", (), None, {}) for id in (0, 1, 2)}
    topic_id = found.partitions[0].topic_id
    failed = {(2, topic_id, 0): 5} if has_failed else {}
    found.image = msgspec.structs.replace(found.image, brokers=brokers, failed=failed)
    found.timers.advance(MAX_LAG_MS)
    (proposals,) = found.written
    isrs = {proposal.partition: proposal.isr for proposal in proposals}
    assert isrs == {0: (0, 1) if has_failed else (0, 1, 2), 1: (0, 1, 2)}


@pytest.mark.parametrize("stops", [False, True])
def test_a_broker_that_stops_joins_no_isr(stops: bool) -> None:
    found = Duty()
    for led in found.partitions:
        led.become_leader(0, led.leader_epoch, (0,), (0, 1), 11)
        led.replicas.record_fetch(1, led.log_end_offset, led.log_end_offset, 0, 1)
    found.image = msgspec.structs.replace(found.image, draining={1: 5} if stops else {})
    found.timers.advance(MAX_LAG_MS)
    isrs = [proposal.isr for proposals in found.written for proposal in proposals]
    assert isrs == ([] if stops else [(0, 1), (0, 1)])
