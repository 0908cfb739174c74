"""Headers: the right version for each message, and an error for a header that cannot be decoded.
Some tests compare oncelog's headers with those of the library kio."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from oncelog_protocol.apis import APIS, ApiKey, request_header_version, response_header_version
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    response_header,
    write_request_header,
)
from oncelog_protocol.unsigned_varint import write_uvarint
from tests.examples import examples
from tests.protocol.drawing import all_cases
from tests.protocol.kio_oracle import kio_class

SPOKEN = [(api.key, version) for api in APIS.values() for version in api.versions]
ids = st.integers(-(1 << 31), (1 << 31) - 1)
client_ids = st.none() | st.text(max_size=50)


@settings(max_examples=examples(400), deadline=None, database=None)
@given(st.sampled_from(SPOKEN), ids, client_ids)
def test_a_request_header_is_read_as_it_was_written_and_as_kio_writes_it(
    api: tuple[int, int], correlation_id: int, client_id: str | None
) -> None:
    key, version = api
    raw = write_request_header(key, version, correlation_id, client_id)
    header, position = read_request_header(b"??" + raw + b"body", 2)
    assert header == RequestHeader(key, version, correlation_id, client_id)
    assert position == 2 + len(raw)
    kind = f"kio.schema.request_header.v{request_header_version(key, version)}.header"
    kio_header = import_module(kind).RequestHeader
    entity, _ = entity_reader(kio_header)(raw, 0)
    out = io.BytesIO()
    entity_writer(kio_header)(out, entity)
    assert out.getvalue() == raw
    assert (entity.correlation_id, entity.client_id) == (correlation_id, client_id)


@settings(max_examples=examples(200), deadline=None, database=None)
@given(st.sampled_from(SPOKEN), ids)
def test_a_response_header_is_read_as_it_was_written(
    api: tuple[int, int], correlation_id: int
) -> None:
    raw = response_header(*api, correlation_id)
    assert read_response_header(*api, raw + b"body") == (correlation_id, len(raw))


def test_header_versions_are_those_kio_has_for_each_message() -> None:
    for cls, version in all_cases():
        kio_cls: Any = kio_class(cls, version)
        api = next(api for api in APIS.values() if cls in (api.request, api.response))
        if kio_cls is None:
            continue
        choose = request_header_version if cls is api.request else response_header_version
        assert choose(api.key, version) == kio_cls.__header_schema__.__version__, (cls, version)


def test_the_response_to_api_versions_never_has_tagged_fields_in_its_header() -> None:
    for version in APIS[ApiKey.API_VERSIONS].versions:
        assert response_header(ApiKey.API_VERSIONS, version, 7) == b"\0\0\0\7"


def test_h22_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    raw = write_request_header(ApiKey.END_TXN, 5, 1, "c")[:-1]
    section = b"\1" + write_uvarint(300) + b"\3abc"
    assert read_request_header(raw + section)[1] == len(raw + section)
    response = response_header(ApiKey.END_TXN, 5, 1)[:-1] + section
    assert read_response_header(ApiKey.END_TXN, 5, response)[1] == len(response)


def test_an_unknown_api_or_version_still_has_a_readable_start() -> None:
    raw = b"\x03\xe7\0\x09\0\0\0\5\0\1c"
    assert read_request_header(raw)[0] == RequestHeader(999, 9, 5, "c")
    future = b"\0\x12\0\x63\0\0\0\5\0\1c\0"
    assert read_request_header(future)[0] == RequestHeader(ApiKey.API_VERSIONS, 99, 5, "c")


@pytest.mark.parametrize("version", [0, 5])
def test_every_cut_header_is_refused(version: int) -> None:
    raw = write_request_header(ApiKey.END_TXN, version, 1, "client")
    for size in range(len(raw)):
        with pytest.raises(ProtocolError):
            read_request_header(raw[:size])
    response = response_header(ApiKey.END_TXN, version, 1)
    for size in range(len(response)):
        with pytest.raises(ProtocolError):
            read_response_header(ApiKey.END_TXN, version, response[:size])


@settings(max_examples=examples(500), deadline=None, database=None)
@given(st.sampled_from(SPOKEN), st.binary(max_size=60))
def test_random_bytes_are_read_as_a_header_or_refused(api: tuple[int, int], noise: bytes) -> None:
    start = b"".join(number.to_bytes(2, "big") for number in api)
    for read in (read_request_header, lambda raw: read_response_header(*api, raw)):
        try:
            header, position = read(start + noise)
        except ProtocolError:
            continue
        assert isinstance(header, RequestHeader | int)
        assert 4 <= position <= len(start + noise)


@pytest.mark.parametrize("size", [b"\xff\xfe", b"\x80\0", b"\x7f\xff"])
def test_h24_a_client_id_of_impossible_length_is_refused(size: bytes) -> None:
    with pytest.raises(ProtocolError, match="client id"):
        read_request_header(b"\0\0\0\3\0\0\0\1" + size + b"abc")


def test_a_client_id_is_utf_8() -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        read_request_header(b"\0\0\0\3\0\0\0\1\0\2\xc3\x28")
