"""Tasks of requests that wait for the metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from oncelog_server.deferred import Deferred

T = TypeVar("T")


class RequestTasks:
    """Runs coroutines for handlers. `stop` cancels those that still run."""

    def __init__(self) -> None:
        # Tasks are cancelled in the order of their starts. A dict keeps this order, a set does not.
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, T]) -> Deferred[T]:
        """Run `work` as a task. Return the Deferred of its result.

        The Deferred is abandoned if the task fails or is cancelled.
        """
        result: Deferred[T] = Deferred()
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None

        def ended(done: asyncio.Task[T]) -> None:
            del self._tasks[done]
            if done.cancelled():
                result.abandon()
                return
            error = done.exception()
            if error is None:
                result.complete(done.result())
                return
            # asyncio itself also raises KeyboardInterrupt and SystemExit from the event loop.
            result.abandon(error if isinstance(error, Exception) else None)

        task.add_done_callback(ended)
        return result

    def stop(self) -> None:
        """Cancel the tasks that still run."""
        for task in list(self._tasks):
            task.cancel()
