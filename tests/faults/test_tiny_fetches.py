"""Readers with tiny requests that cost a broker much work: fetches of one byte at random offsets,
in a topic with one record per batch (scenario H67)."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch, split_batches
from tests.faults.holding import bytes_read
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, events
from tests.harness.writing import BY_NAME, records

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

SEED = 67
RECORDS = 16_000
READERS, FETCHES = 8, 400
SEGMENT_BYTES = 1 << 20
# Limit for the bytes that a fetch of one byte reads on average: 64 KiB of headers (the broker's
# limit for index.interval.bytes), and a few pages around them. Measured: 36 KiB, and 248 KiB
# without the broker's limit.
MOST_READ = 80 << 10
# Limit for the fetches that are served before a request that arrives after all of them. In a turn,
# the broker serves at most 64 requests of each reader. Measured: 2 % of the fetches; without turns
# all of them.
MOST_BEFORE = READERS * FETCHES // 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    """A broker with two segments of a topic with one record per batch. A restart has cleared the
    broker's memory.

    Without the broker's limit, the index of the full segment would have a single entry, because
    index.interval.bytes is half a segment. (With a whole segment, the index would have no entry,
    and the broker would rebuild it.)
    """
    with Oncelog(tmp_path_factory.mktemp("tiny"), QUICK) as broker:
        with Wire(broker.address) as wire:
            create(wire, "t", segment_bytes=SEGMENT_BYTES, index_interval_bytes=SEGMENT_BYTES // 2)
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
        broker.stop()
        broker.start()
        yield broker
        events(broker)


def tiny(offset: int) -> FetchRequest:
    place = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1)
    return FetchRequest(max_wait_ms=0, max_bytes=1, topics=[FetchTopic("t", partitions=[place])])


def test_h67_tiny_fetches_read_few_bytes_and_delay_no_other_client(
    broker: Oncelog,
) -> None:
    """The broker is suspended until all requests have arrived: the readers' fetches, and after them
    a Produce. The high watermark of a fetch response shows if the Produce was served before it."""
    chosen = random.Random(SEED)
    offsets = [[chosen.randrange(RECORDS) for _ in range(FETCHES)] for _ in range(READERS)]
    with ExitStack() as stack:
        bystander = stack.enter_context(Wire(broker.address))
        readers = [stack.enter_context(Wire(broker.address)) for _ in range(READERS)]
        # These requests make the broker accept each connection and read both indexes.
        for wire in (bystander, *readers):
            wire.call(tiny(0), 12)
            wire.call(tiny(RECORDS - 1), 12)
        before = bytes_read(broker)
        broker._running().send_signal(signal.SIGSTOP)
        for reader, wanted in zip(readers, offsets, strict=True):
            for offset in wanted:
                reader.send(tiny(offset), 12)
        partitions = [PartitionProduceData(0, build_batch(records()))]
        topics = [TopicProduceData(name="t", partition_data=partitions)]
        bystander.send(ProduceRequest(None, 1, 10_000, topics), BY_NAME)
        broker._running().send_signal(signal.SIGCONT)
        served_before = 0
        for reader, wanted in zip(readers, offsets, strict=True):
            for offset in wanted:
                (row,) = reader.answer().responses[0].partitions
                assert row.error_code == ErrorCode.NONE
                (found,) = split_batches(bytes(row.records))
                assert found[1].base_offset == offset
                served_before += row.high_watermark == RECORDS
        response = bystander.answer().responses[0].partition_responses[0]
        assert response.error_code == ErrorCode.NONE
    assert (bytes_read(broker) - before) / (READERS * FETCHES) < MOST_READ
    assert served_before < MOST_BEFORE
