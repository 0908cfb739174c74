"""Requests to other brokers: one connection to each, opened at the first request."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.frames import MAX_FRAME_SIZE
from oncelog_protocol.requests import Requests
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.requests.frame_reader import SHARED_BYTES, FrameReader, SharedBuffer

if TYPE_CHECKING:
    from oncelog_server.links.link_authentication import LinkAuthentication
    from oncelog_server.links.link_security import LinkSecurity

log = structlog.get_logger("oncelog.links")

# The part of a session's lifetime after which a new connection replaces it.
RENEWED_AFTER: Final = 0.85
# The timeout between Kafka's brokers (request.timeout.ms).
TIMEOUT_S: Final = 30.0
# Time until a failure with the same reason is logged again. A link is tried about once a second.
REPEAT_S: Final = 60.0
# A broker closes new connections above a limit, or while it stops, and sends no reason.
CLOSED: Final = "it closed the connection before it served a request: its log says why"

# Called once: with the response to a request, or with None if the link broke or timed out. After
# None, it is unknown whether the request has taken effect.
OnResponse = Callable[[Any | None], None]


class BrokerLinks:
    """The links to the other brokers for one purpose. The purpose is in `client_id`, for the logs
    of the other brokers."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        listener: str,
        client_id: str,
        security: Callable[[], LinkSecurity] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`security` returns the security of the listener. It is called for each connection, and is
        None for PLAINTEXT."""
        self._image = image
        self._listener = listener
        self._client_id = client_id
        self._security = security
        self._timeout_s = timeout_s
        self.before_responses: Callable[[], None] | None = None
        self._links: dict[int, BrokerLink] = {}

    def to(self, broker_id: int) -> BrokerLink | None:
        """Return the link to a broker at its current address; None if it is not alive."""
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            return None
        link = self._links.get(broker_id)
        if link is None or (link.host, link.port) != (endpoint.host, endpoint.port):
            if link is not None:
                link.close()
            link = BrokerLink(
                endpoint.host, endpoint.port, self._client_id, self._timeout_s, self._security
            )
            link.before_responses = self.before_responses
            self._links[broker_id] = link
        return link

    def forget(self, broker_id: int) -> None:
        """Close the link to a broker that has left the cluster."""
        link = self._links.pop(broker_id, None)
        if link is not None:
            link.close()

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()


class BrokerLink(asyncio.BufferedProtocol):
    """The connection to one broker. Requests are sent in order. If the connection breaks, or
    nothing arrives for `timeout_s`, all requests without a response are lost; the next request
    connects again."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_s: float = TIMEOUT_S,
        security: Callable[[], LinkSecurity] | None = None,
    ) -> None:
        # Kept, because get_running_loop makes a system call.
        self._loop = asyncio.get_running_loop()
        self._security = security
        self._authentication: LinkAuthentication | None = None
        # True if requests can be sent: the connection is open and authenticated.
        self._is_ready = False
        # True if the other broker need not say why the connection ends: it has served a request on
        # this connection, or this side ends the connection and has logged the reason.
        self._is_explained = False
        # The time of the loop from which a new connection is needed, because the session ends soon.
        self._ends_s = math.inf
        # Called before the responses that have arrived together are passed on.
        self.before_responses: Callable[[], None] | None = None
        self.host = host
        self.port = port
        self._client_id = client_id
        self._timeout_s = timeout_s
        # One timer for many requests: it looks at `_expires_s`, the deadline in the loop's time.
        self._alarm: asyncio.TimerHandle | None = None
        self._expires_s = 0.0
        self._requests = Requests(client_id)
        self._shared = SharedBuffer()
        self._frames = FrameReader(self._shared, MAX_FRAME_SIZE)
        self._is_closed = False
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        # Requests that wait for the connection, with their versions.
        self._unsent: list[tuple[object, int, OnResponse]] = []
        self._in_flight: dict[int, OnResponse] = {}
        # The reason that was logged last, None after a response, and the loop's time of that event.
        self._failure: str | None = None
        self._logged_s = 0.0

    def send(self, request: object, version: int, answered: OnResponse) -> None:
        """Send a request of any API. On a closed link it is lost at once."""
        if self._is_closed:
            self._loop.call_soon(answered, None)
            return
        self._unsent.append((request, version, answered))
        if self._is_ready:
            self._write_or_renew()
        elif self._connecting is None and self._transport is None:
            self._begin_to_connect()

    def _begin_to_connect(self) -> None:
        self._connecting = self._loop.create_task(self._connect())

    def close(self) -> None:
        """Close the connection for good; requests without a response are lost."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._abort()
        self._lose_all()

    async def _connect(self) -> None:
        loop = self._loop
        try:
            security = None if self._security is None else self._security()
            context = None if security is None else security.context
            self._authentication = None if security is None else security.authentication()
            name = None if context is None else self.host
            async with asyncio.timeout(self._timeout_s):
                await loop.create_connection(
                    lambda: self, self.host, self.port, ssl=context, server_hostname=name
                )
        # OSError includes TimeoutError and errors of TLS, ValueError those of settings.
        except (OSError, ValueError) as error:
            self._log_failure(_reason_of(error))
            self._lose_all()
        finally:
            self._connecting = None

    def _write_or_renew(self) -> None:
        """Send the requests. If the session ends soon, connect again when all requests in flight
        have their responses."""
        if self._loop.time() < self._ends_s:
            self._write()
        elif not self._in_flight:
            assert self._transport is not None
            self._transport.abort()

    def _write(self) -> None:
        assert self._transport is not None
        unsent, self._unsent = self._unsent, []
        for request, version, answered in unsent:
            correlation_id, parts = self._requests.send(request, version)
            self._in_flight[correlation_id] = answered
            self._transport.write(b"".join(parts))
        self._watch()

    def _watch(self) -> None:
        """Restart the timeout if requests are in flight."""
        if not self._in_flight:
            return
        self._expires_s = self._loop.time() + self._timeout_s
        if self._alarm is None:
            self._alarm = self._loop.call_at(self._expires_s, self._look_at_time)

    def _look_at_time(self) -> None:
        self._alarm = None
        if not self._in_flight:
            return
        if self._loop.time() < self._expires_s:
            self._alarm = self._loop.call_at(self._expires_s, self._look_at_time)
        else:
            self._too_late()

    def _too_late(self) -> None:
        log.warning("no response from broker", host=self.host, port=self.port)
        self._abort()

    def _abort(self) -> None:
        """End the connection for a reason that is logged."""
        self._is_explained = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._is_explained = False
        self._ends_s = math.inf
        if self._authentication is None:
            self._become_ready()
        else:
            self._ask(*self._authentication.first())

    def _ask(self, request: object, version: int) -> None:
        """Send a request of authentication."""
        assert self._transport is not None
        correlation_id, parts = self._requests.send(request, version)
        self._in_flight[correlation_id] = self._on_authentication
        self._transport.write(b"".join(parts))
        self._watch()

    def _on_authentication(self, response: Any | None) -> None:
        authentication = self._authentication
        if response is None or authentication is None:
            return  # the link broke
        work = authentication.preparation(response)
        if work is None:
            self._authenticate(authentication, response)
            return
        preparing = self._loop.run_in_executor(None, work)
        preparing.add_done_callback(lambda _: self._prepared(authentication, response))

    def _prepared(self, authentication: LinkAuthentication, response: Any) -> None:
        if self._authentication is authentication:  # else the link broke meanwhile
            self._authenticate(authentication, response)

    def _authenticate(self, authentication: LinkAuthentication, response: Any) -> None:
        following = authentication.next(response)
        if following is not None:
            self._ask(*following)
        elif authentication.failure is not None:
            self._log_failure(authentication.failure)
            self._abort()
        else:
            if authentication.lifetime_ms:
                now_s = self._loop.time()
                self._ends_s = now_s + authentication.lifetime_ms / 1000 * RENEWED_AFTER
            self._become_ready()

    def _become_ready(self) -> None:
        self._is_ready = True
        self._write()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self.before_responses is not None:
            self.before_responses()
        was_ready = self._is_ready
        try:
            for frame in self._frames.received(nbytes):
                # A large frame has its own buffer. The next frame overwrites a smaller one, which
                # the receiver may still use.
                body = frame if len(frame) > SHARED_BYTES else bytes(frame)
                answer = self._requests.response(body)
                self._in_flight.pop(answer.correlation_id)(answer.message)
        except ProtocolError as error:
            log.error("link broken", host=self.host, port=self.port, reason=str(error))
            self._abort()
        self._watch()
        if was_ready:
            self._is_explained = True
            self._failure = None
        if self._is_ready and self._unsent:
            self._write_or_renew()

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, ssl.SSLError):
            # With TLS 1.3, this broker's handshake has ended before the other broker refuses the
            # certificate.
            self._log_failure(_reason_of(error))
        elif not self._is_explained:
            self._log_failure(CLOSED)
        renews = self._loop.time() >= self._ends_s and not self._in_flight
        self._transport = None
        self._is_ready = False
        self._ends_s = math.inf
        self._authentication = None
        self._requests = Requests(self._client_id)
        self._frames = FrameReader(self._shared, MAX_FRAME_SIZE)
        if renews and self._unsent and not self._is_closed:
            self._begin_to_connect()
        else:
            self._lose_all()

    def _log_failure(self, reason: str) -> None:
        """Log why there is no link, unless the same reason was logged less than REPEAT_S ago."""
        now_s = self._loop.time()
        if reason == self._failure and now_s - self._logged_s < REPEAT_S:
            return
        self._failure, self._logged_s = reason, now_s
        log.warning(
            "no link to broker",
            host=self.host,
            port=self.port,
            purpose=self._client_id,
            reason=reason,
        )

    def _lose_all(self) -> None:
        lost = [*self._in_flight.values(), *(answered for _, _, answered in self._unsent)]
        self._in_flight.clear()
        self._unsent.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for answered in lost:
            answered(None)


def _reason_of(error: Exception) -> str:
    if isinstance(error, ConnectionResetError):
        return CLOSED  # in the handshake of TLS
    if not isinstance(error, ssl.SSLError):
        return str(error) or type(error).__name__
    from oncelog_protocol.tls.failures import reason_of

    return reason_of(error, is_server=False)
