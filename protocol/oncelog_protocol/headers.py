"""Request and response headers (KIP-482; Kafka's RequestHeader and ResponseHeader).

A request header is v1, or v2 with tagged fields if the request is flexible. A response header is
v0, or v1 with tagged fields. `client_id` keeps its int16 length in all versions.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from oncelog_protocol.apis import APIS, request_header_version, response_header_version
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.types import Buffer
from oncelog_protocol.unsigned_varint import skip_tags

REQUEST_START = struct.Struct(">hhih")
"""API key, version, correlation id, and the length of the client id."""
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The first fields of every request. `client_id` is None if the client sent null."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(buffer: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """Return the header and the position of the body. Raises ProtocolError.

    The header of an unknown API or version is read as v1, so the returned position may be wrong.
    """
    try:
        api_key, api_version, correlation_id, size = REQUEST_START.unpack_from(buffer, position)
        api = APIS.get(api_key)
        is_flexible = api is not None and api.flexible_since <= api_version <= api.latest
        client_id, position = read_client_id(
            buffer, position + REQUEST_START.size, size, is_flexible=is_flexible
        )
    except struct.error as error:
        raise ProtocolError(f"a request header cut off: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def read_client_id(
    buffer: Buffer, position: int, size: int, *, is_flexible: bool
) -> tuple[str | None, int]:
    """Return the rest of the header after REQUEST_START, and the position of the body. The rest is
    the client id of `size` bytes, and tagged fields in a flexible version. Raises ProtocolError."""
    try:
        client_id = None
        if size != -1:
            end = position + size
            if not position <= end <= len(buffer):
                raise ProtocolError(f"a client id of {size} bytes")
            client_id = str(buffer[position:end], "utf-8")
            position = end
        if is_flexible:
            tags = buffer[position]
            position = skip_tags(buffer, position + 1, tags) if tags else position + 1
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a request header cut off or not UTF-8: {error}") from error
    return client_id, position


def write_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the bytes of a request header, in the header version of its API. Raises KeyError."""
    text = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(text)
    start = REQUEST_START.pack(api_key, api_version, correlation_id, size)
    return start + text + (b"\0" if request_header_version(api_key, api_version) > 1 else b"")


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Return the header of the response to a request. Raises KeyError."""
    start = _CORRELATION_ID.pack(correlation_id)
    return start + b"\0" if response_header_version(api_key, api_version) else start


def read_response_header(
    api_key: int, api_version: int, buffer: Buffer, position: int = 0
) -> tuple[int, int]:
    """Return the correlation id and the position of the body. Raises ProtocolError if the header is
    cut off, and KeyError for an unknown API key."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, position)
        position += _CORRELATION_ID.size
        if response_header_version(api_key, api_version):
            tags = buffer[position]
            position = skip_tags(buffer, position + 1, tags) if tags else position + 1
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"a response header cut off: {error}") from error
    return correlation_id, position
