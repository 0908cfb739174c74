"""A thread with an event loop and clients in it, for tests without an event loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from oncelog import Admin

T = TypeVar("T")

CALL_TIMEOUT_S = 60.0


class ClientThread:
    """Runs coroutines in a thread, and keeps an Admin client there. A call blocks the caller until
    its coroutine ends."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="oncelog.testing", daemon=True
        )
        self._admin: Admin | None = None
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Return the result of the coroutine. Raises its exception, and TimeoutError."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(timeout_s)
        except BaseException:
            running.cancel()
            raise

    async def admin(self) -> Admin:
        """Return the client, which is started at the first call. Only for coroutines of `run`."""
        if self._admin is None:
            admin = Admin(bootstrap_servers=self.bootstrap_servers)
            await admin.start()
            self._admin = admin
        return self._admin

    def close(self) -> None:
        """Close the client, and end the thread."""
        admin, self._admin = self._admin, None
        try:
            if admin is not None:
                self.run(admin.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
