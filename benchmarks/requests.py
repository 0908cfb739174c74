"""Requests for the load generator: bytes that it sends, and positions in them and in the responses.

An entry has the positions of the error codes in the response. Encoding a response with and without
an error gives these positions, so that this file does not repeat the layout of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from typing import Any

from benchmarks.batches import NO_IDENTITY, Batches
from oncelog_protocol.apis import ApiKey, api_of
from oncelog_protocol.codecs import encode
from oncelog_protocol.frames import frame
from oncelog_protocol.headers import response_header, write_request_header
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from oncelog_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.harness.writing import Identity

CLIENT_ID = "bench"
ALL_REPLICAS = -1
TIMEOUT_MS = 30_000

# The versions that librdkafka sends. In transactions of version 1, AddPartitionsToTxn adds the
# partitions.
API_VERSIONS_VERSION = 3
PRODUCE_VERSION = 9
FETCH_VERSION = 12
ADD_PARTITIONS_VERSION = 3
END_TXN_VERSION = 3
# The versions that the Java client and franz-go send in transactions of version 2 (KIP-890):
# Produce adds its partitions, and EndTxn returns the next epoch.
ADDING_PRODUCE_VERSION = 12
RENEWING_END_TXN_VERSION = 5

_ENTRY = Struct(">IIIII")
_POSITION = Struct(">I")
_IDENTITY = Struct(">qh")
_AN_ERROR = 0x5A5A


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. native/requests.h defines the positions. A position of 0, or an empty tuple,
    means that the load generator patches nothing."""

    request: bytes
    errors_at: tuple[int, ...]
    batches_at: tuple[int, ...] = ()
    identity_at: int = 0
    renewed_at: int = 0


def write_entries(path: Path, entries: Iterable[Entry]) -> Path:
    """Write the file of requests for loadgen."""
    with path.open("wb") as file:
        for entry in entries:
            counts = len(entry.errors_at), len(entry.batches_at), len(entry.request)
            file.write(_ENTRY.pack(entry.identity_at, entry.renewed_at, *counts))
            for position in (*entry.errors_at, *entry.batches_at):
                file.write(_POSITION.pack(position))
            file.write(entry.request)
    return path


def api_versions() -> Entry:
    """Return an ApiVersions request, the first request of each client."""
    return _entry(
        ApiVersionsRequest(CLIENT_ID, "1"),
        API_VERSIONS_VERSION,
        lambda error: ApiVersionsResponse(error_code=error),
    )


def produce(
    topic: str,
    batches: Batches,
    producer: Identity = NO_IDENTITY,
    *,
    version: int = PRODUCE_VERSION,
) -> Entry:
    """Return a Produce request with these batches, acks=all."""
    request = ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=ALL_REPLICAS,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic, partition_data=[])],
    )
    for partition, batch in batches.items():
        request.topic_data[0].partition_data.append(PartitionProduceData(partition, batch))
    entry = _entry(
        request, version, lambda *errors: _produced(topic, batches, errors), len(batches)
    )
    if producer.producer_id < 0:
        return entry
    return replace(entry, batches_at=_positions(entry.request, batches.values()))


def _produced(topic: str, partitions: Iterable[int], errors: Sequence[int]) -> ProduceResponse:
    responses = [
        PartitionProduceResponse(partition, error)
        for partition, error in zip(partitions, errors, strict=True)
    ]
    return ProduceResponse([TopicProduceResponse(name=topic, partition_responses=responses)])


def _positions(request: bytes, batches: Iterable[bytearray]) -> tuple[int, ...]:
    found, end = [], 0
    for batch in batches:
        found.append(request.index(batch, end))
        end = found[-1] + len(batch)
    return tuple(found)


def fetch(topic: str, partition: int, max_bytes: int) -> Entry:
    """Return a Fetch of one partition from offset 0, without a session."""
    place = FetchPartition(partition=partition, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[place])],
    )
    return _entry(
        request,
        FETCH_VERSION,
        lambda error: FetchResponse(
            responses=[
                FetchableTopicResponse(topic=topic, partitions=[PartitionData(partition, error)])
            ]
        ),
    )


def transaction(topic: str, batches: Batches, producer: Identity) -> list[Entry]:
    """Return the three requests of a transaction of version 1: add the partitions, produce, end."""
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id or "",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [*batches])],
    )
    added = _entry(
        add, ADD_PARTITIONS_VERSION, lambda *errors: _added(topic, batches, errors), len(batches)
    )
    return [
        added,
        produce(topic, batches, producer),
        _entry(_commit(producer), END_TXN_VERSION, _ended),
    ]


def _added(
    topic: str, partitions: Iterable[int], errors: Sequence[int]
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition, error)
        for partition, error in zip(partitions, errors, strict=True)
    ]
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult(topic, results)]
    )


def transaction_v2(topic: str, batches: Batches, producer: Identity) -> list[Entry]:
    """Return the two requests of a transaction of version 2: produce, end."""
    version = RENEWING_END_TXN_VERSION
    end = _entry(_commit(producer), version, _ended)
    identity = _IDENTITY.pack(producer.producer_id, producer.producer_epoch)
    renewed = [
        _answer(ApiKey.END_TXN, version, EndTxnResponse(producer_id=id_)) for id_ in (0, -1 << 63)
    ]
    return [
        produce(topic, batches, producer, version=ADDING_PRODUCE_VERSION),
        replace(
            end,
            identity_at=end.request.rindex(identity),
            renewed_at=_first_difference(*renewed),
        ),
    ]


def _commit(producer: Identity) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=producer.transactional_id or "",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )


def _ended(error: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)


def _entry(request: Any, version: int, answer: Callable[..., Any], codes: int = 1) -> Entry:
    """Return the entry of a request. `answer` makes a response from `codes` error codes."""
    api = api_of(type(request))
    body = write_request_header(api.key, version, 0, CLIENT_ID) + encode(request, version)
    plain = _answer(api.key, version, answer(*[0] * codes))
    errors_at = []
    for number in range(codes):
        errors = [_AN_ERROR if at == number else 0 for at in range(codes)]
        errors_at.append(_first_difference(plain, _answer(api.key, version, answer(*errors))))
    return Entry(body, tuple(errors_at))


def _answer(key: ApiKey, version: int, message: Any) -> bytes:
    return b"".join(frame([response_header(key, version, 0), encode(message, version)]))


def _first_difference(left: Sequence[int], right: Sequence[int]) -> int:
    return next(at for at, pair in enumerate(zip(left, right, strict=True)) if pair[0] != pair[1])
