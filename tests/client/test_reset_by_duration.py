"""`auto_offset_reset="by_duration:…"` (KIP-1106): a partition without a committed offset begins at
the first record that is not older than the duration, and at its end without such a record."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from oncelog_client import Consumer, Producer, TopicPartition
from oncelog_client.config import consumer_config
from oncelog_client.errors import ConfigError
from oncelog_client.io.log_offsets import LATEST
from oncelog_protocol.apis import ApiKey
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated
from tests.harness.client_reading import DEADLINE_S

HOUR_MS = 3_600_000
END = 10


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize(
    ("duration", "position"),
    [
        ("P10000D", 0),
        ("PT2H30M", 2),
        ("PT1H30M", 3),
        ("PT1M", 4),
        ("PT0S", 4),
        ("P99999999999D", 0),
    ],
)
async def test_reading_begins_at_the_first_record_within_the_duration(
    bootstrap: str,
    producer: Producer,
    lasting_topic: str,
    name: str,
    duration: str,
    position: int,
    group: bool,
) -> None:
    now_ms = time.time_ns() // 1_000_000
    for hours in (4, 3, 2, 1):
        await producer.send(
            lasting_topic, b"%d" % hours, partition=0, timestamp_ms=now_ms - hours * HOUR_MS
        )
    await producer.flush()
    settings: dict[str, Any] = {"auto_offset_reset": f"by_duration:{duration}"}
    if group:
        settings["group_id"] = name
    async with Consumer(bootstrap, **settings) as consumer, asyncio.timeout(DEADLINE_S):
        partition, empty = TopicPartition(lasting_topic, 0), TopicPartition(lasting_topic, 1)
        await consumer.assign([partition, empty])
        assert await consumer.position(partition) == position
        assert await consumer.position(empty) == 0
        # The end was 4. A record that comes later is read, however short the duration is.
        await producer.send(lasting_topic, b"new", partition=0, timestamp_ms=now_ms - HOUR_MS)
        await producer.flush()
        offsets: list[int] = []
        while len(offsets) < 5 - position:
            offsets += [record.offset for record in await consumer.poll(DEADLINE_S * 1000)]
        assert offsets == list(range(position, 5))


async def test_a_committed_offset_comes_before_the_duration(
    bootstrap: str, producer: Producer, lasting_topic: str, name: str
) -> None:
    place = TopicPartition(lasting_topic, 0)
    for _ in range(3):
        await producer.send(lasting_topic, b"v", partition=0, timestamp_ms=1)
    await producer.flush()
    settings: Any = {"group_id": name, "auto_offset_reset": "by_duration:PT1H"}
    async with Consumer(bootstrap, **settings) as consumer, asyncio.timeout(DEADLINE_S):
        await consumer.assign([place])
        await consumer.commit({place: 1})
        assert await consumer.position(place) == 1


def test_a_record_appended_during_the_search_is_not_skipped() -> None:
    """The end is requested before the first record within the duration. So a record that comes
    between the two requests is after the position."""
    broker = ScriptedBroker()
    requested: list[int] = []

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.LIST_OFFSETS:
            return None
        response = broker.respond(api, 9, request)
        timestamp = request.topics[0].partitions[0].timestamp
        requested.append(timestamp)
        response.topics[0].partitions[0].offset = END if timestamp == LATEST else -1
        return response

    broker.script = script

    async def scenario() -> None:
        settings: Any = {"auto_offset_reset": "by_duration:PT1H"}
        async with Consumer("broker:9092", **settings) as consumer:
            await consumer.assign([TopicPartition(TOPIC, 0)])
            assert await consumer.position(TopicPartition(TOPIC, 0)) == END

    simulated(broker, scenario)
    assert requested[0] == LATEST
    assert len(requested) == 2
    assert requested[1] >= 0


@pytest.mark.parametrize("value", ["by_duration:PT-1H", "by_duration:tomorrow", "by_duration"])
def test_a_negative_or_malformed_duration_is_refused(value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        consumer_config("localhost:9092", {"auto_offset_reset": value})
    assert refused.value.message == (
        f"Invalid value `{value}` for configuration auto_offset_reset. The value must be either "
        "'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
    )
