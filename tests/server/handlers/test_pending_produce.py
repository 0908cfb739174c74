"""A Produce that waits for its commit keeps no bytes of its request in memory."""

from __future__ import annotations

import asyncio
import gc

import pytest
from msgspec.structs import replace

from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_server.broker import Broker
from oncelog_server.deferred import Deferred
from oncelog_server.producing.produce import PartitionAppend
from oncelog_server.requests.response import Parts
from oncelog_server.requests.session import Session
from oncelog_server.security.resources import ANONYMOUS
from tests.server.handlers.nodes import DEADLINE_S
from tests.server.handlers.test_large_produce import COUNT, broker, framed
from tests.server.log.driver import batch

__all__ = ["broker"]


@pytest.mark.parametrize("partitions", [1, COUNT])
async def test_a_produce_that_waits_for_its_commit_keeps_no_bytes(
    broker: Broker, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = broker.partitions.require("wide", 0)
    first.reconfigure(replace(first.config, flush_messages=1))
    flush = first._request_flush
    monkeypatch.setattr(first, "_request_flush", lambda _: None)
    rows = [PartitionProduceData(number, memoryview(batch())) for number in range(partitions)]
    frame = framed(ProduceRequest(None, -1, 60_000, [TopicProduceData("wide", b"", rows)]), 9)
    del rows
    session = Session(ANONYMOUS, "127.0.0.1", "PLAINTEXT", lambda: False)
    response = broker._dispatch.serve(memoryview(frame), session)
    assert isinstance(response, Deferred)
    last = broker.partitions.require("wide", partitions - 1)
    async with asyncio.timeout(DEADLINE_S):
        while last.log_end_offset == 0:  # noqa: ASYNC110 - waits for turns of the loop
            await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not response.done
    frame.append(0)  # raises BufferError while a view of the frame exists
    gc.collect()
    kept = gc.get_objects()
    assert not [data for data in kept if type(data) is PartitionProduceData]
    appends = [append for append in kept if type(append) is PartitionAppend]
    assert appends
    assert all(append.records is None for append in appends)
    del kept
    flush(first)
    assert first.log_end_offset == 1
    await asyncio.wait_for(_completed(response), DEADLINE_S)


async def _completed(response: Deferred[Parts]) -> None:
    while not response.done:  # noqa: ASYNC110 - waits for turns of the loop
        await asyncio.sleep(0)
