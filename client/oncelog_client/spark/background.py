"""Runs async clients behind Spark's synchronous calls: one event loop for each process, in its own
thread, with clients that stay connected from one micro-batch to the next."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Protocol, TypeVar

from .host_files import naming_host

T = TypeVar("T")


class Startable(Protocol):
    """A client: Admin, Producer, Consumer."""

    def start(self) -> Awaitable[None]: ...


C = TypeVar("C", bound=Startable)


class Background:
    """An event loop in a daemon thread, and the clients that live on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clients: dict[Hashable, Any] = {}
        self._starting: dict[Hashable, asyncio.Lock] = {}
        threading.Thread(target=self._loop.run_forever, name="oncelog", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Return the result of `work`. After `timeout_s` seconds, cancel `work` and raise
        TimeoutError."""
        waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result(timeout_s)
        except FutureTimeoutError:
            if waiting.done():
                raise
            waiting.cancel()
            raise TimeoutError(f"no result after {timeout_s:g} s") from None

    async def client(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return the client of `key`, made and started at first use. Call this method on the loop.

        Raises what `start` raises; the next call starts a new client.
        """
        async with self._starting.setdefault(key, asyncio.Lock()):
            found: C | None = self._clients.get(key)
            if found is None:
                found = make()
                with naming_host():
                    await found.start()
                self._clients[key] = found
            return found


_backgrounds: dict[int, Background] = {}
_lock = threading.Lock()


def background() -> Background:
    """Return the background of this process, made at first use. A Python worker of Spark is a fork,
    and a fork cannot use the threads and sockets of the process that made it."""
    pid = os.getpid()
    with _lock:
        found = _backgrounds.get(pid)
        if found is None:
            _backgrounds.clear()
            found = _backgrounds[pid] = Background()
        return found
