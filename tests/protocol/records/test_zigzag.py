"""Zigzag varints as Protocol Buffers and Kafka write them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.zigzag import encode_varint, read_varint

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        ((1 << 31) - 1, "feffffff0f"),
        (-(1 << 31), "ffffffff0f"),
        ((1 << 63) - 1, "feffffffffffffffff01"),
        (-(1 << 63), "ffffffffffffffffff01"),
    ],
)
def test_kafkas_own_examples_are_written_and_read(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0, 64) == (number, len(encoded) // 2)


@given(INT64, st.binary(max_size=3), st.binary(max_size=3))
@example(-(1 << 63), b"", b"")
def test_every_int64_is_read_as_it_was_written(number: int, before: bytes, after: bytes) -> None:
    data = before + encode_varint(number)
    assert read_varint(data + after, len(before), 64) == (number, len(data))


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
def test_a_number_longer_than_an_int64_is_not_written(number: int) -> None:
    with pytest.raises(ValueError, match="int64"):
        encode_varint(number)


@pytest.mark.parametrize("encoded", ["ffffffff10", "8080808080808000", "ffffffffffffffffff01"])
def test_a_varint_longer_than_32_bits_is_no_length(encoded: str) -> None:
    with pytest.raises(CorruptRecords):
        read_varint(bytes.fromhex(encoded), 0, 32)


@pytest.mark.parametrize("encoded", ["ffffffffffffffffff02", "80" * 10 + "00", "ff" * 40])
def test_a_varint_longer_than_64_bits_is_no_number(encoded: str) -> None:
    with pytest.raises(CorruptRecords):
        read_varint(bytes.fromhex(encoded), 0, 64)


@pytest.mark.parametrize("encoded", ["", "80", "ffff", "ffffffff"])
def test_a_read_of_a_cut_off_number_raises_index_error(encoded: str) -> None:
    with pytest.raises(IndexError):
        read_varint(bytes.fromhex(encoded), 0)
