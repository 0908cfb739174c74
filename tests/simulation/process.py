"""The process that a callback belongs to: the processes of the simulated world.

A process is a context variable, so that everything that a process starts is its own without
any code for it. The loop drops the callbacks of a dead process and keeps those of a paused one.
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
# How often a coroutine may await something more in its `finally`.
_LAST_WORDS: Final = 20


class Killed(BaseException):
    """The process ends in the middle of what it does: nothing of it may catch this."""


class Process:
    """`index` is its place in the order of starts: never an address, so that seeds repeat."""

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.state = RUNNING
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)
        # Callbacks that fell due while it was paused, in their order.
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        # Called when it dies: its connections, its open files.
        self.on_death: list[Callable[[], None]] = []

    @property
    def is_dead(self) -> bool:
        return self.state == DEAD

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        loop = asyncio.get_running_loop()
        return loop.create_task(work, context=self.context.copy())

    async def run(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Run `work` in this process from outside: whether it came to its end before the process
        died. Raises what it raises."""
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
        # In no process's context, so that it is heard of even when the process is dead.
        self.start(work).add_done_callback(done, context=Context())
        try:
            return await ended
        finally:
            if died in self.on_death:
                self.on_death.remove(died)

    def die(self) -> None:
        """Nothing of it runs any more; what it held of the world is let go."""
        if self.state == DEAD:
            return
        self.state = DEAD
        self.held.clear()
        for task in self.tasks:
            # It will never end, and that is how it should be.
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # not in typeshed
        releases, self.on_death = self.on_death, []
        for release in releases:
            release()

    def bury(self) -> None:
        """Do now what its coroutines would do when they are collected, without a listener."""
        self.die()
        for task in self.tasks:
            work = task.get_coro()
            for _ in range(_LAST_WORDS):
                try:
                    work.close()
                except BaseException:
                    continue  # it awaits something while it is closed
                break
        self.tasks.clear()


CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
