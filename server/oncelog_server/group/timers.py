"""The timers of a shard, in one heap. Deadlines move far more often than timers fire, because each
heartbeat moves the member's deadline. So a move to a later time adds no heap entry: the timer keeps
the entry at the earlier time. If the deadline has moved when the entry is due, the entry is queued
again."""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

import msgspec

F = TypeVar("F")
TimerKey = tuple[str, ...]

_SPARE_ENTRIES: Final = 64


class _Timer(msgspec.Struct, Generic[F]):
    deadline_ms: int
    queued_ms: int
    fire: F


class CoordinatorTimer(Generic[F]):
    """Deadlines in monotonic ms, by key. Timers with the same deadline fire in the order of their
    keys."""

    __slots__ = ("_heap", "_timers")

    def __init__(self) -> None:
        self._timers: dict[TimerKey, _Timer[F]] = {}
        self._heap: list[tuple[int, TimerKey]] = []

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._timers

    def deadline_ms(self, key: TimerKey) -> int | None:
        """Return the deadline of `key`. Return None if `key` has no timer."""
        timer = self._timers.get(key)
        return None if timer is None else timer.deadline_ms

    def set(self, key: TimerKey, deadline_ms: int, fire: F) -> None:
        """Set the deadline and the action of `key`. They replace those that `key` already has."""
        timer = self._timers.get(key)
        if timer is None or deadline_ms < timer.queued_ms:
            self._timers[key] = _Timer(deadline_ms, deadline_ms, fire)
            heapq.heappush(self._heap, (deadline_ms, key))
            self._drop_stale_entries()
        else:
            timer.deadline_ms = deadline_ms
            timer.fire = fire

    def cancel(self, key: TimerKey) -> None:
        """Remove the timer, if there is one."""
        self._timers.pop(key, None)

    def clear(self) -> None:
        """Cancel all timers."""
        self._timers.clear()
        self._heap.clear()

    def next_timer(self) -> int | None:
        """Return the earliest deadline. Return None if no timer is set."""
        heap = self._heap
        while heap:
            queued_ms, key = heap[0]
            timer = self._timers.get(key)
            if timer is None or timer.queued_ms != queued_ms:
                heapq.heappop(heap)
            elif timer.deadline_ms > queued_ms:
                timer.queued_ms = timer.deadline_ms
                heapq.heapreplace(heap, (timer.deadline_ms, key))
            else:
                return queued_ms
        return None

    def pop_due(self, now_ms: int) -> F | None:
        """Remove the earliest timer that is due at `now_ms`, and return its action. Return None if
        no timer is due."""
        deadline_ms = self.next_timer()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        return self._timers.pop(key).fire

    def _drop_stale_entries(self) -> None:
        if len(self._heap) > 2 * len(self._timers) + _SPARE_ENTRIES:
            self._heap = [(timer.queued_ms, key) for key, timer in self._timers.items()]
            heapq.heapify(self._heap)
