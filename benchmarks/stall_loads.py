"""Loads of large requests, for `benchmarks.stalls`, which measures their effect on a producer."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.batches import NO_IDENTITY, a_batch
from benchmarks.cold_log import MEGABYTES, ColdLog
from benchmarks.compacted_log import BATCHES as COMPACTED_BATCHES
from benchmarks.compacted_log import CompactedLog
from benchmarks.timed_log import PARTITIONS as TIMED_PARTITIONS
from benchmarks.timed_log import TimedLog
from benchmarks.undecoded import Failed, UndecodedClient, check, prepared, read
from oncelog.testing.wire import Wire
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_protocol.messages.list_groups import ListGroupsRequest
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, find_coordinator, new_identity

TOPICS: Final = 10_000
PARTITIONS_OF_A_TOPIC: Final = 2
WIDE: Final = 10_000
TOPICS_OF_A_REQUEST: Final = 500
DELETED: Final = 5_000
IN_TRANSACTION: Final = 5_000
TOPICS_IN_TRANSACTION: Final = IN_TRANSACTION // PARTITIONS_OF_A_TOPIC
COMMITTED: Final = 5_000
GROUPS: Final = 2_000
TRANSACTIONAL_ID: Final = "stalls"
OFFSETS_GROUP: Final = "stalls-offsets"
MUST_DELETE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Load:
    """A load, and its limit (s). `is_always_run`: later loads need it."""

    name: str
    run: Callable[[], None]
    must_seconds: float | None = None
    is_always_run: bool = False


class Loads:
    """The loads on one broker, in the order of their runs."""

    def __init__(self, broker: Oncelog, metrics_port: int) -> None:
        self._broker = broker
        self._metrics_port = metrics_port
        self._names = [f"topic-{number:05}" for number in range(TOPICS)]

    def __iter__(self) -> Iterator[Load]:
        yield Load("nothing", lambda: time.sleep(3))
        timed = TimedLog(self._broker)
        search = f"ListOffsets by time of {TIMED_PARTITIONS} partitions"
        yield Load(f"write {TIMED_PARTITIONS} large batches", timed.write, is_always_run=True)
        yield Load(search, timed.search)
        cold = ColdLog(self._broker)
        yield Load(f"write {MEGABYTES} MB", cold.write, is_always_run=True)
        yield Load(f"read {MEGABYTES} MB that are only on the disk", cold.read)
        yield Load(f"{search} that are only on the disk", timed.search_on_disk)
        yield Load(
            f"write {COMPACTED_BATCHES} large batches to a compacted topic with gzip",
            CompactedLog(self._broker).write,
        )
        yield Load(
            f"create {WIDE} partitions and, meanwhile, one more topic",
            self._wide,
            is_always_run=True,
        )
        yield Load(
            f"delete {WIDE} partitions", lambda: self._delete(["wide", "more"]), is_always_run=True
        )
        yield Load(
            f"create {TOPICS} topics of 2 partitions",
            lambda: self._create_all(self._names),
            is_always_run=True,
        )
        yield from self._questions()
        yield Load(
            f"produce to {IN_TRANSACTION} partitions, {IN_TRANSACTION} a request",
            lambda: self._produce(self._names, NO_IDENTITY),
        )
        yield Load(f"a transaction over {IN_TRANSACTION} partitions", self._transaction)
        yield Load(
            f"OffsetCommit of {COMMITTED} partitions", self._commit_offsets, is_always_run=True
        )
        offsets = [OffsetFetchRequestTopic(topic, [0, 1]) for topic in self._committed]
        yield self._asking(
            f"OffsetFetch of {COMMITTED} partitions",
            OffsetFetchRequest(OFFSETS_GROUP, topics=offsets),
            7,
            3,
        )
        all_offsets = OffsetFetchRequest(OFFSETS_GROUP, topics=None)
        yield self._asking("OffsetFetch of all offsets of the group", all_offsets, 7, 3)
        yield Load(f"{GROUPS} groups join and sync", self._join, is_always_run=True)
        groups = DescribeGroupsRequest(groups=[f"group-{number}" for number in range(GROUPS)])
        yield self._asking(f"DescribeGroups of {GROUPS}", groups, 5, 1)
        yield self._asking("ListGroups", ListGroupsRequest(), 5, 1)
        yield Load("a scrape of /metrics", self._scrape)
        deleted = self._names[:DELETED]
        yield Load(f"delete {DELETED} topics", lambda: self._delete(deleted), MUST_DELETE_S)

    def _questions(self) -> Iterator[Load]:
        """Yield the loads that only read topics."""
        configs = [DescribeConfigsResource(2, name, None) for name in self._names]
        yield self._asking(f"Metadata of {TOPICS} topics", MetadataRequest(topics=None), 12, 3)
        yield self._asking(
            f"DescribeConfigs of {TOPICS} topics", DescribeConfigsRequest(configs), 4, 1
        )
        with_one = [DescribeConfigsResource(2, name, ["retention.ms"]) for name in self._names]
        yield self._asking(
            f"DescribeConfigs of {TOPICS} topics, one setting each",
            DescribeConfigsRequest(with_one),
            4,
            1,
        )
        ends = [ListOffsetsPartition(number, timestamp=-1) for number in (0, 1)]
        offsets = ListOffsetsRequest(
            -1, topics=[ListOffsetsTopic(name, ends) for name in self._names]
        )
        yield self._asking(f"ListOffsets of {2 * TOPICS} partitions", offsets, 6, 3)
        places = [FetchPartition(number, partition_max_bytes=1 << 20) for number in (0, 1)]
        fetch = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=50 << 20,
            session_epoch=0,
            topics=[FetchTopic(topic=name, partitions=places) for name in self._names],
        )
        yield self._asking(f"Fetch of {2 * TOPICS} partitions, a new session", fetch, 12, 3)
        yield self._asking("DescribeLogDirs of all", DescribeLogDirsRequest(topics=None), 4, 3)

    def call(self, request: Any, version: int) -> Any:
        """Return the decoded response."""
        with UndecodedClient(self._broker.address) as client:
            return read(type(request), version, client.ask(prepared(request, version)))

    def _asking(self, name: str, request: Any, version: int, count: int) -> Load:
        """Return the load that sends the request `count` times, one after another."""
        data = prepared(request, version)

        def ask() -> None:
            with UndecodedClient(self._broker.address) as client:
                for _ in range(count):
                    client.ask(data)

        return Load(name, ask)

    def create(self, topics: list[CreatableTopic]) -> None:
        answer = self.call(CreateTopicsRequest(topics), 7)
        check(topic.error_code for topic in answer.topics)

    def _wide(self) -> None:
        """Create a topic of many partitions. One second after this request, without waiting for its
        response, create a small topic."""
        wide = prepared(CreateTopicsRequest([CreatableTopic("wide", WIDE, 1)]), 7)
        with UndecodedClient(self._broker.address) as client:
            client.send(wide)
            time.sleep(1)
            self.create([CreatableTopic("more", 1, 1)])
            client.receive()

    def _create_all(self, names: Sequence[str]) -> None:
        for first in range(0, len(names), TOPICS_OF_A_REQUEST):
            part = names[first : first + TOPICS_OF_A_REQUEST]
            self.create([CreatableTopic(name, PARTITIONS_OF_A_TOPIC, 1) for name in part])

    def _delete(self, names: list[str]) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in names])
        check(response.error_code for response in self.call(request, 6).responses)

    def _produce(self, names: Sequence[str], identity: Identity) -> None:
        """Send one batch to each partition of the first topics."""
        data = [
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(number, a_batch(1, 100, identity))
                    for number in range(PARTITIONS_OF_A_TOPIC)
                ],
            )
            for name in names[:TOPICS_IN_TRANSACTION]
        ]
        request = ProduceRequest(identity.transactional_id, -1, 60_000, data)
        answer = self.call(request, 9)
        check(
            partition_response.error_code
            for topic in answer.responses
            for partition_response in topic.partition_responses
        )

    def _transaction(self) -> None:
        with Wire(self._broker.address) as wire:
            identity = new_identity(wire, TRANSACTIONAL_ID)
        names = self._names[:TOPICS_IN_TRANSACTION]
        added = self.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=TRANSACTIONAL_ID,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name, [*range(PARTITIONS_OF_A_TOPIC)]) for name in names
                ],
            ),
            3,
        )
        check(
            partition.partition_error_code
            for topic in added.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        )
        self._produce(names, identity)
        end = EndTxnRequest(TRANSACTIONAL_ID, identity.producer_id, identity.producer_epoch, True)
        check([self.call(end, 3).error_code])

    @property
    def _committed(self) -> list[str]:
        return self._names[: COMMITTED // PARTITIONS_OF_A_TOPIC]

    def _commit_offsets(self) -> None:
        with Wire(self._broker.address) as wire:
            find_coordinator(wire, OFFSETS_GROUP, 0)
        places = [
            OffsetCommitRequestPartition(number, 1, committed_metadata="")
            for number in range(PARTITIONS_OF_A_TOPIC)
        ]
        topics = [OffsetCommitRequestTopic(name, partitions=places) for name in self._committed]
        request = OffsetCommitRequest(OFFSETS_GROUP, member_id="", topics=topics)
        answer = self.call(request, 8)
        check(partition.error_code for topic in answer.topics for partition in topic.partitions)

    def _join(self) -> None:
        """Join all groups. Each group has one member and an assignment."""
        with Wire(self._broker.address) as wire:
            find_coordinator(wire, "group-0", 0)
            wait_until(lambda: _join(wire, "group-0") is not None, "the coordinator")
            for number in range(1, GROUPS):
                if _join(wire, f"group-{number}") is None:
                    raise Failed(f"group-{number} has no coordinator")

    def _scrape(self) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics") as page:
            page.read()

    def fill(self, records: int) -> None:
        """Create the topics that are missing, so that the broker has the maximum number of
        partitions. Then add records to each."""
        known = {topic.name for topic in self.call(MetadataRequest(topics=None), 12).topics}
        missing = [name for name in self._names if name not in known]
        self._create_all(missing)
        for _ in range(records):
            for first in range(0, TOPICS, TOPICS_IN_TRANSACTION):
                self._produce(self._names[first:], NO_IDENTITY)


def _join(wire: Wire, group: str) -> str | None:
    """Join the group and send its assignment. Return the member id, or None if the group has no
    coordinator yet."""
    protocols = [JoinGroupRequestProtocol("range", b"subscription")]
    joined = wire.call(
        JoinGroupRequest(group, 300_000, 300_000, "", None, "consumer", protocols), 3
    )
    if joined.error_code:
        return None
    assignment = SyncGroupRequestAssignment(joined.member_id, b"assignment")
    synced = wire.call(
        SyncGroupRequest(
            group, joined.generation_id, joined.member_id, None, None, None, [assignment]
        ),
        2,
    )
    check([synced.error_code])
    member: str = joined.member_id
    return member
