"""The ISR and the high watermark: examples, and a property against a brute-force model."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oncelog_server.replica.state import Replicas
from tests.examples import examples

LEADER: Final = 0
ALL: Final = (0, 1, 2)
MAX_LAG_MS: Final = 30


def replicas(
    isr: tuple[int, ...] = ALL,
    assignment: tuple[int, ...] = ALL,
    *,
    min_insync_replicas: int = 1,
    epoch_start_offset: int = 0,
    **log_ends: int,
) -> Replicas:
    """Return the replicas of a leader with log end offset 10. `f1=7` means that follower 1 fetches
    from offset 7 at time 0."""
    found = Replicas(min_insync_replicas)
    found.lead(LEADER, epoch_start_offset)
    found.update(isr, assignment)
    for name, log_end_offset in log_ends.items():
        found.record_fetch(int(name.removeprefix("f")), log_end_offset, 10, 0)
    return found


# --- the high watermark


def test_a_leader_alone_in_the_isr_commits_its_whole_log() -> None:
    found = replicas((0,))
    assert found.is_alone
    assert found.high_watermark(3, 10) == 10


def test_a_broker_that_does_not_lead_yet_counts_as_alone_in_the_isr() -> None:
    found = Replicas(min_insync_replicas=2)
    assert (found.is_alone, found.is_under_min_isr) == (True, False)


def test_the_high_watermark_is_the_smallest_log_end_of_the_isr() -> None:
    found = replicas(f1=7, f2=8)
    assert not found.is_alone
    assert found.high_watermark(3, 10) == 7
    assert found.high_watermark(3, 5) == 5


def test_a_replica_outside_of_the_isr_does_not_count() -> None:
    assert replicas((0, 2), f1=4, f2=8).high_watermark(3, 10) == 8


def test_a_follower_that_has_not_fetched_holds_the_high_watermark() -> None:
    assert replicas(f1=10).high_watermark(3, 10) == 3


def test_a_follower_that_lost_its_log_moves_no_high_watermark_back() -> None:
    assert replicas(f1=0, f2=10).high_watermark(3, 10) == 3


def test_in_a_new_leader_epoch_each_follower_must_fetch_again() -> None:
    found = replicas(f1=7, f2=8)
    found.lead(LEADER, 10)
    found.update(ALL, ALL)
    assert found.high_watermark(3, 10) == 3
    assert found.lag(1, 10) is None


def test_an_update_in_the_same_leader_epoch_keeps_what_followers_have_fetched() -> None:
    found = replicas(f1=7, f2=8)
    found.update((0, 2), ALL)
    assert found.high_watermark(3, 10) == 8
    assert found.lag(1, 10) == 3


@pytest.mark.parametrize(
    ("min_insync_replicas", "isr", "assignment", "is_under"),
    [
        pytest.param(2, (0,), (0,), False, id="2 counts as 1 with one replica"),
        pytest.param(2, (0, 1), ALL, False, id="enough"),
        pytest.param(2, (0,), ALL, True, id="too few"),
        pytest.param(5, (0, 1), ALL, True, id="5 counts as 3 with three replicas"),
    ],
)
def test_below_the_min_isr_the_high_watermark_stays(
    min_insync_replicas: int, isr: tuple[int, ...], assignment: tuple[int, ...], is_under: bool
) -> None:
    found = replicas(isr, assignment, min_insync_replicas=min_insync_replicas)
    for follower in assignment[1:]:
        found.record_fetch(follower, 10, 10, 0)
    assert found.is_under_min_isr is is_under
    assert found.high_watermark(3, 10) == (3 if is_under else 10)
    assert found.is_alone is (isr == (0,) and not is_under)


def test_min_insync_replicas_counts_from_the_moment_it_is_set() -> None:
    found = replicas((0,))
    found.require(2)
    assert (found.is_under_min_isr, found.is_alone, found.effective_min_isr) == (True, False, 2)
    found.require(1)
    assert (found.is_under_min_isr, found.is_alone) == (False, True)


def test_with_an_elr_the_high_watermark_stays_even_after_a_lower_min_isr() -> None:
    """KIP-966: a member of the ELR may be elected, so it has every committed record."""
    found = replicas((0,), min_insync_replicas=2)
    found.update((0,), ALL, has_elr=True)
    found.require(1)
    assert (found.is_under_min_isr, found.is_alone, found.high_watermark(3, 10)) == (
        False,
        False,
        3,
    )
    found.update((0,), ALL)
    assert (found.is_alone, found.high_watermark(3, 10)) == (True, 10)


# --- a change of the ISR in flight


def test_a_replica_that_joins_counts_from_the_proposal() -> None:
    found = replicas((0,), f1=8)
    found.propose_isr((0, 1))
    assert found.maximal_isr == {0, 1}
    assert found.isr == (0,)
    assert not found.is_alone
    assert found.high_watermark(3, 10) == 8
    found.settle_isr()  # refused
    assert found.maximal_isr == {0}
    assert found.high_watermark(8, 10) == 10


def test_a_replica_that_leaves_counts_until_the_change_is_committed() -> None:
    found = replicas((0, 1), f1=8)
    found.propose_isr((0,))
    assert found.high_watermark(3, 10) == 8
    found.update((0,), ALL)
    assert found.high_watermark(3, 10) == 10
    found.settle_isr()
    assert found.is_alone


def test_an_older_update_ends_no_change_in_flight() -> None:
    found = replicas((0,), f1=8)
    found.propose_isr((0, 1))
    found.update((0,), ALL)
    assert found.high_watermark(3, 10) == 8


def test_a_new_leader_epoch_ends_the_change_in_flight() -> None:
    found = replicas((0,), f1=8)
    found.propose_isr((0, 1))
    found.lead(LEADER, 10)
    found.update((0,), ALL)
    assert found.maximal_isr == {0}


def test_a_replica_that_is_unassigned_leaves_the_change_in_flight() -> None:
    found = replicas((0, 1), f1=8, f2=5)
    found.propose_isr(ALL)
    assert found.high_watermark(3, 10) == 5
    found.update((0, 1), (0, 1))
    assert found.maximal_isr == {0, 1}
    assert found.high_watermark(5, 10) == 8
    assert found.out_of_sync(10, MAX_LAG_MS + 1, MAX_LAG_MS) == ()  # Still in flight.
    found.settle_isr()
    assert found.out_of_sync(10, MAX_LAG_MS + 1, MAX_LAG_MS) == ()
    assert found.out_of_sync(10, 2 * MAX_LAG_MS + 2, MAX_LAG_MS) == (1,)


def test_no_change_begins_while_another_is_in_flight() -> None:
    found = replicas((0, 1), f1=8, f2=10)
    assert found.may_join(5) == (2,)
    assert found.out_of_sync(10, 0, MAX_LAG_MS) == ()
    assert found.out_of_sync(10, MAX_LAG_MS + 1, MAX_LAG_MS) == (1,)
    found.propose_isr(ALL)
    assert found.may_join(5) == ()
    assert found.out_of_sync(10, MAX_LAG_MS + 1, MAX_LAG_MS) == ()


def test_an_id_without_a_replica_is_an_error() -> None:
    found = replicas()
    with pytest.raises(KeyError):
        found.record_fetch(9, 0, 10, 0)
    with pytest.raises(KeyError):
        found.propose_isr((0, 9))


# --- lag


def test_the_time_out_of_sync_counts_from_the_last_moment_in_sync() -> None:
    """A call of `out_of_sync_ms` changes nothing: a follower that never caught up still has no
    time."""
    found = replicas((0,), f1=10, f2=7)
    found.record_fetch(1, 10, 12, 5)
    assert found.out_of_sync_ms(20) == found.out_of_sync_ms(20) == {1: 20}
    assert found.out_of_sync_ms(30) == {1: 30}
    found.record_fetch(1, 12, 12, 40)
    assert found.out_of_sync_ms(50) == {1: 10}
    found.update((0, 1), ALL)
    assert found.out_of_sync_ms(60) == {}


def test_lag_is_the_number_of_missing_records() -> None:
    found = replicas(f1=7)
    assert [found.lag(follower, 10) for follower in (1, 2)] == [3, None]
    # The leader counts only flushed records, so a follower may have more records than the leader
    # counts.
    assert found.lag(1, 5) == 0


def test_a_follower_may_join_at_the_high_watermark_and_the_start_of_the_leader_epoch() -> None:
    found = replicas((0,), epoch_start_offset=6, f1=5, f2=6)
    assert found.may_join(high_watermark=5) == (2,)
    assert found.may_join(high_watermark=6) == (2,)
    assert found.may_join(high_watermark=7) == ()
    assert replicas(f1=10, f2=10).may_join(0) == ()  # These followers are in the ISR.


def test_at_the_log_end_a_follower_is_in_sync_however_old_its_fetch() -> None:
    found = replicas((0, 1), f1=10)
    assert found.out_of_sync(10, 1_000_000, MAX_LAG_MS) == ()
    assert found.out_of_sync(11, MAX_LAG_MS, MAX_LAG_MS) == ()
    assert found.out_of_sync(11, MAX_LAG_MS + 1, MAX_LAG_MS) == (1,)


def test_under_constant_appends_a_follower_is_in_sync_by_its_previous_fetch() -> None:
    found = replicas((0, 1), f1=5)
    for now_ms in range(20, 200, 20):
        found.record_fetch(1, 10 + now_ms - 20, 10 + now_ms, now_ms)
        assert found.out_of_sync(10 + now_ms, now_ms, MAX_LAG_MS) == ()


def test_a_follower_that_fetches_but_falls_behind_is_out_of_sync() -> None:
    found = replicas((0, 1), f1=10)
    found.record_fetch(1, 11, 100, 20)
    found.record_fetch(1, 12, 200, MAX_LAG_MS)
    assert found.out_of_sync(200, MAX_LAG_MS, MAX_LAG_MS) == ()
    assert found.out_of_sync(200, MAX_LAG_MS + 1, MAX_LAG_MS) == (1,)


def test_the_lag_time_of_a_follower_that_never_caught_up_begins_at_the_first_check() -> None:
    found = replicas((0, 1))
    assert found.out_of_sync(10, 500, MAX_LAG_MS) == ()
    assert found.out_of_sync(10, 500 + MAX_LAG_MS, MAX_LAG_MS) == ()
    assert found.out_of_sync(10, 501 + MAX_LAG_MS, MAX_LAG_MS) == (1,)


def test_a_fetch_does_not_move_the_caught_up_time_back() -> None:
    found = replicas((0, 1), f1=5)
    assert found.out_of_sync(10, 20, MAX_LAG_MS) == ()
    found.record_fetch(1, 10, 11, 40)  # The leader's log end at time 0 was 10.
    assert found.out_of_sync(11, 20 + MAX_LAG_MS, MAX_LAG_MS) == ()
    assert found.out_of_sync(11, 21 + MAX_LAG_MS, MAX_LAG_MS) == (1,)


# --- any sequence of events

FOLLOWERS: Final = st.sampled_from((1, 2))
ISRS: Final = st.sampled_from([(0,), (0, 1), (0, 2), ALL])


class AnyHistory(RuleBasedStateMachine):
    """The model only stores events. It computes each expected value by a search of the events."""

    @initialize(isr=ISRS, min_insync_replicas=st.integers(1, 4))
    def lead_first(self, isr: tuple[int, ...], min_insync_replicas: int) -> None:
        self.min_insync_replicas = min_insync_replicas
        self.replicas = Replicas(min_insync_replicas)
        self.end = self.now_ms = self.high_watermark = 0
        self.lead(isr)

    @rule(isr=ISRS)
    def lead(self, isr: tuple[int, ...]) -> None:
        self.epoch_start = self.end
        # (time, log end of the follower, log end of the leader) of each fetch in this epoch.
        self.fetches: dict[int, list[tuple[int, int, int]]] = {1: [], 2: []}
        self.first_look_ms: dict[int, int] = {}
        self.proposed: tuple[int, ...] = ()
        self.replicas.lead(LEADER, self.end)
        self.update(isr)

    @rule(isr=ISRS)
    def update(self, isr: tuple[int, ...]) -> None:
        self.isr = isr
        self.replicas.update(isr, ALL)

    @rule(isr=ISRS)
    def propose(self, isr: tuple[int, ...]) -> None:
        self.proposed = isr
        self.replicas.propose_isr(isr)

    @rule()
    def settle(self) -> None:
        self.proposed = ()
        self.replicas.settle_isr()

    @rule(min_insync_replicas=st.integers(1, 4))
    def require(self, min_insync_replicas: int) -> None:
        self.min_insync_replicas = min_insync_replicas
        self.replicas.require(min_insync_replicas)

    @rule(count=st.integers(1, 3), waited_ms=st.integers(0, 20))
    def append(self, count: int, waited_ms: int) -> None:
        self.end += count
        self.now_ms += waited_ms

    @rule(follower=FOLLOWERS, missing=st.integers(0, 4), waited_ms=st.integers(0, 20))
    def fetch(self, follower: int, missing: int, waited_ms: int) -> None:
        self.now_ms += waited_ms
        log_end_offset = max(self.end - missing, 0)
        self.fetches[follower].append((self.now_ms, log_end_offset, self.end))
        self.replicas.record_fetch(follower, log_end_offset, self.end, self.now_ms)

    def log_end(self, broker_id: int) -> int:
        if broker_id == LEADER:
            return self.end
        fetches = self.fetches[broker_id]
        return fetches[-1][1] if fetches else -1

    def caught_up_ms(self, follower: int) -> int | None:
        """Return the time of the last fetch at which the follower had caught up. It had caught up
        at a fetch if this fetch, or the next one, has an offset at or above the leader's log end at
        the time of this fetch. Return the follower's `first_look_ms` if that is later. Return None
        if there is neither."""
        fetches = self.fetches[follower]
        moments = [
            now_ms
            for index, (now_ms, _, leader_end) in enumerate(fetches)
            if any(log_end >= leader_end for _, log_end, _ in fetches[index : index + 2])
        ]
        if follower in self.first_look_ms:
            moments.append(self.first_look_ms[follower])
        return max(moments, default=None)

    @rule()
    def look_for_followers_out_of_sync(self) -> None:
        expected: list[int] = []
        for follower in () if self.proposed else self.isr[1:]:
            if self.log_end(follower) < self.end:
                if self.caught_up_ms(follower) is None:
                    self.first_look_ms[follower] = self.now_ms
                since = self.caught_up_ms(follower)
                assert since is not None
                if self.now_ms - since > MAX_LAG_MS:
                    expected.append(follower)
        found = self.replicas.out_of_sync(self.end, self.now_ms, MAX_LAG_MS)
        assert found == tuple(expected)

    @invariant()
    def the_high_watermark_is_the_last_offset_that_all_of_the_maximal_isr_have(self) -> None:
        before = self.high_watermark
        maximal = {*self.isr, *self.proposed}
        expected = before
        if len(self.isr) >= min(self.min_insync_replicas, len(ALL)):
            for offset in range(before + 1, self.end + 1):
                if all(self.log_end(broker_id) >= offset for broker_id in maximal):
                    expected = offset
        found = self.replicas.high_watermark(before, self.end)
        assert found == expected
        assert before <= found <= self.end
        assert not self.replicas.is_alone or found == self.end
        self.high_watermark = found

    @invariant()
    def followers_may_join_that_have_all_that_is_committed(self) -> None:
        expected = [
            follower
            for follower in (1, 2)
            if not self.proposed
            and follower not in self.isr
            and self.log_end(follower) >= self.high_watermark
            and self.log_end(follower) >= self.epoch_start
        ]
        assert self.replicas.may_join(self.high_watermark) == tuple(expected)

    @invariant()
    def a_follower_lacks_what_it_has_not_fetched(self) -> None:
        for follower in (1, 2):
            expected = self.end - self.log_end(follower) if self.fetches[follower] else None
            assert self.replicas.lag(follower, self.end) == expected


AnyHistory.TestCase.settings = settings(
    max_examples=examples(200), stateful_step_count=50, deadline=None
)
TestAnyHistory = AnyHistory.TestCase
