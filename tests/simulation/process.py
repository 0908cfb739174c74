"""The processes of the simulated world, and the process that a callback belongs to.

The current process is a context variable, so all callbacks and tasks that it starts belong to it.
The loop drops the callbacks of a dead process and keeps those of a paused process.
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
    """Ends a process in the middle of its work. No code of the process may catch this exception."""


class Process:
    """A process. `index`: its number in the order of starts. The index identifies the process,
    because `id()` would differ between two runs with the same seed."""

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.state = RUNNING
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)
        # Callbacks that fell due during a pause, in order.
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        # Callbacks for the death of the process: its connections, its open files.
        self.on_death: list[Callable[[], None]] = []

    @property
    def is_dead(self) -> bool:
        return self.state == DEAD

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        loop = asyncio.get_running_loop()
        return loop.create_task(work, context=self.context.copy())

    async def run(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Run `work` in this process. Return True if the work ended before the process died. Raises
        the exceptions of `work`."""
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
        # The context is not the process's, so that the callback also runs for a dead process.
        self.start(work).add_done_callback(done, context=Context())
        try:
            return await ended
        finally:
            if died in self.on_death:
                self.on_death.remove(died)

    def die(self) -> None:
        """Kill the process. Its callbacks no longer run, and its resources are released."""
        if self.state == DEAD:
            return
        self.state = DEAD
        self.held.clear()
        for task in self.tasks:
            # The task of a killed process never ends.
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # not in typeshed
        releases, self.on_death = self.on_death, []
        for release in releases:
            release()

    def bury(self) -> None:
        """Close the process's coroutines now, as garbage collection would, and ignore their
        exceptions."""
        self.die()
        for task in self.tasks:
            work = task.get_coro()
            for _ in range(_LAST_WORDS):
                try:
                    work.close()
                except BaseException:
                    continue  # the coroutine awaits during its close
                break
        self.tasks.clear()


CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
