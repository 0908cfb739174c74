"""Large batches for a compacted topic with a codec of its own, for `benchmarks.stalls`."""

from __future__ import annotations

from typing import Final

from benchmarks.undecoded import UndecodedClient, check, prepared, read
from oncelog_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.harness.broker import Oncelog

TOPIC: Final = "compacted"
BATCHES: Final = 30
# 0.9 MB. The broker reads all records for their keys, and compresses them again.
RECORDS: Final = 9_000


class CompactedLog:
    """The topic on one broker."""

    def __init__(self, broker: Oncelog) -> None:
        self._broker = broker

    def write(self) -> None:
        """Create the topic and write the batches, one after another."""
        records = [
            NewRecord(number, b"%d" % number, b"value %90d" % number) for number in range(RECORDS)
        ]
        batch = build_batch(records)
        configs = [
            CreatableTopicConfig("cleanup.policy", "compact"),
            CreatableTopicConfig("compression.type", "gzip"),
        ]
        with UndecodedClient(self._broker.address) as client:
            request = CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1, configs=configs)])
            created = read(CreateTopicsRequest, 7, client.ask(prepared(request, 7)))
            check(found.error_code for found in created.topics)
            data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]
            produce = prepared(ProduceRequest(None, -1, 60_000, data), 9)
            for _ in range(BATCHES):
                written = read(ProduceRequest, 9, client.ask(produce))
                check(row.error_code for row in written.responses[0].partition_responses)
