"""One socket to one broker: pipelined requests, deadlines, negotiated versions.

`oncelog_protocol.requests` pairs requests and responses. This module adds transport and futures.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from oncelog_client.connect_failures import (
    FIRST_BYTES,
    Address,
    ConnectCause,
    ConnectFailure,
    foreign_protocol,
    shown,
)
from oncelog_client.core.client_config import ClientConfig
from oncelog_client.core.missing_rows import missing_rows
from oncelog_client.core.request_versions import ANY_VERSION
from oncelog_client.errors import (
    AuthenticationError,
    ClosedError,
    ConnectError,
    DisconnectedError,
    IncompleteResponseError,
    KafkaError,
    TimedOutError,
    UnsupportedVersionError,
    check,
)
from oncelog_protocol import __version__
from oncelog_protocol.apis import ApiKey, api_of
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.requests import Requests

from .client_security import NO_SECURITY, ClientSecurity, client_security
from .clock import monotonic_ms
from .connect_causes import connect_error, connect_failure, tls_failure
from .outstanding import Held, Outstanding, Pending

R = TypeVar("R")

SOFTWARE_NAME: Final = "oncelog-python"

# These are not the newest versions. The next version of each API replaces names by topic ids, or is
# for brokers only (KIP-516, 848, 890).
_NEWEST_USED: Final[dict[ApiKey, int]] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.FIND_COORDINATOR: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 5,
}


# Maximum size of a response. A batch may exceed fetch.max.bytes, so this limit is only for invalid
# sizes.
_MAX_ANSWER_BYTES: Final = (1 << 31) - 1

# After this time the end of a TLS connection does not wait for the broker's close_notify any more.
_TLS_SHUTDOWN_S: Final = 1.0

# A listener with SASL closes a connection at its first request without authentication.
_NO_ANSWER: Final = (
    " at its first request; if its listener needs SASL, set security_protocol and sasl_mechanism"
)

# Maximum number of missing topics, partitions or groups that an error message names.
_ROWS_SHOWN: Final = 5


class Connection(asyncio.Protocol):
    """A connection, made by `Connection.open`. After the connection has closed, every call raises
    DisconnectedError."""

    def __init__(
        self, address: Address, config: ClientConfig, security: ClientSecurity = NO_SECURITY
    ) -> None:
        self.address = address
        self.features: dict[str, int] = {}
        self.last_used_ms = monotonic_ms()
        self._config = config
        self._security = security
        # The time of the next authentication. Requests are held while it runs.
        self._renew_at_ms = math.inf
        self._renewing: asyncio.Task[None] | None = None
        # The authentication that the end of the connection has cancelled.
        self._cancelled: asyncio.Task[None] | None = None
        self._core = Requests(config.client_id, max_frame_size=_MAX_ANSWER_BYTES)
        self._outstanding = Outstanding(self._timed_out)
        self._versions: dict[int, tuple[int, int]] = {}
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_full = False
        self._lost = asyncio.Event()
        # Callbacks of `when_writable`. Each is called once, in this order, when the connection is
        # writable again or has ended.
        self._held_back: dict[Callable[[], None], None] = {}
        self._loop = asyncio.get_running_loop()
        self._failure: KafkaError | None = None
        # The first bytes of the peer. They are kept until they show whether the peer speaks Kafka's
        # protocol.
        self._first: bytes | None = b""
        self._foreign: ConnectCause | None = None
        # True after a response to a request besides ApiVersions.
        self._is_proven = False
        # The failure of TLS that ended the connection.
        self._tls_failure: ConnectFailure | None = None

    @classmethod
    async def open(cls, address: Address, config: ClientConfig) -> Connection:
        """Connect, negotiate versions and authenticate. Raises ConnectError for any failure, or
        AuthenticationError if one side refuses the identity of the other."""
        connection = await cls.connect(address, config, client_security(config))
        await connection.negotiate()
        return connection

    @classmethod
    async def connect(
        cls, address: Address, config: ClientConfig, security: ClientSecurity
    ) -> Connection:
        """Connect within `socket_connection_setup_timeout_ms`, which includes the TLS handshake.
        The caller must then call `negotiate`.

        Raises AuthenticationError for a certificate that is not trusted, and ConnectError for any
        other failure, even if the resolver raises OverflowError or ValueError (for a port of -1, or
        a NUL in a host): metadata may hold any address.
        """
        host, port = address
        timeout_s = config.socket_connection_setup_timeout_ms / 1000
        tls: dict[str, Any] = {}
        if security.tls is not None:
            tls = {"ssl": security.tls, "server_hostname": host}
            tls["ssl_shutdown_timeout"] = _TLS_SHUTDOWN_S
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: cls(address, config, security), host, port, **tls
                )
        except Exception as error:
            failure = connect_failure(address, error, timeout_s, tls=bool(tls))
            raise connect_error(failure) from error
        return connection

    @property
    def certificate_expires_s(self) -> float | None:
        """Return the time at which the broker's certificate expires, in seconds since the epoch.
        Return None without TLS."""
        peer = None if self._transport is None else self._transport.get_extra_info("peercert")
        if not peer:
            return None
        from ssl import cert_time_to_seconds

        return cert_time_to_seconds(peer["notAfter"])

    async def negotiate(self) -> None:
        """Request the versions that the broker speaks, and authenticate. If this fails, close and
        raise ConnectError or AuthenticationError."""
        try:
            await self._negotiate()
            if self._security.login is not None:
                await self._authenticate()
        except BaseException as error:
            self._fail(DisconnectedError(f"{shown(self.address)} could not be used"))
            if isinstance(error, ConnectError | AuthenticationError):
                raise
            if isinstance(error, Exception):
                raise connect_error(self._negotiation_failure(error)) from error
            raise

    def _negotiation_failure(self, error: Exception) -> ConnectFailure:
        if self._foreign is not None:
            return ConnectFailure(self.address, self._foreign)
        if isinstance(error, TimedOutError):
            missing = "the authentication" if self._versions else "ApiVersions"
            timeout_s = self._config.request_timeout_ms / 1000
            detail = f"no response to {missing} in {timeout_s:g} s"
            return ConnectFailure(self.address, ConnectCause.SILENT, detail)
        if isinstance(error, DisconnectedError):
            return self._tls_failure or ConnectFailure(self.address, ConnectCause.CLOSED)
        return ConnectFailure(self.address, ConnectCause.FAILED, str(error))

    # -- requests

    async def call(
        self,
        request: object,
        response_type: type[R],
        *,
        timeout_ms: float | None = None,
        versions: range = ANY_VERSION,
    ) -> R:
        """Send a request and return its response.

        Raises DisconnectedError; IncompleteResponseError if requested topics, partitions or groups
        are missing; UnsupportedVersionError if the broker speaks none of `versions`; or
        TimedOutError. After a timeout the connection is closed, because later responses would be
        late too."""
        timeout_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = monotonic_ms() + timeout_ms
        api = api_of(type(request)).key
        if not self.writable:
            await self._room_for(api.name, timeout_ms)
            timeout_ms = max(deadline_ms - monotonic_ms(), 0)
        version = self.version(request, versions)
        response = await self._send(request, version, timeout_ms)
        assert isinstance(response, response_type)
        missing = missing_rows(api, request, response, version)
        if missing:
            raise IncompleteResponseError(
                f"the response of {shown(self.address)} to {api.name} lacks "
                f"{', '.join(missing[:_ROWS_SHOWN])}"
                + (f" and {len(missing) - _ROWS_SHOWN} more" if missing[_ROWS_SHOWN:] else "")
            )
        return response

    async def _room_for(self, api_name: str, timeout_ms: float) -> None:
        """Wait until most of the sent bytes have left, or the connection has ended. If the peer
        takes too few bytes in `timeout_ms`, close and raise TimedOutError."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._writable.wait()
        except TimeoutError:
            message = f"{shown(self.address)} takes no data: {api_name} could not be sent in time"
            error = TimedOutError(message)
            self._fail(error)
            raise error from None

    def start_unanswered(self, request: object) -> None:
        """Send Produce with acks=0, the one request without a response."""
        self._raise_if_closed()
        self.last_used_ms = monotonic_ms()
        if self.last_used_ms >= self._renew_at_ms:
            self._start_renewal()
        self._dispatch(request, self.version(request), None)

    def start(
        self,
        request: object,
        *,
        timeout_ms: float | None = None,
        versions: range = ANY_VERSION,
    ) -> asyncio.Future[Any]:
        """Send a request now, behind earlier ones. The future gets the response."""
        return self._send(request, self.version(request, versions), timeout_ms)

    @property
    def writable(self) -> bool:
        """Return True if most of the sent bytes have left."""
        return self._writable.is_set()

    def when_writable(self, ready: Callable[[], None]) -> None:
        """Call `ready` once, when more may be sent or the connection has ended. This method is for
        a connection that is not `writable`."""
        self._held_back[ready] = None

    @property
    def has_versions(self) -> bool:
        """Return True if the broker has named its versions."""
        return bool(self._versions)

    def version(self, request: object, versions: range = ANY_VERSION) -> int:
        """Return the newest version of a request that both sides speak, out of `versions`. If
        `versions` begins above the newest version that requests by name have, the caller handles
        the later versions. Raises UnsupportedVersionError if there is none."""
        api = api_of(type(request))
        spoken = self._versions.get(api.key)
        if spoken is not None:
            used = _NEWEST_USED.get(api.key, api.latest)
            newest = min(spoken[1], versions[-1], api.latest if versions[0] > used else used)
            version = api.common_version(max(spoken[0], versions[0]), newest)
            if version is not None:
                return version
        raise UnsupportedVersionError(
            f"the broker has no version of {api.name} that this call needs"
        )

    def _send(self, request: object, version: int, timeout_ms: float | None) -> asyncio.Future[Any]:
        self._raise_if_closed()
        if timeout_ms is None:
            timeout_ms = self._config.request_timeout_ms
        now_ms = self.last_used_ms = monotonic_ms()
        pending = self._outstanding.new(api_of(type(request)).name, now_ms + timeout_ms)
        if now_ms >= self._renew_at_ms:
            self._start_renewal()
        self._dispatch(request, version, pending)
        return pending.response

    def _dispatch(self, request: object, version: int, pending: Pending | None) -> None:
        """Send a request, or hold it while the connection authenticates again. `pending` is None
        for a request without a response."""
        if self._renewing is None:
            self._send_now(request, version, pending)
        else:
            self._outstanding.hold(Held(request, version, pending))

    def _send_now(self, request: object, version: int, pending: Pending | None) -> None:
        _, parts = self._core.send(request, version, answered=pending is not None)
        if pending is not None:
            self._outstanding.sent(pending)
        self._write(parts)

    def _write(self, parts: list[Any]) -> None:
        assert self._transport is not None
        self._transport.writelines(parts)

    def _raise_if_closed(self) -> None:
        if self._failure is not None:
            error = DisconnectedError(self._failure.message, sent=False)
            raise error from self._failure

    async def _negotiate(self) -> None:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        newest = api_of(ApiVersionsRequest).latest
        response = await self._api_versions(request, newest)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            spoken = {row.api_key: row.max_version for row in response.api_keys}
            response = await self._api_versions(
                request, min(spoken.get(ApiKey.API_VERSIONS, 0), newest)
            )
        check(response.error_code)
        self._versions = {
            row.api_key: (row.min_version, row.max_version) for row in response.api_keys
        }
        self.features = {row.name: row.max_version_level for row in response.finalized_features}
        if not self._versions:
            raise UnsupportedVersionError("the response to ApiVersions names no API")

    async def _api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        response = await self._send(request, version, None)
        assert isinstance(response, ApiVersionsResponse)
        return response

    # -- authentication

    @property
    def sasl_versions(self) -> tuple[int, int]:
        """Return the newest versions of SaslHandshake and SaslAuthenticate that both sides speak,
        -1 for an API that the broker does not have."""
        if self._security.login is None:
            return -1, -1
        from .authentication import sasl_versions

        return sasl_versions(self._versions)

    async def _authenticate(self) -> None:
        from .authentication import authenticate_connection

        assert self._security.login is not None
        self._renew_at_ms = await authenticate_connection(
            self.address, self._security.login, self._call_sasl, self.sasl_versions
        )

    async def _call_sasl(self, request: object) -> Any:
        """Send a request of the authentication behind the requests in flight, and return its
        response."""
        self._raise_if_closed()
        deadline_ms = monotonic_ms() + self._config.request_timeout_ms
        pending = self._outstanding.new(api_of(type(request)).name, deadline_ms)
        self._send_now(request, self.version(request), pending)
        return await pending.response

    def _start_renewal(self) -> None:
        """Authenticate again before the session ends (KIP-368). The next request starts the
        authentication, so an idle connection does not authenticate. The broker accepts no other
        request meanwhile."""
        self._renew_at_ms = math.inf
        self._renewing = self._loop.create_task(self._renew())
        self._update_writable()

    async def _renew(self) -> None:
        try:
            await self._authenticate()
        except KafkaError as error:
            self._renewing = None
            self._fail(error)
            return
        self._renewing = None
        for held in self._outstanding.release():
            self._send_now(*held)
        self._update_writable()

    def _timed_out(self, pending: Pending) -> None:
        message = f"{shown(self.address)} did not respond to {pending.api_name} in time"
        self._fail(TimedOutError(message))

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance check, because other event loops have their own transports.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._first is not None:
            data = self._first = self._first + data
            if len(data) < FIRST_BYTES:
                return
            self._foreign = foreign_protocol(data)
            if self._foreign is not None:
                self._fail(ConnectError(ConnectFailure(self.address, self._foreign)))
                return
            self._first = None
        try:
            self._is_proven = bool(self._versions)
            for response in self._core.receive_data(data):
                self._outstanding.answered(response.message)
        except ProtocolError as error:
            if not self._versions:
                self._foreign = ConnectCause.NOT_KAFKA
            message = f"{shown(self.address)} sent bytes that are not Kafka's protocol: {error}"
            self._fail(DisconnectedError(message))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._security.tls is not None:
            self._tls_failure = tls_failure(self.address, exc)
        reason = f": {exc}" if exc else ""
        failures: tuple[ConnectFailure, ...] = ()
        if self._versions and not self._is_proven and self._security.login is None:
            reason += _NO_ANSWER
            failures = (ConnectFailure(self.address, ConnectCause.NEEDS_SASL),)
        error = DisconnectedError(f"{shown(self.address)} closed the connection{reason}")
        error.failures = failures
        self._fail(error)
        self._lost.set()

    def pause_writing(self) -> None:
        self._is_full = True
        self._update_writable()

    def resume_writing(self) -> None:
        self._is_full = False
        self._update_writable()

    def _update_writable(self) -> None:
        """Let callers send. Make them wait while too many bytes have not left, and while the
        connection authenticates again. A connection that has ended is writable, so that its callers
        get the error."""
        if self._failure is None and (self._is_full or self._renewing is not None):
            self._writable.clear()
            return
        self._writable.set()
        held_back, self._held_back = self._held_back, {}
        for ready in held_back:
            ready()

    # -- the end

    @property
    def closed(self) -> bool:
        return self._failure is not None

    @property
    def busy(self) -> bool:
        """Return True if a response is outstanding, or the connection authenticates."""
        return bool(self._outstanding) or self._renewing is not None

    def close(self) -> None:
        """Close at once. Outstanding requests fail with ClosedError."""
        self._fail(ClosedError("the client was closed"))

    async def wait_closed(self) -> None:
        """Wait until the transport of a closed connection has ended. The last bytes, and
        close_notify with TLS, leave in later turns of the loop."""
        if self._cancelled is not None:
            await asyncio.wait({self._cancelled})
        await self._lost.wait()

    @property
    def has_ended(self) -> bool:
        """Return True if `wait_closed` would not wait."""
        is_working = self._cancelled is not None and not self._cancelled.done()
        return self._lost.is_set() and not is_working

    def abort(self) -> None:
        """Close at once, without the bytes that have not left."""
        self.close()
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: KafkaError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._core.abandon()
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing, self._cancelled = None, self._renewing
        self._update_writable()
        self._outstanding.fail(error)
        if self._transport is None:
            return
        if isinstance(error, ClosedError):
            self._transport.close()
        else:
            self._transport.abort()
