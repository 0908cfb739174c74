"""A topic with records that are only on the disk, for `benchmarks.stalls`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from benchmarks.batches import NO_IDENTITY, a_batch
from benchmarks.undecoded import UndecodedClient, check, prepared, read
from oncelog_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.harness.broker import Oncelog

TOPIC: Final = "cold"
LATER: Final = "later"
PARTITIONS: Final = 4
LATER_BATCHES: Final = 20
# Each partition of TOPIC has this number of batches of this size.
BATCHES: Final = 128
BATCH_BYTES: Final = 1_000_000
MEGABYTES: Final = PARTITIONS * BATCHES * BATCH_BYTES // 1_000_000
_SEGMENT_BYTES: Final = 64 << 20


class ColdLog:
    """The topic on one broker."""

    def __init__(self, broker: Oncelog) -> None:
        self._broker = broker

    def write(self) -> None:
        """Create and fill the topic, then remove it from the page cache. A broker takes the newest
        bytes that it has written for cached. So the last ones are of another topic, which stays
        there."""
        segments = CreatableTopicConfig("segment.bytes", str(_SEGMENT_BYTES))
        topics = [CreatableTopic(TOPIC, PARTITIONS, 1, configs=[segments])]
        topics.append(CreatableTopic(LATER, PARTITIONS, 1))
        with UndecodedClient(self._broker.address) as client:
            request = CreateTopicsRequest(topics)
            created = read(CreateTopicsRequest, 7, client.ask(prepared(request, 7)))
            check(found.error_code for found in created.topics)
            _fill(client, TOPIC, BATCHES)
            _fill(client, LATER, LATER_BATCHES)
        forget(self._broker, TOPIC)

    def read(self) -> None:
        """Read all records."""
        offsets = dict.fromkeys(range(PARTITIONS), 0)
        with UndecodedClient(self._broker.address) as client:
            while offsets:
                places = [
                    FetchPartition(number, fetch_offset=offset, partition_max_bytes=BATCH_BYTES)
                    for number, offset in offsets.items()
                ]
                request = FetchRequest(
                    max_wait_ms=500,
                    min_bytes=1,
                    max_bytes=50 << 20,
                    topics=[FetchTopic(topic=TOPIC, partitions=places)],
                )
                fetched = read(FetchRequest, 12, client.ask(prepared(request, 12)))
                for topic in fetched.responses:
                    check(partition.error_code for partition in topic.partitions)
                    for partition in topic.partitions:
                        # A partition returns one batch with one record, or nothing yet.
                        if partition.records:
                            offsets[partition.partition_index] += 1
                offsets = {number: offset for number, offset in offsets.items() if offset < BATCHES}


def forget(broker: Oncelog, topic: str) -> None:
    """Remove the records of a topic from the page cache."""
    for path in Path(broker.directory).rglob(f"{topic}-*/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _fill(client: UndecodedClient, topic: str, batches: int) -> None:
    for _ in range(batches):
        data = [
            PartitionProduceData(number, a_batch(1, BATCH_BYTES - 100, NO_IDENTITY))
            for number in range(PARTITIONS)
        ]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        request = ProduceRequest(None, -1, 60_000, topics)
        written = read(ProduceRequest, 9, client.ask(prepared(request, 9)))
        check(
            partition.error_code
            for found in written.responses
            for partition in found.partition_responses
        )
