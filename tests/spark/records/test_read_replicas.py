"""A range is read from the follower that the leader names (KIP-392), and from the leader if the
follower fails."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog_client.config import ConsumerSettings, consumer_config
from oncelog_client.connect_failures import Address
from oncelog_client.core.metadata import Metadata, TopicInfo
from oncelog_client.errors import DisconnectedError, RetriableError
from oncelog_client.spark.source import range_reader
from oncelog_client.spark.source.range_reader import DataLost, ReadSettings, read_range
from oncelog_client.values import Node, PartitionInfo, TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord

PARTITION = TopicPartition("t", 0)
LEADER, FOLLOWER, UNKNOWN = 1, 2, 3
RACK = "rack-b"
METADATA = Metadata(
    brokers={node: Node(node, f"broker-{node}", 9092, None) for node in (LEADER, FOLLOWER)},
    topics={"t": TopicInfo("t", partitions=(PartitionInfo("t", 0, LEADER, 5),))},
)

Behavior = Callable[[FetchRequest], PartitionData]


def records(_: FetchRequest) -> PartitionData:
    """Respond with the records 0 to 9."""
    values = [NewRecord(5, None, b"%d" % number) for number in range(10)]
    return PartitionData(records=bytes(build_batch(values)))


def nothing(_: FetchRequest) -> PartitionData:
    return PartitionData(records=b"")


def refused(_: FetchRequest) -> PartitionData:
    return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)


def disconnects(_: FetchRequest) -> PartitionData:
    raise DisconnectedError("the connection is closed")


def names(node: int, otherwise: Behavior = records) -> Behavior:
    """Name `node` if the request has a rack, as Kafka's leader does."""

    def behave(request: FetchRequest) -> PartitionData:
        return (
            PartitionData(records=b"", preferred_read_replica=node)
            if request.rack_id
            else otherwise(request)
        )

    return behave


class Brokers:
    """The leader and a follower, each with a function that responds. `asked`: for each Fetch the
    broker's id and the rack of the request."""

    def __init__(self, leader: Behavior, follower: Behavior) -> None:
        self.behaviors = {LEADER: leader, FOLLOWER: follower}
        self.asked: list[tuple[int, str]] = []

    def socket(self, address: Address, *_: object) -> StubSocket:
        return StubSocket(self, int(address[0].removeprefix("broker-")))

    async def cluster(self, *_: object) -> StubCluster:
        return StubCluster()

    def read(self, **more: object) -> list[int]:
        """Return the offsets of a read of the records 0 to 9."""
        given = cast(
            ConsumerSettings,
            {"client_rack": RACK, "retry_backoff_ms": 20, "retry_backoff_max_ms": 20, **more},
        )
        settings = ReadSettings(consumer=consumer_config("b:1", given), poll_timeout_ms=400)
        batches = list(read_range(settings, PARTITION, 0, 10, ["offset"]))
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


class StubSocket:
    busy = False

    def __init__(self, brokers: Brokers, node: int) -> None:
        self.brokers, self.node = brokers, node

    def send(self, request: FetchRequest) -> None:
        self.request = request
        self.brokers.asked.append((self.node, request.rack_id))

    def receive(self) -> FetchResponse:
        data = self.brokers.behaviors[self.node](self.request)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def close(self) -> None:
        pass


class StubCluster:
    metadata = METADATA

    async def refresh(self) -> None:
        pass

    async def topic(self, *_: object) -> None:
        pass

    def address(self, node: int) -> Address:
        found = self.metadata.brokers.get(node)
        if found is None:
            raise RetriableError(f"broker {node} is not in the metadata")
        return found.host, found.port

    async def connection(self, _: Address) -> Any:
        return SimpleNamespace(version=lambda *_: 12, sasl_versions=(-1, -1))

    async def retry(self, attempt: Callable[[], Awaitable[Any]], _: float) -> Any:
        return await attempt()


Start = Callable[[Behavior, Behavior], Brokers]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    def begin(leader: Behavior, follower: Behavior) -> Brokers:
        brokers = Brokers(leader, follower)
        monkeypatch.setattr(range_reader, "FetchSocket", brokers.socket)
        monkeypatch.setattr(range_reader._Reader, "_cluster", brokers.cluster)
        monkeypatch.setattr(range_reader, "_idle", {})
        monkeypatch.setattr(range_reader, "_replicas", {})
        return brokers

    return begin


def test_a_range_is_read_from_the_follower_that_the_leader_names(start: Start) -> None:
    brokers = start(names(FOLLOWER), records)
    assert brokers.read() == list(range(10))
    assert brokers.asked == [(LEADER, RACK), (FOLLOWER, "")]
    # The next range begins at the follower.
    assert brokers.read() == list(range(10))
    assert [node for node, _ in brokers.asked] == [LEADER, FOLLOWER, FOLLOWER]


def test_the_leader_is_asked_again_when_the_metadata_are_too_old(start: Start) -> None:
    brokers = start(names(FOLLOWER), records)
    brokers.read(metadata_max_age_ms=1)
    time.sleep(0.01)
    brokers.read(metadata_max_age_ms=1)
    assert [node for node, _ in brokers.asked] == [LEADER, FOLLOWER, LEADER, FOLLOWER]


@pytest.mark.parametrize("follower", [nothing, refused, disconnects])
def test_the_leader_serves_a_read_that_the_follower_cannot_serve(
    start: Start, follower: Behavior
) -> None:
    brokers = start(names(FOLLOWER), follower)
    assert brokers.read() == list(range(10))
    assert brokers.asked == [(LEADER, RACK), (FOLLOWER, ""), (LEADER, "")]


def test_the_leader_serves_a_read_after_the_follower_of_an_earlier_range_failed(
    start: Start,
) -> None:
    brokers = start(names(FOLLOWER), records)
    brokers.read()
    brokers.behaviors[FOLLOWER] = disconnects
    assert brokers.read() == list(range(10))
    assert brokers.asked[-1] == (LEADER, "")
    assert len(brokers.asked) == 4


def test_the_leader_serves_a_read_if_the_named_follower_is_unknown(start: Start) -> None:
    brokers = start(names(UNKNOWN), records)
    assert brokers.read() == list(range(10))
    assert brokers.asked == [(LEADER, RACK), (LEADER, "")]


def test_only_the_leader_reports_lost_data(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader._Reader, "_log_start_offset", lambda _: 5)
    brokers = start(names(FOLLOWER, refused), refused)
    with pytest.raises(DataLost):
        brokers.read()
    assert [node for node, _ in brokers.asked] == [LEADER, FOLLOWER, LEADER]


def test_a_pause_follows_each_response_without_records(start: Start) -> None:
    """A leader that responds at once is not flooded with requests."""
    brokers = start(lambda _: names(FOLLOWER)(FetchRequest(rack_id=RACK)), nothing)
    with pytest.raises(RetriableError, match="no record at or after offset 0 came within 400 ms"):
        brokers.read()
    assert 3 < len(brokers.asked) < 40
