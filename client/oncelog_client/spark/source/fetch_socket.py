"""A blocking connection to one leader, for Fetch requests only.

Spark's Python worker is one thread that decodes what it reads. With an event loop in a second
thread, both would compete for the interpreter at every piece that arrives. Here the kernel receives
a response while the worker decodes the previous response.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from oncelog_client.connect_failures import Address
from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.errors import DisconnectedError, TimedOutError
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.connect_causes import connect_error, connect_failure
from oncelog_protocol.apis import ApiKey, api_of
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.frames import check_size, read_size
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.requests import Requests

if TYPE_CHECKING:
    from ssl import SSLContext

    from oncelog_protocol.security.sasl_client import SaslClient, SaslRequest, SaslResponse

_SIZE_BYTES: Final = 4
# The next response may be a bit larger than the largest so far.
_ROOM_FOR_MORE: Final = 1 << 16
# A response may exceed the requested bytes by a batch. This limit is only for invalid lengths.
_MAX_RESPONSE_BYTES: Final = (1 << 31) - 1


class FetchVersions(NamedTuple):
    """The versions that another connection has negotiated with the broker: of Fetch, and of
    SaslHandshake and SaslAuthenticate (-1 if the broker does not have them)."""

    fetch: int
    sasl: tuple[int, int] = (-1, -1)


class SocketSecurity(NamedTuple):
    """The TLS context, and a function that returns the client's side of a SASL exchange. None
    without TLS or SASL."""

    tls: SSLContext | None = None
    sasl: Callable[[], SaslClient] | None = None


class FetchSocket:
    """A connection, which the constructor opens. After any error the caller must close it."""

    def __init__(
        self,
        address: Address,
        versions: FetchVersions,
        config: ConsumerConfig,
        security: SocketSecurity,
    ) -> None:
        """Connect and authenticate. Raises DisconnectedError, TimedOutError or
        AuthenticationError."""
        self.address = address
        self._versions = versions
        self._security = security
        self._renew_at_ms = math.inf
        self._requests = Requests(config.client_id)
        self._buffer = bytearray(_ROOM_FOR_MORE)
        self._socket = self._connected(config.socket_connection_setup_timeout_ms / 1000)
        self._socket.settimeout((config.request_timeout_ms + config.fetch_max_wait_ms) / 1000)
        if security.sasl is not None:
            try:
                self._authenticate(security.sasl)
            except BaseException:
                self.close()
                raise

    def _connected(self, timeout_s: float) -> socket.socket:
        host, port = self.address
        tls = self._security.tls
        opened: socket.socket | None = None
        try:
            opened = socket.create_connection(self.address, timeout_s)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return opened if tls is None else tls.wrap_socket(opened, server_hostname=host)
        except Exception as error:
            # Not only OSError: metadata may have an invalid host or port, which raises other
            # errors.
            if opened is not None:
                opened.close()
            if isinstance(error, TimeoutError):
                message = f"no connection to {host}:{port} within {timeout_s:g} s"
                raise TimedOutError(message) from None
            if tls is not None:
                failure = connect_failure(self.address, error, timeout_s, tls=True)
                raise connect_error(failure) from error
            raise DisconnectedError(f"no connection to {host}:{port}: {error}") from error

    def _authenticate(self, make: Callable[[], SaslClient]) -> None:
        """Authenticate by SASL, at the start and before the session ends (KIP-368)."""
        from oncelog_client.io.authentication import refused, renewal_ms
        from oncelog_protocol.security.sasl_client import AuthenticationFailed, authenticate

        exchange = authenticate(make(), *self._versions.sasl)
        try:
            request = next(exchange)
            while True:
                request = exchange.send(self._call_sasl(request))
        except StopIteration as finished:
            self._renew_at_ms = renewal_ms(finished.value)
        except AuthenticationFailed as error:
            raise refused(self.address, error) from None

    def _call_sasl(self, request: SaslRequest) -> SaslResponse:
        handshake, token = self._versions.sasl
        is_handshake = api_of(type(request)).key == ApiKey.SASL_HANDSHAKE
        self._put(request, handshake if is_handshake else token)
        response: SaslResponse = self._take_response()
        return response

    @property
    def busy(self) -> bool:
        """Return True if a response is outstanding."""
        return len(self._requests) > 0

    def send(self, request: FetchRequest) -> None:
        """Send a request. Raises DisconnectedError or TimedOutError; AuthenticationError if the
        session had to be renewed."""
        sasl = self._security.sasl
        if sasl is not None and not self.busy and monotonic_ms() >= self._renew_at_ms:
            self._authenticate(sasl)
        self._put(request, self._versions.fetch)

    def _put(self, request: object, version: int) -> None:
        _, parts = self._requests.send(request, version)
        try:
            self._socket.sendall(b"".join(parts))
        except TimeoutError:
            raise self._timed_out() from None
        except OSError as error:
            raise self._disconnected(error) from error

    def receive(self) -> FetchResponse:
        """Wait for the response to the oldest request, and return it. Raises DisconnectedError,
        also for an invalid response, or TimedOutError after `request_timeout_ms` plus
        `fetch_max_wait_ms` without a byte.

        The response's records are in a buffer that the next call overwrites.
        """
        response = self._take_response()
        assert isinstance(response, FetchResponse)
        return response

    def _take_response(self) -> Any:
        try:
            (size,) = read_size(self._take(_SIZE_BYTES))
            response = self._requests.response(self._take(check_size(size, _MAX_RESPONSE_BYTES)))
        except TimeoutError:
            raise self._timed_out() from None
        except (OSError, ProtocolError) as error:
            raise self._disconnected(error) from error
        return response.message

    def _take(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size + _ROOM_FOR_MORE)
        taken = missing = memoryview(self._buffer)[:size]
        while len(missing):
            count = self._socket.recv_into(missing)
            if not count:
                raise ConnectionError("the broker closed the connection")
            missing = missing[count:]
        return taken

    def _timed_out(self) -> TimedOutError:
        host, port = self.address
        return TimedOutError(f"{host}:{port} sent no response to Fetch")

    def _disconnected(self, error: Exception) -> DisconnectedError:
        host, port = self.address
        return DisconnectedError(f"{host}:{port}: {error}")

    def close(self) -> None:
        self._socket.close()
