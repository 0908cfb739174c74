"""Fetch partitions from their leaders: one connection, one session and one request in flight for
each leader (Kafka's ReplicaFetcherManager with one fetcher thread)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from oncelog_protocol.apis import ApiKey, api_of
from oncelog_protocol.messages.fetch import FetchResponse
from oncelog_protocol.messages.list_offsets import ListOffsetsResponse
from oncelog_server.deferred import Deferred
from oncelog_server.fetcher.leader_fetcher import (
    FetcherRequest,
    FetchSettings,
    LeaderFetcher,
    Notice,
)
from oncelog_server.links.broker_link import BrokerLinks
from oncelog_server.partition.follower_log import FollowerLog
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.waiting import raise_all
from oncelog_server.quotas.replication import ReplicationQuota
from oncelog_server.replica.traffic import ReplicationTraffic
from oncelog_server.slices import SMALL, Slices, Steps, at_its_end
from oncelog_server.storage.files import Files, StorageError
from oncelog_server.timers import Timer, Timers
from oncelog_server.topic_partition import TopicPartition

log = structlog.get_logger("oncelog.replication")

# Brokers speak the same versions.
VERSIONS: Final[dict[int, int]] = {ApiKey.FETCH: 18, ApiKey.LIST_OFFSETS: 11}
# The same event with the same reason is logged at most once in this time.
REPEAT_MS: Final = 60_000


class FetcherParts(msgspec.Struct, frozen=True):
    """The parts of a broker that its fetchers use.

    `checkpoint` writes the checkpoints of all logs. `synced` is the disk if acknowledged records
    must be on disk (oncelog.flush.on.ack), else None. `throttle` limits what is fetched, `traffic`
    counts it.
    """

    broker_id: int
    broker_epoch: Callable[[], int]
    settings: FetchSettings
    links: BrokerLinks
    timers: Timers
    slices: Slices
    wall_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]
    checkpoint: Callable[[], Deferred[StorageError | None]]
    synced: Files | None
    throttle: ReplicationQuota | None = None
    traffic: ReplicationTraffic | None = None


class ReplicaFetchers:
    """The fetchers of this broker, by leader. They exist while there are partitions to follow."""

    def __init__(self, parts: FetcherParts) -> None:
        self._parts = parts
        self._by_leader: dict[int, FetcherLink] = {}
        # The leader from which a partition is fetched.
        self._leaders: dict[TopicPartition, tuple[int, Partition]] = {}
        self._stopped = False

    def __iter__(self) -> Iterator[LeaderFetcher]:
        return (link.fetcher for link in self._by_leader.values())

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader, or stop fetching it if it has no leader. An offline
        partition is not fetched: its log may lack records that were appended."""
        name = partition.topic_partition
        leader_id = partition.leader_id
        before = self._leaders.get(name)
        if before is not None and (before[0] != leader_id or before[1] is not partition):
            self.forget(name)
        if leader_id < 0 or self._stopped or partition.offline is not None:
            return
        self._leaders[name] = leader_id, partition
        link = self._by_leader.get(leader_id)
        if link is None:
            link = self._by_leader[leader_id] = FetcherLink(leader_id, self._parts)
        link.follow(partition)

    def forget(self, name: TopicPartition) -> None:
        """Stop fetching a partition, if it is fetched."""
        leader_id, partition = self._leaders.pop(name, (-1, None))
        link = self._by_leader.get(leader_id)
        if link is None or partition is None:
            return
        link.fetcher.forget(partition)
        if not len(link.fetcher):
            link.stop()
            del self._by_leader[leader_id]

    def stop(self) -> None:
        self._stopped = True
        for link in self._by_leader.values():
            link.stop()
        self._by_leader.clear()
        self._leaders.clear()
        self._parts.links.close()

    @property
    def max_lag(self) -> int:
        """Return the largest lag of a followed partition in records, 0 without partitions."""
        return max((link.fetcher.max_lag for link in self._by_leader.values()), default=0)

    def lag_of(self, name: TopicPartition) -> int:
        """Return the number of committed records that this broker does not have of a partition,
        UNKNOWN before the leader's first response. It is 0 for a partition that is not followed."""
        leader_id, partition = self._leaders.get(name, (-1, None))
        link = self._by_leader.get(leader_id)
        return 0 if link is None or partition is None else link.fetcher.lag_of(partition)


class FetcherLink:
    """Drives the fetcher of one leader. The next request leaves as soon as the records of the last
    response are appended. With `synced`, the logs of its partitions must also be on disk."""

    def __init__(self, leader_id: int, parts: FetcherParts) -> None:
        self._leader_id = leader_id
        self._parts = parts
        self.fetcher = LeaderFetcher(
            parts.broker_id,
            parts.broker_epoch,
            parts.settings,
            wall_ms=parts.wall_ms,
            monotonic_ms=parts.monotonic_ms,
            throttle=parts.throttle,
            traffic=parts.traffic,
            syncs=parts.synced is not None,
        )
        # True while a request, a response, a checkpoint or a flush is under way.
        self._is_busy = False
        self._is_scheduled = False
        self._is_stopped = False
        self._timer: Timer | None = None
        self._logged_ms: dict[tuple[str, str], int] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch a partition. A change of many partitions leads to one request."""
        self.fetcher.follow(FollowerLog(partition))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._parts.timers.call_soon(self._soon)

    def stop(self) -> None:
        self._is_stopped = True
        for partition in self.fetcher.partitions():
            self.fetcher.forget(partition)
        if self._timer is not None:
            self._timer.cancel()

    def _soon(self) -> None:
        self._is_scheduled = False
        self._go_on()

    def _go_on(self) -> None:
        """Take the next step, if none is under way."""
        self._log_notices()
        if self._is_busy or self._is_stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.fetcher.has_cuts:
            self._begin_cuts()
            return
        request = self.fetcher.next()
        if request is None:
            if unsynced := self.fetcher.unsynced():
                self._sync(unsynced)
            else:
                self._wait()
            return
        self._is_busy = True
        link = self._parts.links.to(self._leader_id)
        if link is None:
            self._parts.timers.call_soon(lambda: self._answered(request, None))
            return
        version = VERSIONS[api_of(type(request)).key]
        link.send(request, version, lambda response: self._answered(request, response))

    def _wait(self) -> None:
        wake_ms = self.fetcher.wake_ms()
        if wake_ms is not None:
            delay_ms = max(wake_ms - self._parts.monotonic_ms(), 1)
            self._timer = self._parts.timers.call_later(delay_ms, self._go_on)

    def _answered(self, request: FetcherRequest, response: Any | None) -> None:
        if self._is_stopped:
            return
        is_small = _size(response) <= SMALL
        self._run(self.fetcher.take(request, response), self._done, in_slices=not is_small)

    def _run(self, steps: Steps[None], then: Callable[[], None], *, in_slices: bool) -> None:
        """Run the steps, and then call `then`."""
        try:
            result = self._parts.slices.run(steps) if in_slices else at_its_end(steps)
        except Exception as failure:
            self._failed(failure)
            return
        if isinstance(result, Deferred):
            result.on_complete(lambda _: then())
            result.on_abandon(lambda: self._failed(result.failure))
        else:
            then()

    def _failed(self, failure: Exception | None) -> None:
        """Begin the session again after the back-off, because a defect has interrupted it."""
        self.fetcher.lost()
        log.error("fetch failed", leader=self._leader_id, exc_info=failure)
        self._done()

    def _sync(self, partitions: list[Partition]) -> None:
        """Make the logs durable. A failed sync takes its partition offline."""
        files = self._parts.synced
        assert files is not None
        self._is_busy = True
        flushes = [(partition, partition.begin_flush()) for partition in partitions]
        unsettled = len(flushes)

        def settled(partition: Partition, _: bool) -> None:
            nonlocal unsettled
            unsettled -= 1
            try:
                # Another sync of the log may have failed, such as that of the former leader.
                if partition.offline is None:
                    partition.recompute_high_watermark()  # this broker may be the leader by now
                else:
                    self.fetcher.forget(partition)  # or the next fetch would acknowledge it
            finally:
                if not unsettled:
                    self.fetcher.synced()
                    self._done()

        def synced(error: StorageError | None) -> None:
            raised: list[Exception] = []
            for partition, flush in flushes:
                # An exception of one partition's callbacks does not affect the others.
                try:
                    try:
                        partition.finish_flush(flush, error)
                    finally:
                        partition.flushed().on_complete(partial(settled, partition))
                except Exception as failure:
                    raised.append(failure)
            raise_all(raised)

        files.sync([file for _, flush in flushes for file in flush.files], synced)

    def _done(self) -> None:
        self._is_busy = False
        self._go_on()

    # --- cuts

    def _begin_cuts(self) -> None:
        self._is_busy = True
        if self.fetcher.prepare_cuts():
            self._checkpoint()
        else:
            self._make_cuts()

    def _checkpoint(self) -> None:
        written = self._parts.checkpoint()
        written.on_complete(self._checkpointed)
        written.on_abandon(lambda: self._not_written(written.failure))

    def _not_written(self, failure: Exception | None) -> None:
        self.fetcher.delay_cuts()
        self._failed(failure)

    def _checkpointed(self, error: StorageError | None) -> None:
        if self._is_stopped:
            return
        if error is not None:
            self.fetcher.delay_cuts()
            self._done()
        elif self.fetcher.prepare_cuts():
            # A flush that began before the checkpoint has raised a recovery point again.
            self._checkpoint()
        else:
            self._make_cuts()

    def _make_cuts(self) -> None:
        # A single cut may have to replay a part of the log.
        self._run(self.fetcher.make_cuts(), self._done, in_slices=True)

    # --- log

    def _log_notices(self) -> None:
        notices, self.fetcher.notices = self.fetcher.notices, []
        for notice in notices:
            self._log(notice)

    def _log(self, notice: Notice) -> None:
        now_ms = self._parts.monotonic_ms()
        key = notice.event, notice.reason
        if now_ms - self._logged_ms.get(key, -REPEAT_MS) < REPEAT_MS:
            return
        if len(self._logged_ms) > SMALL:
            self._logged_ms.clear()
        self._logged_ms[key] = now_ms
        name = None if notice.partition is None else str(notice.partition)
        log.warning(notice.event, partition=name, leader=self._leader_id, reason=notice.reason)


def _size(response: FetchResponse | ListOffsetsResponse | None) -> int:
    """Return the number of partitions in a response."""
    if isinstance(response, FetchResponse):
        return sum(len(topic.partitions) for topic in response.responses)
    return 0 if response is None else sum(len(topic.partitions) for topic in response.topics)
