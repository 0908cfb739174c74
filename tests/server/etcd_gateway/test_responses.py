"""Responses of etcd 3.4.23, as its gateway has sent them, and what is read from them."""

from __future__ import annotations

import pytest

from oncelog_server.cluster.store import Entry, TxnResult
from oncelog_server.etcd_gateway.responses import (
    Header,
    InvalidResponse,
    KeepAliveResponse,
    LeaseResponse,
    RangeResponse,
    TxnResponse,
    decoded,
    entry_of,
    txn_result,
)

HEADER = (
    '"header":{"cluster_id":"14841639068965178418","member_id":"1","revision":"9","raft_term":"2"}'
)


def result(body: str) -> TxnResult:
    return txn_result(b"/p/", decoded(TxnResponse, body.encode()))


def test_a_success_that_writes_has_the_revision_of_the_header() -> None:
    put = '{"response_put":{"header":{"revision":"9"}}}'
    body = f'{{{HEADER},"succeeded":true,"responses":[{put}]}}'
    assert result(body) == TxnResult(True, 9)


@pytest.mark.parametrize(
    ("deleted", "revision"), [("", 0), (',"deleted":"1"', 9)], ids=["missing", "deleted"]
)
def test_a_delete_of_a_missing_key_has_no_revision(deleted: str, revision: int) -> None:
    delete = f'{{"response_delete_range":{{"header":{{"revision":"9"}}{deleted}}}}}'
    body = f'{{{HEADER},"succeeded":true,"responses":[{delete}]}}'
    assert result(body) == TxnResult(True, revision)


def test_a_failed_condition_leaves_succeeded_out_and_gives_the_present_entries() -> None:
    present = (
        '{"response_range":{"header":{"revision":"9"},"kvs":[{"key":"L3AvYQ==",'
        '"create_revision":"2","mod_revision":"3","version":"2","value":"eA=="}],"count":"1"}}'
    )
    missing = '{"response_range":{"header":{"revision":"9"}}}'
    body = f'{{{HEADER},"responses":[{present},{missing}]}}'
    assert result(body) == TxnResult(False, 0, (Entry("a", b"x", 2, 3), None))


def test_an_empty_range_has_only_a_header() -> None:
    response = decoded(RangeResponse, f"{{{HEADER}}}".encode())
    assert (response.kvs, response.more, response.header.revision) == ((), False, 9)


def test_the_keepalive_of_an_ended_lease_has_no_ttl() -> None:
    body = f'{{"result":{{{HEADER},"ID":"7587862094297012738"}}}}'
    expected = LeaseResponse(Header(9), 7587862094297012738, 0)
    assert decoded(KeepAliveResponse, body.encode()).result == expected


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"header":{"revision":"x"}}'])
def test_bytes_that_are_no_response_are_an_os_error(body: bytes) -> None:
    with pytest.raises(InvalidResponse, match="etcd"):
        decoded(RangeResponse, body)


def test_a_key_that_is_no_text_is_an_os_error() -> None:
    response = decoded(RangeResponse, b'{"kvs":[{"key":"L3Av/w=="}]}')
    with pytest.raises(InvalidResponse, match="no text"):
        entry_of(b"/p/", response.kvs[0])
