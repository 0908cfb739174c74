"""One request or response that passes the proxy, decoded with the public wire format."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Any

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.codecs import decode
from oncelog_protocol.headers import read_request_header, read_response_header

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")


class Direction(Enum):
    """Requests go to the broker, responses to the client."""

    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class Frame:
    """`data` includes the length. `connection` counts from 0. A response has the API, version and
    client id of its request. `number` is the frame's index in its connection and direction."""

    connection: int
    number: int
    direction: Direction
    api: ApiKey
    version: int
    client_id: str
    data: bytes

    @property
    def correlation_id(self) -> int:
        """Return the correlation id, which a request and its response share."""
        at = 8 if self.direction is Direction.REQUEST else 4
        (found,) = _CORRELATION.unpack_from(self.data, at)
        return int(found)


def request_frame(connection: int, number: int, data: bytes) -> Frame:
    """Return the frame of a request. Every version of the header begins with the fields that this
    function reads."""
    key, version, _, size = _REQUEST.unpack_from(data, 4)
    start = 4 + _REQUEST.size
    client_id = data[start : start + max(size, 0)].decode()
    return Frame(connection, number, Direction.REQUEST, ApiKey(key), version, client_id, data)


def response_frame(request: Frame, number: int, data: bytes) -> Frame:
    """Return the response to `request`."""
    return Frame(
        request.connection,
        number,
        Direction.RESPONSE,
        request.api,
        request.version,
        request.client_id,
        data,
    )


def correlation_id_of(response: bytes) -> int:
    """Return the correlation id of a response. `response` includes the length."""
    (found,) = _CORRELATION.unpack_from(response, 4)
    return int(found)


def length_of(head: bytes) -> int:
    """Return the length of a frame, from its first four bytes."""
    (found,) = _LENGTH.unpack(head)
    return int(found)


def message(frame: Frame) -> Any:
    """Return the decoded message of the frame. Raises ProtocolError."""
    api = APIS[frame.api]
    body = memoryview(frame.data)[4:]
    if frame.direction is Direction.REQUEST:
        _, position = read_request_header(body)
        return decode(api.request, frame.version, body[position:])
    _, position = read_response_header(frame.api, frame.version, body)
    return decode(api.response, frame.version, body[position:])
