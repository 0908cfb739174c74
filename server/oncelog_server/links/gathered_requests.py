"""One request in flight to a broker. The items that are added meanwhile go into the next
request."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from oncelog_server.links.broker_link import BrokerLink

T = TypeVar("T")

# Maximum number of items in a request. The other broker serves it without blocking its loop.
MAX_ITEMS: Final = 500
# Maximum number of array elements in a request. A broker closes the connection of a request with
# more elements than the limit of its API (`request_limits.py`), and that limit is higher. This
# broker encodes a request, or decodes its response, in one turn of the loop: about 2 us an element.
MAX_ELEMENTS_SENT: Final = 4_000


class GatheredRequests(Generic[T]):
    """The requests of one kind over one link, as those of Kafka's InterBrokerSendThread.

    `request_of(items)` makes the request. `elements_of(item)` is the number of array elements that
    an item adds to it, at most. An item with more than MAX_ELEMENTS_SENT is sent alone, so the
    caller divides such an item. `settle(items, response)` is called once for each request. The
    response is None if the link broke, and it is then unknown whether the request has taken effect.
    """

    def __init__(
        self,
        link: BrokerLink,
        version: int,
        request_of: Callable[[Sequence[T]], object],
        elements_of: Callable[[T], int],
        settle: Callable[[Sequence[T], Any | None], None],
    ) -> None:
        self.link = link
        self._version = version
        self._request_of = request_of
        self._elements_of = elements_of
        self._settle = settle
        self._waiting: deque[T] = deque()
        # True while a request is in flight, or will be sent at the end of this turn of the loop.
        self._is_sending = False

    def add(self, item: T) -> None:
        """Send the item with the next request."""
        self._waiting.append(item)
        if not self._is_sending:
            self._is_sending = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        items = self._take()

        def answered(response: Any | None) -> None:
            self._is_sending = bool(self._waiting)
            if self._is_sending:
                asyncio.get_running_loop().call_soon(self._send)
            self._settle(items, response)

        self.link.send(self._request_of(items), self._version, answered)

    def _take(self) -> list[T]:
        """Remove the items of the next request from those that wait, and return them."""
        items = [self._waiting.popleft()]
        elements = self._elements_of(items[0])
        while self._waiting and len(items) < MAX_ITEMS:
            elements += self._elements_of(self._waiting[0])
            if elements > MAX_ELEMENTS_SENT:
                break
            items.append(self._waiting.popleft())
        return items
