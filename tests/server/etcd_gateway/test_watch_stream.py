"""A watch yields its changes by revision, however the network cuts the stream."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.cluster.store import Changes, Compacted, Entry, Event
from oncelog_server.etcd_gateway.failures import EtcdError
from oncelog_server.etcd_gateway.responses import InvalidResponse
from oncelog_server.etcd_gateway.watch_stream import WatchStream

CREATED = b'{"result":{"header":{"revision":"9"},"created":true}}\n'
EVENTS = (
    b'{"result":{"header":{"revision":"9"},"events":['
    b'{"kv":{"key":"L3AvYQ==","create_revision":"2","mod_revision":"2","value":"eA=="}},'
    b'{"kv":{"key":"L3AvYg==","create_revision":"2","mod_revision":"2"}},'
    b'{"type":"DELETE","kv":{"key":"L3AvYQ==","mod_revision":"5"}}]}}\n'
)
CHANGES = [
    Changes(2, (Event("a", Entry("a", b"x", 2, 2)), Event("b", Entry("b", b"", 2, 2)))),
    Changes(5, (Event("a", None),)),
]


@given(st.lists(st.integers(0, len(CREATED + EVENTS)), max_size=5))
def test_the_stream_may_be_cut_anywhere(cuts: list[int]) -> None:
    stream, whole = WatchStream(b"/p/"), CREATED + EVENTS
    edges = [0, *sorted(cuts), len(whole)]
    found: list[Changes] = []
    for start, end in pairwise(edges):
        found += stream.feed(whole[start:end])
    assert found == CHANGES


def test_a_compacted_watch_yields_what_came_before() -> None:
    ended = b'{"result":{"header":{},"canceled":true,"compact_revision":"7"}}\n'
    found = WatchStream(b"/p/").feed(EVENTS + ended)
    assert [next(found), next(found)] == CHANGES
    with pytest.raises(Compacted, match="7"):
        next(found)


@pytest.mark.parametrize(
    "line",
    [
        b'{"result":{"canceled":true,"cancel_reason":"etcdserver: no leader"}}\n',
        b'{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}\n',
    ],
)
def test_a_cancelled_watch_is_an_error_with_its_reason(line: bytes) -> None:
    with pytest.raises(EtcdError, match="no leader"):
        list(WatchStream(b"/p/").feed(line))


def test_a_line_that_is_no_document_is_an_os_error() -> None:
    with pytest.raises(InvalidResponse, match="in a watch"):
        list(WatchStream(b"/p/").feed(b"<html>\n"))
