"""Records that are decoded, and bytes that are compressed, in parts are those of a single call."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.records.compression import (
    XERIAL_BLOCK_SIZE,
    Compression,
    compress_in_parts,
    decompress,
)
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import (
    EncodedRecords,
    NewRecord,
    Record,
    decode_in_parts,
    decode_records,
)
from tests.protocol.records.drawing import LIMIT, NEW_RECORDS

SMALL = EncodedRecords.of([NewRecord(1000 + n, b"key", b"value") for n in range(5)])


def decoded(data: bytes, count: int, part: int, base_offset: int = 0) -> list[list[Record]]:
    last = count - 1
    return [
        *decode_in_parts(
            data, count, part, base_offset=base_offset, last_offset_delta=last, base_timestamp=7
        )
    ]


@given(records=NEW_RECORDS, part=st.integers(1, 9), base_offset=st.integers(0, 1 << 40))
def test_the_parts_have_the_records_of_the_whole(
    records: list[NewRecord], part: int, base_offset: int
) -> None:
    encoded = EncodedRecords.of(records)
    data, count = bytes(encoded.body), encoded.records_count
    parts = decoded(data, count, part, base_offset)
    whole = decode_records(
        data, count, base_offset=base_offset, last_offset_delta=count - 1, base_timestamp=7
    )
    assert [record for some in parts for record in some] == whole
    assert all(len(some) == part for some in parts[:-1])
    assert 0 < len(parts[-1]) <= part


@given(
    position=st.integers(0, len(SMALL.body) - 1),
    value=st.integers(0, 255),
    part=st.integers(1, 6),
    cut=st.booleans(),
)
def test_damage_is_found_in_any_part(position: int, value: int, part: int, cut: bool) -> None:
    data = bytearray(SMALL.body)
    data[position] = value
    if cut:
        del data[position:]
    whole: list[Record] | None = None
    with suppress(CorruptRecords):
        whole = decode_records(bytes(data), 5, base_offset=0, last_offset_delta=4, base_timestamp=7)
    if whole is None:
        with pytest.raises(CorruptRecords):
            decoded(bytes(data), 5, part)
    else:
        assert [record for some in decoded(bytes(data), 5, part) for record in some] == whole


def test_offsets_must_rise_from_part_to_part() -> None:
    single = EncodedRecords.of([NewRecord(7, b"k", b"v")])
    with pytest.raises(CorruptRecords, match="rise"):
        decoded(bytes(single.body) * 2, 2, 1)


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("level", [None, 1])
@given(
    blocks=st.integers(0, 3),
    more=st.integers(0, 1000),
    seed=st.binary(min_size=1, max_size=40),
)
def test_data_compressed_in_parts_is_the_same_after_decompression(
    codec: Compression, level: int | None, blocks: int, more: int, seed: bytes
) -> None:
    size = blocks * XERIAL_BLOCK_SIZE + more
    data = (seed * (size // len(seed) + 1))[:size]
    steps, yields = compress_in_parts(codec, data, level), 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            compressed = ended.value
            break
        yields += 1
    assert decompress(codec, compressed, LIMIT) == data
    is_in_parts = codec in (Compression.GZIP, Compression.SNAPPY) and size > XERIAL_BLOCK_SIZE
    assert yields == (blocks + bool(more) if is_in_parts else 0)
