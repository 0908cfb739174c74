"""The responses of one connection that have not left, in the order of their requests."""

from __future__ import annotations

from collections import deque
from typing import Final

from oncelog_server.deferred import Deferred
from oncelog_server.requests.response import Parts

# Maximum number of requests of one connection that have taken effect and wait for their responses.
# Kafka's clients have at most five requests in flight.
MAX_UNANSWERED: Final = 16


class PendingResponses:
    """`queue` has the oldest response first: a list if it is complete, else a Deferred. `parked` is
    the response that the next request waits for, None without one."""

    __slots__ = ("parked", "queue")

    def __init__(self) -> None:
        # Attributes instead of methods, because every request reads them.
        self.queue: deque[Parts | Deferred[Parts]] = deque()
        self.parked: Deferred[Parts] | None = None

    def add(self, response: Deferred[Parts]) -> None:
        """Add an incomplete response. It parks the connection, unless its request has already taken
        effect (`Deferred.ordered`) and few responses are pending."""
        self.queue.append(response)
        if not response.ordered or len(self.queue) >= MAX_UNANSWERED:
            self.parked = response

    def completed(self, response: Deferred[Parts]) -> Parts:
        """Remove and return the responses that are next in order, after this one is complete."""
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
        pending, self.queue = self.queue, deque()
        self.parked = None
        for response in pending:
            if isinstance(response, Deferred):
                response.cancel()
