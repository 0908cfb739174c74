"""Requests and their responses on one connection, without IO. The client uses this module, and so
does the broker for its own requests to other brokers.

A broker responds in the order of the requests. So a response belongs to the oldest request in
flight, and must have the same correlation id. The APIs in UNORDERED are exceptions: a response
belongs to any request in flight with its correlation id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from struct import error as StructError
from typing import Any, NamedTuple

from oncelog_protocol.apis import UNORDERED, Api, ApiKey, api_of
from oncelog_protocol.codecs import decode, encoder
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.frames import MAX_FRAME_SIZE, FrameReader, frame
from oncelog_protocol.headers import read_response_header, write_request_header
from oncelog_protocol.types import Buffer

_MAX_CORRELATION_ID = (1 << 31) - 1


class Waiting(NamedTuple):
    """A request in flight that will get a response."""

    correlation_id: int
    api: Api
    version: int


class Response(NamedTuple):
    """The response to one request: `message` is an instance of `api.response`."""

    correlation_id: int
    api: Api
    version: int
    message: Any


class Requests:
    """The requests in flight on one connection."""

    __slots__ = ("_client_id", "_frames", "_next", "_waiting")

    def __init__(self, client_id: str | None, *, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self._client_id = client_id
        self._frames = FrameReader(max_frame_size)
        self._waiting: deque[Waiting] = deque()
        self._next = 0

    def __len__(self) -> int:
        """Return the number of requests in flight."""
        return len(self._waiting)

    def send(
        self, request: object, version: int, *, answered: bool = True
    ) -> tuple[int, list[Any]]:
        """Return the correlation id of a request and the parts to write, in order. `answered=False`
        for the one request without a response: Produce with acks=0.

        Raises TypeError or ValueError for a value that has no encoding, with the API and the field.
        Nothing is in flight then.
        """
        api = api_of(type(request))
        correlation_id = self._next
        parts: list[Any] = [write_request_header(api.key, version, correlation_id, self._client_id)]
        try:
            encoder(type(request), version)(request, parts.append)
        except (AttributeError, TypeError, ValueError, StructError) as error:
            from oncelog_protocol.unencodable import unencodable

            if (cause := unencodable(request, version)) is None:
                raise
            raise type(cause)(f"{api.name}: {cause}") from error
        self._next = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        if answered:
            self._waiting.append(Waiting(correlation_id, api, version))
        return correlation_id, frame(parts)

    def receive_data(self, data: Buffer) -> Iterator[Response]:
        """Return the complete responses, in the order of their arrival. Raises ProtocolError for a
        response without a request, or an undecodable one; the connection must then be closed.
        """
        return map(self.response, self._frames.receive_data(data))

    def abandon(self) -> list[Waiting]:
        """Return the requests in flight, and forget them: their connection is closed."""
        lost = list(self._waiting)
        self._waiting.clear()
        return lost

    def response(self, body: Buffer) -> Response:
        """Return the response in `body`, a frame without its size field. Raises ProtocolError as
        `receive_data` does."""
        if not self._waiting:
            raise ProtocolError("a response without a request")
        waiting = self._waiting[0]
        api, version = waiting.api, waiting.version
        correlation_id, position = read_response_header(api.key, version, body)
        if correlation_id != waiting.correlation_id and api.key in UNORDERED:
            waiting = self._later(correlation_id, waiting)
            api, version = waiting.api, waiting.version
            correlation_id, position = read_response_header(api.key, version, body)
        if correlation_id != waiting.correlation_id:
            raise ProtocolError(
                f"response {correlation_id}, expected {waiting.correlation_id} ({api.name})"
            )
        content = memoryview(body)[position:]
        message = decode(api.response, _response_version(api, version, content), content)
        if waiting is self._waiting[0]:
            self._waiting.popleft()
        else:
            self._waiting.remove(waiting)
        return Response(correlation_id, api, version, message)

    def _later(self, correlation_id: int, oldest: Waiting) -> Waiting:
        """Return the request with this correlation id if it and all older requests are of APIs in
        UNORDERED: its response may overtake theirs. Else return `oldest`."""
        for waiting in self._waiting:
            if waiting.api.key not in UNORDERED:
                break
            if waiting.correlation_id == correlation_id:
                return waiting
        return oldest


def _response_version(api: Api, version: int, content: memoryview) -> int:
    """Return the version of a response. It is the version of the request, with one exception: a
    broker refuses an unknown version of ApiVersions with a response in version 0 (KIP-511).
    """
    if api.key != ApiKey.API_VERSIONS:
        return version
    refused = int.from_bytes(content[:2], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
    return 0 if refused else version
