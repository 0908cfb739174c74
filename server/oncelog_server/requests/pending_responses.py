"""The responses of one connection that have not left, in the order of their requests."""

from __future__ import annotations

from collections import deque
from typing import Final

from oncelog_server.deferred import Deferred, Order
from oncelog_server.requests.response import Parts

# Maximum number of responses of one connection that wait in order, pending or complete. Kafka's
# clients have at most five requests in flight.
MAX_UNANSWERED: Final = 16
# Maximum number of requests of one connection with responses that leave in any order. Brokers have
# no more calls in flight (`links/coordinator_calls.py`).
MAX_UNORDERED: Final = 512


class PendingResponses:
    """`queue` has the oldest response first: a list if it is complete, else a Deferred. `unordered`
    has those that leave when they are complete. `parked` is the response that the next request
    waits for, None without one."""

    __slots__ = ("parked", "queue", "unordered")

    def __init__(self) -> None:
        # Attributes instead of methods, because every request reads them.
        self.queue: deque[Parts | Deferred[Parts]] = deque()
        self.unordered: set[Deferred[Parts]] = set()
        self.parked: Deferred[Parts] | None = None

    @property
    def is_empty(self) -> bool:
        return not self.queue and not self.unordered

    def add(self, response: Deferred[Parts]) -> None:
        """Add an incomplete response. It parks the connection, unless its `order` lets the next
        requests be served, and few responses are pending."""
        if response.order is Order.FREE:
            self.unordered.add(response)
            if len(self.unordered) >= MAX_UNORDERED:
                self.parked = response
            return
        self.queue.append(response)
        if response.order is Order.PARKS or len(self.queue) >= MAX_UNANSWERED:
            self.parked = response

    def add_complete(self, parts: Parts) -> None:
        """Add a complete response behind pending ones. Too many of them park the connection until
        the oldest pending response is complete."""
        self.queue.append(parts)
        if len(self.queue) >= MAX_UNANSWERED:
            oldest = self.queue[0]
            assert isinstance(oldest, Deferred)  # complete ones at the front have left
            self.parked = oldest

    def completed(self, response: Deferred[Parts]) -> Parts:
        """Remove and return the responses that leave now, because `response` is complete:
        `response` alone, or those that are next in order."""
        if response.order is Order.FREE:
            self.unordered.discard(response)
            if self.parked is not None and self.parked.order is Order.FREE:
                self.parked = None
            return response.value
        ready: Parts = []
        queue = self.queue
        while queue:
            first = queue[0]
            if isinstance(first, Deferred):
                if not first.done:
                    break
                ready += first.value
            else:
                ready += first
            queue.popleft()
        if self.parked is response:
            self.parked = None
        return ready

    def cancel(self) -> None:
        """Cancel all: the connection is closed."""
        pending, self.queue = [*self.queue, *self.unordered], deque()
        self.unordered = set()
        self.parked = None
        for response in pending:
            if isinstance(response, Deferred):
                response.cancel()
