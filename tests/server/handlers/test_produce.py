"""Produce refuses records for internal topics, from any client."""

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
