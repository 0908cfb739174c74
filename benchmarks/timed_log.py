"""A topic with large batches, and a search by time in all its partitions, for
`benchmarks.stalls`."""

from __future__ import annotations

from typing import Final

from benchmarks.cold_log import forget
from benchmarks.undecoded import Failed, UndecodedClient, check, prepared, read
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.harness.broker import Oncelog

TOPIC: Final = "timed"
PARTITIONS: Final = 50
# The records of the only batch of a partition. Each has another time, so the search for the last
# reads the times of all.
RECORDS: Final = 9_000
_VALUE: Final = bytes(100)


class TimedLog:
    """The topic on one broker."""

    def __init__(self, broker: Oncelog) -> None:
        self._broker = broker

    def write(self) -> None:
        """Create and fill the topic."""
        batch = build_batch([NewRecord(time_ms, None, _VALUE) for time_ms in range(RECORDS)])
        with UndecodedClient(self._broker.address) as client:
            request = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)])
            created = read(CreateTopicsRequest, 7, client.ask(prepared(request, 7)))
            check(found.error_code for found in created.topics)
            for number in range(PARTITIONS):
                rows = [PartitionProduceData(number, batch)]
                data = [TopicProduceData(TOPIC, partition_data=rows)]
                produce = ProduceRequest(None, -1, 60_000, data)
                written = read(ProduceRequest, 9, client.ask(prepared(produce, 9)))
                check(row.error_code for row in written.responses[0].partition_responses)

    def search_on_disk(self) -> None:
        """Do the same as `search`, with records that are only on the disk. A broker takes the
        newest bytes that it has written for cached, so other bytes must come between."""
        forget(self._broker, TOPIC)
        self.search()

    def search(self) -> None:
        """Find the last record of each partition by its time."""
        wanted = [
            ListOffsetsPartition(number, timestamp=RECORDS - 1) for number in range(PARTITIONS)
        ]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(TOPIC, wanted)])
        with UndecodedClient(self._broker.address) as client:
            listed = read(ListOffsetsRequest, 6, client.ask(prepared(request, 6)))
        rows = listed.topics[0].partitions
        check(row.error_code for row in rows)
        if any(row.offset != RECORDS - 1 for row in rows):
            raise Failed(f"the offsets {[row.offset for row in rows]}, expected {RECORDS - 1}")
