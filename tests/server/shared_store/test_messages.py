"""Every message survives its frame, however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.cluster.store import (
    Changes,
    Compacted,
    Compare,
    Created,
    Delete,
    Entry,
    Event,
    LeaseEnded,
    Put,
    Snapshot,
    TxnResult,
    WriteOperation,
    Written,
)
from oncelog_server.shared_store import messages
from oncelog_server.shared_store.messages import Frames, framed

IDS = st.integers(1, 2**40)
KEYS = st.text(max_size=20)
REVISIONS = st.integers(0, 2**50)
ENTRIES = st.builds(Entry, KEYS, st.binary(max_size=30), REVISIONS, REVISIONS)
COMPARES: st.SearchStrategy[Compare] = st.one_of(
    st.builds(Written, KEYS, REVISIONS), st.builds(Created, KEYS, REVISIONS)
)
OPERATIONS: st.SearchStrategy[WriteOperation] = st.one_of(
    st.builds(Put, KEYS, st.binary(max_size=30), REVISIONS), st.builds(Delete, KEYS)
)
CHANGES = st.builds(
    Changes,
    REVISIONS,
    st.lists(st.builds(Event, KEYS, st.none() | ENTRIES), max_size=3).map(tuple),
)
REQUESTS = st.one_of(
    st.builds(messages.Get, IDS, KEYS),
    st.builds(messages.Range, IDS, KEYS),
    st.builds(messages.Grant, IDS, REVISIONS),
    st.builds(messages.KeepAlive, IDS, REVISIONS),
    st.builds(messages.Revoke, IDS, REVISIONS),
    st.builds(messages.Watch, IDS, KEYS, REVISIONS),
    st.builds(messages.Unwatch, IDS),
)
RESPONSES = st.one_of(
    st.builds(messages.Found, IDS, st.none() | ENTRIES),
    st.builds(
        messages.Listed,
        IDS,
        st.builds(Snapshot, REVISIONS, st.lists(ENTRIES, max_size=3).map(tuple)),
    ),
    st.builds(
        messages.Done,
        IDS,
        st.builds(
            TxnResult,
            st.booleans(),
            REVISIONS,
            st.lists(st.none() | ENTRIES, max_size=3).map(tuple),
        ),
    ),
    st.builds(messages.Granted, IDS, REVISIONS, REVISIONS),
    st.builds(messages.Revoked, IDS),
    st.builds(messages.Changed, IDS, CHANGES),
    st.builds(messages.Failed, IDS, st.sampled_from(sorted(messages.FAILURES)), KEYS),
)


@given(st.lists(REQUESTS, max_size=5), st.integers(1, 50))
def test_requests_arrive_in_pieces_of_any_size(sent: list[messages.Request], size: int) -> None:
    data = b"".join(map(framed, sent))
    frames = Frames()
    arrived = [
        messages.request(body)
        for start in range(0, len(data), size)
        for body in frames.bodies(data[start : start + size])
    ]
    assert arrived == sent


@given(RESPONSES)
def test_responses_survive_their_frames(sent: messages.Response) -> None:
    (body,) = Frames().bodies(framed(sent))
    assert messages.response(body) == sent


@given(IDS, st.lists(COMPARES, max_size=4), st.lists(OPERATIONS, max_size=4))
def test_transactions_survive_their_frames(
    id_: int, compare: list[Compare], operations: list[WriteOperation]
) -> None:
    (body,) = Frames().bodies(framed(messages.transaction(id_, compare, operations)))
    txn = messages.request(body)
    assert isinstance(txn, messages.Txn)
    assert (txn.id, messages.conditions(txn), messages.operations(txn)) == (
        id_,
        compare,
        operations,
    )


@pytest.mark.parametrize(
    "error",
    [Compacted("old"), LeaseEnded("lease"), OSError("disk"), ValueError("two")],
    ids=lambda error: type(error).__name__,
)
def test_the_exceptions_of_the_contract_arrive_as_they_were_raised(error: Exception) -> None:
    arrived = messages.raised(messages.failed(1, error))
    assert (type(arrived), str(arrived)) == (type(error), str(error))


def test_another_exception_is_a_defect() -> None:
    with pytest.raises(KeyError):
        messages.failed(1, RuntimeError())


def test_a_frame_that_is_too_large_is_refused_before_it_arrives() -> None:
    with pytest.raises(ValueError, match="bytes"):
        list(Frames().bodies((messages.MAX_FRAME_BYTES + 1).to_bytes(4, "big")))
