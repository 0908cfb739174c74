"""Calls that a producer refuses before it sends anything."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client import IllegalStateError, Producer, TopicPartition
from oncelog_protocol.apis import ApiKey
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated


@pytest.mark.parametrize("named", [{}, {"group_id": "g"}, {"generation_id": 1}])
def test_input_partitions_need_a_group_and_its_generation(named: dict[str, Any]) -> None:
    broker = ScriptedBroker()

    async def scenario() -> None:
        async with Producer("broker:9092", transactional_id="x") as producer:
            with pytest.raises(IllegalStateError, match="group_id and generation_id"):
                await producer.init_transactions([TopicPartition(TOPIC, 0)], **named)

    simulated(broker, scenario)
    assert not broker.counts[ApiKey.INIT_PRODUCER_ID]
