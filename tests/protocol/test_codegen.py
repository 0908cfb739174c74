"""The source code of the generated encoders and decoders. The speed of every request depends on
it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.codegen_decode import DecoderSource, generate_decoder
from oncelog_protocol.codegen_encode import EncoderSource, generate_encoder
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.features import FIRST_OWN_TAG, OWN_TAGS
from oncelog_protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog_protocol.schema import schema_of
from oncelog_protocol.types import MAX_STRING, MESSAGE_FIELDS, Array, Nested, Primitive, string
from oncelog_protocol.unsigned_varint import write_uvarint
from tests.protocol.drawing import CASES, FLEXIBLE


def source_of(made: Any) -> str:
    source: str = made.source
    return source


def test_fields_of_fixed_size_and_the_length_after_them_are_one_struct_call() -> None:
    source = source_of(generate_decoder(FetchRequest, 11))
    assert "unpack_from_iiiibiii(b, p)" in source  # seven fields and the count of topics
    assert "unpack_from_iiqqi(b, p)" in source  # a partition
    source = source_of(generate_encoder(ProduceResponse, 7))
    assert "pack_ihqqq(" in source
    assert "pack_i(" in source


def test_an_empty_section_of_tagged_fields_is_written_with_the_fields_before_it() -> None:
    assert "pack_qqB(" in source_of(generate_encoder(FetchResponse, 12))  # aborted transactions
    assert "unpack_from_qqB(" in source_of(generate_decoder(FetchResponse, 12))


def test_the_records_of_a_message_are_slices_of_one_memoryview() -> None:
    assert source_of(generate_decoder(ProduceRequest, 9)).count("memoryview(") == 1
    assert "memoryview(" not in source_of(generate_decoder(ProduceResponse, 9))


@pytest.mark.parametrize("size", [126, 127, 128, 16_382, 16_383, 16_384])
def test_lengths_of_one_two_and_three_bytes(size: int) -> None:
    data = PartitionProduceData(0, bytes(size))
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[data])])
    raw = encode(request, 9)
    assert decode(ProduceRequest, 9, raw) == request
    length = raw.index(write_uvarint(size + 1) + bytes(size))
    with pytest.raises(ProtocolError):  # the data ends within the length
        generate_decoder(ProduceRequest, 9)(raw[: length + len(write_uvarint(size + 1)) - 1], 0)


def test_no_generated_code_calls_back_into_the_schema() -> None:
    for cls, version in CASES:
        for generate in (generate_decoder, generate_encoder):
            assert "schema" not in source_of(generate(cls, version)).lower().replace("_schema", "")


@pytest.mark.parametrize("kind", [DecoderSource, EncoderSource])
def test_no_local_name_has_two_meanings(kind: type[DecoderSource | EncoderSource]) -> None:
    """Structs are inlined, so the names of all levels are in one function."""
    for cls, version in FLEXIBLE:
        source = kind(schema_of(cls), version)
        used = set(re.findall(r"\b[a-zA-Z]\d+\b", "\n".join(source.lines)))
        assert source.fresh("v") not in used
        loops = re.findall(r"for (q\d+) in", "\n".join(source.lines))
        assert len(loops) == len(set(loops))


def strings_of(cls: type[Any]) -> set[str]:
    """Return the names of all string fields of a message and its parts."""
    names: set[str] = set()
    for field in schema_of(cls).fields:
        kind = field.type.of if isinstance(field.type, Array | Nested) else field.type
        if kind is string:
            names.add(field.name)
        elif not isinstance(kind, Primitive):
            names |= strings_of(kind)
    return names


def test_every_error_message_of_a_response_is_cut_if_it_is_too_long() -> None:
    for api in APIS.values():
        messages = {name for name in strings_of(api.response) if name.endswith("message")}
        assert messages <= MESSAGE_FIELDS, api.name


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("text", ["x" * 40_000, "x" + "é" * 20_000, "x" * 32_767, "xyz€" * 9_000])
def test_a_message_that_is_too_long_is_cut_at_a_character(version: int, text: str) -> None:
    """CreateTopics is flexible from v5 on, so the two versions encode strings differently. Readers
    of both encodings refuse a string above MAX_STRING bytes."""
    response = CreateTopicsResponse(topics=[CreatableTopicResult("t", error_message=text)])
    read = decode(CreateTopicsResponse, version, encode(response, version))
    message = read.topics[0].error_message
    assert message is not None
    assert text.startswith(message)
    assert MAX_STRING - 3 < len(message.encode()) <= MAX_STRING


def test_the_tags_of_our_own_fields_are_distinct_and_above_kafkas() -> None:
    assert all(tag >= FIRST_OWN_TAG for tag in OWN_TAGS.values())
    assert len(set(OWN_TAGS.values())) == len(OWN_TAGS)
