"""The event loop of the synchronous clients, in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class _Client(Protocol):
    async def start(self, *, timeout_ms: float | None = None, fail_fast: bool = False) -> None: ...

    async def close(self) -> None: ...


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="oncelog", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Return the result of `work`, or raise its error. An exception in the waiting thread, such
        as KeyboardInterrupt, cancels `work`."""
        waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise


_threads: dict[int, LoopThread] = {}
_lock = threading.Lock()


def loop_thread() -> LoopThread:
    """Return the loop of this process, made at first use. A fork has none of the threads of its
    parent, so it gets its own."""
    pid = os.getpid()
    with _lock:
        found = _threads.get(pid)
        if found is None:
            _threads.clear()
            found = _threads[pid] = LoopThread()
        return found


class Facade:
    """The base of the synchronous clients. `client` is the async client, which lives on the loop of
    this process."""

    def __init__(self, client: _Client) -> None:
        self.client: Any = client
        self._thread = loop_thread()

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        return self._thread.run(work)

    def start(self, *, timeout_ms: float | None = None, fail_fast: bool = False) -> None:
        """Connect. Raises the errors of the async client's `start`."""
        self._run(self.client.start(timeout_ms=timeout_ms, fail_fast=fail_fast))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self.client.close())


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Return the synchronous method for a method of the async client."""

    @wraps(method)
    def call(self: Facade, /, *arguments: P.args, **named: P.kwargs) -> R:
        return self._run(method(self.client, *arguments, **named))

    return call


def on_loop(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return the synchronous method for a method of the async client that does not wait. The method
    runs on the loop, because the client's state belongs to it."""

    @wraps(method)
    def call(self: Facade, /, *arguments: P.args, **named: P.kwargs) -> R:
        async def work() -> R:
            return method(self.client, *arguments, **named)

        return self._run(work())

    return call
