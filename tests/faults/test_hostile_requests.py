"""Hostile requests (scenarios H20-H31). The broker refuses them or serves them within its limits,
and other clients notice nothing."""

from __future__ import annotations

import select
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path as Folder
from typing import Any

import pytest

from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.apis import ApiKey, api_of
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.unsigned_varint import write_uvarint
from oncelog_server.request_limits import IN_SLICES, MAX_ELEMENTS, max_elements
from oncelog_server.settings.model import Settings
from oncelog_server.storage.layout import METADATA_RESERVE
from tests.faults.bombs import Path, all_arrays, arrays, bomb
from tests.faults.holding import cpu_limit_ms, cpu_ms, held_ms
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, merged
from tests.harness.waiting import wait_until
from tests.harness.writing import produce, records

MAX = 2**31 - 1
MIB = 1 << 20
# Maximum delay of small requests by a hostile request. The maximum also holds for a request with
# every partition of the largest cluster, each in its own topic. Such a request has four times
# MAX_ELEMENTS elements.
HELD_MS = 50.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    settings = merged(
        QUICK,
        {
            "auto.create.topics.enable": "false",
            "fetch.max.bytes": str(MIB),
            "max.incremental.fetch.session.cache.slots": "10",
        },
    )
    with Oncelog(tmp_path_factory.mktemp("hostile"), settings) as running:
        with Wire(running.address) as wire:
            create(wire, "t", partitions=2)
        yield running


def rss(broker: Oncelog) -> int:
    return int(Folder(f"/proc/{broker.pid}/statm").read_text().split()[1]) * 4096


def limit_of(cls: type[Any]) -> int:
    return max_elements(api_of(cls).key, Settings().oncelog_max_partitions)


def outcome(broker: Oncelog, request: Any, version: int | None = None) -> Any:
    """Return the response, or None if the connection was closed. Check that the broker then serves
    other clients."""
    response = None
    with Wire(broker.address) as bystander, Wire(broker.address) as wire:
        with suppress(Closed, ConnectionError):
            response = wire.call(request, version)
        assert bystander.call(ApiVersionsRequest("bystander", "1"), 3).api_keys
    return response


def is_closed(broker: Oncelog, frame: bytes) -> bool:
    """Return True if these bytes close their connection. Check that other connections stay open."""
    with Wire(broker.address) as bystander, Wire(broker.address) as wire:
        with suppress(ConnectionError):
            wire.socket.sendall(struct.pack(">i", len(frame)) + frame)
        closed = wire.is_closed()
        assert bystander.call(ApiVersionsRequest("bystander", "1"), 3).api_keys
    return closed


def bombs(*left_out: ApiKey) -> list[Any]:
    return [
        pytest.param(cls, path, id=f"{api_of(cls).name}-{'.'.join(path)}")
        for cls, path in all_arrays()
        if api_of(cls).key not in left_out
    ]


@pytest.mark.parametrize(("cls", "path"), bombs())
def test_h21_h26_h30_one_element_too_many_closes_the_connection_at_once(
    broker: Oncelog, cls: type[Any], path: Path
) -> None:
    limit = limit_of(cls)
    request = bomb(cls, path, limit + 1)
    before = cpu_ms(broker)
    assert outcome(broker, request) is None
    assert cpu_ms(broker) - before < cpu_limit_ms()


# Produce is left out: with acks=0 it has no response.
@pytest.mark.parametrize(("cls", "path"), bombs(ApiKey.PRODUCE))
def test_h21_h26_a_request_at_the_limit_of_elements_delays_no_client(
    broker: Oncelog, cls: type[Any], path: Path
) -> None:
    """The request is served or refused within a limit of CPU time."""
    request = bomb(cls, path, min(limit_of(cls), MAX_ELEMENTS) - len(path))
    before = cpu_ms(broker)
    outcome(broker, request)
    assert cpu_ms(broker) - before < cpu_limit_ms()


@pytest.mark.parametrize(
    ("cls", "path"), [bomb for bomb in bombs() if api_of(bomb.values[0]).key in IN_SLICES]
)
def test_h21_h26_the_largest_requests_are_served_in_slices_and_delay_no_client(
    broker: Oncelog, cls: type[Any], path: Path
) -> None:
    request = bomb(cls, path, limit_of(cls) - len(path))
    held: list[float] = []
    with Wire(broker.address) as bystander, Wire(broker.address) as wire:
        wire.send(request)
        while not select.select([wire.socket], [], [], 0)[0]:
            held.append(held_ms(broker, bystander))
    assert max(held, default=0.0) < HELD_MS


@pytest.mark.parametrize("count", [MAX, -2, -(2**31)])
def test_h20_a_false_count_costs_no_memory(broker: Oncelog, count: int) -> None:
    before = rss(broker)
    # Metadata v1: the header, and an array of topics that ends after its count.
    assert is_closed(broker, struct.pack(">hhihi", 3, 1, 1, -1, count) + b"\0\1x")
    # Metadata v12: the same in compact form.
    compact = write_uvarint((count + 1) & 0xFFFF_FFFF)
    assert is_closed(broker, struct.pack(">hhihB", 3, 12, 1, -1, 0) + compact + b"\2x")
    assert rss(broker) - before < 16 * MIB


def test_h22_many_tagged_fields_in_a_header_are_not_kept(broker: Oncelog) -> None:
    tags = b"".join(write_uvarint(tag) + b"\0" for tag in range(300_000))
    header = struct.pack(">hhih", 3, 12, 1, -1) + write_uvarint(300_000)
    before, used = rss(broker), cpu_ms(broker)
    assert is_closed(broker, header + tags + bytes(20))
    assert rss(broker) - before < 16 * MIB
    assert cpu_ms(broker) - used < cpu_limit_ms()


BAD_NAMES = ["", ".", "..", "../../x", "a/b", "a\0b", "a" * 250, "x" * 32_767, "ü", "a b", "a:b"]


def test_h25_an_invalid_topic_name_never_touches_the_disk(tmp_path: Folder) -> None:
    with Oncelog(tmp_path, QUICK) as broker, Wire(broker.address) as wire:
        # The broker creates this file in the background.
        wait_until((broker.data / METADATA_RESERVE).exists, "the reserve")
        tree = {str(path) for path in broker.directory.rglob("*")}
        topics = [CreatableTopic(name, 1, 1) for name in BAD_NAMES]
        response = wire.call(CreateTopicsRequest(topics, 10_000))
        codes = {topic.name: topic.error_code for topic in response.topics}
        assert codes == dict.fromkeys(BAD_NAMES, ErrorCode.INVALID_TOPIC_EXCEPTION)
        wanted = [MetadataRequestTopic(name=name) for name in BAD_NAMES]
        seen = wire.call(MetadataRequest(wanted, allow_auto_topic_creation=True), 12)
        assert {topic.error_code for topic in seen.topics} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
        for name in BAD_NAMES:
            response = produce(wire, name, build_batch(records()))
            assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name
        create(wire, "a.b")
        (clash,) = wire.call(CreateTopicsRequest([CreatableTopic("a_b", 1, 1)], 10_000)).topics
        assert clash.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        grown = {str(path) for path in broker.directory.rglob("*")} - tree
        assert not {line for line in grown if "a.b-0" not in line}


@pytest.mark.parametrize("partition", [-1, -(2**31), 2, MAX])
def test_h27_an_unknown_partition_gets_its_own_error_code(broker: Oncelog, partition: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with Wire(broker.address) as wire:
        assert produce(wire, "t", build_batch(records()), partition=partition).error_code == unknown
        places = [FetchPartition(number, fetch_offset=0) for number in (0, partition)]
        fetched = wire.call(FetchRequest(topics=[FetchTopic("t", partitions=places)]), 12)
        rows = {row.partition_index: row.error_code for row in fetched.responses[0].partitions}
        assert rows == {0: ErrorCode.NONE, partition: unknown}
        asked = ListOffsetsTopic("t", [ListOffsetsPartition(partition, timestamp=-1)])
        (topic,) = wire.call(ListOffsetsRequest(-1, topics=[asked]), 5).topics
        assert topic.partitions[0].error_code == unknown


@pytest.mark.parametrize("topic_id", [b"\xff" * 16, bytes(15) + b"\1"])
def test_h27_an_unknown_topic_id_gets_its_own_error_code(broker: Oncelog, topic_id: bytes) -> None:
    with Wire(broker.address) as wire:
        wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0)])
        (row,) = wire.call(FetchRequest(topics=[wanted]), 13).responses[0].partitions
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        (topic,) = wire.call(MetadataRequest([MetadataRequestTopic(topic_id)]), 12).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_h28_a_fetch_response_is_limited_by_the_brokers_fetch_max_bytes(broker: Oncelog) -> None:
    with Wire(broker.address) as wire:
        create(wire, "big", partitions=4)
        for partition in range(4):
            for _ in range(4):
                data = build_batch(records(1, b"x" * 200_000))
                assert produce(wire, "big", data, partition=partition).error_code == 0
        places = [FetchPartition(number, partition_max_bytes=MAX) for number in range(4)]
        request = FetchRequest(
            max_wait_ms=MAX,
            min_bytes=MAX,
            max_bytes=MAX,
            topics=[FetchTopic("big", partitions=places)],
        )
        response = wire.call(request, 12)
    rows = response.responses[0].partitions
    assert MIB // 2 < sum(len(row.records or b"") for row in rows) <= MIB


def test_h28_a_fetch_of_ten_thousand_partitions_is_served(broker: Oncelog) -> None:
    topics = [FetchTopic(f"n{number}", partitions=[FetchPartition(0)]) for number in range(10_000)]
    response = outcome(broker, FetchRequest(topics=topics), 12)
    assert len(response.responses) == 10_000
    with Wire(broker.address) as wire:
        wanted = [MetadataRequestTopic(name=f"n{number}") for number in range(9_999)]
        seen = wire.call(MetadataRequest(wanted, allow_auto_topic_creation=False), 12)
    assert len(seen.topics) == 9_999


@pytest.mark.parametrize("of_one_topic", [True, False], ids=["partitions", "topics"])
def test_h28_a_fetch_of_a_hundred_thousand_partitions_closes_its_connection(
    broker: Oncelog, of_one_topic: bool
) -> None:
    before, used = rss(broker), cpu_ms(broker)
    assert outcome(broker, everything(100_000, of_one_topic), 12) is None
    assert rss(broker) - before < 64 * MIB
    assert cpu_ms(broker) - used < cpu_limit_ms()


def test_h28_a_fetch_of_twenty_thousand_partitions_stays_within_the_limits(
    broker: Oncelog,
) -> None:
    """The response comes at once and has at most fetch.max.bytes. `max_wait_ms` and the
    sizes in the request have no effect."""
    with Wire(broker.address) as wire:
        for partition in range(2):
            for _ in range(4):
                data = build_batch(records(1, b"x" * 200_000))
                assert produce(wire, "t", data, partition=partition).error_code == 0
    used = cpu_ms(broker)
    response = outcome(broker, everything(20_000, True), 12)
    assert cpu_ms(broker) - used < cpu_limit_ms()
    rows = response.responses[0].partitions
    assert len(rows) == 20_000
    assert MIB // 2 < sum(len(row.records or b"") for row in rows) <= MIB


def everything(count: int, of_one_topic: bool) -> FetchRequest:
    """Return a Fetch of this number of partitions. The limits in the request are the largest
    possible."""
    numbers = range(count)
    topics = (
        [FetchTopic("t", partitions=[FetchPartition(n, partition_max_bytes=MAX) for n in numbers])]
        if of_one_topic
        else [FetchTopic("t", partitions=[FetchPartition(n, partition_max_bytes=MAX)])
              for n in numbers]
    )  # fmt: skip
    return FetchRequest(max_wait_ms=MAX, min_bytes=MAX, max_bytes=MAX, topics=topics)


def test_h28_a_parked_fetch_ends_with_its_connection(broker: Oncelog) -> None:
    """The client's Fetch waits forever, because it asks for more bytes than will come."""
    descriptors = Folder(f"/proc/{broker.pid}/fd")
    before = len(list(descriptors.iterdir()))
    waiting = [Wire(broker.address) for _ in range(50)]
    for wire in waiting:
        assert wire.call(ApiVersionsRequest("c", "1"), 3).api_keys
        place = FetchTopic("t", partitions=[FetchPartition(1, partition_max_bytes=MAX)])
        wire.send(FetchRequest(max_wait_ms=MAX, min_bytes=MAX, topics=[place]), 12)
    for wire in waiting:
        wire.socket.close()
    wait_until(lambda: len(list(descriptors.iterdir())) <= before, "all connections are closed", 5)
    used = cpu_ms(broker)
    assert outcome(broker, ApiVersionsRequest("c", "1"), 3) is not None
    assert cpu_ms(broker) - used < cpu_limit_ms()


def test_h29_a_flood_of_fetch_sessions_creates_no_more_than_the_limit(broker: Oncelog) -> None:
    sessions = set()
    place = FetchTopic("t", partitions=[FetchPartition(0)])
    with Wire(broker.address) as wire:
        for _ in range(200):
            request = FetchRequest(max_wait_ms=0, session_epoch=0, topics=[place])
            response = wire.call(request, 12)
            assert response.error_code == ErrorCode.NONE
            assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
            sessions.add(response.session_id)
    assert len(sessions - {0}) <= 10


@pytest.mark.parametrize(
    "request_",
    [
        FindCoordinatorRequest(key_type=0, coordinator_keys=["g"] * 1_000_000),
        DescribeGroupsRequest(groups=["g"] * 1_000_000),
        MetadataRequest([MetadataRequestTopic(name="t")] * 300_000),
    ],
    ids=lambda request: type(request).__name__,
)
def test_h30_a_request_with_a_million_keys_is_refused_before_any_lookup(
    broker: Oncelog, request_: Any
) -> None:
    before, used = rss(broker), cpu_ms(broker)
    assert outcome(broker, request_) is None
    assert rss(broker) - before < 64 * MIB
    assert cpu_ms(broker) - used < cpu_limit_ms()


def test_every_api_with_arrays_is_bombed() -> None:
    bombed = {api_of(cls).key for cls, _ in all_arrays()}
    assert {ApiKey.FETCH, ApiKey.METADATA, ApiKey.PRODUCE} <= bombed
    assert all(list(arrays(cls, api_of(cls).latest)) for cls, _ in all_arrays())
