"""Readers that make a broker work for next to nothing: fetches of one byte all over a topic of
single records (scenario H67)."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch, read_header, split_batches
from oncelog_server.network.connection import TURN_MS
from tests.faults.holding import cpu_ms, held_ms
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, events
from tests.harness.wire import Wire
from tests.harness.writing import BY_NAME, records

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

SEED = 67
RECORDS = 16_000
READERS, FETCHES = 8, 400
SEGMENT_BYTES = 1 << 20
# What such a fetch may cost, as a part of reading all headers of a segment on the same machine at
# the same time. Without an index a fetch reads half of them.
PART_OF_A_SEGMENT = 1 / 8


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    """With two segments of a topic of which every record is a batch; its indexes are as sparse as a
    setting allows."""
    with Oncelog(tmp_path_factory.mktemp("tiny"), QUICK) as broker:
        with Wire(broker.address) as wire:
            create(wire, "t", segment_bytes=SEGMENT_BYTES, index_interval_bytes=2**31 - 1)
            data = build_batch(records())
            partitions = [PartitionProduceData(0, data)]
            topics = [TopicProduceData(name="t", partition_data=partitions)]
            request = ProduceRequest(None, 1, 10_000, topics)
            for _ in range(RECORDS // 500):
                for _ in range(500):
                    wire.send(request, BY_NAME)
                for _ in range(500):
                    response = wire.answer().responses[0].partition_responses[0]
                    assert response.error_code == ErrorCode.NONE, response
        yield broker
        events(broker)


def tiny(offset: int) -> FetchRequest:
    place = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1)
    return FetchRequest(max_wait_ms=0, max_bytes=1, topics=[FetchTopic("t", partitions=[place])])


def segment_walk_ms() -> float:
    """The CPU that it takes to read each header of a segment, in this process."""
    data = build_batch(records())
    segment = bytes(data) * (SEGMENT_BYTES // len(data))
    began = time.process_time()
    position = 0
    while position < len(segment):
        position += read_header(segment, position).size
    return (time.process_time() - began) * 1000


def test_h67_tiny_fetches_of_scattered_offsets_cost_little_each_and_others_have_their_turn(
    broker: Oncelog,
) -> None:
    chosen = random.Random(SEED)
    offsets = [[chosen.randrange(RECORDS) for _ in range(FETCHES)] for _ in range(READERS)]
    with ExitStack() as stack:
        bystander = stack.enter_context(Wire(broker.address))
        readers = [stack.enter_context(Wire(broker.address)) for _ in range(READERS)]
        readers[0].call(tiny(0), 12)
        readers[0].call(tiny(RECORDS - 1), 12)
        used = cpu_ms(broker)
        held: list[float] = []
        for number in range(FETCHES):
            for reader, wanted in zip(readers, offsets, strict=True):
                reader.send(tiny(wanted[number]), 12)
            if number % 10 == 0:
                held.append(held_ms(broker, bystander))
        for reader, wanted in zip(readers, offsets, strict=True):
            for offset in wanted:
                (row,) = reader.answer().responses[0].partitions
                assert row.error_code == ErrorCode.NONE
                (found,) = split_batches(bytes(row.records))
                assert found[1].base_offset == offset
        cost_ms = (cpu_ms(broker) - used) / (READERS * FETCHES)
        assert cost_ms < PART_OF_A_SEGMENT * segment_walk_ms()
    # A turn of each reader, which ends with the fetch that passes its time. While this test waits
    # for a processor there may be more: the median shows it.
    assert median(held) < READERS * (TURN_MS + cost_ms)
