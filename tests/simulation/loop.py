"""A seeded event loop with simulated time. The same seed gives the same order of all callbacks.

Time stands still during a callback, and jumps to the next timer when no callback is ready. If no
timer is scheduled either, the loop raises Deadlock. The loop uses asyncio's
`_ready`, `_scheduled` and `Handle`, which are the same in Python 3.11 to 3.13.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from enum import Enum
from random import Random
from typing import Any, Final, Protocol

from tests.simulation.pipe import Pipe
from tests.simulation.process import CURRENT, DEAD, RUNNING, Killed, Process

_MASK: Final = (1 << 48) - 1


class Deadlock(Exception):
    """A task waits, nothing is ready, and no timer runs."""


class TooLong(Exception):
    """The limit of steps or simulated time is exceeded: a livelock, or a simulation that
    is too large."""


class Scheduling(Enum):
    """The order of ready callbacks.

    FIFO is asyncio's own order, as in production. PROCESSES draws a process and keeps the order
    within the process. RANDOM draws any callback. PRIORITIES prefers the process of the highest
    priority, and priorities change at a few drawn steps (probabilistic concurrency testing). STARVE
    draws processes that run only when no callback of the others is ready.
    """

    FIFO = "fifo"
    PROCESSES = "processes"
    RANDOM = "random"
    PRIORITIES = "priorities"
    STARVE = "starve"


class Network(Protocol):
    """Makes the connections that product code requests from the loop."""

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> Any: ...

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class SimLoop(asyncio.BaseEventLoop):
    """The event loop. `step_us`: the duration of a callback. `now_us`: the simulated time since the
    start."""

    _ready: Any
    _scheduled: Any
    _stopping: bool

    def __init__(
        self,
        seed: int,
        scheduling: Scheduling = Scheduling.FIFO,
        *,
        step_us: int = 0,
        max_steps: int = 5_000_000,
    ) -> None:
        super().__init__()
        self.now_us = 0
        self.steps = 0
        self.trace = 0
        self.network: Network | None = None
        self.failures: list[dict[str, Any]] = []
        self._scheduling = scheduling
        self._rng = Random(seed)
        self._step_us = step_us
        self._max_steps = max_steps
        # For PRIORITIES and STARVE: by process index, drawn at the first callback of the process.
        self._priorities: dict[int, float] = {}
        self._change_at = sorted(self._rng.randrange(20_000) for _ in range(3))
        self.set_exception_handler(self._note_failure)
        self.set_task_factory(_make_task)  # type: ignore[arg-type]  # typeshed lacks `context`

    def time(self) -> float:
        return self.now_us / 1e6

    def mix(self, value: int) -> None:
        """Add an event to `trace`, the hash of all events of the run."""
        self.trace = (self.trace * 1_000_003 ^ value) & _MASK

    # Methods for asyncio.

    def _process_events(self, event_list: object) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _run_once(self) -> None:
        # Run many steps in one call, because `run_forever` checks `_stopping` after each call.
        ready = self._ready
        scheduled = self._scheduled
        pick = None if self._scheduling is Scheduling.FIFO else self._pick
        while not self._stopping:
            if scheduled:
                now = self.now_us / 1e6
                if not ready:
                    now = self._jump(now)
                while scheduled and scheduled[0]._when <= now:
                    timer = heapq.heappop(scheduled)
                    timer._scheduled = False
                    if not timer._cancelled:
                        ready.append(timer)
            if not ready:
                if scheduled:
                    continue
                raise Deadlock("nothing is ready and nothing is scheduled")
            if pick is not None and len(ready) > 1:
                index = pick(ready)
                ready.rotate(-index)
                handle = ready.popleft()
                ready.rotate(index)
            else:
                index = 0
                handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(CURRENT)
            if process is not None and process.state != RUNNING:
                if process.state != DEAD:
                    process.held.append(handle)
                continue
            self._step(handle, process, len(ready), index)

    def _step(
        self, handle: asyncio.Handle, process: Process | None, waiting: int, index: int
    ) -> None:
        self.steps += 1
        if self.steps > self._max_steps:
            raise TooLong(f"{self.steps} steps in {self.now_us / 1e6:.1f} simulated seconds")
        owner = -1 if process is None else process.index
        self.trace = (
            self.trace * 1_000_003 ^ self.now_us ^ waiting << 8 ^ index << 20 ^ owner << 32
        ) & _MASK
        handle._run()
        self.now_us += self._step_us

    def _jump(self, now: float) -> float:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if scheduled and scheduled[0]._when > now:
            due_us = int(scheduled[0]._when * 1e6)
            while due_us / 1e6 < scheduled[0]._when:
                due_us += 1
            self.now_us = due_us
            return due_us / 1e6
        return now

    def _pick(self, ready: Any) -> int:
        scheduling = self._scheduling
        if scheduling is Scheduling.RANDOM:
            return self._rng.randrange(len(ready))
        if scheduling is Scheduling.PROCESSES:
            drawn = self._rng.randrange(len(ready))
            owner = ready[drawn]._context.get(CURRENT)
            for index, handle in enumerate(ready):
                if handle._context.get(CURRENT) is owner:
                    return index
            return drawn
        if self._change_at and self.steps >= self._change_at[0]:
            self._change_at.pop(0)
            if self._priorities:
                self._priorities[self._rng.choice(sorted(self._priorities))] = -self._rng.random()
        best, best_index = -2.0, 0
        for index, handle in enumerate(ready):
            priority = self._priority(handle._context.get(CURRENT))
            if priority > best:
                best, best_index = priority, index
        return best_index

    def _priority(self, process: Process | None) -> float:
        if process is None:
            return 2.0
        found = self._priorities.get(process.index)
        if found is None:
            found = self._rng.random()
            if self._scheduling is Scheduling.STARVE:
                found = 0.0 if found < 0.3 else 1.0
            self._priorities[process.index] = found
        return found

    # Methods for product code.

    async def create_server(  # type: ignore[override]  # the arguments of our code
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        **options: object,
    ) -> Any:
        assert self.network is not None
        return await self.network.create_server(protocol_factory, host or "", port)

    async def create_connection(  # type: ignore[override]  # the arguments of our code
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        **options: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        assert self.network is not None
        return await self.network.create_connection(protocol_factory, host or "", port)

    def run_in_executor(self, executor: object, func: object, *args: object) -> Any:
        raise AssertionError(f"a simulation has no threads, but this call needs one: {func}")

    async def getaddrinfo(self, *names: object, **options: object) -> Any:
        raise OSError("a simulation has no host names")

    # Processes.

    def resume(self, process: Process) -> None:
        """Resume a process. All its callbacks that fell due during the pause are ready now."""
        process.state = RUNNING
        self._ready.extend(process.held)
        process.held.clear()

    def timers_of(self, process: Process) -> list[asyncio.TimerHandle]:
        """Return the timers of a process that have neither fired nor been cancelled. A clean stop
        must leave none. The timers of bytes in flight belong to the network and do not count."""
        return [
            timer
            for timer in self._scheduled
            if not timer._cancelled
            and timer._context.get(CURRENT) is process
            and not isinstance(getattr(timer._callback, "__self__", None), Pipe)
        ]

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), Killed):
            return
        process = CURRENT.get()
        if process is not None and process.is_dead:
            return
        self.failures.append(context)


def _make_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **options)
    context = options.get("context")
    process = CURRENT.get() if context is None else context.get(CURRENT)
    if process is not None:
        process.tasks.append(task)
    return task
