"""Produce with acks=0 and a transactional batch: the broker serves the connection's next request
after the coordinator's result, and an error closes the connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.deferred import Deferred, Order
from oncelog_server.handlers import produce
from oncelog_server.partition.partition import Partition
from oncelog_server.transaction.results import TransactionResult
from tests.server.handlers.nodes import broker, context
from tests.server.handlers.requests import batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import NAME, partition

VERSION = 12


class Pending:
    """A Produce that waits for the coordinator."""

    def __init__(self, response: Any, result: Deferred[TransactionResult], led: Partition) -> None:
        assert isinstance(response, Deferred)
        self.response = response
        self.result = result
        self.partition = led


async def pending(services: BrokerServices) -> Pending:
    await services.metadata.create_topics([NewTopic(NAME.topic)])
    led = partition()
    services.partitions.add(led)
    result: Deferred[TransactionResult] = Deferred()
    asked = replace(services, timers=ManualTimers(), partition_adding=lambda command: result)
    data = [PartitionProduceData(NAME.partition, batch(7))]
    request = ProduceRequest("id", 0, 1_000, [TopicProduceData(NAME.topic, b"", data)])
    return Pending(
        produce.handle(asked, context(asked, produce.API, VERSION), request), result, led
    )


async def test_the_request_ends_with_the_result_of_the_coordinator() -> None:
    async with broker() as services:
        waits = await pending(services)
        assert (waits.response.done, waits.response.order) == (False, Order.PARKS)
        waits.result.complete(TransactionResult(ErrorCode.NONE))
        assert waits.response.value is None
        assert waits.partition.log_end_offset == 1


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_an_error_of_the_coordinator_closes_the_connection(code: ErrorCode) -> None:
    async with broker() as services:
        waits = await pending(services)
        failures: list[Exception | None] = []
        waits.response.on_abandon(lambda: failures.append(waits.response.failure))
        waits.result.complete(TransactionResult(code))
        assert [type(failure) for failure in failures] == [ProtocolError]
        assert waits.partition.log_end_offset == 0


async def test_the_batch_of_a_client_that_has_hung_up_is_appended() -> None:
    async with broker() as services:
        waits = await pending(services)
        waits.response.cancel()
        waits.result.complete(TransactionResult(ErrorCode.NONE))
        assert waits.partition.log_end_offset == 1
