"""Appends as the handler of Produce makes them from a request."""

from __future__ import annotations

from oncelog_protocol.records.batch import HEADER_SIZE, read_header
from oncelog_server.partition.partition import Partition
from oncelog_server.producing.produce import PartitionAppend


def append_of(
    index: int, records: memoryview | bytearray | None, partition: Partition | None
) -> PartitionAppend:
    """Return the append of a batch to a partition, None for an unknown partition."""
    header = None
    if records is not None and len(records) >= HEADER_SIZE:
        header = read_header(records)
    return PartitionAppend(index, records, partition, header)
