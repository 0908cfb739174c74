"""A consumer against a scripted broker."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client import Consumer, TopicPartition
from oncelog_protocol.apis import ApiKey
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated

PLACE = TopicPartition(TOPIC, 0)
END = 10


@pytest.mark.parametrize(("position", "lag"), [(4, 6), (END, 0), (END + 1, 0)])
def test_the_lag_is_the_distance_to_the_end_and_never_below_0(position: int, lag: int) -> None:
    broker = ScriptedBroker()

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.LIST_OFFSETS:
            return None
        response = broker.respond(api, 9, request)
        response.topics[0].partitions[0].offset = END
        return response

    broker.script = script

    async def scenario() -> None:
        async with Consumer("broker:9092") as consumer:
            await consumer.assign([PLACE])
            consumer.seek(PLACE, position)
            assert await consumer.lag(PLACE) == {PLACE: lag}

    simulated(broker, scenario)
