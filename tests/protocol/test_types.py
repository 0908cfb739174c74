"""Uuids in Kafka's form, and varints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.types import ZERO_UUID, uuid_from_string, uuid_to_string
from oncelog_protocol.unsigned_varint import read_uvarint, write_uvarint
from tests.examples import examples


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_survives_its_string(value: bytes) -> None:
    assert uuid_from_string(uuid_to_string(value)) == value


def test_uuids_look_as_in_kafka() -> None:
    assert uuid_to_string(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_string(bytes(range(240, 256))) == "8PHy8_T19vf4-fr7_P3-_w"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 21 + "!", "ä" * 22])
def test_a_malformed_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        uuid_from_string(text)


@settings(max_examples=examples(300))
@given(st.integers(0, (1 << 32) - 1))
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    raw = write_uvarint(value)
    assert len(raw) == max(1, -(-value.bit_length() // 7))
    assert read_uvarint(b"?" + raw + b"?", 1) == (value, 1 + len(raw))


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\0"])
def test_a_varint_of_more_than_32_bits_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="32 bits"):
        read_uvarint(raw, 0)
