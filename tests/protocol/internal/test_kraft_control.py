"""The control records of a snapshot of `__cluster_metadata`, as Apache Kafka 4.3.1 writes them
(`kafka-storage.sh format --standalone`)."""

from __future__ import annotations

import pytest

from oncelog_protocol.internal.kraft_control import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VotersRecord,
    encode_kraft_control,
)

DIRECTORY_ID = bytes.fromhex("500faa3a34bf498187fe50f7b05eb331")
VOTER = Voter(
    1, DIRECTORY_ID, [Endpoint("CONTROLLER", "localhost", 9093)], KRaftVersionFeature(0, 1)
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (SnapshotHeaderRecord(0, 0x01A21C22CA89), "00000003", "0000000001a21c22ca8900"),
        (KRaftVersionRecord(0, 1), "00000005", "0000000100"),
        (
            VotersRecord(0, [VOTER]),
            "00000006",
            "00000200000001500faa3a34bf498187fe50f7b05eb331020b434f4e54524f4c4c4552"
            "0a6c6f63616c686f737423850000000001000000",
        ),
        (SnapshotFooterRecord(0), "00000004", "000000"),
    ],
)
def test_control_records_have_kafkas_bytes(record: object, key: str, value: str) -> None:
    assert encode_kraft_control(record) == (bytes.fromhex(key), bytes.fromhex(value))
