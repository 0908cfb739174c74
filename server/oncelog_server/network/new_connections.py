"""Admits the new connections of listeners at the rates of max.connection.creation.rate (KIP-612).

Kafka's acceptor of a listener accepts no connection while it waits, so new clients wait in the
queue of the system. Neither uvloop nor asyncio can pause an acceptor, so a connection is accepted
here, but not read before its turn. A client sees no difference.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from oncelog_server.network.mutes import Mutes
from oncelog_server.quotas.connection_rates import ConnectionRates
from oncelog_server.quotas.windows import Windows
from oncelog_server.settings.broker import UNLIMITED
from oncelog_server.settings.listeners import listeners_of
from oncelog_server.settings.model import Settings
from oncelog_server.settings.protected_listener import protected_listener


class Waiting(Protocol):
    """A connection that can wait for its admission."""

    @property
    def is_open(self) -> bool: ...

    def wait(self) -> None:
        """Read nothing before `admitted`."""
        ...

    def admitted(self) -> None:
        """Begin to read. The times of authentication and of inactivity begin now."""
        ...

    def refused(self) -> None:
        """Close at once."""
        ...


C = TypeVar("C", bound=Waiting)


class NewConnections(Generic[C]):
    """The connections of all listeners that wait. At most `most_waiting` wait for one listener.

    `admit(connection)` is called when the connection's turn has come. It returns False if the
    connection exceeds another limit and must be closed.
    """

    def __init__(
        self,
        rates: ConnectionRates | None,
        admit: Callable[[C], bool],
        mutes: Mutes,
        monotonic_ms: Callable[[], int],
        most_waiting: int,
    ) -> None:
        # None means no limit.
        self.rates = rates
        self._admit = admit
        self._mutes = mutes
        self._monotonic_ms = monotonic_ms
        self._most_waiting = most_waiting
        # The waiting connections, by listener. The rate has counted the first connection of a
        # queue, which waits for the end of its throttle time.
        self._queues: defaultdict[str, deque[C]] = defaultdict(deque)

    def opened(self, connection: C, listener: str) -> bool:
        """Admit a connection now or later. Return False if it must be closed."""
        queue = self._queues[listener]
        if not queue:
            throttle_ms = self._throttle_ms(listener)
            if not throttle_ms:
                return self._admit(connection)
            self._admit_after(throttle_ms, listener)
        elif len(queue) > self._most_waiting:
            return False
        connection.wait()
        queue.append(connection)
        return True

    def _throttle_ms(self, listener: str) -> int:
        rates = self.rates
        return 0 if rates is None else rates.record(listener, self._monotonic_ms())

    def _admit_after(self, throttle_ms: int, listener: str) -> None:
        until_ms = self._monotonic_ms() + throttle_ms
        self._mutes.add(until_ms, lambda: self._next(listener))

    def _next(self, listener: str) -> None:
        """Admit the first connection, and all after it that need not wait."""
        queue = self._queues[listener]
        while True:
            self._end_wait(queue.popleft())
            if not queue:
                return
            throttle_ms = self._throttle_ms(listener)
            if throttle_ms:
                self._admit_after(throttle_ms, listener)
                return

    def _end_wait(self, connection: C) -> None:
        # A client that has disconnected counts for the rate, as in Kafka, because its connection
        # was accepted.
        if not connection.is_open:
            return
        if self._admit(connection):
            connection.admitted()
        else:
            connection.refused()


def connection_rates(settings: Settings) -> ConnectionRates | None:
    """Return the rates with their limits, None if there is no limit. A listener without its own
    limit has that of the broker, as in Kafka."""
    names = [listener.name for listener in listeners_of(settings)]
    limits = {name: settings.of_listener(name).max_connection_creation_rate for name in names}
    of_listeners = {name: limit for name, limit in limits.items() if limit < UNLIMITED}
    of_broker = settings.max_connection_creation_rate
    if of_broker == UNLIMITED and not of_listeners:
        return None
    return ConnectionRates(
        None if of_broker == UNLIMITED else of_broker,
        of_listeners,
        Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000),
        protected=protected_listener(settings),
    )
