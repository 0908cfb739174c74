"""For any bytes, decoding ends soon and in little memory, with a message or ProtocolError."""

from __future__ import annotations

import struct
import time
import tracemalloc
from typing import Any

import construct
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog_protocol.codecs import decode, decoder, encode
from oncelog_protocol.codegen_decode import MAX_ELEMENTS, DecoderSource
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.messages.describe_configs import DescribeConfigsRequest
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_protocol.messages.heartbeat import HeartbeatRequest
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.schema import schema_of
from oncelog_protocol.types import Buffer
from oncelog_protocol.unsigned_varint import write_uvarint
from tests.protocol.constructs import construct_of
from tests.protocol.drawing import CASES, FLEXIBLE, Case, case_id, sample


def distinct_decoders() -> list[Case]:
    """Return, for each distinct decoder of a message, the first version that has it.

    The other versions run the same lines on the same bytes.
    """
    first: dict[tuple[type[Any], str], Case] = {}
    for cls, version in CASES:
        source = DecoderSource(schema_of(cls), version)
        first.setdefault((cls, "\n".join(source.lines)), (cls, version))
    return list(first.values())


DISTINCT = distinct_decoders()


def try_decode(cls: type[Any], version: int, raw: Buffer) -> Any:
    """Return the message, or None after a ProtocolError. Any other exception fails the test."""
    try:  # contextlib.suppress takes longer, and tests call this function very often
        return decode(cls, version, raw)
    except ProtocolError:
        return None


@pytest.mark.parametrize(("cls", "version"), CASES, ids=case_id)
def test_every_strict_prefix_is_refused(cls: type[Any], version: int) -> None:
    """Each prefix of a message lacks a field or a part of one, so the decoder refuses it."""
    raw = encode(sample(cls, version, elements=2), version)
    for size in range(len(raw)):
        with pytest.raises(ProtocolError):
            decode(cls, version, raw[:size])


@pytest.mark.parametrize(("cls", "version"), DISTINCT, ids=case_id)
def test_h23_h24_a_message_with_a_corrupt_byte_decodes_or_raises_protocol_error(
    cls: type[Any], version: int
) -> None:
    raw = encode(sample(cls, version), version)
    read = decoder(cls, version)
    for position in range(len(raw)):
        corrupt = bytearray(raw)
        for value in range(256):
            corrupt[position] = value
            try:  # no call of try_decode, which would slow down millions of decodings
                message, _ = read(corrupt, 0)
            except ProtocolError:
                continue
            assert type(message) is cls


@pytest.mark.parametrize(("cls", "version"), CASES, ids=case_id)
def test_corrupt_bytes_are_decoded_as_the_construct_decodes_them(
    cls: type[Any], version: int
) -> None:
    raw = encode(sample(cls, version), version)
    oracle = construct_of(cls, version)
    for position in range(0, len(raw), 5):
        corrupt = bytearray(raw)
        corrupt[position] ^= 1
        message = try_decode(cls, version, bytes(corrupt))
        if message is not None:
            assert oracle.parse(corrupt) == message


@pytest.mark.parametrize(("cls", "version"), CASES, ids=case_id)
def test_bytes_after_the_message_are_refused(cls: type[Any], version: int) -> None:
    with pytest.raises(ProtocolError, match="after the message"):
        decode(cls, version, encode(cls(), version) + b"\0")


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(case=st.sampled_from(CASES), raw=st.binary(max_size=300))
def test_noise_is_refused_or_understood(case: tuple[type[Any], int], raw: bytes) -> None:
    cls, version = case
    message = try_decode(cls, version, raw)
    assert message is None or type(message) is cls


BOMBS = (
    b"\x7f\xff\xff\xff",  # int32 max
    b"\x80\x00\x00\x00",  # int32 min
    b"\xff\xff\xff\xfe",  # -2
    b"\x00\xff\xff\xff",  # 16 million
    b"\xff\xff\xff\xff\x07",  # varint of int32 max
    b"\xff\xff\xff\xff\x0f",  # varint of uint32 max
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a varint too long
)


@pytest.mark.parametrize("bomb", BOMBS, ids=bytes.hex)
def test_h20_h24_a_false_size_takes_neither_time_nor_memory(bomb: bytes) -> None:
    """A false size, at many positions of every message, costs neither time nor memory."""
    slow: list[tuple[type[Any], int, bytes]] = []
    tracemalloc.start()
    try:
        for cls, version in DISTINCT:
            raw = encode(sample(cls, version), version)
            for position in range(0, len(raw), 3):
                corrupt = raw[:position] + bomb + raw[position + len(bomb) :]
                if seconds_to_decode(cls, version, corrupt) >= 1:
                    slow.append((cls, version, corrupt))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16_000_000  # most of this memory belongs to the codecs
    # A false size would be slow at each attempt. A pause of the machine or a garbage collection is
    # slow at one attempt only.
    assert [case for case in slow if seconds_to_decode(*case) >= 1] == []


def seconds_to_decode(cls: type[Any], version: int, raw: bytes) -> float:
    """Return the CPU time that this thread needs to decode `raw`."""
    started = time.thread_time()
    try_decode(cls, version, raw)
    return time.thread_time() - started


# The bytes of a Metadata response (v12) before the replica nodes of its first partition.
REPLICA_NODES = b"".join(
    (bytes(4), b"\1", b"\0", bytes(4), b"\2", bytes(2), b"\0", bytes(17), b"\2", bytes(14))
)


@pytest.mark.parametrize(
    ("cls", "version", "before", "size", "field"),
    [
        (DescribeGroupsRequest, 5, b"", 1, "groups"),
        (MetadataResponse, 12, bytes(4), 11, "brokers"),
        (MetadataResponse, 12, REPLICA_NODES, 4, "replica_nodes"),
    ],
)
@pytest.mark.parametrize("count", [1, 2, 100])
def test_h20_a_count_above_the_remaining_bytes_is_refused_before_any_element(
    cls: type[Any], version: int, before: bytes, size: int, field: str, count: int
) -> None:
    """One byte is missing for `count` elements of `size` bytes, the smallest size of an element.
    The decoder refuses the count before it reads any element."""
    raw = before + write_uvarint(count + 1) + b"\1" * (count * size - 1)
    with pytest.raises(ProtocolError, match=f"count of {field} before byte {len(before) + 1}$"):
        decode(cls, version, raw)


def test_h21_a_message_has_at_most_a_million_elements() -> None:
    groups = MAX_ELEMENTS
    raw = write_uvarint(groups + 1) + b"\x01" * groups + b"\0\0"
    assert len(decode(DescribeGroupsRequest, 5, raw).groups) == groups
    raw = write_uvarint(groups + 2) + b"\x01" * (groups + 1) + b"\0\0"
    with pytest.raises(ProtocolError, match="count of groups"):
        decode(DescribeGroupsRequest, 5, raw)


@pytest.mark.parametrize(("second", "fits"), [(399_998, True), (399_999, False)])
def test_h21_the_elements_of_all_arrays_count_together(second: int, fits: bool) -> None:
    """The array of two resources and their two arrays of names of settings have a million elements
    together, or one more."""
    keys = [write_uvarint(count + 1) + b"\1" * count for count in (600_000, second)]
    raw = b"\3" + b"".join(b"\2\1" + array + b"\0" for array in keys) + b"\0\0\0"
    if fits:
        decoded = decode(DescribeConfigsRequest, 4, raw)
        assert [len(resource.configuration_keys or ()) for resource in decoded.resources] == [
            600_000,
            second,
        ]
        return
    with pytest.raises(ProtocolError, match="count of configuration_keys"):
        decode(DescribeConfigsRequest, 4, raw)


def test_h21_a_caller_may_allow_fewer_elements() -> None:
    read = decoder(DescribeGroupsRequest, 5)
    raw = write_uvarint(5) + b"\x01" * 4 + b"\0\0"
    assert len(read(raw, 0, 4)[0].groups) == 4
    with pytest.raises(ProtocolError, match="count of groups"):
        read(raw, 0, 3)


@pytest.mark.parametrize("size", [0x7FFF, 0x8000, 0x10000, 1 << 21])
def test_h24_strings_of_flexible_versions_have_the_limit_of_other_versions(size: int) -> None:
    """Kafka's readers refuse longer strings."""
    raw = b"\2" + write_uvarint(size + 1) + b"n" * size + b"\0\0"
    oracle = construct_of(DescribeGroupsRequest, 5)
    if size <= 0x7FFF:
        assert decode(DescribeGroupsRequest, 5, raw) == oracle.parse(raw)
        return
    with pytest.raises(ProtocolError, match="length of groups"):
        decode(DescribeGroupsRequest, 5, raw)
    with pytest.raises(construct.IntegerError, match=str(size)):
        oracle.parse(raw)


def test_bytes_may_be_longer_than_a_string() -> None:
    protocol = JoinGroupRequestProtocol("range", b"m" * 0x8000)
    request = JoinGroupRequest("g", protocols=[protocol])
    assert decode(JoinGroupRequest, 9, encode(request, 9)) == request


@pytest.mark.parametrize("length", [-2, -32768])
def test_h24_a_negative_length_is_null_only_as_minus_one(length: int) -> None:
    with pytest.raises(ProtocolError, match="length of transactional_id"):
        decode(ProduceRequest, 3, struct.pack(">h", length) + bytes(10))


def test_h24_null_is_refused_where_the_table_does_not_allow_it() -> None:
    with pytest.raises(ProtocolError, match="length of group_id"):
        decode(HeartbeatRequest, 0, struct.pack(">hih", -1, 1, 0))
    with pytest.raises(ProtocolError, match="length of group_id"):
        decode(HeartbeatRequest, 4, b"\0" + bytes(4) + b"\1\0\0")
    with pytest.raises(ProtocolError, match="count of topics"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None


def test_h24_strings_are_utf_8() -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        decode(HeartbeatRequest, 0, b"\0\2\xc3\x28" + bytes(6))


def with_tags(cls: type[Any], version: int, section: bytes) -> bytes:
    """Return a message of defaults with these bytes as its section of tagged fields."""
    raw = encode(cls(), version)
    assert raw[-1] == 0
    return raw[:-1] + section


def tagged(*fields: tuple[int, bytes]) -> bytes:
    parts = [write_uvarint(tag) + write_uvarint(len(value)) + value for tag, value in fields]
    return write_uvarint(len(parts)) + b"".join(parts)


@pytest.mark.parametrize(("cls", "version"), FLEXIBLE, ids=case_id)
def test_h22_unknown_tagged_fields_are_skipped(cls: type[Any], version: int) -> None:
    section = tagged((90, b""), (10_000, b"abc"), (0xFFFF_FFFF, bytes(300)))
    assert decode(cls, version, with_tags(cls, version, section)) == cls()


@pytest.mark.parametrize(("cls", "version"), FLEXIBLE, ids=case_id)
def test_h22_h23_sections_of_tagged_fields_are_checked(cls: type[Any], version: int) -> None:
    most = tagged(*((100 + n, b"") for n in range(64)))
    assert decode(cls, version, with_tags(cls, version, most)) == cls()
    for section in (
        tagged(*((100 + n, b"") for n in range(65))),
        tagged((91, b""), (90, b"")),
        tagged((90, b""), (90, b"")),
        b"\1\x5a\x05abc",
        b"\1\x5a\xff\xff\xff\xff\x0fabc",
        b"\xff\xff\xff\xff\x0f",
        b"\1",
    ):
        with pytest.raises(ProtocolError):
            decode(cls, version, with_tags(cls, version, section))


def test_h23_a_known_tagged_field_has_exactly_its_size() -> None:
    cluster = tagged((0, b"\4abc"), (77, b"x"))
    assert decode(FetchRequest, 12, with_tags(FetchRequest, 12, cluster)).cluster_id == "abc"
    for wrong in (b"\4abcd", b"\4ab", b""):
        with pytest.raises(ProtocolError, match=r"size of cluster_id|length of cluster_id|cut off"):
            decode(FetchRequest, 12, with_tags(FetchRequest, 12, tagged((0, wrong))))
