"""Quotas throttle the clients of oncelog and of Apache Kafka alike: the throttle time in the
response, the muted connection (KIP-219), the empty Fetch, the refused topic (KIP-599)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.list_groups import ListGroupsRequest
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.requests import Requests
from tests.conformance.conftest import Target
from tests.harness.driving import create
from tests.harness.waiting import wait_until
from tests.harness.writing import BY_NAME, produce, records

WINDOWS_MS = 10_000
EXCEEDED = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
OK = (ErrorCode.NONE, None)


def _alter(wire: Wire, client_id: str, quota: str, limit: float | None) -> None:
    """Set or remove a quota of a client id, and wait until it is in force."""
    entity = [EntityData("client-id", client_id)]
    op = OpData(quota, limit or 0.0, limit is None)
    response = wire.call(AlterClientQuotasRequest([EntryData(entity, [op])]))
    assert response.entries[0].error_code == ErrorCode.NONE
    chosen = DescribeClientQuotasRequest([ComponentData("client-id", 0, client_id)])
    wait_until(lambda: bool(wire.call(chosen).entries) == (limit is not None), quota)


@contextmanager
def limited(wire: Wire, client_id: str, quota: str, limit: float) -> Iterator[None]:
    _alter(wire, client_id, quota, limit)
    yield
    _alter(wire, client_id, quota, None)


def throttle_ms(used: float, limit: float) -> int:
    """Return the throttle time of a client that has used nothing before."""
    return round((used * 1000 / WINDOWS_MS - limit) / limit * WINDOWS_MS)


def produced(topic: str, size: int, acks: int = -1) -> ProduceRequest:
    data = build_batch(records(1, b"v" * size))
    rows = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, data)])]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=rows)


def frame_bytes(request: Any, client_id: str, version: int) -> int:
    _, parts = Requests(client_id).send(request, version)
    return sum(map(len, parts)) - 4


@pytest.mark.parametrize("acks", [-1, 0])
def test_produce_is_answered_at_once_and_the_next_request_waits(
    target: Target, wire: Wire, topic: str, name: str, acks: int
) -> None:
    request = produced(topic, 11_000, acks)
    expected_ms = throttle_ms(frame_bytes(request, name, BY_NAME), 1_000)
    assert 900 < expected_ms < 1_500
    with limited(wire, name, "producer_byte_rate", 1_000), Wire(target.address, name) as slow:
        began = time.monotonic()
        slow.send(request, BY_NAME, answered=acks != 0)
        if acks:
            assert slow.answer().throttle_time_ms == expected_ms
            assert time.monotonic() - began < expected_ms / 1000
        slow.call(ApiVersionsRequest(), 0)
        assert time.monotonic() - began >= expected_ms / 1000
        with Wire(target.address, f"{name}-other") as other:
            assert other.call(produced(topic, 11_000), BY_NAME).throttle_time_ms == 0


def fetch(
    wire: Wire, topic: str, offset: int, most: int, session_id: int = 0, session_epoch: int = -1
) -> tuple[int, int, int]:
    """Return the number of bytes of records, the throttle time and the session of a Fetch."""
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=most,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
        session_id=session_id,
        session_epoch=session_epoch,
    )
    response = wire.call(request, 12)
    assert response.error_code == ErrorCode.NONE
    rows = [row for found in response.responses for row in found.partitions]
    size = sum(len(row.records or b"") for row in rows)
    return size, response.throttle_time_ms, response.session_id


def produce_small(wire: Wire, topic: str) -> None:
    for _ in range(30):
        produce(wire, topic, build_batch(records(1, b"v" * 400)))


def test_a_fetch_gets_at_most_the_quota_of_all_windows_and_is_empty_if_it_is_throttled(
    target: Target, wire: Wire, topic: str, name: str
) -> None:
    produce_small(wire, topic)
    with limited(wire, name, "consumer_byte_rate", 1_000), Wire(target.address, name) as slow:
        # The quota allows 10,000 bytes of records. With them the response has 71 bytes more, for
        # which the client has to wait.
        assert fetch(slow, topic, 0, 1 << 20) == (0, 71, 0)
        assert fetch(slow, topic, 0, 1 << 20) == (10_000, 0, 0)
        began = time.monotonic()
        size, throttled, _ = fetch(slow, topic, 20, 100)
        assert size == 0
        assert throttled > 0
        assert fetch(slow, topic, 20, 100)[0] > 0
        assert time.monotonic() - began >= throttled / 1000


def test_a_throttled_fetch_makes_no_session_and_keeps_the_session_that_it_has(
    target: Target, wire: Wire, topic: str, name: str
) -> None:
    produce_small(wire, topic)
    with limited(wire, name, "consumer_byte_rate", 1_000), Wire(target.address, name) as slow:
        assert fetch(slow, topic, 0, 1 << 20, session_epoch=0) == (0, 71, 0)
        size, throttled, session = fetch(slow, topic, 0, 1 << 20, session_epoch=0)
        assert (size, throttled) == (10_000, 0)
        assert session != 0
        size, throttled, same = fetch(slow, topic, 20, 100, session, 1)
        assert (size, same) == (0, session)
        assert throttled > 0
        size, throttled, same = fetch(slow, topic, 20, 100, session, 2)
        assert size > 0
        assert (throttled, same) == (0, session)


def test_every_api_is_throttled_by_the_quota_on_time(target: Target, wire: Wire, name: str) -> None:
    quota = limited(wire, name, "request_percentage", 0.0001)
    with quota, Wire(target.address, name) as slow:
        response = slow.call(ListGroupsRequest())
        assert 0 < response.throttle_time_ms <= 1_000


def topics(name: str, partitions: int) -> CreateTopicsRequest:
    rows = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
    return CreateTopicsRequest(topics=rows, timeout_ms=30_000)


def once(target: Target, client_id: str, request: Any, version: int) -> tuple[Any, int]:
    """Return the (code, message) of the first row, and the throttle time, of a response on a new
    connection, because a throttled one is muted."""
    with Wire(target.address, client_id) as wire:
        response = wire.call(request, version)
    row = getattr(response, "topics", None) or getattr(response, "responses", None)
    (first, *_) = row or response.results
    return (first.error_code, first.error_message), response.throttle_time_ms


def exists(wire: Wire, name: str) -> bool:
    request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return bool(wire.call(request).topics[0].error_code == ErrorCode.NONE)


def test_topics_beyond_the_quota_are_refused_or_an_old_client_waits(
    target: Target, wire: Wire, name: str
) -> None:
    """A bucket of eleven tokens, which one request may overdraw."""
    create(wire, f"{name}-old", f"{name}-grown", f"{name}-kept")
    with limited(wire, name, "controller_mutation_rate", 1.0):
        assert once(target, name, topics(f"{name}-1", 60), 7) == (OK, 0)
        outcome, throttled = once(target, name, topics(f"{name}-2", 1), 7)
        assert outcome == EXCEEDED
        assert 40_000 < throttled < 49_500
        assert not exists(wire, f"{name}-2")
        outcome, throttled = once(target, name, topics(f"{name}-3", 1), 5)
        assert outcome == OK
        assert throttled > 40_000
        grown = [CreatePartitionsTopic(f"{name}-grown", 3, None)]
        strict = CreatePartitionsRequest(topics=grown, timeout_ms=30_000)
        assert once(target, name, strict, 3)[0] == EXCEEDED
        assert once(target, name, strict, 2)[0][0] == ErrorCode.NONE
        by_name = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=f"{name}-kept")], timeout_ms=30_000
        )
        assert once(target, name, by_name, 6)[0] == EXCEEDED
        assert exists(wire, f"{name}-kept")
        old = DeleteTopicsRequest(topic_names=[f"{name}-old"], timeout_ms=30_000)
        assert once(target, name, old, 4)[0][0] == ErrorCode.NONE
    wait_until(lambda: not exists(wire, f"{name}-old"), "deleted topic")
