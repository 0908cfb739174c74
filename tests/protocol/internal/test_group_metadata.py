"""The records of `__consumer_offsets`, against bytes of Apache Kafka."""

from __future__ import annotations

import pytest

from oncelog_protocol.internal.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_metadata_value,
    decode_key,
    decode_offset_commit_value,
    encode_group_metadata_key,
    encode_group_metadata_value,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from tests.protocol.internal.golden import EMPTY_GROUP, GROUPS, OFFSET_WITH_TOPIC_ID, OFFSETS

COMMITTED = OffsetCommitValue(offset=121, metadata="", commit_timestamp=1709328801657)


def test_keys_are_distinguished_by_their_type() -> None:
    offset = OffsetCommitKey(group="workers", topic="purchases", partition=3)
    group = GroupMetadataKey(group="workers")
    raw = encode_offset_commit_key(offset)
    assert raw == b"\0\1" + b"\0\7workers" + b"\0\x09purchases" + b"\0\0\0\3"
    assert encode_group_metadata_key(group) == b"\0\2" + b"\0\7workers"
    assert decode_key(raw) == offset
    assert decode_key(b"\0\0" + raw[2:]) == offset, "a key of version 0, from an old broker"
    assert decode_key(encode_group_metadata_key(group)) == group


@pytest.mark.parametrize("version", range(5))
def test_a_committed_offset_has_kafkas_bytes_in_every_version(version: int) -> None:
    assert encode_offset_commit_value(COMMITTED, version) == OFFSETS[version]
    assert decode_offset_commit_value(OFFSETS[version]) == COMMITTED


def test_the_committed_offset_of_the_deep_dive_has_24_bytes() -> None:
    """The deep dive, an article on Kafka's transactions, shows a dump: a value of 24 bytes with
    offset 121 and timestamp 1709328801657. The last byte of this timestamp is `y`."""
    raw = encode_offset_commit_value(COMMITTED)
    assert len(raw) == 24
    assert raw[:2] == b"\0\3"
    assert raw == OFFSETS[3]
    assert raw.endswith(b"y")


def test_a_committed_offset_with_a_topic_id_has_kafkas_bytes() -> None:
    value = OffsetCommitValue(
        offset=121,
        leader_epoch=6,
        metadata="meta",
        commit_timestamp=1709328801657,
        topic_id=bytes(range(1, 17)),
    )
    assert encode_offset_commit_value(value, 4) == OFFSET_WITH_TOPIC_ID
    assert decode_offset_commit_value(OFFSET_WITH_TOPIC_ID) == value


def test_an_expire_timestamp_is_read_from_version_1() -> None:
    value = decode_offset_commit_value(OFFSETS[1][:-8] + (77).to_bytes(8, "big"))
    assert value.expire_timestamp == 77


@pytest.mark.parametrize("version", range(5))
def test_a_group_has_kafkas_bytes_in_every_version(version: int) -> None:
    member = MemberMetadata(
        member_id="m-1",
        group_instance_id="i-1" if version >= 3 else None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=300_000 if version >= 1 else -1,
        session_timeout=45_000,
        subscription=b"\1\2",
        assignment=b"\3",
    )
    group = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m-1",
        current_state_timestamp=1709328801657 if version >= 2 else -1,
        members=[member],
    )
    assert encode_group_metadata_value(group, version) == GROUPS[version]
    assert decode_group_metadata_value(GROUPS[version]) == group


def test_an_empty_group_has_kafkas_bytes() -> None:
    group = GroupMetadataValue(
        generation=6, protocol=None, leader=None, current_state_timestamp=1709328801657
    )
    assert encode_group_metadata_value(group) == EMPTY_GROUP
    assert decode_group_metadata_value(EMPTY_GROUP) == group
