"""Completes decided transactions, from PREPARE to COMPLETE.

For every commit or abort the coordinator appends PREPARE, sends the markers once PREPARE is
committed, and appends COMPLETE after the last marker. If all leaders are local, these steps happen
before the response to EndTxn. They happen within one turn of the loop, unless there are many
markers: these are written in slices, over several turns. If some leader is another broker, the
response waits for COMPLETE at most HOLD_MS. A producer that gets the response after COMPLETE can
begin its next transaction without CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from oncelog_protocol.errors import ErrorCode
from oncelog_server.coordinator.routing import NEVER_IN_TRANSACTIONS
from oncelog_server.coordinator.runtime import Work
from oncelog_server.coordinator.shard import Decision
from oncelog_server.slices import SMALL, Steps
from oncelog_server.timers import Timer, Timers
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.end_txn import decide_complete
from oncelog_server.transaction.effects import CompleteLater, WriteMarkers
from oncelog_server.transaction.marker_delivery import MarkerOutcome, MarkerSender, marker_outcome
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.shard import TransactionShard

# Back-off between attempts to write a marker that a leader has refused (scenario T7: no busy loop).
RETRY_MS: Final = 100
RETRY_MAX_MS: Final = 2_000
# Maximum time for which the response to EndTxn waits for the markers of other brokers. A client
# that gets CONCURRENT_TRANSACTIONS waits 20 ms or longer.
HOLD_MS: Final = 25
# A group commit decides many transactions at once. At most this number of them get their markers in
# one turn of the loop.
FINISHED_PER_TURN: Final = 64


class Leaders(Protocol):
    """Finds the leaders of partitions in the newest metadata image."""

    def marker_sender(self, partition: TopicPartition) -> MarkerSender | None:
        """Return the sender for the leader of a partition. Return None if the partition has no
        leader."""
        ...

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the id of the leading broker, below 0 if there is none. Return None for an unknown
        partition."""
        ...

    def is_gone(self, partition: TopicPartition) -> bool:
        """Return True if the topic was certainly deleted. Return False for a topic that the image
        does not have yet (scenario N11)."""
        ...


class Completion:
    """`run(index, decision)` runs a decision of a shard. `is_in_service(index, shard)` is False if
    the shard was unloaded. `decided` counts the aborted and the committed transactions with
    partitions."""

    def __init__(
        self,
        leaders: Leaders,
        *,
        run: Callable[[int, Decision[Any]], object],
        is_in_service: Callable[[int, TransactionShard], bool],
        timers: Timers,
        wall_ms: Callable[[], int],
        work: Work,
        decided: list[int],
    ) -> None:
        self.leaders = leaders
        self._run = run
        self._is_in_service = is_in_service
        self._timers = timers
        self._wall_ms = wall_ms
        self.work = work
        self._decided = decided
        # In the order in which they were scheduled.
        self._retries: dict[_Retry, None] = {}

    def write_markers(self, shard: TransactionShard, effect: WriteMarkers) -> None:
        ids = effect.transactional_ids
        for transactional_id in ids[:FINISHED_PER_TURN]:
            self.finish(shard, transactional_id)
        rest = WriteMarkers(ids[FINISHED_PER_TURN:])
        if rest.transactional_ids:
            self._timers.call_soon(lambda: self._write_rest(shard, rest))

    def _write_rest(self, shard: TransactionShard, rest: WriteMarkers) -> None:
        if self._is_in_service(shard.index, shard):
            self.write_markers(shard, rest)

    def finish(
        self, shard: TransactionShard, transactional_id: str, attempt: int | None = None
    ) -> None:
        """Write the missing markers of an id. `attempt` is None directly after the commit of
        PREPARE."""
        work = shard.marker_work(transactional_id)
        if work is None:
            return
        if attempt is None:
            attempt = 0
            if work.partitions:
                self._decided[work.committed] += 1
        _Finishing(self, shard, work, attempt).start()

    def finish_later(self, shard: TransactionShard, work: MarkerWork, attempt: int) -> None:
        delay_ms = min(RETRY_MS << min(attempt, 8), RETRY_MAX_MS) if attempt else 0
        retry = _Retry(shard, work, attempt)
        self._retries[retry] = None
        retry.timer = self._timers.call_later(delay_ms, partial(self.retry, retry))

    def release_later(self, shard: TransactionShard, work: MarkerWork) -> Timer:
        """Release the response after HOLD_MS."""

        def release() -> None:
            if self.is_due(shard, work):
                shard.release(work.transactional_id)

        return self._timers.call_later(HOLD_MS, release)

    def complete_later(self, shard: TransactionShard, effect: CompleteLater, code: int) -> None:
        self.try_again(shard, effect.work, effect.attempt)

    def try_again(self, shard: TransactionShard, work: MarkerWork, attempt: int) -> None:
        """Retry the markers later. Release the response now, because the outcome is decided."""
        if self.is_due(shard, work):
            shard.release(work.transactional_id)
            self.finish_later(shard, work, attempt + 1)

    def is_due(self, shard: TransactionShard, work: MarkerWork) -> bool:
        """Return False if the shard was unloaded or the transaction is complete. The id may then
        have a newer transaction."""
        return self._is_in_service(shard.index, shard) and shard.is_due(work)

    def retry_now(self) -> None:
        """Retry all markers in the next turns of the loop, some in each, because a new leader may
        take them. Kafka waits for its back-off."""
        if self._retries:
            self._retry_some(list(self._retries))

    def _retry_some(self, retries: Sequence[_Retry]) -> None:
        for retry in retries[:FINISHED_PER_TURN]:
            self._timers.call_soon(partial(self.retry, retry))
        rest = retries[FINISHED_PER_TURN:]
        if rest:
            self._timers.call_soon(partial(self._retry_some, rest))

    def retry(self, retry: _Retry) -> None:
        """Make an attempt, unless it was made already."""
        if retry in self._retries:
            del self._retries[retry]
            if retry.timer is not None:
                retry.timer.cancel()
            if self.is_due(retry.shard, retry.work):
                self.finish(retry.shard, retry.work.transactional_id, retry.attempt)

    def complete(self, shard: TransactionShard, work: MarkerWork, attempt: int) -> None:
        """Append COMPLETE, because all markers are written."""
        decision = decide_complete(shard, work, attempt=attempt, wall_ms=self._wall_ms())
        if decision is not None:
            self._run(shard.index, decision)


class _Retry:
    """The next attempt to write the markers of one transaction. It is made once, after its delay or
    after a change of the metadata. Retries are compared by identity."""

    __slots__ = ("attempt", "shard", "timer", "work")

    def __init__(self, shard: TransactionShard, work: MarkerWork, attempt: int) -> None:
        self.shard = shard
        self.work = work
        self.attempt = attempt
        self.timer: Timer | None = None


class _Finishing:
    """One attempt to write all missing markers of one transaction."""

    __slots__ = ("attempt", "completion", "hold", "retry", "shard", "stale", "unsettled", "work")

    def __init__(
        self,
        completion: Completion,
        shard: TransactionShard,
        work: MarkerWork,
        attempt: int,
    ) -> None:
        self.completion = completion
        self.shard = shard
        self.work = work
        self.attempt = attempt
        self.unsettled = len(work.partitions)
        self.retry = False
        self.stale = False
        # The end of the wait for other brokers; None if all leaders are local.
        self.hold: Timer | None = None

    def start(self) -> None:
        if not self.work.partitions:
            self._all_settled()
            return
        leaders = self.completion.leaders
        senders = [leaders.marker_sender(partition) for partition in self.work.partitions]
        if not all(sender is not None and sender.is_local for sender in senders):
            self.hold = self.completion.release_later(self.shard, self.work)
        sending = self._send(senders)
        if len(senders) > SMALL:
            self.completion.work(sending)
        else:
            for _ in sending:
                pass

    def _send(self, senders: list[MarkerSender | None]) -> Steps[None]:
        leaders = self.completion.leaders
        for partition, sender in zip(self.work.partitions, senders, strict=True):
            yield
            if not self.completion.is_due(self.shard, self.work):
                return  # the shard is unloaded, or the transaction is complete
            if partition.topic in NEVER_IN_TRANSACTIONS:
                # An older release has added this internal partition to the transaction. It needs no
                # marker.
                self._settled(partition, ErrorCode.NONE)
            elif sender is not None:
                sender.send(self.work, [partition], self._settled)
            elif leaders.is_gone(partition):
                self._settled(partition, ErrorCode.NONE)
            else:
                self._settled(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _settled(self, partition: TopicPartition, code: ErrorCode) -> None:
        outcome = marker_outcome(code)
        if outcome is MarkerOutcome.WRITTEN:
            self.shard.marker_written(self.work, partition)
        elif outcome is MarkerOutcome.RETRY:
            self.retry = True
        else:
            self.stale = True
        self.unsettled -= 1
        if self.unsettled == 0:
            self._all_settled()

    def _all_settled(self) -> None:
        completion, shard, work = self.completion, self.shard, self.work
        if self.hold is not None:
            self.hold.cancel()
        if not completion.is_due(shard, work):
            return
        if self.retry:
            completion.try_again(shard, work, self.attempt)
        elif self.stale:
            # Another coordinator has taken over. The new coordinator completes the transaction and
            # sends the response (scenario Z14).
            shard.give_up(work.transactional_id)
        else:
            completion.complete(shard, work, self.attempt)
