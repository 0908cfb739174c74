"""A request to a member of a simulated etcd."""

from __future__ import annotations

from typing import Final, NamedTuple

import h11

# The header of a request that fails at once if the member has no leader (etcd's WithRequireLeader).
NEEDS_LEADER: Final = b"grpc-metadata-hasleader"


class Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""
    token: str | None = None
    needs_leader: bool = False


def request_of(head: h11.Request, body: bytes) -> Request:
    headers = {bytes(name): bytes(value) for name, value in head.headers}
    token = headers.get(b"authorization")
    return Request(
        head.method.decode(),
        head.target.decode(),
        body,
        None if token is None else token.decode(),
        headers.get(NEEDS_LEADER) == b"true",
    )
