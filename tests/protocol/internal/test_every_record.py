"""Tests of every key, value and consumer protocol message."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.versions import UnknownRecordVersion
from tests.protocol.constructs import construct_of
from tests.protocol.drawing import messages, sample
from tests.protocol.internal.drawing import (
    CONSUMER_PROTOCOL,
    KEYS,
    VALUES,
    VERSIONED,
    Kind,
    kind_id,
)

LATER = [5, 17, 10_002, 32767, -1, -32768]


@pytest.mark.parametrize(("kind", "version"), VERSIONED, ids=kind_id)
@given(data=st.data())
def test_every_value_is_decoded_as_it_was_encoded(
    kind: Kind, version: int, data: st.DataObject
) -> None:
    """A second encoder (`construct_of`), built from the same table in another way, writes the same
    bytes."""
    message = data.draw(messages(kind.cls, version))
    raw = kind.encode(message, version)
    assert raw[:2] == version.to_bytes(2, "big")
    assert kind.decode(raw) == message
    assert kind.decode(memoryview(raw)) == message
    assert construct_of(kind.cls, version).build(message) == raw[2:]


@pytest.mark.parametrize("kind", KEYS, ids=kind_id)
@given(data=st.data())
def test_every_key_is_decoded_as_it_was_encoded(kind: Kind, data: st.DataObject) -> None:
    key = data.draw(messages(kind.cls, 0))
    assert kind.decode(kind.encode(key)) == key


@pytest.mark.parametrize(("kind", "version"), VERSIONED, ids=kind_id)
def test_every_prefix_of_a_value_is_refused(kind: Kind, version: int) -> None:
    raw = kind.encode(sample(kind.cls, version), version)
    for size in range(len(raw)):
        with pytest.raises(ProtocolError):
            kind.decode(raw[:size])


@pytest.mark.parametrize("kind", KEYS, ids=kind_id)
def test_every_prefix_of_a_key_is_refused(kind: Kind) -> None:
    raw = kind.encode(sample(kind.cls, 0))
    for size in range(len(raw)):
        with pytest.raises(ProtocolError):
            kind.decode(raw[:size])


@pytest.mark.parametrize(("kind", "version"), VERSIONED, ids=kind_id)
def test_a_value_with_a_corrupt_byte_is_refused_or_decoded_as_the_same_type(
    kind: Kind, version: int
) -> None:
    raw = bytearray(kind.encode(sample(kind.cls, version), version))
    for position, good in enumerate(bytes(raw)):
        for bad in range(0, 256, 3):
            raw[position] = bad
            with suppress(ProtocolError, UnknownRecordVersion):
                assert isinstance(kind.decode(bytes(raw)), kind.cls)
        raw[position] = good


@pytest.mark.parametrize("kind", [*KEYS, *VALUES], ids=kind_id)
@pytest.mark.parametrize("version", LATER)
def test_a_later_version_is_not_taken_for_damage(kind: Kind, version: int) -> None:
    raw = version.to_bytes(2, "big", signed=True) + b"whatever is in it"
    with pytest.raises(UnknownRecordVersion) as unknown:
        kind.decode(raw)
    assert unknown.value.version == version


@pytest.mark.parametrize("kind", [*KEYS, *VALUES], ids=kind_id)
def test_bytes_left_over_in_a_record_are_refused(kind: Kind) -> None:
    raw = kind.encode(sample(kind.cls, 0)) if kind in KEYS else kind.encode(kind.cls())
    with pytest.raises(ProtocolError):
        kind.decode(raw + b"\0")


@pytest.mark.parametrize("kind", CONSUMER_PROTOCOL, ids=kind_id)
@pytest.mark.parametrize("version", [3, 4, 32767])
def test_a_member_may_speak_a_later_consumer_protocol(kind: Kind, version: int) -> None:
    """A later version begins with the fields of the newest version that oncelog knows. The decoder
    ignores further fields."""
    message = sample(kind.cls, 3)
    raw = version.to_bytes(2, "big") + kind.encode(message, 3)[2:] + b"fields of tomorrow"
    assert kind.decode(raw) == message


@pytest.mark.parametrize("kind", CONSUMER_PROTOCOL, ids=kind_id)
def test_a_negative_consumer_protocol_is_refused(kind: Kind) -> None:
    with pytest.raises(ProtocolError):
        kind.decode(b"\xff\xff" + kind.encode(kind.cls(), 0)[2:])
