"""Call the coordinators of other brokers: CoordinatorCall v0 over a link to each."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallRequest,
    CoordinatorCallResponse,
    CoordinatorCallResult,
)
from oncelog_server.deferred import Deferred
from oncelog_server.links.broker_link import TIMEOUT_S, BrokerLink, BrokerLinks

COORDINATOR_CALL_VERSION: Final = 0
# Maximum number of calls to a broker without a response; further calls wait. A broker serves as
# many at once (MAX_UNORDERED).
MAX_IN_FLIGHT: Final = 500
# Maximum number of calls that are encoded in one turn of the loop. A call takes about 50 us.
CALLS_PER_TURN: Final = 50


class RemoteCalls:
    """Calls to the other brokers, each in a request of its own. A call may take as long as a shard
    waits for its replicas. The results of other calls do not wait for it."""

    def __init__(self, links: BrokerLinks, timeout_s: float = TIMEOUT_S) -> None:
        self._links = links
        self._timeout_s = timeout_s
        self._calls: dict[int, _Calls] = {}

    def send(
        self, broker_id: int, call: CoordinatorCall
    ) -> CoordinatorCallResult | Deferred[CoordinatorCallResult]:
        """Send a call to a broker. The code is COORDINATOR_LOAD_IN_PROGRESS if the broker is not
        alive, if the link breaks, or if no response comes within `timeout_s`: the call may then
        have taken effect."""
        link = self._links.to(broker_id)
        if link is None:
            self._calls.pop(broker_id, None)
            return _unreachable()
        calls = self._calls.get(broker_id)
        if calls is None or calls.link is not link:
            calls = self._calls[broker_id] = _Calls(link, self._timeout_s)
        return calls.add(call)


class _Call:
    """A call without a result."""

    __slots__ = ("call", "result", "timeout")

    def __init__(self, call: CoordinatorCall) -> None:
        self.call = call
        self.result: Deferred[CoordinatorCallResult] = Deferred()
        self.timeout: asyncio.TimerHandle | None = None

    def complete(self, result: CoordinatorCallResult) -> None:
        """Set the result, unless the call has timed out."""
        if self.timeout is not None:
            self.timeout.cancel()
        if not self.result.done:
            self.result.complete(result)


class _Calls:
    """The calls over one link."""

    def __init__(self, link: BrokerLink, timeout_s: float) -> None:
        self.link = link
        self._timeout_s = timeout_s
        self._waiting: deque[_Call] = deque()
        # A call that has timed out counts until its response arrives, or until the link breaks.
        self._in_flight = 0
        self._is_armed = False

    def add(self, call: CoordinatorCall) -> Deferred[CoordinatorCallResult]:
        """Send the call at the end of this turn of the loop. Return its result."""
        added = _Call(call)
        loop = asyncio.get_running_loop()
        added.timeout = loop.call_later(self._timeout_s, lambda: added.complete(_unreachable()))
        self._waiting.append(added)
        self._arm()
        return added.result

    def _arm(self) -> None:
        if not self._is_armed and self._waiting and self._in_flight < MAX_IN_FLIGHT:
            self._is_armed = True
            asyncio.get_running_loop().call_soon(self._send_some)

    def _send_some(self) -> None:
        self._is_armed = False
        for _ in range(CALLS_PER_TURN):
            if not self._waiting or self._in_flight >= MAX_IN_FLIGHT:
                return
            call = self._waiting.popleft()
            if not call.result.done:
                self._send(call)
        self._arm()

    def _send(self, call: _Call) -> None:
        def answered(response: CoordinatorCallResponse | None) -> None:
            self._in_flight -= 1
            self._arm()
            call.complete(_result(response))

        self._in_flight += 1
        self.link.send(CoordinatorCallRequest(call.call), COORDINATOR_CALL_VERSION, answered)


def _unreachable() -> CoordinatorCallResult:
    return CoordinatorCallResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _result(response: CoordinatorCallResponse | None) -> CoordinatorCallResult:
    if response is None:
        return _unreachable()
    if response.error_code:
        return CoordinatorCallResult(response.error_code)
    return response.result
