"""The consumer's position moves past offsets without visible records: markers, aborted batches, and
offsets that compaction removed (L15)."""

from __future__ import annotations

import struct

import pytest

from oncelog_client.core.fetched import FetchedPartition, FetchedRecords
from oncelog_client.core.isolation import AbortedRange
from oncelog_client.core.subscription import Subscription
from oncelog_client.values import TopicPartition
from oncelog_protocol.checksum import crc32c
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from oncelog_protocol.records.record import NewRecord

PLACE = TopicPartition("t", 0)
PRODUCER = 7


def data(base: int, count: int) -> bytearray:
    """Return a batch with `count` records of the producer's transaction."""
    return build_batch(
        [NewRecord(0, b"k", b"v")] * count,
        base_offset=base,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=base,
        is_transactional=True,
    )


def marker(base: int, *, committed: bool) -> bytearray:
    return build_marker_batch(
        EndTransactionMarker(committed, 0),
        producer_id=PRODUCER,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=base,
    )


def compacted(base: int, last_offset_delta: int) -> bytearray:
    """Return a batch with one record after compaction. The batch keeps its last offset (KIP-98)."""
    made = build_batch([NewRecord(0, b"k", b"v")], base_offset=base)
    struct.pack_into(">i", made, 23, last_offset_delta)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return made


@pytest.mark.parametrize("limit", [1, 100])
@pytest.mark.parametrize(
    ("fetched", "aborted", "seen", "position"),
    [
        pytest.param(marker(0, committed=True), (), [], 1, id="a marker alone"),
        pytest.param(data(0, 2) + marker(2, committed=True), (), [0, 1], 3, id="committed"),
        pytest.param(data(0, 2), (0,), [], 2, id="aborted, before its marker"),
        pytest.param(data(0, 2) + marker(2, committed=False), (0,), [], 3, id="aborted"),
        pytest.param(
            data(0, 1) + marker(1, committed=False) + data(2, 1) + marker(3, committed=True),
            (0,),
            [2],
            4,
            id="aborted, then committed",
        ),
        pytest.param(
            data(0, 1) + marker(1, committed=True) + data(2, 1) + marker(3, committed=False),
            (2,),
            [0],
            4,
            id="committed, then aborted",
        ),
        pytest.param(compacted(0, 4), (), [0], 5, id="compaction removed the last offsets"),
    ],
)
def test_the_position_is_after_all_fetched_offsets(
    fetched: bytearray, aborted: tuple[int, ...], seen: list[int], position: int, limit: int
) -> None:
    subscription = Subscription()
    subscription.assign([PLACE])
    state = subscription[PLACE]
    state.jump(0)
    records = FetchedRecords(subscription)
    part = FetchedPartition(
        PLACE,
        state.jumps,
        0,
        fetched,
        [AbortedRange(first_offset, PRODUCER) for first_offset in aborted],
        read_committed=True,
        max_batch_bytes=1 << 20,
        check_crcs=True,
    )
    records.add(part)
    given = [record.offset for _ in range(10) for record in records.take(limit)]
    assert given == seen
    assert state.position == position
    # No fetched record is left, so the next fetch begins at the position.
    assert records.next_fetch(state) == (position, state.leader_epoch)
    assert records.readable_bytes() == 0
