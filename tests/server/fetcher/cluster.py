"""A leader and its followers in memory: real partitions, real fetch sessions and fetchers, without
a network. A test decides which message arrives when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog_protocol.records.batch import read_header, split_batches
from oncelog_server.fetcher.leader_fetcher import FetcherRequest, FetchSettings, LeaderFetcher
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.read import PartitionResult, count_throttled, read_partitions
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.log.config import LogConfig
from oncelog_server.log.log import PartitionLog
from oncelog_server.partition.follower_fetch import FetchingFollower
from oncelog_server.partition.follower_log import FollowerLog
from oncelog_server.partition.group_flush import GroupFlush
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.quotas.replication import ReplicationQuota
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import ANONYMOUS
from oncelog_server.slices import at_its_end
from oncelog_server.storage.layout import partition_directory
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import NOW_MS
from tests.server.storage.memory_files import MemoryFiles

TOPIC_ID = b"t" * 16
TOPIC = "topic"
SETTINGS = FetchSettings(500, 1, 1 << 20, 1 << 20, 1_000)
FETCH_VERSION = 18


class Node:
    """A broker with one disk, its partitions, and a clock that a test moves."""

    def __init__(
        self, broker_id: int, count: int = 1, *, flush_on_ack: bool = False, **config: Any
    ) -> None:
        self.broker_id = broker_id
        self.epoch = 1
        self.now_ms = 1_000
        self.files = MemoryFiles()
        self.config = LogConfig(**config)
        self.count = count
        self.flush_on_ack = flush_on_ack
        self.checkpoints: dict[int, tuple[int, int, int]] = {}
        # The throttles of what this node sends and fetches, None without them.
        self.sending: ReplicationQuota | None = None
        self.fetching: ReplicationQuota | None = None
        self.settings = SETTINGS
        self.start()

    def start(self, *, is_new: bool = True) -> None:
        """Open the partitions, as a new process does after a kill."""
        flush = GroupFlush(self.files)
        self.partitions = [
            Partition(
                TopicPartition(TOPIC, index),
                TOPIC_ID,
                self._open(index, is_new=is_new),
                flush.request,
                flush_on_ack=self.flush_on_ack,
                high_watermark=self.checkpoints.get(index, (0, 0, 0))[2],
            )
            for index in range(self.count)
        ]
        ids = iter(range(1, 1_000_000))
        self.sessions = FetchSessions(10, lambda: next(ids))
        self.fetcher = self.new_fetcher()

    def _open(self, index: int, *, is_new: bool) -> PartitionLog:
        point, start, _ = self.checkpoints.get(index, (0, 0, 0))
        return PartitionLog.open(
            self.files,
            partition_directory(TOPIC, index),
            self.config,
            topic_id=TOPIC_ID,
            now_ms=NOW_MS,
            clean_shutdown=is_new,
            recovery_point=point,
            log_start_offset=start,
        )

    def new_fetcher(self) -> LeaderFetcher:
        return LeaderFetcher(
            self.broker_id,
            lambda: self.epoch,
            self.settings,
            wall_ms=lambda: NOW_MS,
            monotonic_ms=lambda: self.now_ms,
            throttle=self.fetching,
        )

    def checkpoint(self) -> None:
        for index, partition in enumerate(self.partitions):
            self.checkpoints[index] = (
                partition.recovery_point,
                partition.log_start_offset,
                partition.high_watermark,
            )

    def kill(self) -> None:
        """Kill the process, and start another one with the checkpoints as last written."""
        self.files = self.files.after_kill()
        self.epoch += 1
        self.start(is_new=False)

    def lead(self, epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...]) -> None:
        for partition in self.partitions:
            partition.become_leader(self.broker_id, epoch, isr, replicas)

    def follow(self, leader_id: int, epoch: int) -> None:
        self.fetcher = self.new_fetcher()
        for partition in self.partitions:
            partition.become_follower(leader_id, epoch)
            self.fetcher.follow(FollowerLog(partition))

    # --- as a leader

    def answer(self, request: FetcherRequest, follower: Node) -> Any:
        """Return the response to a follower's request, as it arrives there."""
        if isinstance(request, ListOffsetsRequest):
            return self._offsets(request)
        request = decode(FetchRequest, FETCH_VERSION, bytearray(encode(request, FETCH_VERSION)))
        response = self._fetched(request, follower)
        return decode(FetchResponse, FETCH_VERSION, bytearray(encode(response, FETCH_VERSION)))

    def _fetched(self, request: FetchRequest, follower: Node) -> FetchResponse:
        wanted = [
            FetchedPartition(
                PartitionKey(topic.topic_id, row.partition),
                row.fetch_offset,
                row.partition_max_bytes,
                row.current_leader_epoch,
                row.last_fetched_epoch,
                row.high_watermark,
            )
            for topic in request.topics
            for row in topic.partitions
        ]
        forgotten = [
            PartitionKey(topic.topic_id, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ]
        assert request.replica_state is not None
        try:
            scope = self.sessions.scope(
                request.session_id,
                request.session_epoch,
                wanted,
                forgotten,
                principal=ANONYMOUS,
                uses_topic_ids=True,
                now_ms=self.now_ms,
                replica_id=follower.broker_id,
            )
        except Refused as refused:
            return FetchResponse(error_code=refused.code)
        state = request.replica_state
        found = at_its_end(
            read_partitions(
                scope.partitions,
                lambda key: self.partitions[key.partition],
                Isolation.READ_UNCOMMITTED,
                request.max_bytes,
                FetchingFollower(
                    state.replica_id,
                    state.replica_epoch,
                    follower.epoch,
                    self.now_ms,
                    throttle=self.sending,
                ),
                scope.unread,
            )
        )
        if self.sending is not None:
            count_throttled(self.sending, found)
        rows = [row for row in found.partitions if not scope.is_incremental or row.is_news()]
        for row in rows:
            row.mark_sent()
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[_data(row) for row in rows])
        return FetchResponse(session_id=scope.session_id, responses=[topic])

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for wanted in topic.partitions:
                partition = self.partitions[wanted.partition_index]
                try:
                    partition.check_leader(wanted.current_leader_epoch)
                except Refused as refused:
                    rows.append(ListOffsetsPartitionResponse(wanted.partition_index, refused.code))
                    continue
                is_start = wanted.timestamp == -2
                offset = partition.log_start_offset if is_start else partition.log_end_offset
                rows.append(ListOffsetsPartitionResponse(wanted.partition_index, offset=offset))
            topics.append(ListOffsetsTopicResponse(topic.name, rows))
        return ListOffsetsResponse(topics=topics)

    # --- as a follower

    def take(self, request: FetcherRequest, response: Any) -> None:
        at_its_end(self.fetcher.take(request, response))
        self.cut()

    def cut(self) -> None:
        """Make the cuts that the last response led to, with their checkpoint."""
        if self.fetcher.has_cuts:
            if self.fetcher.prepare_cuts():
                self.checkpoint()
            at_its_end(self.fetcher.make_cuts())


def _data(row: PartitionResult) -> PartitionData:
    read = row.read
    data = PartitionData(row.wanted.key.partition, row.code, -1, records=b"")
    if read is not None:
        data.high_watermark = read.high_watermark
        data.last_stable_offset = read.last_stable_offset
        data.log_start_offset = read.log_start_offset
        data.records = b"" if read.records is None else read.records.read()
    if row.diverging is not None:
        data.diverging_epoch = EpochEndOffset(*row.diverging)
    return data


def exchange(leader: Node, follower: Node) -> FetcherRequest | None:
    """Let a request and its response arrive. Return the request, None if there is none."""
    request = follower.fetcher.next()
    if request is not None:
        follower.take(request, leader.answer(request, follower))
    return request


def until(leader: Node, follower: Node, holds: Callable[[], bool], most: int = 50) -> None:
    """Exchange messages until a condition holds."""
    for _ in range(most):
        if holds():
            return
        exchange(leader, follower)
        follower.now_ms += 100
        leader.now_ms += 100
    raise AssertionError("the follower does not get there")


def are_equal(leader: Node, follower: Node) -> bool:
    """Return True if the follower has all records of the leader, and both know that all of them are
    committed."""
    return all(
        led.log_start_offset == copy.log_start_offset
        and {led.log_end_offset, led.high_watermark, copy.log_end_offset, copy.high_watermark}
        == {led.log_end_offset}
        for led, copy in zip(leader.partitions, follower.partitions, strict=True)
    )


def batches(node: Node, index: int = 0) -> list[bytes]:
    """Return the batches of a partition's log from its start."""
    prefix = partition_directory(TOPIC, index)
    found = []
    for path in sorted(node.files.nodes):
        if path.startswith(prefix) and path.endswith(".log"):
            data = bytes(node.files.nodes[path].data)
            found += [data[start : start + each.size] for start, each in split_batches(data)]
    return found


def places(node: Node, index: int = 0) -> list[tuple[int, int]]:
    """Return (leader epoch, last offset) of each batch."""
    headers = [read_header(data) for data in batches(node, index)]
    return [(header.partition_leader_epoch, header.last_offset) for header in headers]
