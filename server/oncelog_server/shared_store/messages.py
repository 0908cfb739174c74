"""The messages between a shared store and its clients, and their frames.

A frame is its size, four bytes, and one message in MessagePack. A request has an id, which its
responses repeat. Both sides are processes of one start of `oncelog serve`, so that there is a
single version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from oncelog_server.cluster.store import (
    Changes,
    Compacted,
    Compare,
    Created,
    Delete,
    Entry,
    LeaseEnded,
    Put,
    Snapshot,
    TxnResult,
    WriteOperation,
    Written,
)

_SIZE: Final = struct.Struct(">I")
# A snapshot of 100,000 partitions has about 20 MB.
MAX_FRAME_BYTES: Final = 256 << 20


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A request, or a response with the id of its request."""

    id: int


class Get(Message, frozen=True):
    key: str


class Range(Message, frozen=True):
    prefix: str


class Txn(Message, frozen=True):
    """`compare` has (key, revision, True for Created). `operations` has (key, value, lease id); a
    value of None deletes the key."""

    compare: tuple[tuple[str, int, bool], ...]
    operations: tuple[tuple[str, bytes | None, int], ...]


class Grant(Message, frozen=True):
    ttl_ms: int


class KeepAlive(Message, frozen=True):
    lease_id: int


class Revoke(Message, frozen=True):
    lease_id: int


class Watch(Message, frozen=True):
    """Ask for changes. The responses have the id of this request, and have no end."""

    prefix: str
    from_revision: int


class Unwatch(Message, frozen=True):
    """End the watch with this id. There is no response."""


class Found(Message, frozen=True):
    entry: Entry | None


class Listed(Message, frozen=True):
    snapshot: Snapshot


class Done(Message, frozen=True):
    result: TxnResult


class Granted(Message, frozen=True):
    """Response to Grant and KeepAlive."""

    lease_id: int
    ttl_ms: int


class Revoked(Message, frozen=True):
    """Response to Revoke."""


class Changed(Message, frozen=True):
    changes: Changes


class Failed(Message, frozen=True):
    """`kind` is a key of FAILURES."""

    kind: str
    reason: str


Request: TypeAlias = Get | Range | Txn | Grant | KeepAlive | Revoke | Watch | Unwatch
Response: TypeAlias = Found | Listed | Done | Granted | Revoked | Changed | Failed

# The exceptions of the contract of `MetadataStore`, by their names in Failed. UnknownOutcome is not
# among them: a shared store responds after the commit, and a client without a response raises
# UnknownOutcome itself.
FAILURES: Final[dict[str, type[Exception]]] = {
    "compacted": Compacted,
    "lease ended": LeaseEnded,
    "store": OSError,
    "value": ValueError,
}

_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUESTS: Final = msgspec.msgpack.Decoder(Request)
_RESPONSES: Final = msgspec.msgpack.Decoder(Response)


def failed(id_: int, error: Exception) -> Failed:
    """Return the response for an exception. Raises KeyError for one outside of the contract."""
    for kind, type_ in FAILURES.items():
        if isinstance(error, type_):
            return Failed(id_, kind, str(error))
    raise KeyError(type(error)) from error


def raised(failure: Failed) -> Exception:
    """Return the exception of a response. Raises KeyError for an unknown kind."""
    return FAILURES[failure.kind](failure.reason)


def transaction(id_: int, compare: Sequence[Compare], operations: Sequence[WriteOperation]) -> Txn:
    return Txn(
        id_,
        tuple(
            (row.key, row.create_revision, True)
            if isinstance(row, Created)
            else (row.key, row.mod_revision, False)
            for row in compare
        ),
        tuple(
            (row.key, row.value, row.lease_id) if isinstance(row, Put) else (row.key, None, 0)
            for row in operations
        ),
    )


def conditions(txn: Txn) -> list[Compare]:
    return [
        Created(key, revision) if is_created else Written(key, revision)
        for key, revision, is_created in txn.compare
    ]


def operations(txn: Txn) -> list[WriteOperation]:
    return [
        Delete(key) if value is None else Put(key, value, lease_id)
        for key, value, lease_id in txn.operations
    ]


def framed(message: Request | Response) -> bytes:
    body = _ENCODER.encode(message)
    return _SIZE.pack(len(body)) + body


class Frames:
    """Cuts received bytes into messages."""

    def __init__(self) -> None:
        self._received = bytearray()

    def bodies(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete frames. Raises ValueError for one that is too large."""
        self._received += data
        while len(self._received) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._received)
            if size > MAX_FRAME_BYTES:
                raise ValueError(f"a frame of {size} bytes")
            end = _SIZE.size + size
            if len(self._received) < end:
                return
            body = bytes(self._received[_SIZE.size : end])
            del self._received[:end]
            yield body


def request(body: bytes) -> Request:
    """Return the request in a frame. Raises ValueError."""
    decoded: Request = _REQUESTS.decode(body)
    return decoded


def response(body: bytes) -> Response:
    """Return the response in a frame. Raises ValueError."""
    decoded: Response = _RESPONSES.decode(body)
    return decoded
