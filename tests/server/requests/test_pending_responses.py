"""The responses of a connection leave in the order of its requests."""

from __future__ import annotations

from oncelog_server.deferred import Deferred
from oncelog_server.requests.pending_responses import MAX_UNANSWERED, PendingResponses
from oncelog_server.requests.response import Parts


def _added(pending: PendingResponses, *, ordered: bool = True) -> Deferred[Parts]:
    response: Deferred[Parts] = Deferred(ordered=ordered)
    pending.add(response)
    return response


def test_a_complete_response_waits_for_the_responses_before_it() -> None:
    pending = PendingResponses()
    first, second = _added(pending), _added(pending)
    pending.queue.append([b"third"])
    second.complete([b"second"])
    assert pending.completed(second) == []
    first.complete([b"first"])
    assert pending.completed(first) == [b"first", b"second", b"third"]
    assert not pending.queue


def test_a_response_parks_the_connection_until_it_is_complete_unless_it_is_ordered() -> None:
    pending = PendingResponses()
    ordered = _added(pending)
    assert pending.parked is None
    parked = _added(pending, ordered=False)
    assert pending.parked is parked
    ordered.complete([])
    pending.completed(ordered)
    assert pending.parked is parked
    parked.complete([])
    pending.completed(parked)
    assert pending.parked is None


def test_many_ordered_responses_park_the_connection_too() -> None:
    pending = PendingResponses()
    for _ in range(MAX_UNANSWERED - 1):
        _added(pending)
    assert pending.parked is None
    last = _added(pending)
    assert pending.parked is last


def test_cancel_cancels_all() -> None:
    pending = PendingResponses()
    responses = [_added(pending), _added(pending, ordered=False)]
    pending.queue.append([b"complete"])
    pending.cancel()
    assert all(response.cancelled for response in responses)
    assert not pending.queue
    assert pending.parked is None
