"""The JSON gateway of a simulated etcd, without HTTP: a path and a body lead to a status and a
document.

The documents are those of etcd 3.4.23: 64-bit numbers are texts, bytes are base64, and fields that
are zero, false or empty are absent.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tests.simulation.etcd import bodies
from tests.simulation.etcd.failures import NO_OPERATION, EtcdFailure, Failure
from tests.simulation.etcd.kv import Commit, Delete, Found, KeyValue, Operation, Outcome, Put, Read
from tests.simulation.etcd.leases import Lease
from tests.simulation.etcd.state import State

CLUSTER_ID: Final = "6126425509248071076"
VERSION: Final = {"etcdserver": "3.4.23", "etcdcluster": "3.4.0"}

Document = dict[str, Any]


class Response(NamedTuple):
    """The document, or a plain text. `is_stream`: the document is the only element of a stream."""

    status: int
    document: Document | str
    is_stream: bool = False


class Gateway:
    """The gateway of one member."""

    def __init__(self, state: State, member_id: int) -> None:
        self._state = state
        self._member_id = str(member_id)
        self._calls: Mapping[str, Callable[[bytes, str | None], Document]] = {
            "/v3/kv/range": self._range,
            "/v3/kv/put": self._put,
            "/v3/kv/txn": self._txn,
            "/v3/kv/deleterange": self._delete,
            "/v3/kv/compaction": self._compact,
            "/v3/lease/grant": self._grant,
            "/v3/lease/keepalive": self._keep_alive,
            "/v3/lease/revoke": self._revoke,
            "/v3/kv/lease/revoke": self._revoke,
            "/v3/lease/timetolive": self._time_to_live,
            "/v3/kv/lease/timetolive": self._time_to_live,
            "/v3/auth/authenticate": self._login,
        }

    def knows(self, path: str) -> bool:
        return path in self._calls or path == WATCH

    def respond(self, path: str, body: bytes, token: str | None = None) -> Response:
        """Carry out any request except a watch. For watches, see `created` and `events`."""
        is_stream = path == KEEP_ALIVE
        try:
            document = self._calls[path](body, token)
        except EtcdFailure as error:
            return failed(error.failure, is_stream=is_stream)
        except (ValueError, msgspec.MsgspecError) as error:
            return failed(Failure(400, 3, str(error)), is_stream=is_stream)
        return Response(200, {"result": document} if is_stream else document, is_stream)

    def lease_of(self, body: bytes) -> Lease | None:
        """Return the lease that a request names, if it exists."""
        try:
            return self._state.leases.find(bodies.parsed(bodies.LeaseBody, body).ID)
        except (ValueError, msgspec.MsgspecError):
            return None

    def header(self, revision: int | None = None) -> Document:
        """Return the header of a response. If `revision` is 0, the header has no revision."""
        number = self._state.kv.revision if revision is None else revision
        shown = {"revision": str(number)} if number else {}
        return {
            "cluster_id": CLUSTER_ID,
            "member_id": self._member_id,
            **shown,
            "raft_term": str(self._state.term),
        }

    # Keys.

    def _range(self, body: bytes, token: str | None) -> Document:
        read = bodies.parsed(bodies.RangeBody, body).read()
        self._state.users.check(token)
        # Read in a transaction of one operation, because the same checks apply.
        outcome = self._state.kv.txn((), [read], ())
        return {"header": self.header(), **_found(outcome.results[0][0], read)}

    def _put(self, body: bytes, token: str | None) -> Document:
        put = bodies.parsed(bodies.PutBody, body).put()
        self._state.users.check(token)
        self._state.check_space()
        return {"header": self.header(self._state.kv.txn((), [put], ()).revision)}

    def _delete(self, body: bytes, token: str | None) -> Document:
        delete = bodies.parsed(bodies.DeleteBody, body).delete()
        self._state.users.check(token)
        outcome = self._state.kv.txn((), [delete], ())
        return {"header": self.header(outcome.revision), **_deleted(outcome.results[0][0])}

    def _txn(self, body: bytes, token: str | None) -> Document:
        txn = bodies.parsed(bodies.TxnBody, body)
        self._state.users.check(token)
        success, failure = _operations(txn.success), _operations(txn.failure)
        if any(isinstance(operation, Put) for operation in (*success, *failure)):
            self._state.check_space()
        conditions = [condition.condition() for condition in txn.compare]
        outcome = self._state.kv.txn(conditions, success, failure)
        return {
            "header": self.header(outcome.revision),
            **({"succeeded": True} if outcome.succeeded else {}),
            **_responses(outcome, success if outcome.succeeded else failure),
        }

    def _compact(self, body: bytes, token: str | None) -> Document:
        compaction = bodies.parsed(bodies.CompactionBody, body)
        self._state.users.user_of(token)
        self._state.kv.compact(compaction.revision)
        return {"header": self.header()}

    # Leases. A keepalive needs no token.

    def _grant(self, body: bytes, token: str | None) -> Document:
        grant = bodies.parsed(bodies.GrantBody, body)
        self._state.users.user_of(token)
        self._state.check_space()
        lease = self._state.grant(grant.TTL, grant.ID)
        return {"header": self.header(), "ID": str(lease.id), "TTL": str(lease.ttl_s)}

    def _keep_alive(self, body: bytes, token: str | None) -> Document:
        lease_id = bodies.parsed(bodies.LeaseBody, body).ID
        lease = self._state.leases.find(lease_id)
        found = {"header": self.header(), **({"ID": str(lease_id)} if lease_id else {})}
        if lease is None:
            return found
        self._state.leases.renew(lease)
        return found | {"TTL": str(lease.ttl_s)}

    def _revoke(self, body: bytes, token: str | None) -> Document:
        lease_id = bodies.parsed(bodies.LeaseBody, body).ID
        self._state.users.user_of(token)
        lease = self._state.leases.find(lease_id)
        if lease is not None and lease.keys:
            self._state.users.check(token)
        self._state.end_lease(lease_id)
        return {"header": self.header()}

    def _time_to_live(self, body: bytes, token: str | None) -> Document:
        asked = bodies.parsed(bodies.LeaseBody, body)
        named = {"ID": str(asked.ID)} if asked.ID else {}
        lease = self._state.leases.find(asked.ID)
        if lease is None:
            return {"header": self.header(), **named, "TTL": "-1"}
        remaining_s = self._state.leases.remaining_s(lease)
        keys = [text(key) for key in sorted(lease.keys)] if asked.keys else []
        return {
            "header": self.header(),
            **named,
            **({"TTL": str(remaining_s)} if remaining_s else {}),
            "grantedTTL": str(lease.ttl_s),
            **({"keys": keys} if keys else {}),
        }

    # Logins.

    def _login(self, body: bytes, token: str | None) -> Document:
        login = bodies.parsed(bodies.LoginBody, body)
        return {
            "header": self.header(),
            "token": self._state.users.login(login.name, login.password),
        }

    # Watches: the elements of their streams.

    def created(self) -> Document:
        return {"result": {"header": self.header(), "created": True}}

    def refused(self, reason: str) -> Document:
        """Return the element for a watch of a user without the right to read."""
        return {
            "result": {
                "header": self.header(),
                "watch_id": "-1",
                "created": True,
                "canceled": True,
                "cancel_reason": reason,
            }
        }

    def compacted(self) -> Document:
        return {
            "result": {
                "header": self.header(0),
                "canceled": True,
                "compact_revision": str(self._state.kv.compacted),
            }
        }

    def events(self, commits: Sequence[Commit], revision: int) -> Document:
        """Return the element with the events of some commits; `revision` is for its header."""
        events = [_event(commit.revision, *event) for commit in commits for event in commit.events]
        return {"result": {"header": self.header(revision), "events": events}}


WATCH: Final = "/v3/watch"
KEEP_ALIVE: Final = "/v3/lease/keepalive"


def failed(failure: Failure, *, is_stream: bool = False) -> Response:
    """Return the response for an error. In a stream, an error has another form."""
    if is_stream:
        return Response(failure.status, stream_failure(failure), is_stream)
    message = failure.message
    return Response(failure.status, {"error": message, "message": message, "code": failure.code})


STATUS_NAMES: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def stream_failure(failure: Failure) -> Document:
    return {
        "error": {
            "grpc_code": failure.code,
            "http_code": failure.status,
            "message": failure.message,
            "http_status": STATUS_NAMES[failure.status],
        }
    }


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _operations(parts: Sequence[bodies.OperationBody]) -> list[Operation]:
    found = []
    for part in parts:
        operation = part.operation()
        if operation is None:
            raise EtcdFailure(NO_OPERATION)
        found.append(operation)
    return found


def _responses(outcome: Outcome, operations: Sequence[Operation]) -> Document:
    """Return the responses to the operations of a transaction, if there are any."""
    if not operations:
        return {}
    responses: list[Document] = []
    for operation, (result, revision) in zip(operations, outcome.results, strict=True):
        header: Document = {"header": {"revision": str(revision)}}
        if isinstance(operation, Put):
            responses.append({"response_put": header})
        elif isinstance(operation, Delete):
            responses.append({"response_delete_range": header | _deleted(result)})
        else:
            responses.append({"response_range": header | _found(result, operation)})
    return {"responses": responses}


def _found(result: object, read: Read) -> Document:
    assert isinstance(result, Found)
    return {
        **({"kvs": [_key_value(present) for present in result.kvs]} if result.kvs else {}),
        **({"more": True} if 0 < read.limit < result.total else {}),
        **({"count": str(result.total)} if result.total else {}),
    }


def _deleted(result: object) -> Document:
    assert isinstance(result, int)
    return {"deleted": str(result)} if result else {}


def _key_value(present: KeyValue) -> Document:
    return {
        "key": text(present.key),
        "create_revision": str(present.create_revision),
        "mod_revision": str(present.mod_revision),
        "version": str(present.version),
        **({"value": text(present.value)} if present.value else {}),
        **({"lease": str(present.lease)} if present.lease else {}),
    }


def _event(revision: int, key: bytes, present: KeyValue | None) -> Document:
    if present is None:
        return {"type": "DELETE", "kv": {"key": text(key), "mod_revision": str(revision)}}
    return {"kv": _key_value(present)}
