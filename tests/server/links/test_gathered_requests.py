"""One request is in flight to a broker. The items that gather meanwhile go into the next
request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_server.links.broker_link import BrokerLink, OnResponse
from oncelog_server.links.gathered_requests import (
    MAX_ELEMENTS_SENT,
    MAX_ITEMS,
    GatheredRequests,
)
from oncelog_server.request_limits import max_elements


class Link(BrokerLink):
    """A link that keeps its requests until the test responds."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 1, "test")
        self.sent: list[Any] = []
        self.answered: list[OnResponse] = []

    def send(self, request: object, version: int, answered: OnResponse) -> None:
        self.sent.append(request)
        self.answered.append(answered)


class Settled(list[tuple[list[int], Any]]):
    def __call__(self, items: Sequence[int], response: Any | None) -> None:
        self.append((list(items), response))


def single(item: int) -> int:
    """Return the number of elements of an item of one element."""
    return 1


async def a_turn() -> None:
    await asyncio.sleep(0)


async def test_items_of_one_turn_are_one_request() -> None:
    link, settled = Link(), Settled()
    requests = GatheredRequests[int](link, 1, list, single, settled)
    requests.add(1)
    requests.add(2)
    assert not link.sent
    await a_turn()
    assert link.sent == [[1, 2]]
    requests.add(3)
    await a_turn()
    assert link.sent == [[1, 2]], "a request is in flight"
    link.answered.pop()("first")
    requests.add(4)
    await a_turn()
    assert link.sent == [[1, 2], [3, 4]]
    link.answered.pop()(None)
    assert settled == [([1, 2], "first"), ([3, 4], None)]
    requests.add(5)
    await a_turn()
    assert link.sent[2:] == [[5]], "a broken link is used again"


async def test_an_item_that_a_response_adds_is_sent() -> None:
    """For example, a coordinator retries a marker as soon as the leader has refused it."""
    link = Link()

    def again(items: Sequence[int], response: Any | None) -> None:
        if response == "retry":
            requests.add(items[0])

    requests = GatheredRequests[int](link, 1, list, single, again)
    requests.add(1)
    await a_turn()
    link.answered.pop()("retry")
    await a_turn()
    assert link.sent == [[1], [1]]


async def test_a_request_has_a_limited_size() -> None:
    link = Link()
    requests = GatheredRequests[int](link, 1, list, single, Settled())
    for number in range(MAX_ITEMS + 1):
        requests.add(number)
    await a_turn()
    link.answered.pop()("ok")
    await a_turn()
    assert [len(sent) for sent in link.sent] == [MAX_ITEMS, 1]


async def test_a_request_has_a_limited_number_of_elements() -> None:
    """The other broker closes the connection of a request with too many array elements, which loses
    every item in flight."""
    link, settled = Link(), Settled()
    half, rest = MAX_ELEMENTS_SENT // 2, MAX_ELEMENTS_SENT - MAX_ELEMENTS_SENT // 2
    requests = GatheredRequests[int](link, 1, list, lambda item: item, settled)
    for elements in (half, rest, 1, MAX_ELEMENTS_SENT, MAX_ELEMENTS_SENT + 1, 1):
        requests.add(elements)
    for _ in range(5):
        await a_turn()
        link.answered.pop()("ok")
    assert link.sent == [[half, rest], [1], [MAX_ELEMENTS_SENT], [MAX_ELEMENTS_SENT + 1], [1]]
    assert not link.answered
    assert [items for items, _ in settled] == link.sent


@pytest.mark.parametrize("api", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS])
def test_a_broker_accepts_the_elements_of_a_request(api: ApiKey) -> None:
    assert max_elements(api, 0) >= MAX_ELEMENTS_SENT
