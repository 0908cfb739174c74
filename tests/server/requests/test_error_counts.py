"""The error codes of responses, counted at every depth."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.codecs import encoder
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.heartbeat import HeartbeatResponse
from oncelog_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog_protocol.messages.offset_fetch import OffsetFetchResponse
from oncelog_protocol.messages.produce import ProduceResponse, TopicProduceResponse
from oncelog_server.requests.error_counts import ErrorCounts

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def counted(key: ApiKey, version: int, response: Any) -> dict[tuple[int, int], int]:
    """Encode a response, and return the counts. The bytes are those of the plain encoder."""
    errors = ErrorCounts()
    message = APIS[key].response
    plain: list[bytes] = []
    encoder(message, version)(response, plain.append)
    parts: list[bytes] = []
    errors.counting(key, version, message, encoder(message, version))(response, parts.append)
    assert parts == plain
    return errors.counts


def test_the_code_of_a_response_counts() -> None:
    response = HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
    assert counted(ApiKey.HEARTBEAT, 4, response) == {
        (ApiKey.HEARTBEAT, ErrorCode.ILLEGAL_GENERATION): 1
    }


def metadata(topics: int) -> MetadataResponse:
    partitions = [MetadataResponsePartition(NONE, 0), MetadataResponsePartition(UNKNOWN, 1)]
    return MetadataResponse(
        topics=[MetadataResponseTopic(NONE, f"t{n}", partitions=partitions) for n in range(topics)]
    )


def test_codes_in_arrays_of_arrays_count() -> None:
    assert counted(ApiKey.METADATA, 12, metadata(2)) == {
        (ApiKey.METADATA, NONE): 4,
        (ApiKey.METADATA, UNKNOWN): 2,
    }


def test_only_the_fields_of_the_version_count() -> None:
    """OffsetFetch has a code of its own up to version 7, then one for each group."""
    response = OffsetFetchResponse(error_code=NONE, groups=[])
    assert counted(ApiKey.OFFSET_FETCH, 7, response) == {(ApiKey.OFFSET_FETCH, NONE): 1}
    assert counted(ApiKey.OFFSET_FETCH, 8, response) == {}


def test_an_encoded_row_has_no_error() -> None:
    errors = ErrorCounts()
    rows: list[Any] = [b"row", b"row"]
    response = ProduceResponse([TopicProduceResponse("t", partition_responses=rows)])
    encode = errors.counting(ApiKey.PRODUCE, 12, ProduceResponse, lambda response, append: None)
    encode(response, [].append)
    assert errors.counts == {(ApiKey.PRODUCE, NONE): 2}


def test_a_large_response_is_counted_in_steps() -> None:
    errors = ErrorCounts()
    steps = errors.count_in_steps(ApiKey.METADATA, 12, metadata(300))
    assert sum(1 for _ in steps) == 300
    assert errors.counts == {(ApiKey.METADATA, NONE): 600, (ApiKey.METADATA, UNKNOWN): 300}
