"""Records of `__transaction_state` and `__consumer_offsets`, by Kafka's definitions
(TransactionLogValue v0-1, OffsetCommitKey/Value)."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from tests.simulation.checking.logs import PartitionLog, TopicPartition

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, FENCING = (
    range(8)
)
STATE_NAMES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
)  # fmt: skip


# Maximum number of decoded records in a cache. Each check of a log reads all its records, and most
# of them have not changed since the last check.
REMEMBERED_RECORDS = 50_000


class Transition(NamedTuple):
    """One record of a transactional id. `state` is None for a tombstone. Missing ids and epochs are
    -1. Times are in ms since 1970."""

    transactional_id: str
    offset: int
    leader_epoch: int
    state: int | None
    producer_id: int = -1
    epoch: int = -1
    timeout_ms: int = -1
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    next_epoch: int = -1
    version: int = 0

    @property
    def owner(self) -> tuple[int, int]:
        """Return the producer id and epoch that a request must have now. For a prepared transaction
        that a new producer keeps (KIP-939), these belong to the new producer."""
        if self.next_epoch >= 0:
            return self.next_producer_id, self.next_epoch
        return self.producer_id, self.epoch


LAYOUTS = {form: struct.Struct(f">{form}") for form in "bhiq"}


class Cursor:
    """A forward reader. `compact`: strings and arrays have the form of the flexible versions."""

    def __init__(self, data: bytes, at: int, *, compact: bool = False) -> None:
        self.data = data
        self.at = at
        self.compact = compact

    def number(self, form: str) -> int:
        layout = LAYOUTS[form]
        value: int = layout.unpack_from(self.data, self.at)[0]
        self.at += layout.size
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def count(self) -> int:
        """Return the length of an array, or 0 for null."""
        return max(self.varint() - 1 if self.compact else self.number("i"), 0)

    def text(self) -> str:
        size = self.varint() - 1 if self.compact else self.number("h")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def tags(self) -> dict[int, bytes]:
        if not self.compact:
            return {}
        found = {}
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            found[tag] = self.data[self.at : self.at + size]
            self.at += size
        return found


def read_transitions(log: PartitionLog) -> list[Transition]:
    """Return the records of all transactional ids, in the order of the log. Other kinds of records
    are skipped."""
    return [
        transition_of(record.key, record.value, record.offset, batch.leader_epoch)
        for batch in log.batches
        if not batch.is_control
        for record in batch.records
        if record.key is not None and record.key[:2] == b"\0\0"
    ]


@lru_cache(REMEMBERED_RECORDS)
def transition_of(key: bytes, value: bytes | None, offset: int, leader_epoch: int) -> Transition:
    transactional_id = Cursor(key, 2).text()
    if value is None:
        return Transition(transactional_id, offset, leader_epoch, None)
    version = struct.unpack_from(">h", value)[0]
    cursor = Cursor(value, 2, compact=version > 0)
    producer_id, epoch = cursor.number("q"), cursor.number("h")
    timeout_ms, state = cursor.number("i"), cursor.number("b")
    partitions = set()
    for _ in range(cursor.count()):
        topic = cursor.text()
        partitions |= {(topic, cursor.number("i")) for _ in range(cursor.count())}
        cursor.tags()
    _, start_ms = cursor.number("q"), cursor.number("q")
    tags = cursor.tags()
    return Transition(
        transactional_id,
        offset,
        leader_epoch,
        state,
        producer_id,
        epoch,
        timeout_ms,
        frozenset(partitions),
        start_ms,
        _tag(tags, 0, "q"),
        _tag(tags, 1, "q"),
        _tag(tags, 3, "h"),
        max(_tag(tags, 2, "h"), 0),
    )


def _tag(tags: dict[int, bytes], tag: int, form: str) -> int:
    value: int = struct.unpack(">" + form, tags[tag])[0] if tag in tags else -1
    return value


GroupOffset = tuple[str, str, int]


class GroupOffsets(NamedTuple):
    """Committed offsets, and the producers of pending offsets, by (group, topic, partition)."""

    committed: dict[GroupOffset, int]
    pending: dict[GroupOffset, set[int]]


def replay_offsets(logs: list[PartitionLog]) -> GroupOffsets:
    """Replay offset records. If both a non-transactional and a transactional commit have set an
    offset, the later record in the log counts (KAFKA-5247)."""
    committed: dict[GroupOffset, tuple[int, int]] = {}
    staged: dict[int, dict[GroupOffset, tuple[int, int]]] = {}
    for log in logs:
        for batch in log.batches:
            marker = batch.marker
            if marker is not None:
                for key, found in staged.pop(batch.producer_id, {}).items():
                    if marker[0] and found > committed.get(key, (-1, -1)):
                        committed[key] = found
                continue
            for record in batch.records:
                key_of = _offset_key(record.key)
                if key_of is None:
                    continue
                if record.value is None:
                    committed.pop(key_of, None)
                    for offsets in staged.values():
                        offsets.pop(key_of, None)
                    continue
                found = (record.offset, struct.unpack_from(">q", record.value, 2)[0])
                if batch.is_transactional:
                    staged.setdefault(batch.producer_id, {})[key_of] = found
                else:
                    committed[key_of] = found
    pending: dict[GroupOffset, set[int]] = {}
    for producer_id, offsets in staged.items():
        for key in offsets:
            pending.setdefault(key, set()).add(producer_id)
    return GroupOffsets({key: offset for key, (_, offset) in committed.items()}, pending)


@lru_cache(REMEMBERED_RECORDS)
def _offset_key(key: bytes | None) -> GroupOffset | None:
    if key is None or key[:2] not in (b"\0\0", b"\0\1"):
        return None
    cursor = Cursor(key, 2)
    return cursor.text(), cursor.text(), cursor.number("i")
