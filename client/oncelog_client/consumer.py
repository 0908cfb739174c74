"""The consumer. It reads the partitions that its group assigns, or partitions of the caller's
choice, in either isolation level."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, Unpack

from .connect_failures import ConnectFailure
from .core import arguments
from .core.consumer_config import ConsumerConfig, ConsumerSettings, consumer_config
from .core.offset_reset import OffsetReset
from .core.subscription import Mode, Subscription, TopicPattern
from .core.uncommitted import UncommittedRecords
from .errors import (
    ClosedError,
    IllegalStateError,
    RecordDeserializationError,
    RetriableError,
    TimedOutError,
)
from .io.auto_commit import AutoCommit
from .io.clock import monotonic_ms
from .io.cluster import Cluster
from .io.fetcher import Fetcher
from .io.group_session import GroupSession, RebalanceListener
from .io.log_offsets import EARLIEST, LATEST, list_offsets
from .io.positions import Positions
from .payloads import Deserialization, FromBytes
from .values import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    K,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
    V,
)


class Consumer(Generic[K, V]):
    """Reads records. Use as `async with Consumer(servers, group_id=...) as consumer`.

    Settings are those of Kafka's consumer in snake case. `help(ConsumerSettings)` of
    `oncelog_client.config` describes each. Raises ConfigError for settings that exclude each other.
    Only one task at a time may use a consumer, except for `close`.

    Keys and values are bytes unless there are deserializers (`oncelog_client.serialization`).
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        key_deserializer: FromBytes[K] | None = None,
        value_deserializer: FromBytes[V] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self.config: ConsumerConfig = consumer_config(bootstrap_servers, settings)
        self._deserialization = Deserialization(key_deserializer, value_deserializer)
        self._cluster = Cluster(self.config, auto_create=self.config.allow_auto_create_topics)
        self._subscription = Subscription()
        self._cluster.needed_topics = self._subscription.needed_topics
        self._fetcher = Fetcher(self._cluster, self.config, self._subscription, self._wake)
        self._positions = Positions(self._cluster, self.config, self._subscription, self._wake)
        self._auto_commit = AutoCommit(self._cluster, self.config, self._positions)
        self._group: GroupSession | None = None
        self._awake = asyncio.Event()
        self._opened = False
        self._closed = False

    # -- life

    async def start(self, *, timeout_ms: float | None = None, fail_fast: bool = False) -> None:
        """Connect. Raises RetriableError if no bootstrap server is reached in `timeout_ms` (by
        default twice `request_timeout_ms`). The error's `failures` have the reason for each
        address.

        With `fail_fast` the call raises ConnectError as soon as every bootstrap server has refused,
        instead of waiting for a broker that is starting.
        """
        await self._cluster.start(timeout_ms=timeout_ms, fail_fast=fail_fast)
        self._opened = True
        self._cluster.on_metadata.append(self._fetcher.pump)
        if self.config.group_id is not None:
            self._group = GroupSession(
                self._cluster,
                self.config,
                self._subscription,
                wake=self._wake,
                commit=self._auto_commit.finish,
            )
            self._positions.membership = self._group.membership
            self._cluster.on_metadata.append(self._group.metadata_changed)
            self._cluster.spawn(self._group.heartbeats())
        self._auto_commit.start()

    async def close(self, timeout_ms: float = 30_000) -> None:
        """Commit (with `enable_auto_commit`), give the partitions back, leave the group,
        disconnect. A cancelled call leaves the group within two seconds, and disconnects."""
        if self._closed or not self._opened:
            return
        self._cluster.check_loop()
        self._closed = True
        self._wake()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._leave("the consumer was closed")
        finally:
            self._fetcher.close()
            await self._cluster.close()

    @property
    def is_closed(self) -> bool:
        """Return True after `close`."""
        return self._closed

    @property
    def outage(self) -> tuple[ConnectFailure, ...]:
        """Return the reason why each broker cannot be reached. The result is empty while a broker
        is connected."""
        return self._cluster.outage

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _wake(self) -> None:
        self._awake.set()

    def _check_open(self) -> None:
        self._cluster.check_loop()
        if self._closed or self._cluster.is_closed:
            raise ClosedError("the consumer is closed: make a new one")
        if not self._opened:
            raise ClosedError("the consumer is not open: call start(), or use `async with`")

    # -- what to read

    async def subscribe(
        self,
        topics: Iterable[str] | str | TopicPattern,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe, as a member of the group, to topics or to a compiled pattern. The pattern must
        match the whole name of a topic.

        Replace the earlier subscription and its listener. A plain string is one topic. `poll` joins
        the group. Raises TypeError or ValueError for a value that is no name, and IllegalStateError
        if the earlier subscription is of another kind: the earlier subscription and listener stay.
        A call that is cancelled later, or raises a KafkaError of the brokers, has changed the
        subscription.
        """
        self._check_open()
        if self._group is None:
            raise IllegalStateError(
                "subscribe needs a consumer group: pass group_id=… to Consumer, or use assign()"
            )
        if not isinstance(listener, RebalanceListener | None):
            raise TypeError(f"listener is {type(listener).__name__}, not RebalanceListener")
        if isinstance(topics, TopicPattern):
            topics.fullmatch("")  # A pattern of bytes raises TypeError.
            self._subscription.subscribe_pattern(topics)
            self._cluster.all_topics = True
        else:
            names = _topic_names(topics)
            if not names:
                await self.unsubscribe()
                return
            self._subscription.subscribe_topics(names)
        self._cluster.forget_topics()
        # Before the first wait, so that a cancelled call is a complete change of the subscription.
        self._group.subscribed(listener or RebalanceListener())
        await self._refresh_subscribed()

    async def _refresh_subscribed(self) -> None:
        """Find the topics of a new subscription. If the call is cancelled or fails, they are found
        in the background. Raises KafkaError."""
        try:
            if self._subscription.mode is Mode.PATTERN:
                await self._cluster.retry(self._cluster.refresh, self.config.default_api_timeout_ms)
            else:
                # A missing topic is no error here, because it is created, or the consumer waits
                # for it.
                with suppress(RetriableError):
                    await self._cluster.refresh()
        except BaseException:
            self._cluster.refresh_soon()
            raise

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without assignment by a group. With `enable_auto_commit`,
        the positions are committed first if the consumer loses a partition: no later commit has
        its position (KafkaConsumer.assign of Java)."""
        self._check_open()
        chosen = arguments.topic_partitions("partitions", partitions)
        manual = self._subscription.mode is Mode.MANUAL
        if manual and not self._subscription.partitions <= frozenset(chosen):
            await self._auto_commit.finish()
        self._subscription.assign(chosen)
        self._cluster.forget_topics()
        with suppress(RetriableError):
            await self._cluster.refresh()
        self._fetcher.pump()

    async def unsubscribe(self) -> None:
        """Remove the subscription and leave the group. A cancelled call does both, without waiting
        for the commit, and so does a call that raises the exception of a listener."""
        self._check_open()
        try:
            await self._leave("the consumer unsubscribed")
        finally:
            self._subscription.unsubscribe()
            self._cluster.all_topics = False
            self._cluster.forget_topics()

    async def _leave(self, reason: str) -> None:
        if self._group is not None and self._subscription.uses_group:
            await self._group.leave(reason)
        elif self._subscription.mode is Mode.MANUAL:
            await self._auto_commit.finish()

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to."""
        return self._subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions this consumer has now."""
        return self._subscription.partitions

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the member and generation that the polled records belong to, for
        `Producer.send_offsets_to_transaction` (KIP-447). If the group has removed the member since,
        the broker refuses the offsets."""
        if self._group is None:
            raise IllegalStateError("group_metadata needs a group: pass group_id=… to Consumer")
        return self._group.membership.metadata

    # -- records

    async def poll(
        self, timeout_ms: float = 0, *, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """Return the next records, at most `max_poll_records` (or `max_records`), as soon as there
        are any. Return an empty list if there are none within `timeout_ms`. Rebalances run inside
        this call, and may take longer than `timeout_ms`.

        Raises the errors of listeners, AuthorizationError, OffsetOutOfRangeError or
        NoOffsetForPartitionError under `auto_offset_reset="none"`, FencedInstanceError, and
        KafkaError with CORRUPT_MESSAGE for a broken batch, or RecordDeserializationError.
        """
        limit = self.config.max_poll_records
        if max_records is not None:
            limit = arguments.whole_number("max_records", max_records)
            if limit < 1:
                raise ValueError(f"max_records is {limit}: Value must be at least 1")
        deadline_ms = monotonic_ms() + arguments.number("timeout_ms", timeout_ms)
        return self._deserialized(await self._poll(deadline_ms, limit))

    def _deserialized(self, records: list[ConsumerRecord]) -> list[ConsumerRecord[K, V]]:
        """Return the records before the first record that a deserializer refuses, and move the
        positions back to the other records. Raises RecordDeserializationError at the first
        record."""
        found: list[Any] = records
        if not self._deserialization.is_needed:
            return found
        found = []
        for number, record in enumerate(records):
            try:
                found.append(self._deserialization.of(record))
            except RecordDeserializationError:
                self.put_back(records[number:])
                if not found:
                    raise
                break
        return found

    def put_back(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Move the positions back to these records, so that `poll` returns them again. Do nothing
        for a partition that is no longer assigned."""
        for record in reversed(records):
            if record.topic_partition in self._subscription.partitions:
                state = self._subscription[record.topic_partition]
                state.jump(record.offset, record.leader_epoch)

    async def _poll(self, deadline_ms: float, limit: int) -> list[ConsumerRecord]:
        while True:
            self._check_open()
            if self._subscription.mode is Mode.NONE:
                raise IllegalStateError("nothing to read: call subscribe() or assign() first")
            self._awake.clear()
            await self._background_tasks()
            records = self._fetcher.records.take(limit)
            self._fetcher.pump()
            if records:
                return records
            self._fetcher.raise_failure()
            now_ms = monotonic_ms()
            if now_ms >= deadline_ms:
                # Give background tasks a turn of the loop. Otherwise polls with timeout 0 would
                # never see their results.
                await asyncio.sleep(0)
                return []
            await self._wait(min(deadline_ms, self._auto_commit.due_ms) - now_ms)

    async def _wait(self, wait_ms: float) -> None:
        """Wait for `_wake`, but not longer than `wait_ms`. A group sees this wait as polling."""
        group = self._group if self._subscription.uses_group else None
        if group is not None:
            group.membership.polled(monotonic_ms(), waits=True)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait_ms == math.inf else max(wait_ms, 0) / 1000):
                    await self._awake.wait()
        finally:
            if group is not None:
                group.membership.polled(monotonic_ms())

    async def _background_tasks(self) -> None:
        now_ms = monotonic_ms()
        if self._group is not None and self._subscription.uses_group:
            self._group.membership.polled(now_ms)
            if self._group.needs_attention:
                await self._group.poll()
        self._auto_commit.commit_if_due(now_ms)
        self._positions.raise_failure()
        self._positions.find_soon()

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Yield each record, and wait for the next, until the consumer is closed. The position
        moves with each record."""
        while not self._closed:
            group = self._group if self._subscription.uses_group else None
            quiet = (
                (group is None or not group.needs_attention)
                and monotonic_ms() < self._auto_commit.due_ms
                and self._subscription.mode is not Mode.NONE
            )
            records = self._fetcher.records.take(1) if quiet else []
            if records:
                if group is not None:
                    group.membership.polled(monotonic_ms())
            else:
                try:
                    records = await self._poll(math.inf, 1)
                except ClosedError:
                    if not self._closed:
                        raise
                    return
            (record,) = self._deserialized(records)
            yield record

    # -- positions

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Move the position: the next poll reads from `offset` on."""
        self._check_open()
        to = arguments.offset_and_metadata(partition, offset)
        state = self._subscription[partition]
        state.jump(to.offset, to.known_epoch)
        state.topic_id = None

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset of the partitions. Without arguments, move in all assigned
        partitions. If some of the partitions are offline, or have a leader that does not respond
        within a second, `poll` moves in these when they have leaders. Until then `position` of such
        a partition waits. Raises RetriableError after `default_api_timeout_ms` if none can be
        moved."""
        await self._reset(partitions, "earliest")

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end of the partitions. Under read_committed the end is the last stable
        offset. Offline partitions and errors are those of `seek_to_beginning`."""
        await self._reset(partitions, "latest")

    async def _reset(self, partitions: Iterable[TopicPartition], reset: OffsetReset) -> None:
        self._check_open()
        states = self._subscription.chosen(partitions)
        for state in states:
            state.jump(None)
            state.reset = reset
        await self._positions.find_served(states, self.config.default_api_timeout_ms)

    async def reset_to_last_committed(self, *partitions: TopicPartition) -> None:
        """Go back to the committed offsets after an aborted transaction, to read its input again.
        `auto_offset_reset` applies to a partition without a committed offset. Offline partitions
        and errors are those of `seek_to_beginning`."""
        self._check_open()
        states = self._subscription.chosen(partitions)
        for state in states:
            state.jump(None)
        await self._positions.find_served(states, self.config.default_api_timeout_ms)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that `poll` returns. If this position is unknown,
        find it first. Raises NoOffsetForPartitionError, another error of the brokers, or
        RetriableError after `default_api_timeout_ms`."""
        self._check_open()
        return await self._position(partition, self.config.default_api_timeout_ms)

    async def _position(self, partition: TopicPartition, timeout_ms: float) -> int:
        state = self._subscription[partition]
        if state.position is None:
            await self._positions.find([state], timeout_ms)
        if state.position is None:
            raise TimedOutError(f"{partition} has no position yet: poll, or seek")
        return state.position

    def count_uncommitted(self) -> UncommittedRecords:
        """Return a counter of the records of open and aborted transactions that the consumer
        returns from now on. With read_committed the count stays 0. Call this method before the
        first `poll`."""
        return self._fetcher.count_uncommitted()

    def pause(self, *partitions: TopicPartition) -> None:
        """Let `poll` return no records of the partitions until `resume`. Without arguments, pause
        all assigned partitions."""
        self._check_open()
        for state in self._subscription.chosen(partitions):
            state.paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Let `poll` return records of the partitions again. Without arguments, resume all assigned
        partitions."""
        self._check_open()
        for state in self._subscription.chosen(partitions):
            state.paused = False
        self._fetcher.pump()

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(s.partition for s in self._subscription.assigned() if s.paused)

    # -- offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commit the positions, or the given offsets of the *next* records to read.

        Raises CommitFailedError if the partitions belong to another member,
        RebalanceInProgressError (poll, then commit what is still assigned), FencedInstanceError,
        RetriableError after `default_api_timeout_ms`.
        """
        self._check_open()
        chosen = None if offsets is None else arguments.offsets_to_commit(offsets)
        self._auto_commit.give_way()
        await self._positions.commit(self._positions.consumed() if chosen is None else chosen)

    async def committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of the partitions. Without arguments use the
        assigned partitions."""
        self._check_open()
        wanted = arguments.topic_partitions("partitions", partitions)
        wanted = wanted or sorted(self._subscription.partitions)
        found = await self._positions.committed(wanted, self.config.default_api_timeout_ms)
        return {partition: found.get(partition) for partition in wanted}

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        wanted = arguments.topic_partitions("partitions", partitions)
        found = await self._list(dict.fromkeys(wanted, EARLIEST))
        return {partition: response.offset for partition, response in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record: under read_committed the last stable
        offset."""
        wanted = arguments.topic_partitions("partitions", partitions)
        found = await self._list(dict.fromkeys(wanted, LATEST))
        return {partition: response.offset for partition, response in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return, for each partition, the offset and timestamp of the first record at or after the
        given timestamp, or None if there is no such record."""
        wanted = arguments.by_partition("timestamps_ms", timestamps_ms)
        for partition, timestamp_ms in wanted.items():
            # -1, -2 and -3 have a meaning on the wire.
            if arguments.whole_number(f"the target time for {partition}", timestamp_ms) < 0:
                raise ValueError(
                    f"The target time for partition {partition} is {timestamp_ms}. The target time "
                    "cannot be negative."
                )
        found = await self._list(wanted)
        return {partition: found.get(partition) for partition in wanted}

    async def _list(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._check_open()
        try:
            return await list_offsets(
                self._cluster,
                timestamps,
                self.config.default_api_timeout_ms,
                read_committed=self.config.read_committed,
            )
        finally:
            self._cluster.forget_topics()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the lag: the number of offsets from the position to the end of the readable
        records, as of the last fetch. Return None before the first fetch, and without a position.

        Under read_committed the readable records end at the last stable offset.
        """
        return self._subscription[partition].lag(read_committed=self.config.read_committed)

    async def lag(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return the lag of each partition, as `current_lag` does, but with the ends that the
        brokers return now. Without arguments use the assigned partitions."""
        deadline_ms = monotonic_ms() + self.config.default_api_timeout_ms
        chosen = [state.partition for state in self._subscription.chosen(partitions)]
        ends = await self.end_offsets(chosen)
        lags: dict[TopicPartition, int] = {}
        for partition in chosen:
            position = await self._position(partition, deadline_ms - monotonic_ms())
            lags[partition] = max(ends[partition] - position, 0)
        return lags

    # -- topics

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic. Raises the topic's error, or TimedOutError."""
        self._check_open()
        name = arguments.text("topic", topic)
        try:
            info = await self._cluster.topic(name, self.config.default_api_timeout_ms)
        finally:
            self._cluster.forget_topics()
        return list(info.partitions)


def _topic_names(topics: Iterable[str] | str) -> list[str]:
    names = [topics] if isinstance(topics, str) else arguments.texts("topics", topics)
    for name in names:
        if not arguments.text("topics", name):
            raise ValueError("Topic collection to subscribe to cannot contain null or empty topic")
    return names
