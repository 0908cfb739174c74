"""Accept connections on the configured addresses, within the limits of number, memory and idle
time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import structlog

from oncelog_server.clock import Clock
from oncelog_server.network.admission import Admission
from oncelog_server.network.binding import BindAddress, bind, listen
from oncelog_server.network.connection import Connection
from oncelog_server.network.excess import Excess
from oncelog_server.network.mutes import Mutes
from oncelog_server.network.spin import Spin
from oncelog_server.network.sweep import Sweep
from oncelog_server.network.turn import Turn
from oncelog_server.network.writables import Writables
from oncelog_server.quotas.connection_rates import ConnectionRates
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.requests.frame_reader import SharedBuffer
from oncelog_server.requests.response import EncodedResponse
from oncelog_server.requests.session import Session
from oncelog_server.security.audit import BoundedEvents, kind_of
from oncelog_server.settings.broker import UNLIMITED
from oncelog_server.settings.listeners import connection_limits
from oncelog_server.settings.protected_listener import protected_listener

if TYPE_CHECKING:
    from oncelog_server.config import Settings
    from oncelog_server.network.new_connections import NewConnections

log = structlog.get_logger("oncelog.network")

# A client chooses the name and version of its software, so the metrics show only this number.
MOST_SOFTWARE: Final = 100
OTHER: Final = "other"
# Connections that are open only until their throttle time ends, over all addresses.
MOST_THROTTLED: Final = 100
_THROTTLED: Final = "too many new connections of one address"
RECEIVE_BUFFER: Final = "socket.receive.buffer.bytes"
# A compromise, by measurement (docs/performance.md): a larger size makes requests of 1 MB faster, a
# smaller one librdkafka.
TLS_RECEIVE_BUFFER_BYTES: Final = 400 << 10


class Requests(Protocol):
    def serve(self, frame: memoryview, session: Session) -> EncodedResponse: ...


class Limits(msgspec.Struct, frozen=True):
    """The limits of the listener. `queued_max_request_bytes` bounds the memory of requests that are
    not served yet, over all connections; -1 means no limit, as in Kafka.

    `receive_buffer_bytes` and `tls_receive_buffer_bytes` are for listeners without and with TLS.

    `max_connections` does not hold for the listener `protected`, which may have `max_protected`.
    `of_listeners` are the limits that listeners have themselves.
    """

    max_connections: int
    max_connections_per_address: int
    per_address_overrides: Mapping[str, int]
    max_request_bytes: int
    queued_max_request_bytes: int
    max_idle_ms: int
    backlog: int
    receive_buffer_bytes: int
    tls_receive_buffer_bytes: int
    send_buffer_bytes: int
    spin_us: int
    protected: str | None = None
    max_protected: int = UNLIMITED
    of_listeners: Mapping[str, int] = {}

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        # Without TLS, one read takes as much as has arrived, so large buffers pay off. With TLS, a
        # small window helps a client on the same machine: the kernel sends its data while it
        # handles the broker's acknowledgements, in larger segments.
        given, is_given = settings.socket_receive_buffer_bytes, RECEIVE_BUFFER in settings.given
        return cls(
            max_connections=settings.max_connections,
            max_connections_per_address=settings.max_connections_per_ip,
            per_address_overrides=connection_limits(settings.max_connections_per_ip_overrides),
            max_request_bytes=settings.socket_request_max_bytes,
            queued_max_request_bytes=settings.queued_max_request_bytes,
            max_idle_ms=settings.connections_max_idle_ms,
            backlog=settings.socket_listen_backlog_size,
            receive_buffer_bytes=given if is_given else -1,
            tls_receive_buffer_bytes=given if is_given else TLS_RECEIVE_BUFFER_BYTES,
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            spin_us=settings.oncelog_spin_us,
            protected=protected_listener(settings),
            of_listeners=settings.max_connections_of_listeners,
        )

    def at_most(self, max_connections: int) -> Limits:
        """Return these limits with at most this number of connections."""
        return msgspec.structs.replace(
            self,
            max_connections=min(self.max_connections, max_connections),
            max_protected=min(self.max_protected, max_connections),
        )


class Listener:
    """The listening sockets and the connections of one broker."""

    def __init__(
        self,
        requests: Requests,
        limits: Limits,
        clock: Clock,
        quotas: QuotaGate,
        rates: ConnectionRates | None = None,
    ) -> None:
        """`rates` limits the new connections of listeners, None means no limit."""
        self.serve = requests.serve
        loop = asyncio.get_running_loop()
        self.turn = Turn(loop, Spin(loop, clock, limits.spin_us))
        self.writables = Writables(loop)
        self.mutes = Mutes(loop, clock.monotonic_ms)
        self._limits = limits
        self._clock = clock
        self._quotas = quotas
        self.shared_buffer = SharedBuffer()
        self.max_request_bytes = limits.max_request_bytes
        self.send_buffer_bytes = limits.send_buffer_bytes
        self.connections: dict[Connection, None] = {}
        # Connections since the start, also those that exceeded a limit.
        self.accepted = 0
        # Connections beyond the rate of their address, oldest first. They count for no limit.
        self._throttled: dict[Connection, None] = {}
        self._per_host: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._servers: list[tuple[asyncio.Server, BindAddress]] = []
        self._admissions: list[Admission] = []
        self._rates = rates
        self._new_connections: NewConnections[Connection] | None = None
        self._limit_rates(rates)
        self._sweep = Sweep(
            loop,
            clock.monotonic_ms,
            self.connections.keys(),
            max_idle_ms=limits.max_idle_ms,
            max_held_bytes=limits.queued_max_request_bytes,
        )
        self._excess = Excess(
            loop,
            clock.monotonic_ms,
            self.connections.keys(),
            lambda: self._per_listener.total() - self._limits.max_connections,
        )
        self._excess.protected = limits.protected
        self._stopping = False
        self._all_closed: asyncio.Event | None = None
        # Bounded, because a client with a closed connection may connect again and again.
        self._closings = BoundedEvents(partial(log.info, "connection closed"), clock.monotonic_ms)
        self._excesses = BoundedEvents(_log_excess, clock.monotonic_ms)

    def follow(self, limits: Limits, rates: ConnectionRates | None) -> None:
        """Apply other limits to new connections. Open connections above `max_connections` are
        closed, and connections that wait for their admission keep their turn."""
        self._limits = limits
        self._excess.protected = limits.protected
        self._excess.check()
        if self._rates is None or rates is None or not rates.has_limits_of(self._rates):
            self._limit_rates(rates)

    def _limit_rates(self, rates: ConnectionRates | None) -> None:
        self._rates = rates
        if self._new_connections is not None:
            self._new_connections.rates = rates
        elif rates is not None:
            from oncelog_server.network.new_connections import NewConnections

            self._new_connections = NewConnections(
                rates,
                self._admit,
                self.mutes,
                self._clock.monotonic_ms,
                self._limits.backlog,
            )

    async def bind(self, admission: Admission, host: str, port: int) -> tuple[str, int]:
        """Bind one listener; return its address (port 0 picks a free one). No client is served
        before `accept`. Raises CannotListen if the address cannot be bound."""
        name = admission.listener
        address = BindAddress(
            host, port, f"listeners={name}", "stop it, or --port 0 picks a free one"
        )
        server = await bind(self._factory(admission), address, self._limits.backlog)
        self._servers.append((server, address))
        self._admissions.append(admission)
        bound = server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def _factory(self, admission: Admission) -> Callable[[], asyncio.BaseProtocol]:
        """Return the function that makes the protocol of an accepted connection."""
        loop = asyncio.get_running_loop()
        if not admission.protocol.has_tls:
            return lambda: Connection(self, admission, loop)
        from oncelog_server.network.tls_transport import READ_BYTES, TlsTransport

        shared = memoryview(bytearray(READ_BYTES))
        return lambda: TlsTransport(admission.new_tls, Connection(self, admission, loop), shared)

    async def accept(self) -> None:
        """Begin to serve on all bound sockets. Raises CannotListen if a socket cannot listen."""
        limits = self._limits
        buffers = {False: limits.receive_buffer_bytes, True: limits.tls_receive_buffer_bytes}
        for (server, address), admission in zip(self._servers, self._admissions, strict=True):
            await listen(server, address, limits.backlog, buffers[admission.protocol.has_tls])
        self._sweep.begin()

    @property
    def is_stopping(self) -> bool:
        """Return True if no more requests are served, because the broker stops."""
        return self._stopping

    def by_listener(self) -> list[tuple[str, int]]:
        """Return (listener's name, open connections) for each listener."""
        names = [admission.listener for admission in self._admissions]
        return [(name, self._per_listener[name]) for name in names]

    def refused_by_listener(self) -> list[tuple[str, int]]:
        """Return (listener's name, clients that failed to authenticate) for each listener."""
        return [(admission.listener, admission.failures) for admission in self._admissions]

    def expired_by_listener(self) -> list[tuple[str, int]]:
        """Return (listener's name, sessions that clients did not renew in time) for each
        listener."""
        return [(admission.listener, admission.expired) for admission in self._admissions]

    def certificates_by_listener(self) -> list[tuple[str, int]]:
        """Return (listener's name, time in ms since the epoch at which its certificate expires) for
        each listener with TLS."""
        times = [(found.listener, found.certificate_expires_ms) for found in self._admissions]
        return [(name, time_ms) for name, time_ms in times if time_ms is not None]

    def by_software(self) -> list[tuple[str, str, str, int]]:
        """Return (name of the clients' software, version, listener, open connections). The rarest
        are counted together if there are many."""
        counts = Counter(
            (session.software.name, session.software.version, session.listener)
            for connection in self.connections
            if (session := connection.session) is not None
        )
        shown = dict(counts.most_common(MOST_SOFTWARE))
        rest: Counter[str] = Counter()
        for (_, _, listener), count in counts.items() - shown.items():
            rest[listener] += count
        found = [(*key, count) for key, count in sorted(shown.items())]
        return found + [(OTHER, OTHER, listener, count) for listener, count in rest.items()]

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def log_closing(self, address: str, reason: str) -> None:
        self._closings.add((address, kind_of(reason)), peer=address, reason=reason)

    def connection_opened(self, connection: Connection) -> bool:
        self.connections[connection] = None
        self.accepted += 1
        session = connection.session
        assert session is not None
        if self._stopping:
            return False
        if self._new_connections is None:
            return self._admit(connection)
        if self._new_connections.opened(connection, session.listener):
            return True
        if not connection.is_counted:  # a counted one exceeds a limit that `_admit` has logged
            self._refuse("too many new connections of one listener", session, self._limits.backlog)
        return False

    def _admit(self, connection: Connection) -> bool:
        """Count a connection for the limits. Return False if it exceeds one, and must be closed.

        A connection beyond the rate of its address is throttled before it is counted, as in Kafka's
        ConnectionQuotas.inc. Otherwise one address could use up the connections of all clients."""
        session = connection.session
        assert session is not None
        now_ms = self._clock.monotonic_ms()
        throttle_ms = self._quotas.after_connection(session.host, now_ms)
        if throttle_ms:
            self._throttle(connection, session.listener, throttle_ms, now_ms)
            return True
        connection.is_counted = True
        self._per_host[session.host] += 1
        self._per_listener[session.listener] += 1
        limits = self._limits
        allowed = limits.per_address_overrides.get(session.host, limits.max_connections_per_address)
        exceeds = self._per_listener.total() > limits.max_connections
        if exceeds and session.listener != limits.protected:
            return self._refuse("too many connections", session, limits.max_connections)
        if exceeds and self._per_listener[session.listener] > limits.max_protected:
            return self._refuse("too many connections", session, limits.max_protected)
        of_listener = limits.of_listeners.get(session.listener)
        if of_listener is not None and self._per_listener[session.listener] > of_listener:
            return self._refuse("too many connections of one listener", session, of_listener)
        if self._per_host[session.host] > allowed:
            return self._refuse("too many connections of one address", session, allowed)
        if exceeds:
            self._excess.check()
        return True

    def _throttle(
        self, connection: Connection, listener: str, throttle_ms: int, now_ms: int
    ) -> None:
        """Close the connection after the throttle time (KIP-612). If too many connections wait for
        this, close the oldest of them now."""
        connection.close_after(throttle_ms, _THROTTLED)
        if self._rates is not None:
            self._rates.take_back(listener, now_ms)
        self._throttled[connection] = None
        if len(self._throttled) > MOST_THROTTLED:
            oldest = next(iter(self._throttled))
            del self._throttled[oldest]  # `connection_closed` comes in a later turn of the loop
            oldest.close(_THROTTLED)

    def _refuse(self, event: str, session: Session, limit: int) -> bool:
        """Log that a connection exceeds a limit. Return False."""
        self._excesses.add(
            (event, session.listener, session.host),
            event=event,
            limit=limit,
            listener=session.listener,
            peer=session.address,
        )
        return False

    def connection_closed(self, connection: Connection) -> None:
        if self.connections.pop(connection, False) is not None or connection.session is None:
            return
        self._throttled.pop(connection, None)
        if connection.is_counted:
            host = connection.session.host
            self._per_listener[connection.session.listener] -= 1
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]
        if not self.connections and self._all_closed is not None:
            self._all_closed.set()

    def unbind(self) -> None:
        """Close the listening sockets; connections stay."""
        for server, _ in self._servers:
            server.close()

    async def stop(self, grace_s: float) -> None:
        """Accept no more connections, send the pending responses, close. After `grace_s` close the
        remaining connections."""
        self._stopping = True
        self._sweep.stop()
        self.unbind()
        for connection in list(self.connections):
            connection.drain()
        if self.connections:
            self._all_closed = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._all_closed.wait()
        for connection in list(self.connections):
            connection.close("the broker stops")
        self.writables.close()
        self.mutes.close()
        self._closings.flush()
        self._excesses.flush()


def _log_excess(*, event: str, **fields: object) -> None:
    log.warning(event, **fields)
