"""The `.snapshot` file of a partition's producers has the bytes that Apache Kafka writes."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.producer_snapshot import (
    ProducerEntry,
    decode_producer_snapshot,
    encode_producer_snapshot,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from tests.protocol.drawing import INTEGERS
from tests.protocol.internal.golden import SNAPSHOT

ENTRIES = [
    ProducerEntry(
        producer_id=2000,
        epoch=3,
        last_sequence=41,
        last_offset=90,
        offset_delta=1,
        timestamp=1709328801524,
        coordinator_epoch=7,
        current_txn_first_offset=5,
    ),
    ProducerEntry(2001, 0, -1, -1, 0, -1, -1, -1),
]
DRAWN = st.builds(
    ProducerEntry,
    *(
        INTEGERS[name]
        for name in ("int64", "int16", "int32", "int64", "int32", "int64", "int32", "int64")
    ),
)


def test_a_snapshot_has_the_bytes_of_kafkas() -> None:
    assert encode_producer_snapshot(ENTRIES) == SNAPSHOT
    assert decode_producer_snapshot(SNAPSHOT) == ENTRIES


@given(st.lists(DRAWN, max_size=5))
def test_decoding_returns_the_entries_that_were_encoded(entries: list[ProducerEntry]) -> None:
    raw = encode_producer_snapshot(entries)
    assert decode_producer_snapshot(raw) == entries
    assert decode_producer_snapshot(memoryview(bytearray(raw))) == entries


def test_a_snapshot_cut_off_at_any_byte_is_refused() -> None:
    for size in range(len(SNAPSHOT)):
        with pytest.raises(ProtocolError):
            decode_producer_snapshot(SNAPSHOT[:size])


def test_a_snapshot_with_any_corrupt_byte_is_refused() -> None:
    for position in range(len(SNAPSHOT)):
        for flip in (0x01, 0x80, 0xFF):
            corrupt = bytearray(SNAPSHOT)
            corrupt[position] ^= flip
            with pytest.raises((ProtocolError, UnknownRecordVersion)):
                decode_producer_snapshot(corrupt)


@pytest.mark.parametrize("count", [-1, 0, 1, 3, (1 << 31) - 1])
def test_a_count_that_does_not_fit_the_file_is_refused(count: int) -> None:
    lying = bytearray(SNAPSHOT)
    struct.pack_into(">i", lying, 6, count)
    struct.pack_into(">I", lying, 2, crc32c(lying[6:]))
    with pytest.raises(ProtocolError, match="entries"):
        decode_producer_snapshot(lying)


def test_a_later_version_is_not_taken_for_damage() -> None:
    with pytest.raises(UnknownRecordVersion):
        decode_producer_snapshot(b"\0\2" + SNAPSHOT[2:])
