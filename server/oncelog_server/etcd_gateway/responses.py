"""The bodies of responses of etcd's JSON gateway, as values of the store's contract.

The gateway writes 64-bit numbers as texts, and leaves out fields that are zero, false or empty.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from oncelog_server.cluster.store import Entry, TxnResult

R = TypeVar("R")


class Header(msgspec.Struct, frozen=True):
    """`revision` is the newest of the whole etcd, also of foreign keys."""

    revision: int = 0


class KeyValue(msgspec.Struct, frozen=True):
    key: bytes
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0


class RangeResponse(msgspec.Struct, frozen=True):
    header: Header = Header()
    kvs: tuple[KeyValue, ...] = ()
    more: bool = False


class PutResponse(msgspec.Struct, frozen=True):
    header: Header = Header()


class DeleteResponse(msgspec.Struct, frozen=True):
    deleted: int = 0


class OperationResponse(msgspec.Struct, frozen=True):
    """The response to one operation of a transaction: one of the fields is set."""

    response_put: PutResponse | None = None
    response_range: RangeResponse | None = None
    response_delete_range: DeleteResponse | None = None

    @property
    def has_changed(self) -> bool:
        deleted = self.response_delete_range
        return self.response_put is not None or (deleted is not None and deleted.deleted > 0)


class TxnResponse(msgspec.Struct, frozen=True):
    header: Header
    succeeded: bool = False
    responses: tuple[OperationResponse, ...] = ()


class LeaseResponse(msgspec.Struct, frozen=True):
    """A lease that has ended has no TTL."""

    header: Header = Header()
    ID: int = 0
    TTL: int = 0


class KeepAliveResponse(msgspec.Struct, frozen=True):
    result: LeaseResponse


class LoginResponse(msgspec.Struct, frozen=True):
    token: str


class InvalidResponse(OSError):
    """The bytes are no response of etcd's gateway."""


_Response = RangeResponse | TxnResponse | LeaseResponse | KeepAliveResponse | LoginResponse | Header
_DECODERS: Final = {
    kind: msgspec.json.Decoder(kind, strict=False)
    for kind in (RangeResponse, TxnResponse, LeaseResponse, KeepAliveResponse, LoginResponse)
}


def decoded(kind: type[R], body: bytes) -> R:
    """Return the response in `body`. Raises InvalidResponse."""
    # The type of a dict cannot express that the decoder under a type returns values of this type.
    decoder: msgspec.json.Decoder[R] = _DECODERS[kind]  # type: ignore[index, assignment]
    try:
        return decoder.decode(body)
    except ValueError as error:
        raise InvalidResponse(f"etcd: {error} in {body[:200]!r}") from error


def entry_of(prefix: bytes, value: KeyValue) -> Entry:
    """Return the entry without the prefix of the cluster. Raises InvalidResponse."""
    try:
        key = value.key.removeprefix(prefix).decode()
    except UnicodeDecodeError as error:
        raise InvalidResponse(f"etcd: the key {value.key!r} is no text") from error
    return Entry(key, value.value, value.create_revision, value.mod_revision)


def txn_result(prefix: bytes, response: TxnResponse) -> TxnResult:
    """Return the result of a transaction that `txn_body` has made."""
    if response.succeeded:
        changed = any(operation.has_changed for operation in response.responses)
        return TxnResult(True, response.header.revision if changed else 0)
    found = (operation.response_range or RangeResponse() for operation in response.responses)
    current = tuple(entry_of(prefix, present.kvs[0]) if present.kvs else None for present in found)
    return TxnResult(False, 0, current)
