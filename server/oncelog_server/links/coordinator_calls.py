"""Call the coordinators of other brokers: CoordinatorCall v0 over a link to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallRequest,
    CoordinatorCallResponse,
    CoordinatorCallResult,
)
from oncelog_server.deferred import Deferred
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.links.gathered_requests import GatheredRequests

COORDINATOR_CALL_VERSION: Final = 0
# Maximum number of calls in a request. With PRODUCERS_PER_CALL producers in each, the request has
# half the elements that a broker accepts.
MAX_CALLS: Final = 50


class _Question(NamedTuple):
    call: CoordinatorCall
    result: Deferred[CoordinatorCallResult]


class RemoteCalls:
    """Requests to the other brokers. At most one is in flight to each."""

    def __init__(self, links: BrokerLinks) -> None:
        self._links = links
        self._requests: dict[int, GatheredRequests[_Question]] = {}

    def send(
        self, broker_id: int, call: CoordinatorCall
    ) -> CoordinatorCallResult | Deferred[CoordinatorCallResult]:
        """Send a call to a broker. The code is COORDINATOR_LOAD_IN_PROGRESS if the broker is not
        alive, or if the link breaks: the call may then have taken effect."""
        link = self._links.to(broker_id)
        if link is None:
            self._requests.pop(broker_id, None)
            return _unreachable()
        requests = self._requests.get(broker_id)
        if requests is None or requests.link is not link:
            requests = GatheredRequests(
                link, COORDINATOR_CALL_VERSION, _request, _settle, MAX_CALLS
            )
            self._requests[broker_id] = requests
        question = _Question(call, Deferred())
        requests.add(question)
        return question.result


def _unreachable() -> CoordinatorCallResult:
    return CoordinatorCallResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _request(questions: Sequence[_Question]) -> CoordinatorCallRequest:
    return CoordinatorCallRequest([question.call for question in questions])


def _settle(questions: Sequence[_Question], response: CoordinatorCallResponse | None) -> None:
    if response is None:
        results = [_unreachable() for _ in questions]
    elif response.error_code or len(response.results) != len(questions):
        code = response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
        results = [CoordinatorCallResult(code) for _ in questions]
    else:
        results = response.results
    for question, result in zip(questions, results, strict=True):
        question.result.complete(result)
