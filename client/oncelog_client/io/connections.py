"""The open connections of a client: at most one for each address and lane. After a failed connect,
the next connect to the address waits for a backoff."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final

from oncelog_client.connect_failures import Address, ConnectCause, ConnectFailure
from oncelog_client.core.backoff import Backoff
from oncelog_client.core.client_config import ClientConfig
from oncelog_client.errors import AuthenticationError, ClosedError, ConnectError, KafkaError

from .client_security import ClientSecurity, client_security
from .clock import monotonic_ms
from .connection import Connection
from .peer_probe import negotiate_or_tell
from .randomness import fraction

# The logger has the cluster's name, because applications filter by it.
log = logging.getLogger("oncelog_client.io.cluster")

# Requests that may wait at the broker have their own connection, because a broker responds in the
# order of requests.
FETCH_LANE: Final = "fetch"
COORDINATOR_LANE: Final = "coordinator"
JOIN_LANE: Final = "join"
# After this time the end of a connection does not wait for its last bytes any more. It is longer
# than the time that TLS has for its own end.
_LAST_BYTES_S: Final = 2.0


class Connections:
    """Opens connections on demand, at most one for each (address, lane).

    `spawn` starts background work that `close` does not end. `on_failed` is called after a failed
    connect that `ready` started.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        spawn: Callable[[Awaitable[None]], object],
        on_failed: Callable[[], None],
    ) -> None:
        # If True, one more connect finds out at once which protocol a silent or foreign peer
        # speaks.
        self.fail_fast = False
        # The finalized features of the last connected broker, with their levels.
        self.features: dict[str, int] = {}
        self._config = config
        self._spawn = spawn
        self._on_failed = on_failed
        self._open_ones: dict[tuple[Address, str], Connection] = {}
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}
        # The callbacks of `ready` that wait for a connection. Each is called once.
        self._notified: set[tuple[tuple[Address, str], Callable[[], None]]] = set()
        self._backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        # By address: the number of failures in a row, and the time of the next attempt.
        self._delays: dict[Address, tuple[int, float]] = {}
        # For each address the failure of the last connect, if it failed.
        self._unreachable: dict[Address, ConnectFailure] = {}
        # For each address the error of the last connect, if one side refused the other's identity.
        self._refused: dict[Address, AuthenticationError] = {}
        # Made at the first connect.
        self._security: ClientSecurity | None = None
        self._closed = False
        self._closing: list[Connection] = []

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._open_ones.values())

    async def get(self, address: Address, lane: str = "") -> Connection:
        """Return an open connection. If there is none, open a connection after the backoff.

        Raises ConnectError; AuthenticationError, which a retry does not resolve; ConfigError for a
        file of keys or certificates that cannot be used; and ClosedError after `close`.
        """
        key = (address, lane)
        found = self._usable(key)
        if found is not None:
            return found
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self._usable(key)
            if found is not None:
                return found
            self._check_open()
            failures, not_before_ms = self._delays.get(address, (0, 0.0))
            # `sleep` returns at once if the time has come.
            await asyncio.sleep((not_before_ms - monotonic_ms()) / 1000)
            self._check_open()
            try:
                opened = await self._connect(address)
            except (ConnectError, AuthenticationError):
                delay_ms = self._backoff.delay_ms(failures + 1, fraction())
                self._delays[address] = (failures + 1, monotonic_ms() + delay_ms)
                raise
            self._delays.pop(address, None)
            self._unreachable.pop(address, None)
            self._refused.pop(address, None)
            if self._closed:
                opened.close()
                self._check_open()
            self._open_ones[key] = opened
            self.features = opened.features
            return opened

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the client is closed: make a new one")

    def ready(self, address: Address, lane: str, callback: Callable[[], None]) -> Connection | None:
        """Return an open connection. Otherwise return None, open it in the background, and call
        `callback` once after the success or failure."""
        if self._closed:
            return None
        key = (address, lane)
        found = self._usable(key)
        if found is not None:
            return found
        # This task is needed even if another call is opening the connection. The other call does
        # not call `callback`.
        if (key, callback) not in self._notified:
            self._notified.add((key, callback))
            self._spawn(self._open_quietly(key, callback))
        return None

    def is_open(self, address: Address, lane: str) -> bool:
        """Return True if `ready` would return a connection. Open no connection."""
        return self._usable((address, lane)) is not None

    @property
    def failures(self) -> tuple[ConnectFailure, ...]:
        """Return, for each address, the failure of the last connect. An address without a failure
        is left out."""
        return tuple(self._unreachable.values())

    @property
    def outage(self) -> tuple[ConnectFailure, ...]:
        """Return `failures` if no connection to a broker is open. Otherwise return an empty
        tuple."""
        return self.failures if all(connection.closed for connection in self) else ()

    def refusal(self, address: Address) -> AuthenticationError | None:
        """Return the error of the last connect to an address if one side refused the identity of
        the other. A copy for each caller, because an exception keeps its last traceback."""
        found = self._refused.get(address)
        return found and AuthenticationError(found.message, found.code, found.failures)

    def addresses(self) -> list[Address]:
        """Return the addresses with an open connection in the default lane."""
        return [
            address
            for (address, lane), connection in self._open_ones.items()
            if not lane and not connection.closed
        ]

    def refuse(self) -> None:
        """Refuse to open further connections."""
        self._closed = True

    def close(self) -> None:
        """Close every connection. The transports end in later turns of the loop."""
        self._closed = True
        for connection in self:
            if not connection.closed:
                connection.close()
                self._closing.append(connection)
        self._open_ones.clear()

    def abort(self) -> None:
        """Close every connection, without the bytes that have not left. The transports end in the
        next turns of the loop."""
        self.close()
        for connection in self._closing:
            connection.abort()

    async def wait_closed(self) -> None:
        """Wait until the transports of the closed connections have ended. A transport first sends
        its last bytes, and close_notify with TLS. After `_LAST_BYTES_S` abort the transports that
        are left."""
        if self._security is not None and self._security.login is not None:
            await self._security.login.close()
        await asyncio.sleep(0)
        if not self._left():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_BYTES_S):
                await self._wait_for_transports()
        if self._left():
            self.abort()
            await self._wait_for_transports()

    def _left(self) -> list[Connection]:
        return [connection for connection in self._closing if not connection.has_ended]

    async def _wait_for_transports(self) -> None:
        await asyncio.gather(*(connection.wait_closed() for connection in self._left()))

    async def _connect(self, address: Address) -> Connection:
        """Connect, and log a failure. Raises ConnectError, AuthenticationError or ConfigError."""
        if self._security is None:
            self._security = client_security(self._config)
        waits_for = ConnectCause.TIMED_OUT
        try:
            connection = await Connection.connect(address, self._config, self._security)
            waits_for = ConnectCause.SILENT
            if self.fail_fast and self._security.tls is None:
                await negotiate_or_tell(connection)
            else:
                await connection.negotiate()
        except (ConnectError, AuthenticationError) as error:
            for failure in error.failures:
                self._unreachable[address] = failure
                log.warning("cannot reach a broker: %s", failure)
            if isinstance(error, AuthenticationError):
                self._refused[address] = error
            else:
                self._refused.pop(address, None)
            raise
        except asyncio.CancelledError:
            # The caller's deadline has expired in this step.
            self._unreachable[address] = ConnectFailure(address, waits_for)
            raise
        return connection

    async def _open_quietly(self, key: tuple[Address, str], callback: Callable[[], None]) -> None:
        try:
            await self.get(*key)
        except KafkaError:
            self._on_failed()
        finally:
            self._notified.discard((key, callback))
        callback()

    def _usable(self, key: tuple[Address, str]) -> Connection | None:
        connection = self._open_ones.get(key)
        if connection is None or connection.closed:
            return None
        idle_ms = monotonic_ms() - connection.last_used_ms
        if idle_ms > self._config.connections_max_idle_ms >= 0 and not connection.busy:
            # The broker may close this idle connection while the next request is sent.
            connection.close()
            return None
        return connection
