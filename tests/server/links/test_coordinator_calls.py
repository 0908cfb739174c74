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
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.deferred import Deferred
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.links.coordinator_calls import (
    CALLS_PER_TURN,
    MAX_IN_FLIGHT,
    MAX_PER_PARTITION,
    RemoteCalls,
)
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.remote.calls import PRODUCERS_PER_CALL, Called
from tests.server.metadata.brokers import until
from tests.server.transaction.world import value_of

DEADLINE_S = 60
BROKER_ID = 1
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Served:
    """The coordinators of the test broker. The result of a call names its key. The results of slow
    calls are pending."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.slow: dict[str, Deferred[CoordinatorCallResult]] = {}

    def serve(self, call: CoordinatorCall) -> Called:
        self.calls.append(call.key)
        if call.key.startswith("defect"):
            raise RuntimeError("a defect")
        if call.key.startswith("slow"):
            return self.slow.setdefault(call.key, Deferred())
        return CoordinatorCallResult(error_message=call.key, coordinator_epoch=3)

    def complete(self, key: str) -> None:
        self.slow[key].complete(CoordinatorCallResult(error_message=key, coordinator_epoch=3))


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


def partition(index: int) -> TopicPartition:
    return TopicPartition(TRANSACTION_STATE, index)


P0 = partition(0)


def call(key: str) -> CoordinatorCall:
    return CoordinatorCall(Operation.LOCATE, key, "g")


async def test_calls_that_gather_get_their_own_results(calls: RemoteCalls, served: Served) -> None:
    sent = [calls.send(BROKER_ID, P0, call(key)) for key in "abc"]
    assert [(await result(called)).error_message for called in sent] == ["a", "b", "c"]
    again = await result(calls.send(BROKER_ID, P0, call("d")))
    assert (again.error_message, again.coordinator_epoch) == ("d", 3)
    assert served.calls == ["a", "b", "c", "d"]


async def test_a_slow_call_holds_back_no_other_and_gets_its_result(
    calls: RemoteCalls, served: Served
) -> None:
    """A shard may wait for its replicas for half a minute."""
    slow = [
        calls.send(BROKER_ID, partition(number % 5), call(f"slow-{number}"))
        for number in range(100)
    ]
    for key in "abc":
        assert (await result(calls.send(BROKER_ID, P0, call(key)))).error_message == key
    await until(lambda: len(served.slow) == 100)
    served.complete("slow-70")
    assert (await result(slow[70])).error_message == "slow-70"
    assert sum(called.done for called in slow if isinstance(called, Deferred)) == 1
    for key in served.slow.keys() - {"slow-70"}:
        served.complete(key)
    assert [(await result(called)).error_message for called in slow] == [
        f"slow-{number}" for number in range(100)
    ]


async def test_a_defect_in_a_call_fails_only_this_call(
    calls: RemoteCalls, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = calls.send(BROKER_ID, P0, call("slow"))
    sent = [calls.send(BROKER_ID, P0, call(key)) for key in ("a", "defect", "b")]
    codes = [(await result(called)).error_code for called in sent]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    served.complete("slow")
    assert (await result(slow)).error_message == "slow"


async def test_a_limited_number_of_calls_is_in_flight(calls: RemoteCalls, served: Served) -> None:
    sent = [
        calls.send(BROKER_ID, partition(number % 20), call(f"slow-{number}"))
        for number in range(MAX_IN_FLIGHT)
    ]
    last = calls.send(BROKER_ID, P0, call("last"))
    await until(lambda: len(served.slow) == MAX_IN_FLIGHT)
    assert not _is_done(last)
    served.complete("slow-7")
    assert (await result(last)).error_message == "last"
    assert _is_done(sent[7])
    for key in served.slow.keys() - {"slow-7"}:
        served.complete(key)


async def test_a_stuck_partition_holds_back_no_other_partition(
    calls: RemoteCalls, served: Served
) -> None:
    stuck = [calls.send(BROKER_ID, P0, call(f"slow-{n}")) for n in range(2 * MAX_IN_FLIGHT)]
    for key in "abc":
        found = await result(calls.send(BROKER_ID, partition(1), call(key)))
        assert found.error_message == key
    await until(lambda: len(served.slow) == MAX_PER_PARTITION)
    assert not any(map(_is_done, stuck))
    while not all(map(_is_done, stuck)):
        for slow in [slow for slow in served.slow.values() if not slow.done]:
            slow.complete(CoordinatorCallResult())
        await asyncio.sleep(0)
    assert len(served.slow) == len(stuck)
    (of_broker,) = calls._calls.values()
    assert not of_broker._ready
    assert not any(each.waiting or each.in_flight for each in of_broker._partitions.values())


async def test_partitions_take_turns(calls: RemoteCalls, served: Served) -> None:
    """The calls of one partition keep their order."""
    size = MAX_PER_PARTITION
    sent = [calls.send(BROKER_ID, P0, call(f"a{n}")) for n in range(size)]
    sent += [calls.send(BROKER_ID, partition(1), call(f"b{n}")) for n in range(size)]
    for called in sent:
        await result(called)
    assert [key for key in served.calls if key[0] == "a"] == [f"a{n}" for n in range(size)]
    assert [key for key in served.calls if key[0] == "b"] == [f"b{n}" for n in range(size)]
    assert served.calls.index("b1") < served.calls.index("a9")


async def test_timed_out_calls_that_wait_are_forgotten(
    other_broker: Broker, served: Served
) -> None:
    links = BrokerLinks(lambda: other_broker.metadata.image, "PLAINTEXT", "broker-99-coordinators")
    calls = RemoteCalls(links, timeout_s=0.2)
    sent = [calls.send(BROKER_ID, P0, call(f"slow-{n}")) for n in range(2 * MAX_PER_PARTITION)]
    for called in sent:
        assert (await result(called)).error_code == LOADING
    (of_broker,) = calls._calls.values()
    (stuck,) = of_broker._partitions.values()
    assert not stuck.waiting
    assert stuck.in_flight <= MAX_PER_PARTITION
    assert not of_broker._ready
    links.close()


async def test_calls_of_clients_that_have_gone_are_not_sent(
    calls: RemoteCalls, served: Served
) -> None:
    sent = [calls.send(BROKER_ID, P0, call(f"slow-{n}")) for n in range(MAX_PER_PARTITION)]
    gone = [calls.send(BROKER_ID, P0, call(f"gone-{n}")) for n in range(3)]
    last = calls.send(BROKER_ID, P0, call("last"))
    await until(lambda: len(served.slow) == len(sent))
    for called in gone:
        assert isinstance(called, Deferred)
        called.cancel()
    served.complete("slow-0")
    assert (await result(last)).error_message == "last"
    assert not any(key.startswith("gone") for key in served.calls)
    for key in [key for key in served.slow if key != "slow-0"]:
        served.complete(key)


async def test_timed_out_calls_behind_one_of_a_gone_client_are_forgotten(
    other_broker: Broker, served: Served
) -> None:
    links = BrokerLinks(lambda: other_broker.metadata.image, "PLAINTEXT", "broker-99-coordinators")
    calls = RemoteCalls(links, timeout_s=0.2)
    sent = [calls.send(BROKER_ID, P0, call(f"slow-{n}")) for n in range(MAX_PER_PARTITION + 2)]
    gone = sent[MAX_PER_PARTITION]
    assert isinstance(gone, Deferred)
    gone.cancel()
    assert (await result(sent[-1])).error_code == LOADING
    (of_broker,) = calls._calls.values()
    (stuck,) = of_broker._partitions.values()
    assert not stuck.waiting
    links.close()


async def test_a_call_without_a_response_ends_at_its_timeout(
    other_broker: Broker, served: Served
) -> None:
    """The responses of other calls arrive meanwhile, so the link itself does not time out."""
    links = BrokerLinks(lambda: other_broker.metadata.image, "PLAINTEXT", "broker-99-coordinators")
    calls = RemoteCalls(links, timeout_s=0.2)
    slow = calls.send(BROKER_ID, P0, call("slow"))
    async with asyncio.timeout(DEADLINE_S):
        while not _is_done(slow):
            assert (await result(calls.send(BROKER_ID, P0, call("a")))).error_code in (0, LOADING)
    assert (await result(slow)).error_code == LOADING
    served.complete("slow")  # the response comes too late, and changes nothing
    patient = RemoteCalls(links)
    assert (await result(patient.send(BROKER_ID, P0, call("b")))).error_message == "b"
    links.close()


def _is_done(called: Called) -> bool:
    return not isinstance(called, Deferred) or called.done


async def test_the_largest_requests_are_accepted(calls: RemoteCalls, served: Served) -> None:
    """A request with more elements than a broker accepts would close the link each time."""
    clients = [CallClient("client", "/127.0.0.1")]
    ids = list(range(PRODUCERS_PER_CALL))
    sent = [
        calls.send(
            BROKER_ID,
            P0,
            CoordinatorCall(
                Operation.ABORT_OLDER, str(number), producer_ids=ids, caller=clients,
                caused_by=clients,
            ),
        )
        for number in range(2 * CALLS_PER_TURN)
    ]  # fmt: skip
    found = [(await result(called)).error_message for called in sent]
    assert found == [str(number) for number in range(2 * CALLS_PER_TURN)]


async def test_a_broker_that_is_not_alive_is_retriable(calls: RemoteCalls) -> None:
    assert (await result(calls.send(5, P0, call("a")))).error_code == LOADING


async def test_a_link_that_breaks_is_retriable(calls: RemoteCalls, served: Served) -> None:
    """The call may have taken effect. Each operation may be repeated."""
    called = calls.send(BROKER_ID, P0, call("a"))
    await asyncio.sleep(0)
    calls._links.close()
    assert (await result(called)).error_code == LOADING


async def test_a_broker_without_others_refuses_all_calls(calls: RemoteCalls) -> None:
    sent = [calls.send(BROKER_ID, P0, call(key)) for key in "ab"]
    codes = [(await result(called)).error_code for called in sent]
    assert codes == [ErrorCode.UNSUPPORTED_VERSION] * 2
