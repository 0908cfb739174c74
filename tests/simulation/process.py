"""The processes of the simulated world, and the process of a callback.

A process is a context variable, so everything that it starts belongs to it without further code.
The loop drops the callbacks of a dead process and keeps those of a paused one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar

T = TypeVar("T")

RUNNING: Final = 0
PAUSED: Final = 1
DEAD: Final = 2
# Maximum number of awaits in a coroutine's `finally`.
_LAST_WORDS: Final = 20


class Killed(BaseException):
    """Ends a process in the middle of its work. No code of the process may catch this."""


class Process:
    """A process. `index` is its number in the order of starts, never an address, so that seeds
    repeat."""

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.state = RUNNING
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)
        # Callbacks that fell due during a pause, in order.
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        # Callbacks for its death: its connections, its open files.
        self.on_death: list[Callable[[], None]] = []

    @property
    def is_dead(self) -> bool:
        return self.state == DEAD

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        loop = asyncio.get_running_loop()
        return loop.create_task(work, context=self.context.copy())

    async def run(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Run `work` in this process. Return True if it ended before the process died. Raises the
        exceptions of `work`."""
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def died() -> None:
            if not ended.done():
                ended.set_result(False)

        def done(task: asyncio.Task[Any]) -> None:
            error = None if task.cancelled() else task.exception()
            if ended.done():
                return
            if error is not None and not isinstance(error, Killed):
                ended.set_exception(error)
            else:
                ended.set_result(error is None)

        self.on_death.append(died)
        # Outside the process's context, so that the callback also runs if the process is dead.
        self.start(work).add_done_callback(done, context=Context())
        try:
            return await ended
        finally:
            if died in self.on_death:
                self.on_death.remove(died)

    def die(self) -> None:
        """Kill the process: nothing of it runs any more, and its resources are released."""
        if self.state == DEAD:
            return
        self.state = DEAD
        self.held.clear()
        for task in self.tasks:
            # It never ends, as intended.
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # not in typeshed
        releases, self.on_death = self.on_death, []
        for release in releases:
            release()

    def bury(self) -> None:
        """Close its coroutines now, as garbage collection would, with exceptions ignored."""
        self.die()
        for task in self.tasks:
            work = task.get_coro()
            for _ in range(_LAST_WORDS):
                try:
                    work.close()
                except BaseException:
                    continue  # it awaits something during its close
                break
        self.tasks.clear()


CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
