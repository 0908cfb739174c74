"""Run long work in slices of some milliseconds, with other callbacks of the event loop in between.

Work is a generator that returns its result. It yields where it may be interrupted, at least once
every few milliseconds. Several pieces of work share a slice, in rotation. If work yields bytes that
are only on the disk, it continues after they were read outside of the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from oncelog_server.deferred import Deferred
from oncelog_server.timers import Timers

M = TypeVar("M")
T = TypeVar("T")


class ColdBytes(Protocol):
    """Bytes that are only on the disk (`log.results.FileRange`)."""

    def prefetch(self, done: Callable[[], None]) -> None: ...


Steps: TypeAlias = Generator[None, None, T]
# Work that may wait for the disk.
ColdSteps: TypeAlias = Generator[ColdBytes | None, None, T]

# Length in ms of a slice, for all pieces of work together.
SLICE_MS: Final = 8
# Share in ms of one piece of work in a slice while others wait.
SHARE_MS: Final = 2
# Time in ms that new work may run before it waits for a slice. Most work ends within that time.
AT_ONCE_MS: Final = 2
# Lists up to this length are processed without slices, because that takes less than a millisecond.
SMALL: Final = 100
# Elements in a step of work that only counts. Such a step takes some microseconds.
PORTION: Final = 50
# Maximum number of pieces of work in rotation. Further pieces wait, because each piece in rotation
# holds a partial response in memory.
IN_ROTATION: Final = 16


class Slices:
    """Runs pieces of work in slices. An exception of work that is queued, or has waited for the
    disk, abandons the work's Deferred, and stops no other work.

    `steps_per_slice` limits a slice in addition to the clock, because a simulated clock stands
    still while the broker works.
    """

    def __init__(
        self,
        timers: Timers,
        monotonic_ms: Callable[[], int],
        *,
        steps_per_slice: int,
    ) -> None:
        self._timers = timers
        self._monotonic_ms = monotonic_ms
        self._steps_per_slice = steps_per_slice
        self._rotation: deque[_QueuedWork[Any]] = deque()
        self._waiting: deque[_QueuedWork[Any]] = deque()
        # Work that waits for bytes of the disk.
        self._cold: set[_QueuedWork[Any]] = set()
        self._is_armed = False
        self._is_working = False
        self._stopped = False

    @property
    def is_idle(self) -> bool:
        """Return True if no work waits for a slice, and no slice is running."""
        return not self._rotation and not self._is_working

    def run(self, steps: ColdSteps[T]) -> T | Deferred[T]:
        """Run the work. Return its result if it ends within AT_ONCE_MS, else a Deferred result.

        Unless `is_idle`, the work is queued at once (see `queue`). A cancelled Deferred ends the
        work. An exception within AT_ONCE_MS is raised.
        """
        if self.is_idle and not self._stopped:
            budget = _Budget(self._monotonic_ms, AT_ONCE_MS, self._steps_per_slice)
            budget.share(AT_ONCE_MS)
            try:
                cold = next(steps)
                while cold is None and not budget.is_share_spent():
                    cold = next(steps)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]  # typeshed has Any instead of T
            if cold is not None:
                waiting = _QueuedWork(steps, Deferred[T]())
                self._wait(waiting, cold)
                return waiting.result
        return self.queue(steps)

    def queue(self, steps: ColdSteps[T]) -> Deferred[T]:
        """Run the work from the next slice on. Return its Deferred result. After `stop`, the work
        is closed instead, and the Deferred stays pending."""
        result: Deferred[T] = Deferred()
        if self._stopped:
            steps.close()
            return result
        self._add(_QueuedWork(steps, result))
        return result

    def _add(self, work: _QueuedWork[Any]) -> None:
        waits = self._waiting if len(self._rotation) >= IN_ROTATION else self._rotation
        waits.append(work)
        self._arm()

    def _wait(self, work: _QueuedWork[Any], cold: ColdBytes) -> None:
        """Continue the work when the bytes are in the page cache. Such work does not count as in
        rotation, so that a slow disk holds back no other work."""
        self._cold.add(work)

        def arrived() -> None:
            if work in self._cold:
                self._cold.remove(work)
                self._add(work)

        try:
            cold.prefetch(arrived)
        except Exception:
            self._cold.discard(work)
            raise

    def stop(self) -> None:
        """Drop all work and close its generators. A response stays pending unless its generator
        abandons it."""
        self._stopped = True
        for work in (*self._rotation, *self._waiting, *self._cold):
            work.steps.close()
        self._rotation.clear()
        self._waiting.clear()
        self._cold.clear()

    def _arm(self) -> None:
        if not self._is_armed and self._rotation:
            self._is_armed = True
            self._timers.call_soon(self._slice)

    def _slice(self) -> None:
        """Run the work in rotation for one turn of the loop."""
        self._is_armed = False
        self._is_working = True
        budget = _Budget(self._monotonic_ms, SLICE_MS, self._steps_per_slice)
        rotation = self._rotation
        try:
            while rotation and not budget.is_spent():
                work = rotation.popleft()
                if self._is_to_continue(work, budget):
                    rotation.append(work)
                elif self._waiting:
                    rotation.append(self._waiting.popleft())
        finally:
            self._is_working = False
            self._arm()

    def _is_to_continue(self, work: _QueuedWork[Any], budget: _Budget) -> bool:
        """Run one share of the work. Return True if it stays in rotation, and False if it has
        ended, or waits for the disk."""
        if work.result.cancelled:
            work.steps.close()
            return False
        budget.share(SHARE_MS)
        steps, is_share_spent = work.steps, budget.is_share_spent
        try:
            while True:
                cold = next(steps)
                if cold is not None:
                    self._wait(work, cold)
                    return False
                if is_share_spent():
                    return True
        except StopIteration as ended:
            value = ended.value
        except Exception as error:
            work.result.abandon(error)
            return False
        work.result.complete(value)
        return False


def portions(elements: Iterable[T]) -> Iterator[list[T]]:
    """Yield the elements that exist at the first step, in lists of at most PORTION. So
    `elements` may change between two steps."""
    found = list(elements)
    for first in range(0, len(found), PORTION):
        yield found[first : first + PORTION]


def when_large(size: int, steps: Steps[T]) -> T | Steps[T]:
    """Return the generator if `size` is large, to be run in slices, else its result."""
    return steps if size > SMALL else at_its_end(steps)


def at_its_end(steps: ColdSteps[T]) -> T:
    """Run the work to its end and return its result. Its reads wait for the disk."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]  # typeshed has Any instead of T


def marked(steps: ColdSteps[T], mark: M) -> Generator[M, None, T]:
    """Make the steps of the work, and yield `mark` after each. Its reads wait for the disk."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]  # typeshed has Any instead of T
        yield mark


def without_waits(steps: ColdSteps[T]) -> Steps[T]:
    """Make the steps of the work. Its reads wait for the disk."""
    return marked(steps, None)


def within(count: int, steps: Steps[T]) -> T | None:
    """Run at most `count` steps of the work. Return its result, or close it and return None."""
    for _ in range(count + 1):
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]  # typeshed has Any instead of T
    steps.close()
    return None


class _QueuedWork(Generic[T]):
    __slots__ = ("result", "steps")

    def __init__(self, steps: ColdSteps[T], result: Deferred[T]) -> None:
        self.steps = steps
        self.result = result


class _Budget:
    """The time and the steps that are left of a slice, and of a share of it."""

    __slots__ = ("_ends_ms", "_left", "_monotonic_ms", "_share_ends_ms")

    def __init__(self, monotonic_ms: Callable[[], int], ms: int, steps: int) -> None:
        self._monotonic_ms = monotonic_ms
        self._ends_ms = self._share_ends_ms = monotonic_ms() + ms
        self._left = steps

    def is_spent(self) -> bool:
        return self._left <= 0 or self._monotonic_ms() >= self._ends_ms

    def share(self, ms: int) -> None:
        self._share_ends_ms = min(self._monotonic_ms() + ms, self._ends_ms)

    def is_share_spent(self) -> bool:
        """Count a step, and return True if the share or the slice is spent. Call it once a step."""
        self._left -= 1
        return self._left <= 0 or self._monotonic_ms() >= self._share_ends_ms
