"""The leader proposes changes of the ISR. Until a change is settled, the high watermark waits for
every replica that may be in the ISR."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from oncelog_server.partition.follower_fetch import FetchingFollower, record_fetch
from oncelog_server.partition.isr_updates import IsrUpdates
from oncelog_server.replica.isr_changes import IsrOutcome, IsrProposal
from oncelog_server.slices import at_its_end
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import partition

MAX_LAG_MS = 100
ALL = (0, 1, 2)
COMMITTED, REFUSED, UNKNOWN = IsrOutcome


class Store:
    """The store of the ISR. A test decides the outcome of each proposal, and when the leader gets
    the new metadata."""

    def __init__(self, isr: tuple[int, ...]) -> None:
        self.proposals: list[IsrProposal] = []
        self.settle: list[Callable[[IsrOutcome], None]] = []
        self.epochs = {0: 1, 1: 1, 2: 1}
        self.now_ms = 1_000
        self.led = partition(isr=isr, replicas=ALL, min_insync_replicas=1)
        self.led.become_leader(0, 0, isr, ALL, partition_epoch=10)
        self.partitions = [self.led]
        self.updates = IsrUpdates(
            self.partitions,
            self,
            epochs=lambda _: self.epochs,
            monotonic_ms=lambda: self.now_ms,
            max_lag_ms=MAX_LAG_MS,
        )

    def propose(self, proposal: IsrProposal, settled: Callable[[IsrOutcome], None], /) -> None:
        self.proposals.append(proposal)
        self.settle.append(settled)

    def append(self, count: int = 1) -> None:
        self.led.append(batch(count), now_ms=NOW_MS)

    def fetch(self, broker_id: int, offset: int, broker_epoch: int = 1) -> None:
        follower = FetchingFollower(
            broker_id, broker_epoch, self.epochs.get(broker_id, -1), self.now_ms,
            joins=self.updates.fetched,
        )  # fmt: skip
        record_fetch(self.led, follower, offset)

    def check(self, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        at_its_end(self.updates.check())

    def image(self, isr: tuple[int, ...], partition_epoch: int, leader_epoch: int = 0) -> None:
        self.led.become_leader(0, leader_epoch, isr, ALL, partition_epoch)

    @property
    def proposed(self) -> list[tuple[int, ...]]:
        return [proposal.isr for proposal in self.proposals]


def lagging() -> Store:
    """Return a store with a leader at log end 2. Follower 1 has all records, follower 2 has one.
    The leader has proposed that follower 2 leaves the ISR."""
    store = Store(ALL)
    store.append()
    store.fetch(1, 1)
    store.fetch(2, 1)
    store.append()
    store.check()
    store.now_ms += MAX_LAG_MS + 1
    store.fetch(1, 2)
    store.check()
    assert store.proposed == [(0, 1)]
    assert store.led.high_watermark == 1
    return store


def test_a_follower_that_lags_for_too_long_is_proposed_to_leave() -> None:
    store = Store(ALL)
    store.append()
    store.fetch(1, 1)
    store.fetch(2, 1)
    store.append()
    store.check(MAX_LAG_MS)
    assert store.proposed == []
    store.fetch(1, 2)
    store.check(1)
    (proposal,) = store.proposals
    assert (proposal.topic_id, proposal.partition) == (bytes(16), 0)
    assert (proposal.isr, proposal.joining) == ((0, 1), ())
    assert (proposal.leader_epoch, proposal.partition_epoch) == (0, 10)
    assert store.updates.shrinks == 1


def test_the_high_watermark_waits_for_a_leaving_follower_until_the_image_shows_it() -> None:
    store = lagging()
    store.settle[0](COMMITTED)
    store.check(MAX_LAG_MS)
    assert (store.led.high_watermark, len(store.proposals)) == (1, 1)
    store.image((0, 1), 11)
    assert store.led.high_watermark == 2


def test_a_refused_proposal_ends_the_change_and_is_made_again_at_the_next_check() -> None:
    store = lagging()
    store.settle[0](REFUSED)
    assert store.led.high_watermark == 1
    store.check(1)
    assert store.proposed == [(0, 1), (0, 1)]
    assert store.updates.failures == 1


def test_a_follower_that_has_caught_up_is_proposed_to_join_and_counts_from_then_on() -> None:
    store = Store((0, 1))
    store.append()
    store.fetch(1, 1)
    store.fetch(2, 0)
    assert store.proposed == []
    store.fetch(2, 1, broker_epoch=1)
    (proposal,) = store.proposals
    assert (proposal.isr, proposal.joining) == ((0, 1, 2), ((2, 1),))
    store.append()
    store.fetch(1, 2)
    assert store.led.high_watermark == 1
    store.fetch(2, 2)
    assert store.led.high_watermark == 2


def test_a_refused_join_is_not_proposed_with_every_fetch() -> None:
    store = Store((0, 1))
    store.append()
    store.fetch(1, 1)
    store.fetch(2, 1)
    store.settle[0](REFUSED)
    store.fetch(2, 1)
    assert len(store.proposals) == 1
    store.image((0, 1), 11)
    store.fetch(2, 1)
    assert [proposal.partition_epoch for proposal in store.proposals] == [10, 11]


@pytest.mark.parametrize(
    ("alive", "fetched"),
    [
        pytest.param({0: 1, 1: 1}, 1, id="it is not alive"),
        pytest.param({0: 1, 1: 1, 2: 2}, 1, id="it has registered again since"),
    ],
)
def test_KIP903_only_the_present_registration_of_a_live_broker_joins(
    alive: dict[int, int], fetched: int
) -> None:
    store = Store((0, 1))
    store.append()
    store.fetch(1, 1)
    store.epochs = alive
    store.led.replicas.record_fetch(2, 1, 1, store.now_ms, fetched)
    store.check()
    assert store.proposed == []


# --- unknown outcomes


@pytest.mark.parametrize("was_applied", [False, True])
def test_after_an_unknown_outcome_the_isr_stays_maximal(was_applied: bool) -> None:
    store = lagging()
    store.settle[0](UNKNOWN)
    store.append()
    store.fetch(1, 3)
    assert store.led.high_watermark == 1
    if was_applied:
        store.image((0, 1), 11)
        assert store.led.high_watermark == 3
        return
    # The committed ISR is written again. After that, the first proposal can never be applied.
    store.check(1)
    assert store.proposed == [(0, 1), ALL]
    store.settle[1](COMMITTED)
    assert store.led.replicas.maximal_isr == frozenset(ALL)
    store.image(ALL, 12)
    assert not store.led.replicas.has_change_in_flight
    store.check(1)
    assert store.proposed[2:] == [(0, 1)]


def test_a_refusal_after_an_unknown_outcome_proves_nothing() -> None:
    """The first proposal may be the reason for the refusal."""
    store = lagging()
    store.settle[0](UNKNOWN)
    store.check(1)
    store.settle[1](REFUSED)
    assert store.led.replicas.has_change_in_flight
    store.image((0, 1), 11)
    assert not store.led.replicas.has_change_in_flight


@pytest.mark.parametrize("is_suspended_at", ["the outcome", "the check"])
def test_a_suspended_leader_forgets_no_unknown_outcome(is_suspended_at: str) -> None:
    """The registration was renewed late: the leader and the partition epoch are the same, so
    nothing else would end the change."""
    store = lagging()
    if is_suspended_at == "the outcome":
        store.led.suspend()
        store.settle[0](UNKNOWN)
    else:
        store.settle[0](UNKNOWN)
        store.led.suspend()
        store.check(1)
    assert store.proposed == [(0, 1)]
    store.led.resume()
    store.check(1)
    assert store.proposed == [(0, 1), ALL]


def test_a_refusal_ends_the_change_of_a_suspended_leader() -> None:
    store = lagging()
    store.led.suspend()
    store.settle[0](REFUSED)
    assert not store.led.replicas.has_change_in_flight


def test_an_outcome_of_an_earlier_leader_epoch_changes_nothing() -> None:
    store = lagging()
    store.image(ALL, 11, leader_epoch=1)
    store.settle[0](REFUSED)
    assert store.updates.failures == 0
    assert not store.led.replicas.has_change_in_flight


# --- followers that are about to join


def test_the_high_watermark_waits_for_a_follower_outside_of_the_isr_that_keeps_up() -> None:
    """Otherwise a busy leader would always be ahead, and the follower could never join."""
    store = Store((0, 1))
    store.append()
    store.fetch(1, 1)
    store.fetch(2, 0)
    store.append()
    store.fetch(2, 1)  # all records that the leader had at the last fetch
    assert store.proposed == [(0, 1, 2)]
    store.settle[0](REFUSED)
    store.append()
    store.fetch(1, 3)
    assert store.led.high_watermark == 1
    del store.epochs[2]
    store.check()
    assert store.led.high_watermark == 3


def test_a_follower_that_does_not_keep_up_holds_nothing_back() -> None:
    store = Store((0, 1))
    store.append()
    store.fetch(1, 1)
    store.fetch(2, 0)
    store.append()
    store.fetch(2, 0)
    store.fetch(1, 2)
    store.check(MAX_LAG_MS + 1)
    assert (store.led.high_watermark, store.proposed) == (2, [])


def test_a_follower_that_hangs_does_not_join_again_at_the_next_check() -> None:
    """Below the min ISR, the high watermark stands still, and the follower stays at it."""
    store = Store((0, 1))
    store.led.replicas.require(2)
    store.append()
    store.fetch(1, 1)
    store.append()
    store.check(MAX_LAG_MS + 1)
    store.image((0,), 11)
    store.check(1)
    assert store.proposed == [(0,)]
    store.fetch(1, 1)
    assert store.proposed == [(0,), (0, 1)]


def test_a_partition_that_this_broker_does_not_lead_is_left_alone() -> None:
    store = lagging()
    store.led.become_follower(1, 1)
    store.settle[0](UNKNOWN)
    store.check(MAX_LAG_MS + 1)
    assert len(store.proposals) == 1


def test_a_single_replica_has_no_isr_to_change() -> None:
    store = Store(ALL)
    store.led.become_leader(0, 1, (0,), (0,), 11)
    store.append()
    store.check(MAX_LAG_MS + 1)
    assert store.proposals == []


@pytest.mark.parametrize("outcome", [UNKNOWN, REFUSED])
def test_a_deleted_partition_is_forgotten(outcome: IsrOutcome) -> None:
    store = lagging()
    store.settle[0](outcome)
    store.partitions.clear()
    references = sys.getrefcount(store.led)
    store.check()
    left = sys.getrefcount(store.led)
    assert left == references - 1


def test_an_offline_leader_proposes_nothing() -> None:
    """Its followers cannot fetch. Without them in the ISR, no other broker could lead."""
    store = Store(ALL)
    store.append()
    store.fetch(1, 0)
    store.fetch(2, 0)
    store.check()
    store.led.fail("sync: Input/output error")
    store.check(MAX_LAG_MS + 1)
    assert store.proposed == []
