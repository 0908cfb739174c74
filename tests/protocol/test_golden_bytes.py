"""The codecs give the bytes that were written by hand from Kafka's definitions."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

TOPIC_DATA = [TopicProduceData("t", partition_data=[PartitionProduceData(1, b"\1\2")])]

# (message, version, bytes in the order of the fields)
GOLDEN: list[tuple[Any, int, list[str]]] = [
    (ApiVersionsRequest(), 0, []),
    (
        ApiVersionsRequest("librdkafka", "2.16"),
        3,
        ["0b 6c6962 72646b61 666b61", "05 322e3136", "00"],
    ),
    (
        ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 5)]),
        0,
        ["0000", "00000001", "0012 0000 0005"],
    ),
    (
        ApiVersionsResponse(
            api_keys=[ApiVersion(18, 0, 5)],
            supported_features=[SupportedFeatureKey("f", 0, 2)],
            finalized_features_epoch=7,
            finalized_features=[FinalizedFeatureKey("f", 2, 2)],
        ),
        3,
        [
            *("0000", "02", "0012 0000 0005 00", "00000000"),
            *("03", "00 08", "02 02 66 0000 0002 00"),
            *("01 08", "0000000000000007", "02 08", "02 02 66 0002 0002 00"),
        ],
    ),
    (InitProducerIdRequest("tx", 60_000), 0, ["0002 7478", "0000ea60"]),
    (InitProducerIdRequest(None, 60_000), 2, ["00", "0000ea60", "00"]),
    (
        InitProducerIdRequest("tx", 60_000, 1, 2),
        5,
        ["03 7478", "0000ea60", "0000000000000001", "0002", "00"],
    ),
    (
        InitProducerIdRequest("tx", 60_000, -1, -1, enable_2pc=True),
        6,
        ["03 7478", "0000ea60", "ffffffffffffffff", "ffff", "01", "00", "00"],
    ),
    (InitProducerIdResponse(0, 0, 4, 0), 1, ["00000000", "0000", "0000000000000004", "0000"]),
    (EndTxnRequest("tx", 1, 2, True), 0, ["0002 7478", "0000000000000001", "0002", "01"]),
    (EndTxnRequest("tx", 1, 2, False), 3, ["03 7478", "0000000000000001", "0002", "00", "00"]),
    (EndTxnResponse(0, 47), 4, ["00000000", "002f", "00"]),
    (EndTxnResponse(0, 0, 1, 3), 5, ["00000000", "0000", "0000000000000001", "0003", "00"]),
    (
        ProduceRequest("tx", -1, 500, TOPIC_DATA),
        8,
        [
            *("0002 7478", "ffff", "000001f4", "00000001", "0001 74"),
            *("00000001", "00000001", "00000002 0102"),
        ],
    ),
    (
        ProduceRequest(None, 1, 500, TOPIC_DATA),
        9,
        ["00", "0001", "000001f4", "02", "02 74", "02", "00000001", "03 0102", "00", "00", "00"],
    ),
    (MetadataRequest(topics=[]), 0, ["00000000"]),
    (MetadataRequest(topics=None), 1, ["ffffffff"]),
    (
        MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False),
        12,
        ["02", "00" * 16, "02 74", "00", "00", "00", "00"],
    ),
    (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)], require_stable=True),
        8,
        ["02", "02 67", "00", "00", "01", "00"],
    ),
    (
        JoinGroupRequest("g", 1, 2, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]),
        5,
        [
            *("0001 67", "00000001", "00000002", "0000", "ffff", "0008 636f6e73756d6572"),
            *("00000001", "0005 72616e6765", "00000000"),
        ],
    ),
]


@pytest.mark.parametrize(
    ("message", "version", "parts"),
    GOLDEN,
    ids=[f"{type(message).__name__}-v{version}" for message, version, _ in GOLDEN],
)
def test_a_message_is_encoded_to_its_bytes_and_decoded_from_them(
    message: Any, version: int, parts: list[str]
) -> None:
    raw = bytes.fromhex(" ".join(parts))
    assert encode(message, version).hex(" ") == raw.hex(" ")
    assert decode(type(message), version, raw) == message
