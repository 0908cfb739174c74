"""The replicas of a partition as its leader sees them: the ISR, the log ends of the followers, and
the high watermark that follows from both.

The rules are those of Kafka's Partition and Replica, with KIP-497 (an ISR change in flight) and
KIP-966 (an ISR below the min ISR). Times are milliseconds of a clock that never goes back.
"""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = -1


class Follower:
    """The state of a follower. Its log end is the offset from which it last fetched in this leader
    epoch."""

    __slots__ = ("last_caught_up_ms", "last_fetch_ms", "leader_end_at_last_fetch", "log_end_offset")

    def __init__(self) -> None:
        self.log_end_offset = UNKNOWN
        self.last_fetch_ms = UNKNOWN
        self.leader_end_at_last_fetch = UNKNOWN
        # The latest known time at which the follower had all records of the leader.
        self.last_caught_up_ms = UNKNOWN

    def fetched(self, log_end_offset: int, leader_end: int, now_ms: int) -> None:
        if log_end_offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif log_end_offset >= self.leader_end_at_last_fetch:
            # While the leader appends, a follower never fetches from the leader's present log end.
            # If it fetches from the leader's log end at the time of its previous fetch, it has all
            # records that the leader had at that time.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = log_end_offset
        self.leader_end_at_last_fetch = leader_end
        self.last_fetch_ms = now_ms


class Replicas:
    """The ISR of one partition, and the state of its followers. The maximal ISR contains the
    committed ISR. While a change is in flight, the maximal ISR also contains the proposed ISR,
    because the metadata may already have either. The log end and the present high watermark are
    arguments, because log and partition own these values. A broker id without a replica raises
    KeyError."""

    __slots__ = (
        "_epoch_start_offset",
        "_followers",
        "_in_maximal_isr",
        "_leader_id",
        "_min_insync_replicas",
        "_proposed_isr",
        "assignment",
        "is_alone",
        "is_under_min_isr",
        "isr",
    )

    def __init__(self, min_insync_replicas: int) -> None:
        self.isr: tuple[int, ...] = ()
        self.assignment: tuple[int, ...] = ()
        self.is_under_min_isr = False
        # True if the high watermark waits for no follower. Appends check this attribute first.
        self.is_alone = True
        self._min_insync_replicas = min_insync_replicas
        self._leader_id = UNKNOWN
        self._epoch_start_offset = UNKNOWN
        self._proposed_isr: tuple[int, ...] = ()
        self._followers: dict[int, Follower] = {}
        self._in_maximal_isr: tuple[Follower, ...] = ()

    # --- metadata

    def lead(self, leader_id: int, epoch_start_offset: int) -> None:
        """Begin a leader epoch. No follower has fetched in this epoch yet, and no ISR change is in
        flight. The caller must then call `update`."""
        self._leader_id, self._epoch_start_offset = leader_id, epoch_start_offset
        self._proposed_isr = ()
        self._followers = {}

    def update(self, isr: tuple[int, ...], assignment: tuple[int, ...]) -> None:
        """Replace the metadata of this leader epoch. A change in flight stays in flight, because
        the metadata may be older than the outcome of the change. Replicas that are not assigned any
        more are removed from the proposed ISR."""
        known = self._followers
        self._followers = {
            broker_id: known.get(broker_id) or Follower()
            for broker_id in assignment
            if broker_id != self._leader_id
        }
        self.isr, self.assignment = isr, assignment
        self._proposed_isr = tuple(
            broker_id
            for broker_id in self._proposed_isr
            if broker_id == self._leader_id or broker_id in self._followers
        )
        self._count()

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
    def maximal_isr(self) -> frozenset[int]:
        return frozenset((*self.isr, *self._proposed_isr))

    @property
    def effective_min_isr(self) -> int:
        """Return min.insync.replicas, but at most the number of replicas. A single broker then
        needs no settings."""
        return min(self._min_insync_replicas, len(self.assignment))

    def _count(self) -> None:
        self._in_maximal_isr = tuple(
            self._followers[broker_id]
            for broker_id in self.maximal_isr
            if broker_id != self._leader_id
        )
        self.is_under_min_isr = len(self.isr) < self.effective_min_isr
        self.is_alone = not self._in_maximal_isr and not self.is_under_min_isr

    # --- log ends

    def high_watermark(self, present: int, leader_end: int) -> int:
        """Return the new high watermark: the smallest log end over the maximal ISR. Return
        `present` if `present` is higher, or if the ISR is below the min ISR.

        `leader_end` is the leader's log end. If acks wait for a flush, `leader_end` is the end of
        the flushed records.
        """
        if self.is_under_min_isr:
            return present
        ends = (follower.log_end_offset for follower in self._in_maximal_isr)
        return max(present, min((leader_end, *ends)))

    def record_fetch(
        self, broker_id: int, log_end_offset: int, leader_end: int, now_ms: int
    ) -> None:
        """Record a follower's fetch from `log_end_offset`. `leader_end` is the leader's log end at
        that time."""
        self._followers[broker_id].fetched(log_end_offset, leader_end, now_ms)

    def lag(self, broker_id: int, leader_end: int) -> int | None:
        """Return the number of offsets that the follower is behind. Return None before the
        follower's first fetch in this leader epoch."""
        log_end_offset = self._followers[broker_id].log_end_offset
        return None if log_end_offset == UNKNOWN else max(leader_end - log_end_offset, 0)

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

    def may_join(self, high_watermark: int) -> tuple[int, ...]:
        """Return the followers that may join the ISR: those with a log end at or above the high
        watermark and the start of the leader epoch. A follower that ends before that start may have
        records that differ from the leader's. Return no followers while a change is in flight."""
        if self._proposed_isr:
            return ()
        required = max(high_watermark, self._epoch_start_offset)
        return tuple(
            broker_id
            for broker_id, follower in self._followers.items()
            if broker_id not in self.isr and follower.log_end_offset >= required
        )
