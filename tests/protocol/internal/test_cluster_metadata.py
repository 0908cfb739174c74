"""The records of `__cluster_metadata`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.cluster_metadata import (
    MESSAGES,
    FeatureLevelRecord,
    PartitionRecord,
    RecordType,
    TopicRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from oncelog_protocol.internal.versions import UnknownRecordVersion
from oncelog_protocol.schema import schema_of
from tests.protocol.constructs import construct_of
from tests.protocol.drawing import messages, sample

VERSIONED = [
    (record_type, version)
    for record_type, cls in MESSAGES.items()
    for version in schema_of(cls).versions
]
# A record that Apache Kafka 4.3.1 has written: `kafka-storage.sh format`, in bootstrap.checkpoint.
METADATA_VERSION = bytes.fromhex("010c00116d657461646174612e76657273696f6e001e00")


@pytest.mark.parametrize(("record_type", "version"), VERSIONED)
@given(data=st.data())
def test_every_record_is_decoded_as_it_was_encoded(
    record_type: RecordType, version: int, data: st.DataObject
) -> None:
    cls = MESSAGES[record_type]
    record = data.draw(messages(cls, version))
    raw = encode_metadata_record(record, version)
    assert raw[:3] == bytes((1, record_type, version))
    assert raw[3:] == construct_of(cls, version).build(record)
    assert decode_metadata_record(raw) == (record_type, record)


def test_a_record_of_kafka_has_the_same_bytes() -> None:
    record = FeatureLevelRecord("metadata.version", 30)
    assert encode_metadata_record(record, 0) == METADATA_VERSION
    assert decode_metadata_record(METADATA_VERSION) == (RecordType.FEATURE_LEVEL, record)


@pytest.mark.parametrize(("record_type", "version"), VERSIONED)
def test_every_prefix_of_a_record_is_refused(record_type: RecordType, version: int) -> None:
    raw = encode_metadata_record(sample(MESSAGES[record_type], version), version)
    for size in range(len(raw)):
        with pytest.raises(ProtocolError):
            decode_metadata_record(raw[:size])


def test_extra_bytes_are_refused() -> None:
    with pytest.raises(ProtocolError, match="1 extra bytes after a TopicRecord"):
        decode_metadata_record(encode_metadata_record(TopicRecord("t", bytes(16)), 0) + b"\0")


@pytest.mark.parametrize(
    ("raw", "part"),
    [
        (b"\x02\x02\x00", "metadata record's frame"),
        (b"\x01\x06\x00", "type of a metadata record"),
        (b"\x01\x02\x01", "TopicRecord"),
    ],
)
def test_later_frames_types_and_versions_are_named(raw: bytes, part: str) -> None:
    with pytest.raises(UnknownRecordVersion) as unknown:
        decode_metadata_record(raw)
    assert unknown.value.part == part


def test_types_without_a_table_are_not_decoded() -> None:
    assert decode_metadata_record(b"\x01\x07\x07...") == (RecordType.FENCE_BROKER, None)


def test_version_0_of_a_partition_has_no_directories() -> None:
    record = PartitionRecord(0, bytes(16), [1], [1], leader=1, directories=[b"d" * 16])
    decoded = decode_metadata_record(encode_metadata_record(record, 0))[1]
    assert decoded.directories == []


def test_names_are_those_of_the_definitions() -> None:
    assert RecordType.PARTITION_CHANGE.kafka_name == "PartitionChangeRecord"
    assert RecordType.REMOVE_USER_SCRAM_CREDENTIAL.kafka_name == "RemoveUserScramCredentialRecord"
