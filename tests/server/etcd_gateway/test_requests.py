"""Requests have the form of etcd's JSON gateway: base64, numbers of 64 bits as texts."""

from __future__ import annotations

import json
from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.cluster.store import Created, Delete, Put, Written
from oncelog_server.etcd_gateway.requests import (
    NO_END,
    Page,
    lease_body,
    page_body,
    prefix_end,
    txn_body,
    watch_body,
)


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def test_a_transaction_has_its_conditions_and_reads_their_keys_when_one_fails() -> None:
    body = txn_body(b"/p/", [Written("a", 7), Created("b", 0)], [Put("a", b"\xff", 2**62)])
    assert json.loads(body) == {
        "compare": [
            {"key": base64(b"/p/a"), "result": "EQUAL", "target": "MOD", "mod_revision": "7"},
            {"key": base64(b"/p/b"), "result": "EQUAL", "target": "CREATE", "create_revision": "0"},
        ],
        "success": [
            {"request_put": {"key": base64(b"/p/a"), "value": "/w==", "lease": str(2**62)}}
        ],
        "failure": [
            {"request_range": {"key": base64(b"/p/a")}},
            {"request_range": {"key": base64(b"/p/b")}},
        ],
    }


def test_a_put_without_a_lease_detaches_the_key_and_a_delete_deletes_only_its_key() -> None:
    body = json.loads(txn_body(b"/p/", (), [Put("a", b""), Delete("b")]))
    put, delete = body["success"]
    assert put == {"request_put": {"key": base64(b"/p/a"), "value": "", "lease": "0"}}
    assert delete == {"request_delete_range": {"key": base64(b"/p/b")}}


def test_later_pages_are_read_at_the_revision_of_the_first() -> None:
    assert json.loads(page_body(b"/p/", Page(b"/p/"), 10)) == {
        "key": base64(b"/p/"),
        "range_end": base64(b"/p0"),
        "limit": 10,
    }
    assert json.loads(page_body(b"/p/", Page(b"/p/k\0", 5), 10)) == {
        "key": base64(b"/p/k\0"),
        "range_end": base64(b"/p0"),
        "limit": 10,
        "revision": 5,
    }


def test_a_watch_begins_at_a_revision() -> None:
    assert json.loads(watch_body(b"/p/t/", 8)) == {
        "create_request": {
            "key": base64(b"/p/t/"),
            "range_end": base64(b"/p/t0"),
            "start_revision": "8",
        }
    }


def test_the_id_of_a_lease_keeps_all_its_bits() -> None:
    assert json.loads(lease_body(2**63 - 1)) == {"ID": "9223372036854775807"}


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_the_end_of_a_prefix_is_behind_its_keys_and_no_others(prefix: bytes, key: bytes) -> None:
    end = prefix_end(prefix)
    if end == NO_END:
        assert set(prefix) <= {0xFF}
        return
    assert (prefix <= key < end) == key.startswith(prefix)
