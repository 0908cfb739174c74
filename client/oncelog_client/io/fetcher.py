"""The consumer's fetches. The next Fetch to a replica is sent before the application polls for its
records. At most one Fetch is in flight to each broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple

from oncelog_client.core.backoff import Pauses
from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.core.fetched import FetchedPartition, FetchedRecords
from oncelog_client.core.isolation import AbortedRange
from oncelog_client.core.leader_hints import hints_of
from oncelog_client.core.read_replicas import ReadReplicas
from oncelog_client.core.subscription import Assigned, Subscription
from oncelog_client.core.uncommitted import UncommittedRecords
from oncelog_client.errors import (
    KafkaError,
    OffsetOutOfRangeError,
    RetriableError,
    StaleLeaderError,
    error_for,
)
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

from .clock import monotonic_ms
from .cluster import Cluster
from .connections import FETCH_LANE
from .randomness import fraction

log = logging.getLogger(__name__)

# Maximum number of a partition's responses that wait for the application. With two, the broker
# works on the second response while the application decodes the first.
_AHEAD: Final = 2
_FULL_FETCH_EPOCH: Final = -1


class _FetchedPartition(NamedTuple):
    """A partition in a Fetch request. The request reads from `offset` on. `epoch` is the leader
    epoch of the record before `offset`. `jumps` is `Assigned.jumps` when the request was made. A
    response is stale if the partition has jumped since."""

    state: Assigned
    jumps: int
    offset: int
    epoch: int


class _Retry(Enum):
    """The next Fetch of a partition after a response."""

    NONE = auto()
    # The first retry needs no pause, because a new position, or a Fetch to the leader, usually
    # resolves the error.
    AT_ONCE = auto()
    WITH_PAUSE = auto()


class Fetcher:
    """Fetches all assigned partitions with a position. `on_data` is called when there are records,
    an error, or a position to find."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        on_data: Callable[[], None],
    ) -> None:
        self.records = FetchedRecords(subscription)
        self._uncommitted: UncommittedRecords | None = None
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._on_data = on_data
        self._busy: dict[int, frozenset[TopicPartition]] = {}
        self._failure: KafkaError | None = None
        self._pauses: Pauses[TopicPartition] = Pauses(cluster.backoff)
        self._replicas = ReadReplicas(config.metadata_max_age_ms)
        self._connect_ended: dict[int, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0.0
        self._closed = False

    def count_uncommitted(self) -> UncommittedRecords:
        """Return a counter of the uncommitted records that `records` returns from now on."""
        counter = UncommittedRecords(self.records.markers, self._stable_offset)
        if not self._config.read_committed:
            self._uncommitted = counter
        return counter

    def _stable_offset(self, partition: TopicPartition) -> int | None:
        state = self._subscription.get(partition)
        # -1: the partition was assigned again, and has had no response since.
        if state is None or state.last_stable_offset < 0:
            return None
        return state.last_stable_offset

    def raise_failure(self) -> None:
        """Raise the error of a fetch that no retry resolves, if there is one. Each error is raised
        once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Start no further fetches."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._busy = {node: frozenset() for node in self._cluster.metadata.brokers}

    def pump(self) -> None:
        """Start a fetch at every broker that has none in flight, if there is something to fetch."""
        self._pump(monotonic_ms())

    def _pump(self, now_ms: float) -> None:
        if self._failure is not None:
            return
        if self.records.readable_bytes() > self._config.fetch_max_bytes:
            return
        wanted: dict[int, list[_FetchedPartition]] = {}
        for state in self._subscription.assigned():
            if not state.fetchable or self.records.count(state) >= _AHEAD:
                continue
            if self._pauses.until_ms(state.partition) > now_ms:
                continue
            leader = self._cluster.metadata.leader(state.partition)
            if leader is None:
                self._cluster.refresh_soon()
                continue
            brokers = self._cluster.metadata.brokers
            source = self._replicas.source(state.partition, leader, brokers, now_ms)
            if source not in self._busy:
                place = self.records.next_fetch(state)
                assert place is not None
                if state.topic_id is None:
                    state.topic_id = self._topic_id(state)
                wanted.setdefault(source, []).append(_FetchedPartition(state, state.jumps, *place))
        for source, rows in wanted.items():
            self._fetch(source, rows)

    def _fetch(self, source: int, rows: list[_FetchedPartition]) -> None:
        # The same callback for each attempt, so that `ready_connection` calls it once.
        ended = self._connect_ended.setdefault(source, partial(self._connected, source))
        connection = self._cluster.ready_connection(source, FETCH_LANE, ended)
        if connection is None:
            if (refusal := self._cluster.refusal(source)) is not None:
                self._fail(refusal)
            return
        request = self._request(rows)
        timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
        asked = {row.state.partition: row for row in rows}
        try:
            response = connection.start(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            self._failed(asked, error)
            return
        self._busy[source] = frozenset(asked)
        response.add_done_callback(partial(self._responded, source, asked))

    def _connected(self, source: int) -> None:
        """Fetch after a connect to a broker has succeeded or failed. After a failure, read from the
        leader what was read from this follower (AbstractFetch.handleFetchFailure of Java). The
        leader may name the follower again, so a second failure in a row causes a pause. A refused
        identity is an error for the application instead."""
        cluster = self._cluster
        if not cluster.is_connected(source, FETCH_LANE) and cluster.refusal(source) is None:
            self._pause(self._replicas.drop_follower(source), free=1)
        self.pump()

    def _request(self, rows: list[_FetchedPartition]) -> FetchRequest:
        config = self._config
        topics: dict[str, FetchTopic] = {}
        for row in rows:
            name, number = row.state.partition
            info = self._cluster.metadata.partition(row.state.partition)
            topics.setdefault(name, FetchTopic(topic=name)).partitions.append(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=-1 if info is None else info.leader_epoch,
                    fetch_offset=row.offset,
                    last_fetched_epoch=row.epoch,
                    partition_max_bytes=config.max_partition_fetch_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.read_committed),
            session_epoch=_FULL_FETCH_EPOCH,
            topics=list(topics.values()),
            rack_id=config.client_rack,
        )

    # -- responses

    def _responded(
        self,
        source: int,
        asked: dict[TopicPartition, _FetchedPartition],
        pending: asyncio.Future[Any],
    ) -> None:
        self._busy.pop(source, None)
        if pending.cancelled():
            return
        error = pending.exception()
        if error is not None:
            failure = error if isinstance(error, KafkaError) else RetriableError(str(error))
            self._failed(asked, failure)
            return
        response: FetchResponse = pending.result()
        if response.error_code:
            self._failed(asked, error_for(response.error_code))
            return
        self._take(asked, response)

    def _take(
        self, asked: dict[TopicPartition, _FetchedPartition], response: FetchResponse
    ) -> None:
        moved = self._cluster.learn_leaders(hints_of(response))
        # A partition that is missing in the response is retried like a refused partition. The
        # partitions stay in the order of the request. Each draws a random pause, so another order
        # would give them other pauses in a test with a seed.
        refused = dict.fromkeys(asked)
        resolved: list[TopicPartition] = []
        for topic in response.responses:
            for data in topic.partitions:
                row = asked.get(TopicPartition(topic.topic, data.partition_index))
                if row is None:
                    continue
                retry = self._take_partition(row, data)
                if retry is not _Retry.WITH_PAUSE:
                    refused.pop(row.state.partition, None)
                if retry is _Retry.AT_ONCE:
                    resolved.append(row.state.partition)
        # A partition with a new leader is fetched there at once.
        self._pause(partition for partition in refused if partition not in moved)
        self._pause(resolved, free=1)
        self.pump()

    def _take_partition(self, row: _FetchedPartition, data: PartitionData) -> _Retry:
        partition = row.state.partition
        if data.error_code and self._replicas.drop(partition):
            # A follower's log may end before the position. The next Fetch goes to the leader.
            return _Retry.AT_ONCE
        redirected = data.preferred_read_replica >= 0
        known = data.preferred_read_replica in self._cluster.metadata.brokers
        if redirected and known:
            self._replicas.prefer(partition, data.preferred_read_replica, monotonic_ms())
        elif redirected:
            # The leader would name the same follower again at once (AbstractFetch.selectReadReplica
            # of the Java client requests metadata too).
            self._cluster.refresh_soon()
        retry = _Retry.WITH_PAUSE
        if not data.error_code and data.diverging_epoch is None:
            if known or not redirected:
                retry = _Retry.NONE
            # A response that only names a follower is no success: the follower may fail each time.
            if not redirected:
                self._pauses.succeeded(partition)
        elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            retry = _Retry.AT_ONCE
        self._apply(row, data)
        return retry

    def _apply(self, row: _FetchedPartition, data: PartitionData) -> None:
        """Apply the data of a partition, unless its position has jumped since the request, or
        another response to the same offset came first. After a change of the leader, a Fetch to the
        earlier leader may still be in flight."""
        state, offset = row.state, row.offset
        if self._subscription.get(state.partition) is not state or state.jumps != row.jumps:
            return
        place = self.records.next_fetch(state)
        if place is None or place[0] != offset:
            return
        if data.error_code:
            self._refused(state, offset, error_for(data.error_code, str(state.partition)))
        elif data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
            self._diverged(state, offset, data.diverging_epoch)
        else:
            self._accept(state, offset, data)

    def _accept(self, state: Assigned, offset: int, data: PartitionData) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if not data.records:
            return
        aborted = [
            AbortedRange(row.first_offset, row.producer_id)
            for row in data.aborted_transactions or ()
        ]
        part = FetchedPartition(
            state.partition,
            state.jumps,
            offset,
            data.records,
            aborted,
            read_committed=self._config.read_committed,
            check_crcs=self._config.check_crcs,
            max_batch_bytes=self._config.max_batch_bytes,
            uncommitted=self._uncommitted,
        )
        self.records.add(part)
        self._on_data()

    def _refused(self, state: Assigned, offset: int, error: KafkaError) -> None:
        if isinstance(error, StaleLeaderError):
            self._cluster.refresh_soon()
        elif isinstance(error, OffsetOutOfRangeError):
            if self.records.count(state):
                # The application first gets the records that were fetched earlier. Then this
                # offset is requested again.
                return
            if self._config.auto_offset_reset == "none":
                message = f"{state.partition} at {offset}"
                self._fail(OffsetOutOfRangeError(message))
                return
            state.jump(None)
            state.reset = self._config.auto_offset_reset
            self._on_data()
        elif not isinstance(error, RetriableError):
            self._fail(error)

    def _diverged(self, state: Assigned, offset: int, at: EpochEndOffset) -> None:
        """Handle a log that was truncated below `offset`, and may have grown beyond it since
        (KIP-320). The log then has other records below `offset` than the application has read. As
        in the Java client, continue at the offset from which the log differs. With
        auto_offset_reset "none" the application gets an error instead.

        If the topic was deleted and created again, no record of the new topic was read, and the
        position is out of the range of the new log."""
        if offset != state.position:
            # Some records below `offset` were fetched ahead, and the application has not got them
            # yet. The jump drops them, and the next fetch starts at the position.
            state.jump(state.position, state.leader_epoch)
            return
        if at.end_offset >= offset:
            state.jump(offset, at.epoch)
            self._on_data()
            return
        state.checking_topic = True
        self._cluster.spawn(self._check_topic(state, state.jumps, offset, at))

    async def _check_topic(
        self, state: Assigned, jumps: int, offset: int, at: EpochEndOffset
    ) -> None:
        """Move the position of a log that was truncated below `offset`, or belongs to a new topic
        of the same name. Without fresh metadata, the next fetch starts another check."""
        try:
            await self._cluster.refresh()
        except KafkaError:
            return
        finally:
            state.checking_topic = False
            self._on_data()
        topic_id = self._topic_id(state)
        if self._subscription.get(state.partition) is not state or state.jumps != jumps:
            return
        if topic_id is None:
            self._cluster.refresh_soon()
        elif state.topic_id in (None, topic_id):
            self._truncated(state, offset, at)
        else:
            log.warning("%s: the topic was deleted and created again", state.partition)
            self._refused(state, offset, OffsetOutOfRangeError(str(state.partition)))
        self.pump()

    def _topic_id(self, state: Assigned) -> bytes | None:
        info = self._cluster.metadata.topics.get(state.partition.topic)
        return None if info is None or not info.usable else info.topic_id

    def _truncated(self, state: Assigned, offset: int, at: EpochEndOffset) -> None:
        message = (
            f"{state.partition}: the log has lost the records read before the position {offset} in "
            f"leader epoch {state.leader_epoch}; it differs from offset {at.end_offset} on"
        )
        if self._config.auto_offset_reset == "none":
            self._fail(OffsetOutOfRangeError(message))
            return
        log.warning("%s, so reading continues there", message)
        state.jump(at.end_offset, at.epoch)
        self._on_data()

    def _fail(self, error: KafkaError) -> None:
        self._failure = error
        self._on_data()

    def _failed(self, asked: Collection[TopicPartition], error: KafkaError) -> None:
        self._cluster.refresh_soon()
        for partition in asked:
            self._replicas.drop(partition)
        if not isinstance(error, RetriableError):
            self._fail(error)
        self._pause(asked)

    def _pause(self, partitions: Iterable[TopicPartition], *, free: int = 0) -> None:
        """Pause the partitions. The pause of a partition grows with each failure in a row. The
        first `free` failures cause no pause."""
        now_ms = monotonic_ms()
        for partition in partitions:
            self._resume_at(self._pauses.failed(partition, now_ms, fraction(), free=free), now_ms)

    def _resume_at(self, until_ms: float, now_ms: float) -> None:
        """Fetch again at `until_ms`, or earlier if an earlier pause ends first."""
        if self._closed:
            return
        if self._timer is not None:
            if self._timer_ms <= until_ms:
                return
            self._timer.cancel()
        delay_s = max(until_ms - now_ms, 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._resume)
        self._timer_ms = until_ms

    def _resume(self) -> None:
        self._timer = None
        # The fetches and the next timer use one time. With two readings of the clock, a pause that
        # ends between them would cause neither a fetch nor a timer.
        now_ms = monotonic_ms()
        self._pump(now_ms)
        until_ms = self._pauses.next_ms(now_ms)
        if until_ms is not None:
            self._resume_at(until_ms, now_ms)
