"""Offset commits that declare too much metadata or too many partitions (scenario H68)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.unsigned_varint import write_uvarint
from tests.faults.holding import cpu_limit_ms, cpu_ms, held_ms
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, events, taken
from tests.harness.writing import find_coordinator

MIB = 1 << 20
# Group g, generation -1, member "", and one topic t. The transactional request begins with an id, a
# producer id and an epoch.
_COMMIT = struct.pack(">2siBBB2s", b"\2g", -1, 1, 0, 2, b"\2t")
_TXN_COMMIT = struct.pack(">2s2sqhiBBB2s", b"\2x", b"\2g", 1, 0, -1, 1, 0, 2, b"\2t")
STARTS = {ApiKey.OFFSET_COMMIT: (8, _COMMIT), ApiKey.TXN_OFFSET_COMMIT: (4, _TXN_COMMIT)}
# Partition 0 at offset 5, without a leader epoch. The partition's metadata follows.
PLACE = struct.pack(">iqi", 0, 5, -1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    with Oncelog(tmp_path_factory.mktemp("commits"), QUICK) as broker:
        with Wire(broker.address) as wire:
            create(wire, "t", partitions=3)
            find_coordinator(wire, "x")
        yield broker
        events(broker)


def frame(api: ApiKey, partitions: int, rest: bytes) -> bytes:
    """Return a commit in a flexible version. `partitions` is the declared count of partitions,
    `rest` the bytes after the count."""
    version, start = STARTS[api]
    header = struct.pack(">hhihB", api, version, 1, -1, 0)
    body = header + start + write_uvarint(partitions + 1) + rest
    return struct.pack(">i", len(body)) + body


HOSTILE = {
    "a GiB of metadata": (1, PLACE + write_uvarint((1 << 30) + 1) + bytes(1_000)),
    "two GiB of metadata": (1, PLACE + write_uvarint(1 << 31) + bytes(1_000)),
    "a million partitions": (1_000_000, (PLACE + b"\0\0") * 1_000_000 + b"\0\0"),
    "a count of a million partitions before a single partition": (1_000_000, PLACE + bytes(1_000)),
}


@pytest.mark.parametrize("api", STARTS, ids=lambda api: api.name)
@pytest.mark.parametrize("kind", HOSTILE)
def test_h68_an_offset_commit_with_false_counts_closes_only_its_connection(
    broker: Oncelog, api: ApiKey, kind: str
) -> None:
    before, used = taken(broker.pid).rss_bytes, cpu_ms(broker)
    with Wire(broker.address) as bystander, Wire(broker.address) as wire:
        with suppress(ConnectionError):
            wire.socket.sendall(frame(api, *HOSTILE[kind]))
        assert wire.is_closed()
        assert held_ms(broker, bystander) < cpu_limit_ms()
    assert cpu_ms(broker) - used < cpu_limit_ms()
    assert taken(broker.pid).rss_bytes - before < 64 * MIB


@pytest.mark.parametrize("api", STARTS, ids=lambda api: api.name)
def test_h68_an_offset_commit_with_true_counts_is_served(broker: Oncelog, api: ApiKey) -> None:
    """The same encoding is served if its counts are true."""
    with Wire(broker.address) as wire:
        wire.socket.sendall(frame(api, 1, PLACE + b"\2m" + b"\0\0\0"))
        assert wire.socket.recv(1)


def test_h68_offset_metadata_is_accepted_up_to_its_limit(broker: Oncelog) -> None:
    """Of three partitions, the broker refuses only the partition with too much metadata."""
    with Wire(broker.address) as wire:
        find_coordinator(wire, "g", key_type=0)
        sizes = [4_096, 4_097, 0]
        partitions = [
            OffsetCommitRequestPartition(number, 5, committed_metadata="m" * size)
            for number, size in enumerate(sizes)
        ]
        topic = OffsetCommitRequestTopic("t", partitions=partitions)
        response = wire.call(OffsetCommitRequest("g", topics=[topic]), 8)
        codes = [partition.error_code for partition in response.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
