"""DeleteRecords that waits for followers (KIP-107; Kafka's DelayedDeleteRecords). Until then a
follower with the deleted records may become the leader, and show them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred, Order
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.waiting import ParkedRequests, Wake
from oncelog_server.refusal import Refused
from oncelog_server.timers import Timer, Timers

NO_LOW_WATERMARK = -1


class Deletion(NamedTuple):
    """The deletion of all records below `offset`, which this leader has done."""

    partition: Partition
    offset: int


class DeletionOutcome(NamedTuple):
    """`low_watermark` is the smallest log start of the live replicas, NO_LOW_WATERMARK after an
    error."""

    low_watermark: int
    code: ErrorCode


class ReplicatedDeletion:
    """Waits until the low watermark of each partition has reached its offset. `answer` gets the
    outcomes, in the order of `deletions`. After `timeout_ms` those that are missing are
    REQUEST_TIMED_OUT: their records are deleted on the leader, and will be on the followers."""

    def __init__(
        self,
        deletions: Sequence[Deletion],
        is_alive: Callable[[int], bool],
        timeout_ms: int,
        timers: Timers,
    ) -> None:
        # The request has taken effect, so the connection may serve the next request.
        self.answer: Deferred[list[DeletionOutcome]] = Deferred(order=Order.ORDERED)
        self._deletions = deletions
        self._is_alive = is_alive
        self._outcomes: dict[Deletion, DeletionOutcome] = {}
        # The deletions that followers have not done yet, each with its callback in the partition.
        self._waiting: dict[Deletion, Wake] = {}
        self._timer: Timer | None = None
        for deletion in deletions:
            self._look(deletion)
            if deletion not in self._outcomes and deletion not in self._waiting:
                self._wait(deletion)
        if self._waiting:
            self._timer = timers.call_later(max(timeout_ms, 0), self._time_is_up)
            self.answer.on_cancel(self._stop)
        else:
            self._respond()

    def _wait(self, deletion: Deletion) -> None:
        partition = deletion.partition
        if partition.deletion_waiters is None:
            partition.deletion_waiters = ParkedRequests()
        wake = self._waiting[deletion] = partial(self._woken, deletion)
        partition.deletion_waiters.add(wake)

    def _woken(self, deletion: Deletion) -> None:
        self._look(deletion)
        if deletion in self._outcomes:
            self._leave(deletion)
            if not self._waiting:
                self._respond()

    def _look(self, deletion: Deletion) -> None:
        """Note the outcome, unless a follower is missing."""
        partition, offset = deletion
        try:
            partition.check_leader()
        except Refused as refused:
            self._outcomes[deletion] = DeletionOutcome(NO_LOW_WATERMARK, refused.code)
            return
        low = partition.replicas.low_watermark(partition.log_start_offset, self._is_alive)
        if low >= offset:
            self._outcomes[deletion] = DeletionOutcome(low, ErrorCode.NONE)

    def _leave(self, deletion: Deletion) -> None:
        wake = self._waiting.pop(deletion, None)
        if wake is not None and deletion.partition.deletion_waiters is not None:
            deletion.partition.deletion_waiters.discard(wake)

    def _time_is_up(self) -> None:
        for deletion in self._waiting:
            late = DeletionOutcome(NO_LOW_WATERMARK, ErrorCode.REQUEST_TIMED_OUT)
            self._outcomes[deletion] = late
        self._respond()

    def _respond(self) -> None:
        self._stop()
        self.answer.complete([self._outcomes[deletion] for deletion in self._deletions])

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for deletion in list(self._waiting):
            self._leave(deletion)
