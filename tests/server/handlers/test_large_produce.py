"""A Produce to very many partitions lets the event loop serve other requests between its steps. It
stays complete and in order, and appends nothing to a transaction that has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from oncelog_protocol.codecs import sliced_decoder
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog_protocol.requests import Requests
from oncelog_server import dispatch
from oncelog_server.broker import Broker
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.deferred import Deferred, Order
from oncelog_server.handlers import end_txn, init_producer_id, produce
from oncelog_server.requests.response import EncodedResponse
from oncelog_server.requests.session import Session
from oncelog_server.security.resources import ANONYMOUS
from oncelog_server.slices import SMALL
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import TransactionResult
from tests.server.between_steps import Calls
from tests.server.handlers.nodes import DEADLINE_S, ask
from tests.server.hosting.test_replica_manager import life
from tests.server.log.driver import batch

COUNT = SMALL + SMALL // 2
# The first version in which the broker adds the partitions to the transaction.
ADDING = produce.ADDS_PARTITIONS_SINCE
# Maximum number of calls in a step: ten for each partition. A step with all appends would make
# sixty for each.
MOST_CALLS = 10 * COUNT


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with life(tmp_path) as transaction:
        await transaction.metadata.create_topics([NewTopic("wide", COUNT)])
        yield transaction


def request(
    *,
    acks: int = -1,
    transactional_id: str | None = None,
    records: Callable[[], bytes | bytearray] = batch,
    topic: str = "wide",
) -> ProduceRequest:
    data = [PartitionProduceData(number, memoryview(records())) for number in range(COUNT)]
    return ProduceRequest(transactional_id, acks, 1_000, [TopicProduceData(topic, b"", data)])


def framed(asked: ProduceRequest, version: int) -> bytearray:
    _, parts = Requests("test").send(asked, version)
    return bytearray(b"".join(bytes(part) for part in parts)[4:])


def serve(broker: Broker, asked: ProduceRequest | bytearray, version: int = 9) -> EncodedResponse:
    """Serve a request as a connection does. The request's bytes are in a buffer that the next
    request overwrites."""
    shared = asked if isinstance(asked, bytearray) else framed(asked, version)
    session = Session(ANONYMOUS, "127.0.0.1", "PLAINTEXT", lambda: False)
    response = broker._dispatch.serve(memoryview(shared), session)
    shared[:] = bytes(len(shared))
    return response


async def response_of(response: EncodedResponse, version: int = 9) -> ProduceResponse:
    """Wait for the response of a request, and return it decoded."""
    assert isinstance(response, Deferred)
    assert response.order is Order.PARKS, (
        "an ordered response would let the connection's next request append before this one"
    )
    ready = asyncio.Event()
    response.on_complete(lambda _: ready.set())
    response.on_abandon(ready.set)
    await asyncio.wait_for(ready.wait(), DEADLINE_S)
    if response.failure is not None:
        raise response.failure
    requests = Requests("test")
    requests.send(ProduceRequest(acks=-1), version)
    parts = cast("list[bytes]", response.value)
    (message,) = requests.receive_data(b"".join(parts))
    found: ProduceResponse = message.message
    return found


def ends(broker: Broker, topic: str = "wide") -> set[int]:
    return {broker.partitions.require(topic, number).log_end_offset for number in range(COUNT)}


def codes(response: ProduceResponse) -> set[int]:
    return {
        partition_response.error_code
        for topic in response.responses
        for partition_response in topic.partition_responses
    }


async def some_appended(broker: Broker) -> None:
    """Wait until some of the appends are done."""
    async with asyncio.timeout(DEADLINE_S):
        while ends(broker) != {0, 1}:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0)


async def all_appended(broker: Broker) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while ends(broker) != {1}:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0)


async def identity(broker: Broker, name: str) -> tuple[int, int]:
    await broker.metadata.missing_topics.create_one(TRANSACTION_STATE)
    asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    async with asyncio.timeout(DEADLINE_S):
        # The new coordinator loads in slices, one in a turn of the loop.
        while True:
            found = await ask(init_producer_id, broker.services, asked)
            if found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
            await asyncio.sleep(0)
    assert found.error_code == 0
    return found.producer_id, found.producer_epoch


def transactional(owner: tuple[int, int], *, acks: int = -1) -> ProduceRequest:
    return request(
        acks=acks,
        transactional_id="t",
        records=lambda: batch(
            producer_id=owner[0], producer_epoch=owner[1], base_sequence=0, is_transactional=True
        ),
    )


def add_all(broker: Broker, owner: tuple[int, int]) -> None:
    wide = frozenset(TopicPartition("wide", number) for number in range(COUNT))
    added = broker.services.transactions.add_partitions(AddPartitions("t", *owner, wide))
    assert isinstance(added, TransactionResult)
    assert added.code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("acks", "version", "is_transactional"),
    [(-1, 9, False), (0, 9, False), (-1, 9, True), (-1, ADDING, True)],
)
async def test_no_step_of_a_produce_is_long(
    broker: Broker, acks: int, version: int, is_transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding, checks, authorization, appends and the response all take small steps."""
    asked = request(acks=acks)
    if is_transactional:
        owner = await identity(broker, "t")
        asked = transactional(owner, acks=acks)
        if version < ADDING:
            add_all(broker, owner)
    calls = Calls()
    slices = broker.services.slices
    run, queue = slices.run, slices.queue
    monkeypatch.setattr(slices, "run", lambda steps: run(calls.counted(steps)))
    monkeypatch.setattr(slices, "queue", lambda steps: queue(calls.counted(steps)))
    monkeypatch.setattr(dispatch, "SLICED_BYTES", 4 << 10)
    at_once = Calls()
    frame = framed(asked, version)
    # The broker generates the decoder at the first request. This is not a step of the Produce.
    sliced_decoder(ProduceRequest, version)
    response = at_once.of(lambda: serve(broker, frame, version))
    if acks:
        assert codes(await response_of(response, version)) == {0}
        assert calls.steps > 2 * COUNT, "the request is decoded and the response encoded in steps"
    else:
        await all_appended(broker)
        assert calls.steps > COUNT
    assert ends(broker) == {1}
    assert max(calls.most, at_once.most) < MOST_CALLS


async def test_with_acks_0_a_refused_partition_closes_the_connection_and_affects_no_other_partition(
    broker: Broker,
) -> None:
    asked = request(acks=0)
    asked.topic_data[0].partition_data[7].records = b"no batch"
    response = serve(broker, asked)
    with pytest.raises(ProtocolError, match="acks=0"):
        await response_of(response)
    assert ends(broker) == {0, 1}
    assert broker.partitions.require("wide", 7).log_end_offset == 0


async def test_a_produce_is_appended_in_full_if_its_client_disconnects(
    broker: Broker,
) -> None:
    response = serve(broker, request())
    assert isinstance(response, Deferred)
    await some_appended(broker)
    response.cancel()
    await all_appended(broker)


async def test_partitions_of_a_topic_deleted_during_a_produce_are_refused(broker: Broker) -> None:
    response = serve(broker, request())
    await some_appended(broker)
    topic = broker.metadata.image.topics["wide"]
    for number in range(COUNT):
        broker._replica_manager._remove(topic, TopicPartition("wide", number))
    (topic_response,) = (await response_of(response)).responses
    rows = topic_response.partition_responses
    assert rows[0].error_code == 0
    assert rows[-1].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", [9, ADDING])
async def test_a_transaction_that_ends_during_a_produce_gets_no_more_records(
    broker: Broker, version: int
) -> None:
    """A batch after the marker would hold back readers forever (KIP-890)."""
    owner = await identity(broker, "t")
    if version < ADDING:
        add_all(broker, owner)
    response = serve(broker, transactional(owner), version)
    await some_appended(broker)
    ended = await ask(end_txn, broker.services, EndTxnRequest("t", *owner, False))
    assert ended.error_code == 0
    found = await response_of(response, version)
    assert 0 in codes(found)
    assert len(codes(found)) > 1, "partitions after the end of the transaction are refused"
    for number in range(COUNT):
        partition = broker.partitions.require("wide", number)
        assert not [*partition._log.producers.ongoing_transactions()]
        assert partition.last_stable_offset == partition.log_end_offset


async def test_all_partitions_are_added_to_a_transaction_in_one_record(broker: Broker) -> None:
    owner = await identity(broker, "t")
    before = _transaction_records(broker)
    assert codes(await response_of(serve(broker, transactional(owner), ADDING), ADDING)) == {0}
    assert _transaction_records(broker) == before + 1
    live = broker.services.transactions.find("t")
    assert len(live.metadata.partitions) == COUNT


async def test_if_the_coordinator_refuses_the_request_all_partitions_get_its_error(
    broker: Broker,
) -> None:
    owner = await identity(broker, "t")
    asked = transactional((owner[0], owner[1] + 1))
    found = await response_of(serve(broker, asked, ADDING), ADDING)
    assert codes(found) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert ends(broker) == {0}


async def test_a_request_with_batches_of_two_producers_is_refused_for_all_partitions(
    broker: Broker,
) -> None:
    owner = await identity(broker, "t")
    asked = transactional(owner)
    other = batch(producer_id=owner[0] + 1, producer_epoch=0, is_transactional=True)
    asked.topic_data[0].partition_data[-1].records = other
    found = await response_of(serve(broker, asked, ADDING), ADDING)
    assert codes(found) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert ends(broker) == {0}


async def test_two_large_requests_are_appended_in_their_order(broker: Broker) -> None:
    """As on a connection, each request is served after the response to the request before it."""
    owner = await identity(broker, "t")
    for sequence in range(2):
        data = batch(producer_id=owner[0], producer_epoch=0, base_sequence=sequence)
        assert codes(
            await response_of(serve(broker, request(records=partial(bytearray, data))))
        ) == {0}
    assert ends(broker) == {2}


def _transaction_records(broker: Broker) -> int:
    topic = broker.metadata.image.topics[TRANSACTION_STATE]
    logs = [
        broker.partitions.require(topic.name, partition.partition)._log
        for partition in topic.partitions
    ]
    return sum(log.log_end_offset for log in logs)
