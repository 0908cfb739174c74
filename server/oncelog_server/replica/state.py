"""The replicas of a partition as its leader sees them: the ISR, the log ends of the followers, and
the high watermark that follows from both.

The rules are those of Kafka's Partition and Replica, with KIP-497 (an ISR change in flight) and
KIP-966 (an ISR below the min ISR). Times are milliseconds of a clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

UNKNOWN: Final = -1


class Follower:
    """The state of a follower. Its log end is the offset from which it last fetched in this leader
    epoch. Its log start and broker epoch are those in that fetch. All are UNKNOWN before the first
    fetch."""

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_at_last_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.broker_epoch = UNKNOWN
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.last_fetch_ms = UNKNOWN
        self.leader_end_at_last_fetch = UNKNOWN
        # The latest known time at which the follower had all records of the leader.
        self.last_caught_up_ms = UNKNOWN

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Return True if the follower has all records of the leader, or had them at most
        `max_lag_ms` ago (Kafka's ReplicaState.isCaughtUp)."""
        if self.log_end_offset >= leader_end:
            return True
        caught_up_ms = self.last_caught_up_ms
        return caught_up_ms != UNKNOWN and now_ms - caught_up_ms <= max_lag_ms

    def fetched(self, log_end_offset: int, leader_end: int, now_ms: int) -> None:
        if log_end_offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif log_end_offset >= self.leader_end_at_last_fetch:
            # While the leader appends, a follower never fetches from the leader's present log end.
            # But this fetch begins at or above the log end that the leader had at the previous
            # fetch. So the follower has all records that the leader had then.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = log_end_offset
        self.leader_end_at_last_fetch = leader_end
        self.last_fetch_ms = now_ms

    def was_caught_up(self, at_ms: int) -> None:
        """Note that the follower had all records of the leader at this time."""
        if self.log_end_offset != UNKNOWN:
            self.last_caught_up_ms = max(self.last_caught_up_ms, at_ms)


class Replicas:
    """The ISR of one partition, and the state of its followers. The maximal ISR contains the
    committed ISR. While a change is in flight, the maximal ISR also contains the proposed ISR,
    because the metadata may already have either. The log end and the present high watermark are
    arguments, because log and partition own these values. A broker id without a replica raises
    KeyError."""

    __slots__ = (
        "_counted",
        "_followers",
        "_has_elr",
        "_joining",
        "_leader_id",
        "_min_insync_replicas",
        "_proposed_isr",
        "adding",
        "assignment",
        "epoch_start_offset",
        "is_alone",
        "is_reassigning",
        "is_under_min_isr",
        "isr",
        "partition_epoch",
    )

    def __init__(self, min_insync_replicas: int) -> None:
        self.isr: tuple[int, ...] = ()
        self.assignment: tuple[int, ...] = ()
        # The replicas that a reassignment adds (KIP-455).
        self.adding: tuple[int, ...] = ()
        self.is_reassigning = False
        self.is_under_min_isr = False
        # True if the high watermark waits for no follower. Appends check this attribute first.
        self.is_alone = True
        self._min_insync_replicas = min_insync_replicas
        self._leader_id = UNKNOWN
        # The leader's log end at the start of its epoch. UNKNOWN before this broker leads.
        self.epoch_start_offset = UNKNOWN
        # The revision of the metadata that last changed the partition's record.
        self.partition_epoch = UNKNOWN
        self._proposed_isr: tuple[int, ...] = ()
        # Followers outside of the ISR that hold the high watermark back.
        self._joining: tuple[int, ...] = ()
        self._has_elr = False
        self._followers: dict[int, Follower] = {}
        # The followers with log ends that count for the high watermark.
        self._counted: tuple[Follower, ...] = ()

    # --- metadata

    def lead(self, leader_id: int, epoch_start_offset: int) -> None:
        """Begin a leader epoch. No follower has fetched in this epoch yet, and no ISR change is in
        flight. The caller must then call `update`."""
        self._leader_id, self.epoch_start_offset = leader_id, epoch_start_offset
        self._proposed_isr = self._joining = ()
        self._followers = {}

    def update(
        self,
        isr: tuple[int, ...],
        assignment: tuple[int, ...],
        partition_epoch: int = UNKNOWN,
        *,
        has_elr: bool = False,
    ) -> None:
        """Replace the metadata of this leader epoch. `has_elr`: brokers outside of the ISR may
        still be elected, because they have every committed record (KIP-966).

        A newer partition epoch ends the change in flight. The store makes a change only if the
        partition epoch has not changed since the proposal. So this metadata is the result of the
        change, or the change can no longer be made. Without a newer partition epoch the change
        stays in flight, because the metadata may be older than the outcome of the change. Replicas
        that are not assigned any more are removed from the proposed ISR."""
        if partition_epoch > self.partition_epoch:
            self.partition_epoch, self._proposed_isr = partition_epoch, ()
        known = self._followers
        self._followers = {
            broker_id: known.get(broker_id) or Follower()
            for broker_id in assignment
            if broker_id != self._leader_id
        }
        self.isr, self.assignment, self._has_elr = isr, assignment, has_elr
        self._proposed_isr = tuple(
            broker_id
            for broker_id in self._proposed_isr
            if broker_id == self._leader_id or broker_id in self._followers
        )
        self._joining = tuple(
            broker_id
            for broker_id in self._joining
            if broker_id in self._followers and broker_id not in isr
        )
        self._count()

    def reassign(self, adding: tuple[int, ...], removing: tuple[int, ...]) -> None:
        """Note the replicas that a reassignment adds and removes. Both are empty without a
        reassignment."""
        self.adding, self.is_reassigning = adding, bool(adding or removing)

    def require(self, min_insync_replicas: int) -> None:
        """Set the value of `min.insync.replicas`."""
        self._min_insync_replicas = min_insync_replicas
        self._count()

    def propose_isr(self, isr: tuple[int, ...]) -> None:
        """Add these replicas to the maximal ISR. The change is in flight until `settle_isr`
        (AlterPartition)."""
        self._proposed_isr = isr
        self._count()

    def settle_isr(self) -> None:
        """End the change in flight. The maximal ISR is then the committed ISR."""
        self._proposed_isr = ()
        self._count()

    @property
    def has_change_in_flight(self) -> bool:
        """Return True from `propose_isr` until the change ends."""
        return bool(self._proposed_isr)

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset((*self.isr, *self._proposed_isr))

    @property
    def effective_min_isr(self) -> int:
        """Return min.insync.replicas, but at most the number of replicas. A single broker then
        needs no settings."""
        return min(self._min_insync_replicas, len(self.assignment))

    @property
    def is_under_replicated(self) -> bool:
        """Return True if the ISR is smaller than the number of replicas. Replicas that a
        reassignment adds do not count (Kafka's Partition.isUnderReplicated)."""
        return len(self.isr) < len(self.assignment) - len(self.adding)

    def _count(self) -> None:
        self._counted = tuple(
            self._followers[broker_id]
            for broker_id in self.maximal_isr.union(self._joining)
            if broker_id != self._leader_id
        )
        self.is_under_min_isr = len(self.isr) < self.effective_min_isr
        self.is_alone = not self._counted and not self._stands_still

    @property
    def _stands_still(self) -> bool:
        """Return True if nothing may be committed. This is so while the ISR is below the min ISR,
        and also while there is an ELR, because the members of the ELR do not have newer records. If
        min.insync.replicas is lowered, the controller first ends the ELR."""
        return self.is_under_min_isr or self._has_elr

    # --- log ends

    def high_watermark(self, present: int, leader_end: int) -> int:
        """Return the new high watermark: the smallest log end over the maximal ISR and the
        replicas of `wait_for_joining`. Return `present` if `present` is higher, if the ISR is below
        the min ISR, or if there is an ELR.

        `leader_end` is the leader's log end. If acks wait for a flush, `leader_end` is the end of
        the flushed records.
        """
        if self._stands_still:
            return present
        ends = (follower.log_end_offset for follower in self._counted)
        return max(present, min((leader_end, *ends)))

    def is_follower(self, broker_id: int) -> bool:
        """Return True if the partition is assigned to this other broker."""
        return broker_id in self._followers

    def record_fetch(
        self,
        broker_id: int,
        log_end_offset: int,
        leader_end: int,
        now_ms: int,
        broker_epoch: int = UNKNOWN,
        log_start_offset: int = UNKNOWN,
    ) -> None:
        """Record a follower's fetch from `log_end_offset`. `leader_end` is the leader's log end at
        that time. `broker_epoch` (KIP-903) and `log_start_offset` (KIP-107) are those of the
        request."""
        follower = self._followers[broker_id]
        follower.fetched(log_end_offset, leader_end, now_ms)
        follower.broker_epoch = broker_epoch
        follower.log_start_offset = log_start_offset

    def low_watermark(self, leader_start: int, is_alive: Callable[[int], bool]) -> int:
        """Return the smallest log start over the leader and the followers on live brokers: no live
        replica has a record below it (KIP-107; Kafka's Partition.lowWatermarkIfLeader). It is
        UNKNOWN until every such follower has fetched in this leader epoch."""
        starts = (
            follower.log_start_offset
            for broker_id, follower in self._followers.items()
            if is_alive(broker_id)
        )
        return min((leader_start, *starts))

    def was_caught_up(self, broker_id: int, at_ms: int) -> None:
        """Note that a follower has fetched from the leader's log end at this time, if it has
        fetched in this leader epoch and is still assigned."""
        follower = self._followers.get(broker_id)
        if follower is not None:
            follower.was_caught_up(at_ms)

    def broker_epoch(self, broker_id: int) -> int:
        """Return the broker epoch of the follower's last fetch, UNKNOWN if it had none."""
        return self._followers[broker_id].broker_epoch

    def lag(self, broker_id: int, leader_end: int) -> int | None:
        """Return the number of offsets that the follower is behind. Return None before the
        follower's first fetch in this leader epoch."""
        log_end_offset = self._followers[broker_id].log_end_offset
        return None if log_end_offset == UNKNOWN else max(leader_end - log_end_offset, 0)

    def out_of_sync_ms(self, now_ms: int) -> dict[int, int]:
        """Return the followers outside of the ISR, with the time since each was caught up. A
        follower that was never caught up in this leader epoch is left out."""
        return {
            broker_id: now_ms - follower.last_caught_up_ms
            for broker_id, follower in self._followers.items()
            if broker_id not in self.isr and follower.last_caught_up_ms != UNKNOWN
        }

    # --- changes of the ISR

    def out_of_sync(self, leader_end: int, now_ms: int, max_lag_ms: int) -> tuple[int, ...]:
        """Return the followers that must leave the ISR: the members that have not reached the
        leader's log end for more than `max_lag_ms` (replica.lag.time.max.ms). While a change is in
        flight, return no followers. If a follower has never caught up in this leader epoch,
        `max_lag_ms` counts from the first call."""
        if self._proposed_isr:
            return ()
        found: list[int] = []
        for broker_id in self.isr:
            if broker_id == self._leader_id:
                continue
            follower = self._followers[broker_id]
            if follower.log_end_offset >= leader_end:
                continue
            if follower.last_caught_up_ms == UNKNOWN:
                follower.last_caught_up_ms = now_ms
            if now_ms - follower.last_caught_up_ms > max_lag_ms:
                found.append(broker_id)
        return tuple(found)

    def may_join(
        self,
        high_watermark: int,
        epochs: Mapping[int, int] | None = None,
        *,
        fetched_since_ms: int = UNKNOWN,
    ) -> tuple[int, ...]:
        """Return the followers that may join the ISR: those with a log end at or above the high
        watermark and the start of the leader epoch. A follower that ends before that start may have
        records that differ from the leader's. Return no followers while a change is in flight.

        `epochs` are the broker epochs of the live brokers. A follower that is not in `epochs`, or
        has fetched with another broker epoch, may not join (KIP-903). With None, broker epochs are
        not checked. A follower with its last fetch before `fetched_since_ms` may not join
        either."""
        if self._proposed_isr:
            return ()
        required = max(high_watermark, self.epoch_start_offset)
        return tuple(
            broker_id
            for broker_id, follower in self._followers.items()
            if broker_id not in self.isr
            and follower.log_end_offset >= required
            and follower.last_fetch_ms >= fetched_since_ms
            and (epochs is None or _is_eligible(broker_id, follower, epochs))
        )

    def wait_for_joining(
        self, leader_end: int, now_ms: int, max_lag_ms: int, epochs: Mapping[int, int]
    ) -> None:
        """Let the high watermark wait for the live followers outside of the ISR that were caught up
        at most `max_lag_ms` ago. Without this, such a follower might never reach the high watermark
        of a busy partition, and so never join (Kafka's shouldWaitForReplicaToJoinIsr)."""
        joining = tuple(
            broker_id
            for broker_id, follower in self._followers.items()
            if broker_id not in self.isr
            and follower.log_end_offset != UNKNOWN
            and follower.is_caught_up(leader_end, now_ms, max_lag_ms)
            and _is_eligible(broker_id, follower, epochs)
        )
        if joining != self._joining:
            self._joining = joining
            self._count()


def _is_eligible(broker_id: int, follower: Follower, epochs: Mapping[int, int]) -> bool:
    alive = epochs.get(broker_id)
    return alive is not None and follower.broker_epoch in (alive, UNKNOWN)
