"""An event loop in a thread, which gives asynchronous clients the blocking interface."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

from tests.conformance.clients.interface import ANSWER_TIMEOUT_S, Refused

T = TypeVar("T")


class ThreadedLoop:
    """One event loop for all objects of a client. Errors become Refused."""

    def __init__(self, name: str, error_type: type[Exception], fenced: Collection[str]) -> None:
        self._name = name
        self._error_type = error_type
        self._fenced = fenced
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(
        self, work: Coroutine[Any, Any, T], timeout_s: float = ANSWER_TIMEOUT_S
    ) -> concurrent.futures.Future[T]:
        """Start `work` on the loop. After `timeout_s` the result of `work` is a TimeoutError."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            thread = threading.Thread(target=self._loop.run_forever, daemon=True, name=self._name)
            thread.start()
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, timeout_s), self._loop)

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = ANSWER_TIMEOUT_S) -> T:
        """Return the result of `work` on the loop. Raises Refused for an error or the timeout."""
        return self.result(self.start(work, timeout_s))

    def result(self, future: concurrent.futures.Future[T]) -> T:
        """Return the result of started work. Raises Refused."""
        try:
            return future.result()
        except self._error_type as error:
            kind = type(error).__name__
            raise Refused(kind, str(error), fenced=kind in self._fenced) from error
        except TimeoutError as error:
            raise Refused("TimeoutError", "no response in time") from error
