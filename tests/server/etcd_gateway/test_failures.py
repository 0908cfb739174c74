"""Every error of the gateway says whether the request may have been carried out."""

from __future__ import annotations

import json

import pytest

from oncelog_server.cluster.store import Compacted, LeaseEnded
from oncelog_server.etcd_gateway.failures import (
    CODES,
    EtcdError,
    Failure,
    failure_of,
    failure_of_code,
)


def body(code: int, message: str) -> bytes:
    return json.dumps({"error": message, "code": code, "message": message}).encode()


def test_every_code_of_grpc_has_a_row() -> None:
    assert set(CODES) == set(range(1, 17))


@pytest.mark.parametrize(
    ("status", "code", "message", "failure"),
    [
        (503, 14, "etcdserver: request timed out", Failure.UNAVAILABLE),
        (503, 14, "etcdserver: no leader", Failure.NO_LEADER),
        (504, 4, "context deadline exceeded", Failure.UNAVAILABLE),
        (429, 8, "etcdserver: mvcc: database space exceeded", Failure.REFUSED),
        (403, 7, "etcdserver: permission denied", Failure.REFUSED),
        (400, 3, "etcdserver: too many operations in txn request", Failure.REFUSED),
        (
            400,
            3,
            "etcdserver: authentication failed, invalid user ID or password",
            Failure.REFUSED,
        ),
        (401, 16, "etcdserver: invalid auth token", Failure.LOGIN),
        (400, 3, "etcdserver: revision of auth store is old", Failure.LOGIN),
        (400, 3, "etcdserver: user name is empty", Failure.LOGIN),
        (500, 99, "a code of a later gRPC", Failure.UNAVAILABLE),
    ],
)
def test_an_error_of_etcd(status: int, code: int, message: str, failure: Failure) -> None:
    error = failure_of(status, body(code, message))
    assert isinstance(error, EtcdError)
    assert error.failure is failure
    assert message in str(error)


def test_an_error_of_a_stream_has_its_code_and_message_inside() -> None:
    inside = {"grpc_code": 14, "http_code": 503, "message": "etcdserver: no leader"}
    error = failure_of(503, json.dumps({"error": inside}).encode())
    assert isinstance(error, EtcdError)
    assert (error.failure, str(error)) == (Failure.NO_LEADER, "etcdserver: no leader")


def test_an_ended_lease_and_a_compacted_revision_have_exceptions_of_their_own() -> None:
    ended = failure_of(404, body(5, "etcdserver: requested lease not found"))
    assert isinstance(ended, LeaseEnded)
    compacted = failure_of_code(11, "etcdserver: mvcc: required revision has been compacted")
    assert isinstance(compacted, Compacted)


@pytest.mark.parametrize(
    ("status", "failure"), [(400, Failure.REFUSED), (502, Failure.UNAVAILABLE)]
)
def test_a_plain_text_is_shown(status: int, failure: Failure) -> None:
    text = b"CommonName of client sending a request against gateway will be ignored"
    error = failure_of(status, text)
    assert isinstance(error, EtcdError)
    assert error.failure is failure
    assert "CommonName of client" in str(error)
