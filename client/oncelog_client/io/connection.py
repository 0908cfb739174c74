"""One socket to one broker: pipelined requests, deadlines, negotiated versions.

`oncelog_protocol.requests` pairs requests and responses. This module adds transport and futures.
"""

from __future__ import annotations

import asyncio
import errno
import math
import re
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

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

from .clock import monotonic_ms

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

# Maximum number of missing topics, partitions or groups that an error message names.
_ROWS_SHOWN: Final = 5


class _Pending(NamedTuple):
    answer: asyncio.Future[Any]
    deadline_ms: float
    api_name: str


class Connection(asyncio.Protocol):
    """A connection, made by `Connection.open`. After the connection has closed, every call raises
    DisconnectedError."""

    def __init__(self, address: Address, config: ClientConfig) -> None:
        self.address = address
        self.features: dict[str, int] = {}
        self.last_used_ms = monotonic_ms()
        self._config = config
        self._core = Requests(config.client_id, max_frame_size=_MAX_ANSWER_BYTES)
        self._pending: deque[_Pending] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        # Callbacks of `when_writable`. Each is called once, in this order, when the connection is
        # writable again or has ended.
        self._held_back: dict[Callable[[], None], None] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = math.inf
        self._failure: KafkaError | None = None
        # The first bytes of the peer. They are kept until they show whether the peer speaks Kafka's
        # protocol.
        self._first: bytes | None = b""
        self._foreign: ConnectCause | None = None

    @classmethod
    async def open(cls, address: Address, config: ClientConfig) -> Connection:
        """Connect and negotiate versions. Raises ConnectError for any failure."""
        connection = await cls.connect(address, config)
        await connection.negotiate()
        return connection

    @classmethod
    async def connect(cls, address: Address, config: ClientConfig) -> Connection:
        """Connect within `socket_connection_setup_timeout_ms`. The caller must then call
        `negotiate`.

        Raises ConnectError for any failure, also if the resolver raises OverflowError or ValueError
        (for a port of -1, or a NUL in a host): metadata may hold any address.
        """
        host, port = address
        timeout_s = config.socket_connection_setup_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: cls(address, config), host, port
                )
        except Exception as error:
            raise ConnectError(_connect_failure(address, error, timeout_s)) from error
        return connection

    async def negotiate(self) -> None:
        """Request the versions that the broker speaks. If this fails, close and raise
        ConnectError."""
        try:
            await self._negotiate()
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise ConnectError(self._negotiation_failure(error)) from error
            raise

    def _negotiation_failure(self, error: Exception) -> ConnectFailure:
        if self._foreign is not None:
            return ConnectFailure(self.address, self._foreign)
        if isinstance(error, TimedOutError):
            detail = f"no response to ApiVersions in {self._config.request_timeout_ms / 1000:g} s"
            return ConnectFailure(self.address, ConnectCause.SILENT, detail)
        if isinstance(error, DisconnectedError):
            return ConnectFailure(self.address, ConnectCause.CLOSED)
        return ConnectFailure(self.address, ConnectCause.FAILED, str(error))

    # -- requests

    async def call(
        self,
        request: object,
        response: type[R],
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
        answer = await self._send(request, version, timeout_ms)
        assert isinstance(answer, response)
        missing = missing_rows(api, request, answer, version)
        if missing:
            raise IncompleteResponseError(
                f"the response of {shown(self.address)} to {api.name} lacks "
                f"{', '.join(missing[:_ROWS_SHOWN])}"
                + (f" and {len(missing) - _ROWS_SHOWN} more" if missing[_ROWS_SHOWN:] else "")
            )
        return answer

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
        _, parts = self._core.send(request, self.version(request), answered=False)
        self.last_used_ms = monotonic_ms()
        self._write(parts)

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

    def version(self, request: object, versions: range = ANY_VERSION) -> int:
        """Return the newest version of a request that both sides speak, out of `versions`. Raises
        UnsupportedVersionError if there is none."""
        api = api_of(type(request))
        spoken = self._versions.get(api.key)
        if spoken is not None:
            newest = min(spoken[1], _NEWEST_USED.get(api.key, api.latest), versions[-1])
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
        _, parts = self._core.send(request, version)
        pending = _Pending(
            self._loop.create_future(), now_ms + timeout_ms, api_of(type(request)).name
        )
        self._pending.append(pending)
        self._write(parts)
        if pending.deadline_ms < self._timer_at_ms:
            self._arm_timer()
        return pending.answer

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
        answer = await self._send(request, version, None)
        assert isinstance(answer, ApiVersionsResponse)
        return answer

    # -- deadlines

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at_ms = None, math.inf
        if self._pending:
            self._timer_at_ms = min(pending.deadline_ms for pending in self._pending)
            delay_ms = max(self._timer_at_ms - monotonic_ms(), 0)
            self._timer = self._loop.call_later(delay_ms / 1000, self._check_deadlines)

    def _check_deadlines(self) -> None:
        now_ms = monotonic_ms()
        for pending in self._pending:
            if pending.deadline_ms <= now_ms:
                message = f"{shown(self.address)} did not respond to {pending.api_name} in time"
                self._fail(TimedOutError(message))
                return
        self._arm_timer()

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
            for answer in self._core.receive_data(data):
                pending = self._pending.popleft()
                if not pending.answer.done():
                    pending.answer.set_result(answer.message)
        except ProtocolError as error:
            if not self._versions:
                self._foreign = ConnectCause.NOT_KAFKA
            message = f"{shown(self.address)} sent bytes that are not Kafka's protocol: {error}"
            self._fail(DisconnectedError(message))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc else ""
        self._fail(DisconnectedError(f"{shown(self.address)} closed the connection{reason}"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
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
        """Return True if a response is outstanding."""
        return bool(self._pending)

    def close(self) -> None:
        """Close at once. Outstanding requests fail with ClosedError."""
        self._fail(ClosedError("the client was closed"))

    def _fail(self, error: KafkaError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        self._core.abandon()
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        for pending in self._pending:
            if not pending.answer.done():
                pending.answer.set_exception(
                    DisconnectedError(error.message, sent=True)
                    if isinstance(error, DisconnectedError)
                    else type(error)(error.message, error.code)
                )
                # Mark the exception as retrieved: the caller may have been cancelled.
                pending.answer.exception()
        self._pending.clear()
        if self._transport is None:
            return
        if isinstance(error, ClosedError):
            self._transport.close()
        else:
            self._transport.abort()


_CAUSES: Final[dict[int, ConnectCause]] = {
    errno.ECONNREFUSED: ConnectCause.REFUSED,
    errno.ECONNRESET: ConnectCause.CLOSED,
    errno.ETIMEDOUT: ConnectCause.TIMED_OUT,
    errno.EHOSTUNREACH: ConnectCause.UNREACHABLE,
    errno.ENETUNREACH: ConnectCause.UNREACHABLE,
    errno.EADDRNOTAVAIL: ConnectCause.UNREACHABLE,
}
# For these causes, the text of the system's error adds no information.
_COMPLETE: Final = (ConnectCause.REFUSED, ConnectCause.TIMED_OUT)
_ERRNO: Final = r"\[Errno (\d+)\]"


def _connect_failure(address: Address, error: Exception, timeout_s: float) -> ConnectFailure:
    """Return the reason of a failed connect, from the exception of the event loop."""
    if isinstance(error, socket.gaierror):
        known = error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None))
        detail = "" if known else error.strerror or str(error)
        return ConnectFailure(address, ConnectCause.NO_SUCH_HOST, detail)
    if isinstance(error, OSError):
        # For a name with several addresses the loop raises one error. The text of this error has
        # the error numbers.
        numbers = [error.errno] if error.errno else map(int, re.findall(_ERRNO, str(error)))
        causes = [_CAUSES.get(number, ConnectCause.FAILED) for number in numbers]
        if isinstance(error, TimeoutError) and not causes:
            detail = f"tried for {timeout_s:g} s"
            return ConnectFailure(address, ConnectCause.TIMED_OUT, detail)
        # A refusal by a host explains more than a missing route to another address.
        cause = next((c for c in _CAUSES.values() if c in causes), ConnectCause.FAILED)
        return ConnectFailure(address, cause, "" if cause in _COMPLETE else str(error))
    return ConnectFailure(address, ConnectCause.BAD_ADDRESS, str(error))
