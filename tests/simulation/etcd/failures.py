"""The errors of etcd's JSON gateway: HTTP status, code of gRPC, and text, as etcd 3.4.23 sends
them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Failure(NamedTuple):
    status: int
    code: int
    message: str


class EtcdFailure(Exception):
    """A request fails with `failure`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


NO_KEY: Final = Failure(400, 3, "etcdserver: key is not provided")
NO_OPERATION: Final = Failure(400, 3, "etcdserver: key not found")
DUPLICATE_KEY: Final = Failure(400, 3, "etcdserver: duplicate key given in txn request")
TOO_MANY_OPERATIONS: Final = Failure(400, 3, "etcdserver: too many operations in txn request")
COMPACTED: Final = Failure(400, 11, "etcdserver: mvcc: required revision has been compacted")
FUTURE: Final = Failure(400, 11, "etcdserver: mvcc: required revision is a future revision")
NO_SPACE: Final = Failure(429, 8, "etcdserver: mvcc: database space exceeded")

NO_LEASE: Final = Failure(404, 5, "etcdserver: requested lease not found")
LEASE_EXISTS: Final = Failure(412, 9, "etcdserver: lease already exists")
TTL_TOO_LARGE: Final = Failure(400, 11, "etcdserver: too large lease TTL")

NO_USER: Final = Failure(400, 3, "etcdserver: user name is empty")
WRONG_PASSWORD: Final = Failure(
    400, 3, "etcdserver: authentication failed, invalid user ID or password"
)
INVALID_TOKEN: Final = Failure(401, 16, "etcdserver: invalid auth token")
DENIED: Final = Failure(403, 7, "etcdserver: permission denied")
NO_LOGINS: Final = Failure(412, 9, "etcdserver: authentication is not enabled")

NO_LEADER: Final = Failure(503, 14, "etcdserver: no leader")
TIMED_OUT: Final = Failure(503, 14, "etcdserver: request timed out")
LEADER_FAILED: Final = Failure(
    503, 14, "etcdserver: request timed out, possibly due to previous leader failure"
)
DEADLINE: Final = Failure(500, 2, "context deadline exceeded")
CLOSING: Final = Failure(503, 14, "transport is closing")

# gRPC's names of the codes. The reason of a refused watch contains them.
NAMES: Final = {3: "InvalidArgument", 7: "PermissionDenied", 16: "Unauthenticated"}
