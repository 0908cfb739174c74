"""A thread with an event loop and clients in it, for tests without an event loop of their own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog import Admin, Producer

if TYPE_CHECKING:
    from oncelog.testing.broker import Broker

T = TypeVar("T")

CALL_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 5.0


class ClientThread:
    """Runs coroutines in a thread, and keeps an Admin client there. A call blocks the caller until
    its coroutine ends. `broker` is the process behind the address, if the plugin has started it."""

    def __init__(self, bootstrap_servers: str, broker: Broker | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._broker = broker
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="oncelog.testing", daemon=True
        )
        self._admin: Admin | None = None
        self._producers: list[Producer] = []
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Return the result of the coroutine. Raises its exception, and TimeoutError with the last
        refusal of the broker. Raises BrokerFailed at once if the broker does not run."""
        if self._broker is not None and not self._broker.is_running:
            from oncelog.testing.broker import BrokerFailed

            work.close()
            raise BrokerFailed(f"the broker {self.bootstrap_servers} does not run: restart() it")
        started_s = time.monotonic()
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(timeout_s)
        except TimeoutError as error:
            reason = str(error) or self._reason()
            running.cancel()
            waited_s = time.monotonic() - started_s
            raise TimeoutError(f"no result after {waited_s:.1f} s: {reason}") from error
        except BaseException:
            running.cancel()
            raise

    def _reason(self) -> str:
        """Return the last cause of a call without a result."""
        if self._broker is not None and not self._broker.is_running:
            return f"the broker {self.bootstrap_servers} was killed"
        found = [str(cause) for producer in self._producers for cause in producer.refusals]
        found += [str(cause) for producer in self._producers for cause in producer.outage]
        found += [] if self._admin is None else map(str, self._admin.outage)
        causes = "; ".join(dict.fromkeys(found))
        return causes or f"the broker {self.bootstrap_servers} has sent no response"

    @asynccontextmanager
    async def producer(self, transactional_id: str | None = None) -> AsyncIterator[Producer]:
        """Return a producer, with the causes of a timeout. Only for coroutines of `run`."""
        producer = Producer(
            bootstrap_servers=self.bootstrap_servers, transactional_id=transactional_id
        )
        self._producers.append(producer)
        try:
            await producer.start()
            yield producer
        except BaseException:
            await producer.close(timeout_ms=0)  # the records cannot be written
            raise
        else:
            await producer.close()
        finally:
            self._producers.remove(producer)

    async def admin(self) -> Admin:
        """Return the client, which is started at the first call. Only for coroutines of `run`."""
        if self._admin is None:
            admin = Admin(bootstrap_servers=self.bootstrap_servers)
            await admin.start()
            self._admin = admin
        return self._admin

    def close(self) -> None:
        """Close the client, wait until cancelled calls have closed theirs, and end the thread."""
        try:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CALL_TIMEOUT_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        if calls:
            await asyncio.wait(calls, timeout=CLOSE_TIMEOUT_S)
