"""The event loop of the synchronous clients, in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar

from oncelog_client.errors import IllegalStateError

# How long an interrupted call waits for the end of its work.
_END_S: Final = 5.0

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class _Client(Protocol):
    async def start(self, *, timeout_ms: float | None = None, fail_fast: bool = False) -> None: ...

    async def close(self) -> None: ...


class LoopThread:
    """An event loop in a daemon thread of this process."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="oncelog", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, R], lost: Callable[[R], None] | None = None) -> R:
        """Return the result of `work`, or raise its error.

        After an exception in the waiting thread, such as KeyboardInterrupt, cancel `work` and wait
        for its end. If `work` has nevertheless ended with a result, `lost` gets the result, on the
        loop.

        Raises IllegalStateError on the loop itself, and in a fork of the process.
        """
        try:
            self._check()
        except IllegalStateError:
            work.close()
            raise
        done: Future[R] = Future()
        started: list[asyncio.Task[R]] = []

        def start() -> None:
            task = self._loop.create_task(work)
            started.append(task)
            task.add_done_callback(partial(_deliver, done))

        def cancel() -> None:
            for task in started:
                task.cancel()

        try:
            self._loop.call_soon_threadsafe(start)
            return done.result()
        except BaseException:
            # The cancel comes a turn later than the start. A task that is cancelled before its
            # first step would do nothing, and a close must disconnect.
            self._interrupt(done, lambda: self._loop.call_soon(cancel))
            has_result = done.done() and not done.cancelled() and done.exception() is None
            if lost is not None and has_result:
                self._loop.call_soon_threadsafe(lost, done.result())
            raise

    def _interrupt(self, done: Future[Any], cancel: Callable[[], object]) -> None:
        if not done.done():
            self._loop.call_soon_threadsafe(cancel)
            wait([done], _END_S)

    def _check(self) -> None:
        if threading.current_thread() is self._thread:
            raise IllegalStateError(
                "a synchronous client cannot wait in a callback, because the callback runs on its "
                "event loop: use the async client, which is its attribute `client`"
            )
        if os.getpid() != self._pid:
            raise IllegalStateError(
                "this client belongs to the process before the fork: make a new client"
            )


def _deliver(done: Future[R], task: asyncio.Task[R]) -> None:
    if task.cancelled():
        done.cancel()
        done.set_running_or_notify_cancel()
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


_thread: LoopThread | None = None
_lock = threading.Lock()


def _after_fork() -> None:
    """Forget the loop of the parent, because a fork has none of the parent's threads. Replace the
    lock, which another thread of the parent may have held."""
    global _thread, _lock
    _thread = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def loop_thread() -> LoopThread:
    """Return the loop of this process, made at first use."""
    global _thread
    with _lock:
        if _thread is None:
            _thread = LoopThread()
        return _thread


class Facade:
    """The base of the synchronous clients. `client` is the async client, which lives on the loop of
    this process."""

    def __init__(self, client: _Client) -> None:
        self.client: Any = client
        self._thread = loop_thread()

    def _run(self, work: Coroutine[Any, Any, R], lost: Callable[[R], None] | None = None) -> R:
        return self._thread.run(work, lost)

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
