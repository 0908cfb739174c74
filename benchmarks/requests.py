"""Requests for the load generator: bytes that it sends unchanged, and positions in the responses.

An entry has the position of the error code in the response. It is found by encoding a response with
and without an error, so that the layout of a message is not written here a second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from typing import Any

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
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.harness.writing import Identity

CLIENT_ID = "bench"
ALL_REPLICAS = -1
TIMEOUT_MS = 30_000

# The versions of librdkafka. Transactions are of version 1: a request adds each partition.
PRODUCE_VERSION = 9
FETCH_VERSION = 12
ADD_PARTITIONS_VERSION = 3
END_TXN_VERSION = 3
# Transactions of version 2 (KIP-890), as from the Java client and franz-go: Produce adds its
# partition, EndTxn returns the next epoch.
ADDING_PRODUCE_VERSION = 12
RENEWING_END_TXN_VERSION = 5

_ENTRY = Struct(">IIIII")
_IDENTITY = Struct(">qh")
_IDENTITY_IN_BATCH = 43
_AN_ERROR = 0x5A5A


@dataclass(frozen=True, slots=True)
class Entry:
    """One request; positions as in native/requests.h, 0 where there is nothing to patch."""

    request: bytes
    error_at: int
    batch_at: int = 0
    identity_at: int = 0
    renewed_at: int = 0


NO_IDENTITY = Identity(-1, -1)
"""The identity of a producer without a producer id."""


def write_entries(path: Path, entries: Iterable[Entry]) -> Path:
    """Write the file of requests that loadgen reads."""
    with path.open("wb") as file:
        for entry in entries:
            places = entry.error_at, entry.batch_at, entry.identity_at, entry.renewed_at
            file.write(_ENTRY.pack(*places, len(entry.request)) + entry.request)
    return path


def a_batch(count: int, value_bytes: int, producer: Identity = NO_IDENTITY) -> bytearray:
    """Return a batch of `count` records of `value_bytes` each, uncompressed, with the current
    time."""
    now_ms = int(time.time() * 1000)
    value = bytes(i * 31 % 251 for i in range(value_bytes))
    return build_batch(
        [NewRecord(now_ms, None, value)] * count,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=-1 if producer.producer_id < 0 else 0,
        is_transactional=producer.transactional_id is not None,
    )


def produce(
    topic: str,
    partition: int,
    batch: bytearray,
    producer: Identity = NO_IDENTITY,
    *,
    version: int = PRODUCE_VERSION,
) -> Entry:
    """Return a Produce request for one batch, acks=all."""
    request = ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=ALL_REPLICAS,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic, partition_data=[])],
    )
    request.topic_data[0].partition_data.append(PartitionProduceData(partition, batch))
    entry = _entry(
        request,
        version,
        lambda error: ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic, partition_responses=[PartitionProduceResponse(partition, error)]
                )
            ]
        ),
    )
    if producer.producer_id < 0:
        return entry
    return replace(entry, batch_at=entry.request.index(bytes(batch)))


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


def transaction(topic: str, partition: int, producer: Identity, value_bytes: int) -> list[Entry]:
    """Return the three requests of a transaction with one record."""
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id or "",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [partition])],
    )
    end = EndTxnRequest(
        transactional_id=producer.transactional_id or "",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    return [
        _entry(
            add,
            ADD_PARTITIONS_VERSION,
            lambda error: AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=[
                    AddPartitionsToTxnTopicResult(
                        topic, [AddPartitionsToTxnPartitionResult(partition, error)]
                    )
                ]
            ),
        ),
        produce(topic, partition, a_batch(1, value_bytes, producer), producer),
        _entry(end, END_TXN_VERSION, lambda error: EndTxnResponse(error_code=error)),
    ]


def transaction_v2(topic: str, partition: int, producer: Identity, value_bytes: int) -> list[Entry]:
    """Return the two requests of a transaction of version 2 with one record."""
    written = produce(
        topic,
        partition,
        a_batch(1, value_bytes, producer),
        producer,
        version=ADDING_PRODUCE_VERSION,
    )
    version = RENEWING_END_TXN_VERSION
    end = _entry(
        EndTxnRequest(
            transactional_id=producer.transactional_id or "",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        ),
        version,
        lambda error: EndTxnResponse(error_code=error),
    )
    identity = _IDENTITY.pack(producer.producer_id, producer.producer_epoch)
    renewed = [
        _answer(ApiKey.END_TXN, version, EndTxnResponse(producer_id=id_)) for id_ in (0, -1 << 63)
    ]
    return [
        replace(written, identity_at=written.batch_at + _IDENTITY_IN_BATCH),
        replace(
            end,
            identity_at=end.request.rindex(identity),
            renewed_at=_first_difference(*renewed),
        ),
    ]


def _entry(request: Any, version: int, answer: Callable[[int], Any]) -> Entry:
    api = api_of(type(request))
    body = write_request_header(api.key, version, 0, CLIENT_ID) + encode(request, version)
    answers = [_answer(api.key, version, answer(error)) for error in (0, _AN_ERROR)]
    return Entry(body, _first_difference(*answers))


def _answer(key: ApiKey, version: int, message: Any) -> bytes:
    return b"".join(frame([response_header(key, version, 0), encode(message, version)]))


def _first_difference(left: Sequence[int], right: Sequence[int]) -> int:
    return next(at for at, pair in enumerate(zip(left, right, strict=True)) if pair[0] != pair[1])
