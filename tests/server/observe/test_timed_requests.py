"""The measured times of requests: at once, deferred, and without a response."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.headers import REQUEST_START
from oncelog_server.deferred import Deferred
from oncelog_server.observe.timed_requests import TimedRequests
from oncelog_server.requests.response import EncodedResponse, Parts
from oncelog_server.requests.session import Session
from oncelog_server.security.resources import ANONYMOUS

SESSION = Session(ANONYMOUS, "127.0.0.1", "PLAINTEXT", lambda: False)
FETCH = memoryview(REQUEST_START.pack(ApiKey.FETCH, 12, 7, -1))
PRODUCE = memoryview(REQUEST_START.pack(ApiKey.PRODUCE, 12, 8, -1))


class Answering:
    """Serves every request with `response`."""

    def __init__(self, response: EncodedResponse) -> None:
        self.response = response

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        return self.response


def clock(*times_us: int) -> Iterator[int]:
    return iter([time * 1000 for time in times_us])


def medians(timed: TimedRequests) -> dict[str, list[int]]:
    return {name: latencies.quantiles_us((0.5,)) for name, latencies in timed.by_api()}


@pytest.mark.parametrize("response", [[b"response"], None])
def test_a_response_at_once_is_measured(response: EncodedResponse) -> None:
    times = clock(100, 109)
    timed = TimedRequests(Answering(response), lambda: next(times))
    assert timed.serve(FETCH, SESSION) is response
    assert medians(timed) == {"Fetch": [9]}


def test_a_deferred_response_is_measured_when_it_is_complete() -> None:
    times = clock(100, 200, 207, 214)
    later: Deferred[Parts] = Deferred()
    answering = Answering(later)
    timed = TimedRequests(answering, lambda: next(times))
    timed.serve(FETCH, SESSION)
    answering.response = []
    timed.serve(PRODUCE, SESSION)
    assert medians(timed) == {"Produce": [7]}
    later.complete([b"response"])
    assert medians(timed)["Fetch"] == [119]
