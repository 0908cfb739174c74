"""Writes logs and snapshots byte by byte, to test the checkers of the simulation."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c

from tests.simulation.checking.logs import PartitionLog, TopicPartition, partitions_in

TXN = "__transaction_state"
GROUPS = "__consumer_offsets"


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def framed(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def batch(
    offset: int,
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    attributes: int = 0,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    leader_epoch: int = 0,
) -> bytes:
    body = b""
    for n, (key, value) in enumerate(records):
        record = b"\0" + varint(0) + varint(n) + framed(key) + framed(value) + varint(0)
        body += varint(len(record)) + record
    tail = struct.pack(
        ">hiqqqhii", attributes, max(len(records), 1) - 1, 0, 0, *producer, sequence, len(records)
    )
    tail += body
    head = struct.pack(">qiibI", offset, 9 + len(tail), leader_epoch, 2, crc32c(tail))
    return head + tail


class Hand:
    """Appends chosen batches to partitions, and assigns the offsets."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, bytearray] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.extra: dict[str, bytes] = {}

    def append(
        self,
        where: str,
        records: Sequence[tuple[bytes | None, bytes | None]],
        *,
        attributes: int = 0,
        producer: tuple[int, int] = (-1, -1),
        sequence: int = -1,
        leader_epoch: int = 0,
    ) -> int:
        topic, _, partition = where.rpartition("-")
        key = (topic, int(partition))
        offset = self.ends.get(key, 0)
        self.logs.setdefault(key, bytearray()).extend(
            batch(
                offset,
                records,
                attributes=attributes,
                producer=producer,
                sequence=sequence,
                leader_epoch=leader_epoch,
            )
        )
        self.ends[key] = offset + max(len(records), 1)
        return offset

    def data(
        self,
        where: str,
        producer: tuple[int, int],
        sequence: int,
        *values: bytes,
        plain: bool = False,
    ) -> int:
        records = [(None, value) for value in values or (b"v",)]
        return self.append(
            where, records, attributes=0 if plain else 16, producer=producer, sequence=sequence
        )

    def marker(
        self, where: str, producer: tuple[int, int], committed: bool, coordinator_epoch: int = 0
    ) -> int:
        key, value = struct.pack(">hh", 0, committed), struct.pack(">hi", 0, coordinator_epoch)
        return self.append(where, [(key, value)], attributes=48, producer=producer)

    def emptied_marker(self, where: str, producer: tuple[int, int]) -> int:
        """Append a marker as compaction leaves it: a batch without a record."""
        return self.append(where, [], attributes=48, producer=producer)

    def state(
        self,
        name: str,
        state: int | None,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        start_ms: int = 0,
        previous: int = -1,
        leader_epoch: int = 0,
        log: int = 0,
        version: int = 2,
    ) -> int:
        """Append a record of `__transaction_state`, version 1, and return its offset. `version`:
        the transaction version of the client."""
        key = b"\0\0" + struct.pack(">h", len(name)) + name.encode()
        value = None
        if state is not None:
            value = b"\0\1" + struct.pack(">qhib", *producer, 60_000, state)
            value += bytes([len(partitions) + 1])
            for topic, partition in partitions:
                value += bytes([len(topic) + 1]) + topic.encode()
                value += b"\2" + struct.pack(">i", partition) + b"\0"
            value += struct.pack(">qq", 1, start_ms)
            tagged = b"\2\2" + struct.pack(">h", version)
            if previous >= 0:
                tagged = b"\0\x08" + struct.pack(">q", previous) + tagged
            value += bytes([1 + (previous >= 0)]) + tagged
        return self.append(f"{TXN}-{log}", [(key, value)], leader_epoch=leader_epoch)

    def offset(self, producer: tuple[int, int] | None, offset: int | None) -> int:
        """Append a committed offset of group g for partition in-0, and return the record's own
        offset."""
        key = b"\0\1" + b"\0\1g" + b"\0\2in" + struct.pack(">i", 0)
        value = None
        if offset is not None:
            value = b"\0\3" + struct.pack(">qi", offset, -1) + b"\0\0" + struct.pack(">q", 0)
        return self.append(
            f"{GROUPS}-0",
            [(key, value)],
            attributes=0 if producer is None else 16,
            producer=producer or (-1, -1),
            sequence=-1 if producer is None else 0,
        )

    def rows(self, where: str, *rows: tuple[int, int, int, int]) -> None:
        self.extra[f"{where}/{0:020d}.txnindex"] = b"".join(
            struct.pack(">hqqqq", 0, *row) for row in rows
        )

    def snapshot(self, where: str, offset: int, *entries: tuple[int, ...]) -> None:
        """Add a snapshot file. The fields of an entry: producer id, epoch, last sequence, last
        offset, offset delta, timestamp, coordinator epoch, first offset of the open transaction."""
        body = struct.pack(">i", len(entries))
        body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
        content = struct.pack(">hI", 1, crc32c(body)) + body
        self.extra[f"{where}/{offset:020d}.snapshot"] = content

    def files(self) -> dict[str, bytes]:
        found = {
            f"{topic}-{partition}/{0:020d}.log": bytes(data)
            for (topic, partition), data in self.logs.items()
        }
        return found | self.extra

    def partitions(self) -> dict[TopicPartition, PartitionLog]:
        return partitions_in(self.files())
