"""Reads of a state log (`Admin.state_log`) from a scripted broker."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client import Admin, KafkaError, TopicPartition
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)
FETCH_VERSION = 12
END = 5
# By fetch offset: the batches of a response, as (base offset, number of records).
BATCHES = {0: [(0, 2), (2, 1)], 3: [(3, 2)]}


def _batches(offset: int) -> bytes:
    return b"".join(
        bytes(build_batch([NewRecord(1, b"k", b"v")] * count, base_offset=base))
        for base, count in BATCHES.get(offset, [])
    )


def _read(start: int, data: bytes | None = None) -> tuple[list[int], list[int]]:
    """Return the offset after each batch that was read, and the offset of each Fetch request.
    `data`: the records that the broker returns at every offset, instead of BATCHES."""
    broker = ScriptedBroker()

    def script(api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.FETCH:
            return None
        offset = request.topics[0].partitions[0].fetch_offset
        code = ErrorCode.OFFSET_OUT_OF_RANGE if offset > END else ErrorCode.NONE
        response = broker.respond(api, FETCH_VERSION, request, code)
        row = response.responses[0].partitions[0]
        row.high_watermark, row.records = END, _batches(offset) if data is None else data
        return response

    broker.script = script

    async def scenario() -> list[int]:
        async with Admin(SERVER) as admin:
            return [batch.next_offset for batch in await admin.state_log(PLACE).read(start)]

    found = simulated(broker, scenario)
    fetched = [
        request.topics[0].partitions[0].fetch_offset
        for _, api, request in broker.requests
        if api is ApiKey.FETCH
    ]
    return found, fetched


def test_a_log_is_read_to_its_high_watermark_and_no_further() -> None:
    assert _read(0) == ([2, 3, 5], [0, 3])


@pytest.mark.parametrize("start", [3, END])
def test_a_log_is_read_from_an_offset(start: int) -> None:
    assert _read(start) == ([5] if start < END else [], [start])


def test_gaps_at_the_end_of_a_compacted_log_end_the_read() -> None:
    assert _read(4) == ([], [4])


def test_a_read_at_an_offset_out_of_range_begins_at_the_start_of_the_log() -> None:
    """The log of the scripted broker begins at 0."""
    assert _read(END + 1) == ([2, 3, 5], [END + 1, 0, 3])


def test_damaged_batches_are_an_error_with_their_place() -> None:
    damaged = bytearray(_batches(0))
    damaged[-1] ^= 1
    with pytest.raises(KafkaError, match="t-0 at 0: ") as caught:
        _read(0, bytes(damaged))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
