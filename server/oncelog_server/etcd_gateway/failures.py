"""The errors of etcd's JSON gateway as exceptions.

A body has gRPC's code of the error. A proxy, or a gateway that refuses a client certificate with a
common name, responds with plain text.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from oncelog_server.cluster.store import Compacted, FinalFailure, LeaseEnded


class Failure(Enum):
    """The meaning of an error for the request. REFUSED: not carried out, and no other member would
    carry it out. UNAVAILABLE: this member cannot respond; it is unknown whether the request has
    been carried out. LOGIN: not carried out, because the token of the login is not valid.
    NO_LEADER: not carried out, because this member has no leader at the moment."""

    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    LOGIN = "login"
    NO_LEADER = "no leader"


class EtcdError(OSError):
    """An error that a member of etcd has responded with."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class EtcdRefusal(EtcdError, FinalFailure):
    """An error that lasts until an operator acts: a wrong password, a missing right, a certificate
    that etcd does not accept, or a server that is no etcd."""


# By the codes of gRPC (google.rpc.Code).
CODES: Final = {
    1: Failure.UNAVAILABLE,  # CANCELLED
    2: Failure.UNAVAILABLE,  # UNKNOWN
    3: Failure.REFUSED,  # INVALID_ARGUMENT
    4: Failure.UNAVAILABLE,  # DEADLINE_EXCEEDED
    5: Failure.REFUSED,  # NOT_FOUND
    6: Failure.REFUSED,  # ALREADY_EXISTS
    7: Failure.REFUSED,  # PERMISSION_DENIED
    8: Failure.REFUSED,  # RESOURCE_EXHAUSTED: NOSPACE, or too many requests
    9: Failure.REFUSED,  # FAILED_PRECONDITION
    10: Failure.UNAVAILABLE,  # ABORTED
    11: Failure.REFUSED,  # OUT_OF_RANGE
    12: Failure.REFUSED,  # UNIMPLEMENTED
    13: Failure.UNAVAILABLE,  # INTERNAL
    14: Failure.UNAVAILABLE,  # UNAVAILABLE
    15: Failure.UNAVAILABLE,  # DATA_LOSS
    16: Failure.LOGIN,  # UNAUTHENTICATED
}

# INVALID_ARGUMENT (also a wrong password), PERMISSION_DENIED, UNIMPLEMENTED. Other refusals may
# pass: too many requests, a full database, users that are not set up yet.
_FINAL: Final = frozenset({3, 7, 12})
_FINAL_STATUS: Final = frozenset({400, 401, 403})

# By the message, where the code alone is ambiguous (etcd's rpctypes/error.go).
_LEASE_NOT_FOUND: Final = "requested lease not found"
_COMPACTED: Final = "required revision has been compacted"
# The response to a request that demands a leader (`NEEDS_LEADER` in requests.py).
_NO_LEADER: Final = "etcdserver: no leader"
# The users have changed since the login, or the request came without a login.
_NO_USER: Final = "user name is empty"
_LOGINS: Final = ("revision of auth store is old", _NO_USER)


class StreamError(msgspec.Struct, frozen=True):
    """The error of a call with a stream, such as a keepalive."""

    grpc_code: int = 2
    message: str = ""


class ErrorBody(msgspec.Struct, frozen=True):
    """The text is in `message`, in etcd 3.4 also in `error`. A stream has only `error`."""

    code: int = 2
    message: str = ""
    error: str | StreamError = ""


_DECODER: Final = msgspec.json.Decoder(ErrorBody)


def failure_of(status: int, body: bytes) -> Exception:
    """Return the exception for a response with an HTTP status of 400 or above: EtcdError,
    LeaseEnded or Compacted."""
    try:
        error = _DECODER.decode(body)
    except ValueError:
        text = body[:300].decode("utf-8", "replace").strip()
        kind = Failure.UNAVAILABLE if status >= 500 else Failure.REFUSED
        refuse = EtcdRefusal if status in _FINAL_STATUS else EtcdError
        return refuse(kind, f"etcd: HTTP status {status}: {text}")
    if isinstance(error.error, StreamError):
        return failure_of_code(error.error.grpc_code, error.error.message)
    return failure_of_code(error.code, error.message or error.error)


def failure_of_code(code: int, message: str) -> Exception:
    """Return the exception for gRPC's code of an error."""
    if _LEASE_NOT_FOUND in message:
        return LeaseEnded(message)
    if _COMPACTED in message:
        return Compacted(message)
    if message == _NO_LEADER:
        return EtcdError(Failure.NO_LEADER, message)
    if any(text in message for text in _LOGINS):
        return (EtcdRefusal if _NO_USER in message else EtcdError)(Failure.LOGIN, message)
    if code not in CODES:
        return EtcdError(Failure.UNAVAILABLE, f"etcd: unknown code {code}: {message}")
    return (EtcdRefusal if code in _FINAL else EtcdError)(CODES[code], message)
