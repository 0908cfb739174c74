"""Produce refuses records for internal topics, from any client, and remembers the batches that it
has refused because their partition was not open yet."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_server.cluster.topic_names import INTERNAL_TOPICS
from oncelog_server.handlers import produce
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import StillClock, broker, context
from tests.server.log.driver import batch
from tests.server.partition.partitions import partition

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
# A coordinator that this test does not use.
UNASKED: Any = SimpleNamespace(add_partitions=None)


@pytest.mark.parametrize("client_id", ["", "__admin_client", "broker-0", "oncelog"])
@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
async def test_h51_M30_an_internal_topic_refuses_records_of_every_client_id(
    topic: str, client_id: str
) -> None:
    found = partition(name=TopicPartition(topic, 0))
    found.become_leader(0, 0, (0,), (0,))
    data = [PartitionProduceData(0, batch())]
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(topic, partition_data=data)])
    async with broker() as services:
        services.partitions.add(found)
        services = replace(services, clock=StillClock(), transactions=UNASKED)
        asking = msgspec.structs.replace(context(services, produce.API, 12), client_id=client_id)
        response: Any = produce.handle(services, asking, request)
    (refused,) = response.responses[0].partition_responses
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert found.log_end_offset == 0


@pytest.mark.parametrize("version", [12, 13])
async def test_r11_a_batch_does_not_overtake_one_that_came_before_its_partition_was_open(
    version: int,
) -> None:
    """A client can know of a new topic before the broker does. Up to Produce v12 its request names
    the topic, from v13 on the topic's id."""
    found = partition(name=TopicPartition("t", 0))
    found.become_leader(0, 0, (0,), (0,))
    async with broker() as services:
        services = replace(services, clock=StillClock(), transactions=UNASKED)

        def produced(sequence: int, version: int = 12) -> ErrorCode:
            records = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
            data = [PartitionProduceData(0, records)]
            topic = TopicProduceData("t", topic_id=found.topic_id, partition_data=data)
            request = ProduceRequest(acks=-1, topic_data=[topic])
            asking = context(services, produce.API, version)
            response: Any = produce.handle(services, asking, request)
            (row,) = response.responses[0].partition_responses
            # The row of an appended batch is encoded already.
            return ErrorCode.NONE if isinstance(row, bytes) else ErrorCode(row.error_code)

        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version == 13 else UNKNOWN
        assert produced(0, version) == unknown
        services.partitions.add(found)
        assert produced(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [produced(0), produced(1)] == [ErrorCode.NONE] * 2
    assert found.log_end_offset == 2
