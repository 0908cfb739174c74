"""The contents of a log, computed from its bytes, and the records that a reader of a partition
gets."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.records.batch import read_records, split_batches
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.storage.layout import partition_directory
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import Oracle, full_scan
from tests.server.storage.memory_files import MemoryFiles

MANY: Final = 1 << 30


def oracle_of_partition(files: MemoryFiles, partition: TopicPartition) -> Oracle:
    return full_scan(log_data(files, partition))


def log_data(files: MemoryFiles, partition: TopicPartition) -> list[bytes]:
    directory = partition_directory(*partition)
    paths = sorted(
        path for path in files.nodes if path.startswith(f"{directory}/") and path.endswith(".log")
    )
    return [bytes(files.nodes[path].data) for path in paths]


def committed_values(files: MemoryFiles, partition: TopicPartition) -> list[bytes]:
    """Return the committed values in the order of the log, up to the first undecided record."""
    oracle = oracle_of_partition(files, partition)
    end = min([oracle.end_offset, *(e[4] for e in oracle.producers.values() if e[4] >= 0)])
    values = []
    for data in log_data(files, partition):
        for position, header in split_batches(data):
            if header.is_control or header.base_offset >= end:
                continue
            outcome = [
                committed
                for producer_id, first, last, committed in oracle.completed
                if producer_id == header.producer_id and first <= header.base_offset < last
            ]
            if not header.is_transactional or outcome == [True]:
                values += [r.value or b"" for r in read_records(data, position, max_bytes=MANY)]
    return values


def read_values(partition: Partition, isolation: Isolation, max_bytes: int = 200) -> list[bytes]:
    """Return the values that a reader gets from the log start to the end, at most `max_bytes` at a
    time. The reader skips aborted batches by KIP-98's rule for clients."""
    values: list[bytes] = []
    offset = partition.log_start_offset
    while True:
        read = partition.read(offset, max_bytes, isolation, at_least_one=True)
        if read.records is None:
            return values
        data = read.records.read()
        pending = sorted(read.aborted or [], key=lambda row: row.first_offset)
        aborted: set[int] = set()
        for position, header in split_batches(data, allow_partial=True):
            while pending and pending[0].first_offset <= header.last_offset:
                aborted.add(pending.pop(0).producer_id)
            if header.base_offset >= offset:
                if header.is_control:
                    aborted.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborted):
                    values += [r.value or b"" for r in read_records(data, position, max_bytes=MANY)]
            offset = header.next_offset
