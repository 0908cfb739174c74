"""The proxy that loses responses, with its event loop in a thread, for synchronous tests."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from oncelog_protocol.apis import ApiKey
from tests.harness.losing_proxy import Proxy


class Proxied:
    """A context manager for a proxy that listens on `port` for the broker at `broker_port`."""

    def __init__(self, port: int, broker_port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._proxy = Proxy(port, ("127.0.0.1", broker_port))

    def lose(self, api: ApiKey) -> None:
        """Lose the next response of this API."""
        self._proxy.to_lose[api] = 1

    @property
    def lost(self) -> int:
        return self._proxy.lost

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._proxy.__aenter__(), self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ending = self._proxy.__aexit__(kind, error, traceback)
        asyncio.run_coroutine_threadsafe(ending, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
