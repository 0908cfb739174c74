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
from oncelog_server.topic_partition import TopicPartition

COORDINATOR_CALL_VERSION: Final = 0
# Maximum number of calls to a broker without a response; further calls wait. The other broker
# serves a few more at once (MAX_UNORDERED).
MAX_IN_FLIGHT: Final = 500
# Maximum number of these calls about one partition. A partition may have to wait for its replicas.
# Then its calls take at most this part of the places, so that other partitions are served.
MAX_PER_PARTITION: Final = 50
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
        self, broker_id: int, partition: TopicPartition, call: CoordinatorCall
    ) -> CoordinatorCallResult | Deferred[CoordinatorCallResult]:
        """Send a call about a partition to a broker. The code is COORDINATOR_LOAD_IN_PROGRESS if
        the broker is not alive, if the link breaks, or if no response comes within `timeout_s`: the
        call may then have taken effect."""
        link = self._links.to(broker_id)
        if link is None:
            self._calls.pop(broker_id, None)
            return _unreachable()
        calls = self._calls.get(broker_id)
        if calls is None or calls.link is not link:
            calls = self._calls[broker_id] = _Calls(link, self._timeout_s)
        return calls.add(partition, call)


class _Call:
    """A call without a result."""

    __slots__ = ("call", "result", "timeout")

    def __init__(self, call: CoordinatorCall) -> None:
        self.call = call
        self.result: Deferred[CoordinatorCallResult] = Deferred()
        self.timeout: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """Return True if nothing waits for the result any more."""
        return self.result.done or self.result.cancelled

    def complete(self, result: CoordinatorCallResult) -> None:
        """Set the result, unless the call has timed out."""
        if self.timeout is not None:
            self.timeout.cancel()
        if not self.result.done:
            self.result.complete(result)


class _Partition:
    """The calls about one partition."""

    __slots__ = ("in_flight", "waiting")

    def __init__(self) -> None:
        # The calls that are not sent. The first of them is not over.
        self.waiting: deque[_Call] = deque()
        # A call that is over counts until its response arrives, or until the link breaks: the other
        # broker is still busy with it.
        self.in_flight = 0

    @property
    def may_send(self) -> bool:
        return bool(self.waiting) and self.in_flight < MAX_PER_PARTITION

    def drop_over(self) -> None:
        """Forget the oldest waiting calls that are over. All have the same timeout, so they time
        out in their order."""
        while self.waiting and self.waiting[0].is_over:
            self.waiting.popleft()


class _Calls:
    """The calls over one link."""

    def __init__(self, link: BrokerLink, timeout_s: float) -> None:
        self.link = link
        self._timeout_s = timeout_s
        self._in_flight = 0
        # The partitions are those of the internal topics, so their number is small.
        self._partitions: dict[TopicPartition, _Partition] = {}
        # The partitions that may send a call now, in the order of their turns.
        self._ready: dict[_Partition, None] = {}
        self._is_armed = False

    def add(self, name: TopicPartition, call: CoordinatorCall) -> Deferred[CoordinatorCallResult]:
        """Send the call at the end of this turn of the loop. Return its result."""
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions[name] = _Partition()
        added = _Call(call)

        def timed_out() -> None:
            added.complete(_unreachable())
            self._look_at(partition)

        timeout = asyncio.get_running_loop().call_later(self._timeout_s, timed_out)

        def cancelled() -> None:
            timeout.cancel()
            self._look_at(partition)

        added.timeout = timeout
        added.result.on_cancel(cancelled)
        partition.waiting.append(added)
        self._look_at(partition)
        self._arm()
        return added.result

    def _look_at(self, partition: _Partition) -> None:
        """After a change, add the partition to the ready ones if it may send a call, else remove
        it."""
        partition.drop_over()
        if partition.may_send:
            self._ready.setdefault(partition)
        else:
            self._ready.pop(partition, None)

    def _arm(self) -> None:
        if not self._is_armed and self._ready and self._in_flight < MAX_IN_FLIGHT:
            self._is_armed = True
            asyncio.get_running_loop().call_soon(self._send_some)

    def _send_some(self) -> None:
        self._is_armed = False
        for _ in range(CALLS_PER_TURN):
            if not self._ready or self._in_flight >= MAX_IN_FLIGHT:
                return
            partition = next(iter(self._ready))
            del self._ready[partition]
            self._send(partition, partition.waiting.popleft())
            self._look_at(partition)
        self._arm()

    def _send(self, partition: _Partition, call: _Call) -> None:
        def answered(response: CoordinatorCallResponse | None) -> None:
            self._in_flight -= 1
            partition.in_flight -= 1
            self._look_at(partition)
            self._arm()
            call.complete(_result(response))

        self._in_flight += 1
        partition.in_flight += 1
        self.link.send(CoordinatorCallRequest(call.call), COORDINATOR_CALL_VERSION, answered)


def _unreachable() -> CoordinatorCallResult:
    return CoordinatorCallResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _result(response: CoordinatorCallResponse | None) -> CoordinatorCallResult:
    if response is None:
        return _unreachable()
    if response.error_code:
        return CoordinatorCallResult(response.error_code)
    return response.result
