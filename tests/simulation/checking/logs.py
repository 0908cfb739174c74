"""The files of a data directory by partition, and the state of producers and transactions after a
scan of all records."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from tests.simulation.checking.batches import Batch, Record, read_batches

TopicPartition: TypeAlias = tuple[str, int]
TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"
INTERNAL = (TRANSACTION_STATE, CONSUMER_OFFSETS)

_FILE = re.compile(r"(?:.*/)?(?P<topic>[^/]+)-(?P<partition>\d+)/(?P<base>\d{20})\.(?P<kind>\w+)")
_ROW = struct.Struct(">hqqqq")
_ENTRY = struct.Struct(">qhiqiqiq")


class AbortedRow(NamedTuple):
    """A row of a `.txnindex` (KIP-98). Its LSO is the last stable offset right after the abort."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Producer(NamedTuple):
    """A producer id's state in one partition. Missing values are -1."""

    epoch: int = -1
    coordinator_epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    open_since: int = -1


class Transaction(NamedTuple):
    """A transaction with records in this partition. `last`: the offset of its marker, or None while
    the transaction is open."""

    producer_id: int
    epoch: int
    first: int
    last: int | None
    committed: bool | None


@dataclass(slots=True)
class Scan:
    """The state after a scan of the batches. `transactions`: in the order of their ends, open ones
    last."""

    producers: dict[int, Producer] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    rows: list[AbortedRow] = field(default_factory=list)
    end_offset: int = 0


@dataclass
class PartitionLog:
    """The files of one partition by base offset. `log_start` None means the first offset,
    `high_watermark` None means the log end."""

    topic: str
    partition: int
    logs: dict[int, bytes] = field(default_factory=dict)
    txn_indexes: dict[int, bytes] = field(default_factory=dict)
    snapshots: dict[int, bytes] = field(default_factory=dict)
    log_start: int | None = None
    high_watermark: int | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_internal(self) -> bool:
        return self.topic in INTERNAL

    @cached_property
    def segments(self) -> dict[int, list[Batch]]:
        """Return the batches of each segment. Raises BrokenBatch."""
        return {base: read_batches(self.logs[base]) for base in sorted(self.logs)}

    @cached_property
    def batches(self) -> list[Batch]:
        return [batch for batches in self.segments.values() for batch in batches]

    @property
    def start(self) -> int:
        """Return the base offset of the first segment, or 0 without segments."""
        return min(self.logs, default=0)

    @property
    def visible_start(self) -> int:
        return self.start if self.log_start is None else self.log_start

    @property
    def end(self) -> int:
        """Return the end of the last batch, or the base offset of the last segment if that is
        higher. Batches before that offset may be lost or compacted away."""
        last = max(self.logs, default=0)
        return max(self.batches[-1].last_offset + 1, last) if self.batches else last

    @property
    def committed_end(self) -> int:
        return self.end if self.high_watermark is None else self.high_watermark

    @cached_property
    def is_partial(self) -> bool:
        """Return True if offsets are missing at the start, or between or inside batches."""
        expected = self.start
        for batch in self.batches:
            if batch.base_offset != expected or len(batch.records) != batch.delta + 1:
                return True
            expected = batch.last_offset + 1
        return self.start > 0

    @cached_property
    def whole(self) -> Scan:
        return scan(self.batches, self.end)

    def stable_end(self) -> int:
        """Return the last stable offset, literally by its definition (I2)."""
        limit = self.committed_end
        unstable = [
            transaction.first
            for transaction in self.whole.transactions
            if transaction.last is None or transaction.last >= limit
        ]
        return max(min([limit, *unstable]), min(self.visible_start, limit))

    def committed_records(self, end: int | None = None) -> list[Record]:
        """Return the records below `end` (the LSO) that a read_committed reader must get."""
        end = self.stable_end() if end is None else end
        visible = []
        for batch in self.batches:
            if batch.is_control or batch.base_offset >= end:
                continue
            if batch.is_transactional and not self._is_committed(batch):
                continue
            visible += [r for r in batch.records if self.visible_start <= r.offset < end]
        return visible

    def _is_committed(self, batch: Batch) -> bool:
        return any(
            transaction.committed
            for transaction in self.whole.transactions
            if transaction.producer_id == batch.producer_id
            and transaction.last is not None
            and transaction.first <= batch.base_offset < transaction.last
        )


def scan(batches: list[Batch], end_offset: int) -> Scan:
    """Return the state after these batches. The scan accepts any batch."""
    found = Scan(end_offset=end_offset)
    opened: dict[int, tuple[int, int]] = {}
    for batch in batches:
        producer_id = batch.producer_id
        if producer_id < 0:
            continue
        known = found.producers.get(producer_id, Producer())
        if known.epoch != batch.epoch:
            known = known._replace(epoch=batch.epoch, last_sequence=-1, last_offset=-1)
        marker = batch.marker
        if marker is not None:
            committed, coordinator_epoch = marker
            if producer_id in opened:
                first, epoch = opened.pop(producer_id)
                found.transactions.append(
                    Transaction(producer_id, epoch, first, batch.base_offset, committed)
                )
                if not committed:
                    others = [first for first, _ in opened.values()]
                    stable = min(others, default=batch.base_offset + 1)
                    found.rows.append(AbortedRow(producer_id, first, batch.base_offset, stable))
            known = known._replace(coordinator_epoch=coordinator_epoch, open_since=-1)
        elif not batch.is_control:
            known = known._replace(last_sequence=batch.last_sequence, last_offset=batch.last_offset)
            if batch.is_transactional and producer_id not in opened:
                opened[producer_id] = (batch.base_offset, batch.epoch)
                known = known._replace(open_since=batch.base_offset)
        found.producers[producer_id] = known
    found.transactions += [
        Transaction(producer_id, epoch, first, None, None)
        for producer_id, (first, epoch) in opened.items()
    ]
    return found


def read_rows(data: bytes) -> list[AbortedRow]:
    """Read a `.txnindex` file. Raises ValueError for an invalid file."""
    if len(data) % _ROW.size:
        raise ValueError(f"{len(data)} bytes")
    rows = [_ROW.unpack_from(data, at) for at in range(0, len(data), _ROW.size)]
    if any(row[0] for row in rows):
        raise ValueError("version")
    return [AbortedRow(*row[1:]) for row in rows]


def read_snapshot(data: bytes) -> dict[int, Producer]:
    """Read a `.snapshot` file by producer id. Raises ValueError for an invalid file."""
    version, crc, count = struct.unpack_from(">hIi", data)
    if version != 1 or crc32c(data[6:]) != crc or len(data) != 10 + count * _ENTRY.size:
        raise ValueError(f"version {version}, {count} entries, {len(data)} bytes")
    producers = {}
    for n in range(count):
        producer_id, epoch, sequence, offset, _, _, coordinator_epoch, open_since = (
            _ENTRY.unpack_from(data, 10 + n * _ENTRY.size)
        )
        producers[producer_id] = Producer(epoch, coordinator_epoch, sequence, offset, open_since)
    return producers


def partitions_in(files: Mapping[str, bytes]) -> dict[TopicPartition, PartitionLog]:
    """Return the partitions. `files`: the content of each path of a data directory. Stray, deleted
    and temporary files are skipped."""
    found: dict[TopicPartition, PartitionLog] = {}
    for path, content in sorted(files.items()):
        place = _place(path)
        if place is None:
            continue
        key, base, kind = place
        log = found.get(key)
        if log is None:
            log = found[key] = PartitionLog(*key)
        kinds = {"log": log.logs, "txnindex": log.txn_indexes, "snapshot": log.snapshots}
        if kind in kinds:
            kinds[kind][base] = bytes(content)
    return found


@lru_cache(10_000)
def _place(path: str) -> tuple[TopicPartition, int, str] | None:
    """Return the partition, the base offset and the suffix of a file. Return None for a file that
    does not belong to a segment."""
    match = _FILE.fullmatch(path)
    if match is None:
        return None
    return (match["topic"], int(match["partition"])), int(match["base"]), match["kind"]
