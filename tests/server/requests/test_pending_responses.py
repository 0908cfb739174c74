"""The responses of a connection leave in the order of its requests."""

from __future__ import annotations

from oncelog_server.deferred import Deferred, Order
from oncelog_server.requests.pending_responses import (
    MAX_UNANSWERED,
    MAX_UNORDERED,
    PendingResponses,
)
from oncelog_server.requests.response import Parts


def _added(pending: PendingResponses, order: Order = Order.ORDERED) -> Deferred[Parts]:
    response: Deferred[Parts] = Deferred(order=order)
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
    parked = _added(pending, Order.PARKS)
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


def test_many_complete_responses_behind_a_pending_one_park_until_it_is_complete() -> None:
    pending = PendingResponses()
    oldest = _added(pending)
    for number in range(MAX_UNANSWERED - 1):
        assert pending.parked is None
        pending.add_complete([b"%d" % number])
    assert pending.parked is oldest
    oldest.complete([b"oldest"])
    assert len(pending.completed(oldest)) == MAX_UNANSWERED
    assert pending.parked is None


def test_a_free_response_leaves_when_it_is_complete_and_holds_no_other_back() -> None:
    pending = PendingResponses()
    ordered, first, second = (
        _added(pending),
        _added(pending, Order.FREE),
        _added(pending, Order.FREE),
    )
    assert pending.parked is None
    second.complete([b"second"])
    assert pending.completed(second) == [b"second"]
    ordered.complete([b"ordered"])
    assert pending.completed(ordered) == [b"ordered"]
    assert not pending.is_empty
    first.complete([b"first"])
    assert pending.completed(first) == [b"first"]
    assert pending.is_empty


def test_many_free_responses_park_the_connection_until_any_of_them_is_complete() -> None:
    pending = PendingResponses()
    responses = [_added(pending, Order.FREE) for _ in range(MAX_UNORDERED - 1)]
    assert pending.parked is None
    last = _added(pending, Order.FREE)
    assert pending.parked is last
    responses[3].complete([])
    pending.completed(responses[3])
    assert pending.parked is None


def test_a_free_response_does_not_end_the_wait_for_another_request() -> None:
    pending = PendingResponses()
    free, parked = _added(pending, Order.FREE), _added(pending, Order.PARKS)
    free.complete([])
    pending.completed(free)
    assert pending.parked is parked


def test_cancel_cancels_all() -> None:
    pending = PendingResponses()
    responses = [_added(pending, order) for order in Order]
    pending.queue.append([b"complete"])
    pending.cancel()
    assert all(response.cancelled for response in responses)
    assert pending.is_empty
    assert pending.parked is None
