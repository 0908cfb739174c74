"""The coordinators of another broker are called over a real connection. The test broker asks its
own listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.coordinator_call import (
    CallClient,
    CoordinatorCall,
    CoordinatorCallResult,
    Operation,
)
from oncelog_server.broker import Broker
from oncelog_server.deferred import Deferred
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.links.coordinator_calls import MAX_CALLS, RemoteCalls
from oncelog_server.transaction.remote.calls import Called
from oncelog_server.transaction.remote.owners import PRODUCERS_PER_CALL
from tests.server.transaction.world import value_of

DEADLINE_S = 60
BROKER_ID = 1
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Served:
    """The coordinators of the test broker. The result of a call names its key."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def serve(self, call: CoordinatorCall) -> Called:
        self.calls.append(call.key)
        return CoordinatorCallResult(error_message=call.key, coordinator_epoch=3)


@pytest.fixture
def served(other_broker: Broker) -> Served:
    served: Any = Served()
    other_broker.services.other_coordinators = served
    return served  # type: ignore[no-any-return]


@pytest.fixture
async def calls(other_broker: Broker) -> AsyncIterator[RemoteCalls]:
    links = BrokerLinks(lambda: other_broker.metadata.image, "PLAINTEXT", "broker-99-coordinators")
    yield RemoteCalls(links)
    links.close()


async def result(called: Called) -> CoordinatorCallResult:
    async with asyncio.timeout(DEADLINE_S):
        if isinstance(called, Deferred):
            arrived = asyncio.Event()
            called.on_complete(lambda _: arrived.set())
            await arrived.wait()
    return value_of(called)


def call(key: str) -> CoordinatorCall:
    return CoordinatorCall(Operation.LOCATE, key, "g")


async def test_calls_that_gather_get_their_own_results(calls: RemoteCalls, served: Served) -> None:
    sent = [calls.send(BROKER_ID, call(key)) for key in "abc"]
    assert [(await result(called)).error_message for called in sent] == ["a", "b", "c"]
    again = await result(calls.send(BROKER_ID, call("d")))
    assert (again.error_message, again.coordinator_epoch) == ("d", 3)
    assert served.calls == ["a", "b", "c", "d"]


async def test_the_largest_requests_are_accepted(calls: RemoteCalls, served: Served) -> None:
    """A request with more elements than a broker accepts would close the link each time."""
    clients = [CallClient("client", "/127.0.0.1")]
    ids = list(range(PRODUCERS_PER_CALL))
    sent = [
        calls.send(
            BROKER_ID,
            CoordinatorCall(
                Operation.ABORT_OLDER, str(number), producer_ids=ids, caller=clients,
                caused_by=clients,
            ),
        )
        for number in range(2 * MAX_CALLS)
    ]  # fmt: skip
    found = [(await result(called)).error_message for called in sent]
    assert found == [str(number) for number in range(2 * MAX_CALLS)]


async def test_a_broker_that_is_not_alive_is_retriable(calls: RemoteCalls) -> None:
    assert (await result(calls.send(5, call("a")))).error_code == LOADING


async def test_a_link_that_breaks_is_retriable(calls: RemoteCalls, served: Served) -> None:
    """The call may have taken effect. Each operation may be repeated."""
    called = calls.send(BROKER_ID, call("a"))
    await asyncio.sleep(0)
    calls._links.close()
    assert (await result(called)).error_code == LOADING


async def test_a_broker_without_others_refuses_all_calls(calls: RemoteCalls) -> None:
    sent = [calls.send(BROKER_ID, call(key)) for key in "ab"]
    codes = [(await result(called)).error_code for called in sent]
    assert codes == [ErrorCode.UNSUPPORTED_VERSION] * 2
