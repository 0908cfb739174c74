"""The bodies of requests to etcd's JSON gateway, one function for each call.

The fields are those of etcd's rpc.proto. In JSON, bytes are base64, as msgspec encodes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from oncelog_server.cluster.store import Compare, Created, Delete, Put, WriteOperation

RANGE: Final = "/v3/kv/range"
TXN: Final = "/v3/kv/txn"
WATCH: Final = "/v3/watch"
GRANT: Final = "/v3/lease/grant"
KEEP_ALIVE: Final = "/v3/lease/keepalive"
REVOKE: Final = "/v3/lease/revoke"
AUTHENTICATE: Final = "/v3/auth/authenticate"

NEEDS_LEADER: Final = {"Grpc-Metadata-hasleader": "true"}
"""The header of a request that a member without a leader refuses at once, and does not carry out.
It also ends the watch of a member that loses its leader (etcd's WithRequireLeader)."""

NO_END: Final = b"\0"
"""The end of a range that has no end."""

_encode = msgspec.json.Encoder().encode


class KeyRange(msgspec.Struct, frozen=True, omit_defaults=True):
    """Keys from `key` to before `range_end`. Without an end, only `key`."""

    key: bytes
    range_end: bytes = b""
    limit: int = 0
    revision: int = 0


class Page(msgspec.Struct, frozen=True):
    """A page of a prefix. It begins at `start`. Its revision is the newest if `revision` is 0."""

    start: bytes
    revision: int = 0


def key_body(key: bytes) -> bytes:
    """Return the body that reads one key."""
    return _encode(KeyRange(key))


def page_body(prefix: bytes, page: Page, limit: int) -> bytes:
    """Return the body that reads at most `limit` keys of a prefix."""
    return _encode(KeyRange(page.start, prefix_end(prefix), limit, page.revision))


def txn_body(
    prefix: bytes, compare: Sequence[Compare], operations: Sequence[WriteOperation]
) -> bytes:
    """Return the body of a transaction. If a condition fails, the response has the present entries
    of the keys of `compare`."""
    return _encode(
        {
            "compare": [_condition(prefix, condition) for condition in compare],
            "success": [_operation(prefix, operation) for operation in operations],
            "failure": [
                {"request_range": KeyRange(prefix + condition.key.encode())}
                for condition in compare
            ],
        }
    )


def watch_body(prefix: bytes, from_revision: int) -> bytes:
    """Return the body that begins a watch of a prefix."""
    return _encode(
        {
            "create_request": {
                "key": prefix,
                "range_end": prefix_end(prefix),
                "start_revision": str(from_revision),
            }
        }
    )


def grant_body(ttl_s: int) -> bytes:
    return _encode({"TTL": str(ttl_s)})


def lease_body(lease_id: int) -> bytes:
    """Return the body that renews or revokes a lease."""
    return _encode({"ID": str(lease_id)})


def login_body(name: str, password: str) -> bytes:
    return _encode({"name": name, "password": password})


def prefix_end(prefix: bytes) -> bytes:
    """Return the first key behind all keys that begin with `prefix`."""
    for length in range(len(prefix), 0, -1):
        if prefix[length - 1] < 0xFF:
            return prefix[: length - 1] + bytes((prefix[length - 1] + 1,))
    return NO_END


def _condition(prefix: bytes, condition: Compare) -> dict[str, object]:
    target: dict[str, object] = {"key": prefix + condition.key.encode(), "result": "EQUAL"}
    if isinstance(condition, Created):
        return target | {"target": "CREATE", "create_revision": str(condition.create_revision)}
    return target | {"target": "MOD", "mod_revision": str(condition.mod_revision)}


def _operation(prefix: bytes, operation: WriteOperation) -> dict[str, object]:
    key = prefix + operation.key.encode()
    if isinstance(operation, Delete):
        return {"request_delete_range": KeyRange(key)}
    return {"request_put": _put(key, operation)}


def _put(key: bytes, operation: Put) -> dict[str, object]:
    return {"key": key, "value": operation.value, "lease": str(operation.lease_id)}
