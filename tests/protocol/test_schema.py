"""A message class declares the type and the default of each field. The codecs of the message follow
from this declaration."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

from oncelog_protocol.codecs import decode, decoder, encode, encoder
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.schema import message, minimal_size, schema_of, struct
from oncelog_protocol.types import Array, array, boolean, float64, int8, int32, nested, string
from tests.protocol.drawing import CASES, sample


def test_fields_have_kafkas_defaults() -> None:
    request = EndTxnRequest(transactional_id="t", committed=True)
    assert (request.producer_id, request.producer_epoch) == (0, 0)
    assert EndTxnResponse().producer_id == -1
    assert MetadataRequest().allow_auto_topic_creation is True


def test_defaults_are_not_shared() -> None:
    first, second = ProduceRequest(), ProduceRequest()
    first.topic_data.append(TopicProduceData(name="t"))
    assert second.topic_data == []
    decoded = decode(ProduceRequest, 9, encode(ProduceRequest(), 9))
    assert decoded.topic_data is not decode(ProduceRequest, 9, encode(decoded, 9)).topic_data


def test_messages_compare_by_value_and_show_what_they_hold() -> None:
    assert EndTxnRequest(producer_id=1) == EndTxnRequest(producer_id=1)
    assert EndTxnRequest(producer_id=1) != EndTxnRequest(producer_id=2)
    other: object = EndTxnResponse()
    assert EndTxnRequest() != other
    assert "producer_id=7" in repr(EndTxnRequest(producer_id=7))


def test_an_unknown_field_cannot_be_given_or_set() -> None:
    wrong: Any = EndTxnRequest
    with pytest.raises(TypeError):
        wrong(transaction_id="t")
    with pytest.raises(AttributeError):
        wrong().transaction_id = "t"


def test_messages_can_be_copied_and_pickled() -> None:
    request = EndTxnRequest(transactional_id="t", producer_id=3)
    assert copy.deepcopy(request) == request == pickle.loads(pickle.dumps(request))


def test_the_class_of_the_declarations_is_freed() -> None:
    """A message is a new class, with slots. A broker has more than 300 of them."""

    class Declared:
        number: int = int32()

    declared = weakref.ref(Declared)
    made: Any = struct(Declared)
    del Declared
    gc.collect()
    assert declared() is None
    assert made(1) == made(number=1)


def test_a_field_without_a_declaration_is_refused() -> None:
    with pytest.raises(TypeError, match="not declared as a field"):

        @struct
        class Broken:
            name: str = ""

    with pytest.raises(TypeError, match="not a message"):
        schema_of(int)


def test_a_version_that_a_message_does_not_have_is_refused() -> None:
    with pytest.raises(ProtocolError, match="EndTxnRequest has no version 6"):
        decode(EndTxnRequest, 6, b"")
    with pytest.raises(ProtocolError, match="EndTxnRequest has no version -1"):
        encode(EndTxnRequest(), -1)


def test_codecs_are_made_once() -> None:
    assert decoder(EndTxnRequest, 1) is decoder(EndTxnRequest, 1)
    assert encoder(EndTxnRequest, 1) is encoder(EndTxnRequest, 1)


class Range:
    """A range of a file. It has a length, but its bytes are not in memory."""

    def __len__(self) -> int:
        return 70_000


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_a_separate_part_when_encoded(version: int) -> None:
    file_range = Range()
    partition = PartitionData(records=file_range)
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    parts: list[Any] = []
    encoder(FetchResponse, version)(response, parts.append)
    assert sum(part is file_range for part in parts) == 1
    raw = b"".join(bytes(70_000) if part is file_range else part for part in parts)
    decoded = decode(FetchResponse, version, raw).responses[0].partitions[0].records
    assert decoded == bytes(70_000)


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_a_view_of_the_input_when_decoded(version: int) -> None:
    data = PartitionProduceData(records=b"batch")
    raw = encode(ProduceRequest(topic_data=[TopicProduceData(partition_data=[data])]), version)
    received = bytearray(raw)
    view = decode(ProduceRequest, version, received).topic_data[0].partition_data[0].records
    received[received.index(b"batch")] = ord("B")
    assert isinstance(view, memoryview)
    assert bytes(view) == b"Batch"


def test_bytes_bytearray_and_memoryview_decode_alike() -> None:
    for cls, version in CASES:
        raw = encode(sample(cls, version), version)
        expected = decode(cls, version, raw)
        assert decode(cls, version, bytearray(raw)) == expected
        assert decode(cls, version, memoryview(raw)) == expected


def test_a_decoder_starts_at_any_position_and_returns_its_end() -> None:
    raw = encode(EndTxnRequest(transactional_id="t"), 5)
    decoded, position = decoder(EndTxnRequest, 5)(b"head" + raw + b"tail", 4)
    assert decoded.transactional_id == "t"
    assert position == 4 + len(raw)


def test_tagged_fields_equal_to_their_default_are_not_written() -> None:
    absent = PartitionData()
    default = PartitionData(current_leader=LeaderIdAndEpoch())
    given = PartitionData(current_leader=LeaderIdAndEpoch(1, 2))
    sizes = [
        len(encode(FetchResponse(responses=[FetchableTopicResponse(partitions=[data])]), 12))
        for data in (absent, default, given)
    ]
    assert sizes[0] == sizes[1] < sizes[2]
    result = CreatableTopicResult(topic_config_error_code=29)
    raw = encode(CreateTopicsResponse(topics=[result]), 5)
    assert decode(CreateTopicsResponse, 5, raw).topics[0].topic_config_error_code == 29


def test_a_nullable_struct_is_a_byte_and_the_struct() -> None:
    without = encode(DescribeTopicPartitionsRequest(cursor=None), 0)
    assert without == b"\1\0\0\x07\xd0\xff\0"
    cursor = RequestCursor(topic_name="t", partition_index=1)
    assert encode(DescribeTopicPartitionsRequest(cursor=cursor), 0) == (
        b"\1\0\0\x07\xd0\1\2t\0\0\0\1\0\0"
    )


@struct
class Inner:
    """An optional part, with a tagged field of its own."""

    name: str = string()
    weight: float = float64(since=1)
    extra: list[int] = array(int8, tag=3)


@message(range(0, 3), flexible_since=1)
class Outer:
    """Combinations of field types that Kafka's own messages do not have."""

    flags: list[bool] = array(boolean)
    weights: list[float] | None = array(float64, nullable_since=2, default=None)
    plain: Inner = nested(Inner)
    maybe: Inner | None = nested(Inner, since=1, nullable_since=1, default=None)
    inner: Inner | None = nested(Inner, since=1, tag=1)
    names: list[str] | None = array(string, since=2, nullable_since=2, tag=200, default=None)
    limit: int = int32(since=2, tag=0, default=-1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_message_may_combine_field_types_that_kafka_does_not_combine(version: int) -> None:
    inner = Inner("n", 0.5, [1, -1])
    outer = Outer([True, False], [1.5], inner, inner, inner)
    if version == 2:
        outer.names, outer.limit = ["x", ""], 9
    assert decode(Outer, version, encode(outer, version)) == outer
    assert Outer().plain is not Outer().plain


def test_no_value_is_shorter_than_the_minimal_size_of_its_type() -> None:
    for cls, version in CASES:
        flexible = version >= schema_of(cls).flexible_since
        assert minimal_size(cls, version, flexible) <= len(encode(cls(), version))
    assert minimal_size(Array(int32), 0, flexible=False) == 4
    assert minimal_size(Array(int32), 0, flexible=True) == 1
