"""The producer sends records. It is idempotent by default, and transactional with a
`transactional_id`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, Unpack, overload

from oncelog_protocol.records.record import EncodedRecords

from .connect_failures import ConnectFailure
from .core.arguments import offsets_to_commit, topic_partitions
from .core.batch import record_size
from .core.batching import Accumulator
from .core.metadata import TopicInfo
from .core.new_records import checked_partition, new_record, topic_name
from .core.partitioner import Partitioner
from .core.prepared_txn_state import PreparedTxnState
from .core.producer_config import (
    ProducerConfig,
    ProducerSettings,
    batching_config,
    producer_config,
)
from .errors import (
    ClosedError,
    IllegalStateError,
    KafkaError,
    error_for,
)
from .io.batch_outcomes import Delivery
from .io.buffer_pool import BufferPool
from .io.clock import monotonic_ms, wall_ms
from .io.cluster import Cluster
from .io.randomness import below
from .io.sender import Sender
from .payloads import ToBytes, converter, to_bytes
from .transaction.lifecycle import GroupConsumer, TransactionLifecycle
from .values import (
    ConsumerGroupMetadata,
    Header,
    K,
    OffsetAndMetadata,
    PartitionInfo,
    RecordMetadata,
    TopicPartition,
    TransactionGroup,
    TransactionMember,
    V,
)


class Producer(Generic[K, V]):
    """Sends records. Use as `async with Producer(bootstrap_servers=...) as producer`.

    Settings are those of Kafka's producer in snake case. `help(ProducerSettings)` of
    `oncelog_client.config` describes each. Raises ConfigError for settings that exclude each other.

    Keys and values are bytes unless there are serializers (`oncelog_client.serialization`).
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        key_serializer: ToBytes[K] | None = None,
        value_serializer: ToBytes[V] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self.config: ProducerConfig = producer_config(bootstrap_servers, settings)
        self._serialize_key = converter(key_serializer, "serialize", "key_serializer")
        self._serialize_value = converter(value_serializer, "serialize", "value_serializer")
        self._cluster = Cluster(self.config, auto_create=True)
        self._partitioner = Partitioner(self.config.batch_size, below)
        self._accumulator: Accumulator[Delivery] = Accumulator(batching_config(self.config))
        self._pool = BufferPool(self.config, self._accumulator)
        self._lifecycle: TransactionLifecycle | None = None
        if self.config.transactional_id is not None:
            self._lifecycle = TransactionLifecycle(self._cluster, self.config, self._accumulator)
        # Stored as an attribute, because every record uses it.
        self._transaction = None if self._lifecycle is None else self._lifecycle.transaction
        self._sender: Sender | None = None
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- life

    async def start(self, *, timeout_ms: float | None = None, fail_fast: bool = False) -> None:
        """Connect. Raises RetriableError if no bootstrap server is reached in `timeout_ms` (by
        default twice `request_timeout_ms`). The error's `failures` have the reason for each
        address.

        With `fail_fast` the call raises ConnectError as soon as every bootstrap server has refused,
        instead of waiting for a broker that is starting.
        """
        await self._cluster.start(timeout_ms=timeout_ms, fail_fast=fail_fast)
        self._loop = asyncio.get_running_loop()
        self._sender = Sender(self._cluster, self.config, self._accumulator, self._transaction)
        if self._lifecycle is not None:
            self._sender.add_partitions = partial(self._lifecycle.add_partitions, self._sender)
        self._cluster.on_metadata.append(self._sender.wake)
        self._running = self._cluster.spawn(self._sender.run())
        self._running.add_done_callback(self._sender.ended)

    async def close(self, timeout_ms: float | None = None) -> None:
        """Abort an open transaction, with its buffered records, unless it is prepared, or complete
        an abort that was interrupted (KafkaProducer.close of Java). If there is nothing to abort,
        send all buffered records. Either takes at most `timeout_ms` (by default `max_block_ms`).
        Then disconnect. A cancelled call disconnects too: records that have no outcome fail, and
        the broker aborts an open transaction at its timeout."""
        if self._sender is None:
            return
        self._cluster.check_loop()
        sender, self._sender = self._sender, None
        timeout_ms = self.config.max_block_ms if timeout_ms is None else timeout_ms
        try:
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    if self._lifecycle is None:
                        await sender.flush()
                    else:
                        await self._lifecycle.finish(sender)
        finally:
            sender.outcomes.fail_all(ClosedError("the producer was closed"))
            try:
                await self._cluster.close()
            finally:
                # This also fails the batches in flight, even on a connection that has just broken.
                sender.outcomes.fail_all(ClosedError("the producer was closed"), in_flight=True)

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

    def _open(self) -> Sender:
        if asyncio.get_running_loop() is not self._loop:
            self._cluster.check_loop()
        if self._sender is None:
            if self._cluster.is_closed:
                raise ClosedError("the producer is closed: make a new one")
            raise ClosedError("the producer is not open: call start(), or use `async with`")
        if self._sender.failure is not None:
            raise self._sender.failure
        return self._sender

    # -- records

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Buffer a record. The future gets the record's place in the log, or the error. The call
        waits only for metadata of a new topic or for room in `buffer_memory`, at most
        `max_block_ms`. Raises BufferExhaustedError, RecordTooLargeError, the topic's error, the
        error of a transaction that can only be aborted, SerializationError, or TypeError or
        ValueError for a value that no record can hold.
        """
        sender = self._open()
        if self._transaction is not None:
            self._transaction.check_sendable()
        info = self._cluster.metadata.topics.get(topic)
        if info is None or not info.usable:
            info = await self._topic(topic)
        created_ms = wall_ms() if timestamp_ms is None else timestamp_ms
        key_bytes: Any = key
        value_bytes: Any = value
        # Most producers have no serializers, and every record pays for a call.
        if self._serialize_key is not None:
            key_bytes = to_bytes(self._serialize_key, "key", topic, key)
        if self._serialize_value is not None:
            value_bytes = to_bytes(self._serialize_value, "value", topic, value)
        record = new_record(created_ms, key_bytes, value_bytes, headers)
        if partition is None:
            raw_key = None if record.key is None else bytes(record.key)
            chosen = self._partitioner.partition(topic, raw_key, info.partitions)
        else:
            chosen = checked_partition(topic, partition, info)
        size = record_size(record)
        if size > self.config.max_request_size or size > self.config.buffer_memory:
            raise self._pool.too_large(f"a record of {topic} is {size} bytes")
        if not self._accumulator.has_room(size):
            await self._pool.wait(sender, size)
            # A close also ends the wait.
            self._open()
        assert self._loop is not None
        delivery: Delivery = self._loop.create_future()
        target = TopicPartition(topic, chosen)
        if self._transaction is not None:
            self._transaction.check_sendable()
            self._transaction.want_partition(target)
        first = self._accumulator.queued(target) == 0
        closed = self._accumulator.append(target, record, delivery, monotonic_ms())
        if partition is None and record.key is None:
            self._buffered(topic, size, info.partitions, closed)
        if first or closed:
            sender.wake()
        if closed:
            # Give the sender a turn. Otherwise a loop of sends might never yield.
            await asyncio.sleep(0)
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record, and return its place in the log. The wait includes `linger_ms`. Raises as
        `send` does, and the error of a record that was not written."""
        sent = self.send(
            topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await (await sent)

    async def send_encoded(
        self, partition: TopicPartition, records: EncodedRecords
    ) -> asyncio.Future[RecordMetadata]:
        """Buffer a complete batch of records that the caller has encoded. The future gets the place
        of the batch's last record, or the error if a record was not written.

        Compression, retries, splits and sequences are those of `send`. The caller chooses the
        partition (`core.partitioner` has the usual choice). In a transaction, the commit and
        `hand_over_transaction` raise the same error, so the future need not be awaited.

        The call waits and raises as `send` does. Raises IllegalStateError without idempotence,
        because a retry could then write the first half of a split batch after the second half.
        """
        sender = self._open()
        if not self.config.enable_idempotence:
            raise IllegalStateError("send_encoded needs enable_idempotence=True")
        if self._transaction is not None:
            self._transaction.check_sendable()
        topic, number = partition
        info = self._cluster.metadata.topics.get(topic)
        if info is None or not info.usable:
            info = await self._topic(topic)
        checked_partition(topic, number, info)
        size = len(records.body)
        if size > self.config.max_request_size or size > self.config.buffer_memory:
            what = f"{records.records_count} records of {topic} are {size} bytes together"
            raise self._pool.too_large(what)
        if not self._accumulator.has_room(size):
            await self._pool.wait(sender, size)
            # A close also ends the wait.
            self._open()
        assert self._loop is not None
        delivery: Delivery = self._loop.create_future()
        if self._transaction is not None:
            self._transaction.check_sendable()
            self._transaction.want_partition(partition)
        self._accumulator.append_encoded(partition, records, delivery, monotonic_ms())
        sender.wake()
        # Give the sender a turn. Otherwise a loop of sends might never yield.
        await asyncio.sleep(0)
        return delivery

    def _buffered(
        self, topic: str, size: int, partitions: tuple[PartitionInfo, ...], closed: bool
    ) -> None:
        self._partitioner.buffered(
            topic,
            size,
            partitions=partitions,
            queued=lambda number: self._accumulator.queued(TopicPartition(topic, number)),
            batch_closed=closed,
        )

    async def flush(self) -> None:
        """Send all buffered records now, and wait until each record has its outcome."""
        await self._open().flush()

    @property
    def refusals(self) -> tuple[KafkaError, ...]:
        """Return the error of each partition with batches that are retried, such as a full disk or
        too few replicas. A change of the leader is not reported."""
        return () if self._sender is None else self._sender.outcomes.refusals

    def topic_failure(self, topic: str) -> KafkaError | None:
        """Return the brokers' last error for a topic that cannot be used, or None without an
        error."""
        info = self._cluster.metadata.topics.get(topic)
        return None if info is None or not info.error else error_for(info.error, topic)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic. Raises the topic's error, or TimedOutError."""
        self._open()
        return list((await self._topic(topic)).partitions)

    async def _topic(self, name: str) -> TopicInfo:
        # Check the name first, because each later refresh of metadata would request an invalid name
        # again.
        info = await self._cluster.topic(topic_name(name), self.config.max_block_ms)
        # Another task may have closed the producer meanwhile.
        self._open()
        return info

    # -- transactions

    def _transactional(self) -> TransactionLifecycle:
        self._open()
        if self._lifecycle is None:
            raise IllegalStateError(
                "transactions need a transactional id: pass transactional_id=… to Producer"
            )
        return self._lifecycle

    @overload
    async def init_transactions(self, *, keep_prepared_txn: bool = False) -> None: ...

    @overload
    async def init_transactions(self, partitions: GroupConsumer) -> None: ...

    @overload
    async def init_transactions(
        self,
        partitions: Iterable[TopicPartition],
        group_id: str,
        generation_id: int,
        *,
        keep_prepared_txn: bool = False,
    ) -> None: ...

    async def init_transactions(
        self,
        partitions: Iterable[TopicPartition] | GroupConsumer | None = None,
        group_id: str | None = None,
        generation_id: int | None = None,
        *,
        keep_prepared_txn: bool = False,
    ) -> None:
        """Initialize the transactional id: fence the older producers of the id, and wait until
        their open transaction is committed or aborted. Call this method once, before the first
        transaction.

        With `keep_prepared_txn` an open transaction stays open. End it with `complete_transaction`,
        `commit_transaction` or `abort_transaction` (KIP-939). A transaction that began with a group
        is only kept with the same group. Otherwise the call raises FatalError with the code
        INVALID_TXN_STATE.

        If `partitions` is a consumer, `send_offsets_to_transaction(offsets)` commits as this member
        of the consumer's group (KIP-447, revised).

        If you pass all input partitions, group and generation (KIP-447, early draft), call this
        method after every rebalance, and after a FencedInGroupError. The call fences the group's
        other producers of these partitions, aborts their open transactions before it returns, and
        makes the broker refuse requests of older generations. Raises FencedInGroupError if a newer
        generation has begun, and UnsupportedVersionError if the broker lacks the feature
        `oncelog.group.transactions`.

        Raises TimedOutError after `max_block_ms` (call again), or a FatalError.
        """
        lifecycle = self._transactional()
        if partitions is None or isinstance(partitions, GroupConsumer):
            await lifecycle.init(partitions, keep_prepared=keep_prepared_txn)
        elif group_id is None or generation_id is None:
            raise IllegalStateError(
                "init_transactions with partitions needs group_id and generation_id as well"
            )
        else:
            assigned = topic_partitions("partitions", partitions)
            group = TransactionGroup(group_id, generation_id, frozenset(assigned))
            await lifecycle.rejoin(self._open(), group, keep_prepared=keep_prepared_txn)

    async def adopt_transactions(
        self, member: TransactionMember, group: TransactionGroup | None = None
    ) -> None:
        """Continue as a producer that another process has initialized, with `Admin.init_producer`
        or `init_transactions`. That process must not have sent a record, and no other process may
        use the same producer. `group` is the group with which the producer was initialized, if any.
        Raises IllegalStateError if this producer has another transactional id."""
        self._transactional().adopt(member, group)

    async def hand_over_transaction(self) -> TransactionMember | None:
        """Write the buffered records and leave the transaction open, so that another process can
        commit it. `Admin.end_transaction` commits the transaction alone, `Admin.commit_group` with
        other transactions. Return None if the transaction is empty. Afterwards this producer needs
        another `init_transactions` or `adopt_transactions`.

        Raises AbortableError, FatalError, or TimedOutError (call again).
        """
        return await self._transactional().hand_over(self._open())

    async def begin_transaction(self) -> None:
        """Start a transaction. Raises IllegalStateError inside another transaction.

        After the cluster's `transaction.version` has changed to 2, the first transaction needs a
        new epoch. In that case this call may raise a FatalError, or TimedOutError (call
        `abort_transaction`, and begin again).
        """
        await self._transactional().begin(self._open())

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str | None = None,
    ) -> None:
        """Make consumed offsets part of the transaction: the offsets of the *next* records to read.

        With `consumer.group_metadata()`, the broker refuses a consumer that has lost its partitions
        (KIP-447). A plain group id is only protected by the transactional id, and by the generation
        of `init_transactions`. The default group is that of `init_transactions`. Raises
        AbortableError or FatalError.
        """
        checked = offsets_to_commit(offsets)
        await self._transactional().send_offsets(self._open(), checked, group)

    async def prepare_transaction(self) -> PreparedTxnState:
        """Write the buffered records and prepare the transaction. The transaction then stays open
        until it is committed, aborted or completed. A crash does not end it. Store the returned
        state together with the decision (KIP-939).

        Raises AbortableError, FatalError, or TimedOutError (call again).
        """
        return await self._transactional().prepare(self._open())

    async def complete_transaction(self, state: PreparedTxnState) -> None:
        """Commit the prepared transaction if `state` names it. Otherwise abort the transaction. The
        application has stored `state` with its decision to commit. Do nothing if
        `init_transactions` found no open transaction, because the transaction has already ended.

        Raises the errors of `commit_transaction` and `abort_transaction`. The call may be repeated.
        """
        await self._transactional().complete(self._open(), state)

    async def commit_transaction(self) -> None:
        """Write the buffered records, then commit, within `max_block_ms`.

        Raises AbortableError (abort, and do the work again), FatalError (close), or
        CommitOutcomeUnknown. After CommitOutcomeUnknown only this method may be called, which
        repeats the request.
        """
        await self._transactional().commit(self._open())

    async def abort_transaction(self) -> None:
        """Drop the buffered records and abort. Raises TimedOutError (call again) or FatalError."""
        await self._transactional().abort(self._open())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """`async with producer.transaction():` commits at the end, aborts on an exception.

        After a commit with an unknown outcome it does not abort. The caller gets
        CommitOutcomeUnknown and may call `commit_transaction()` again.
        """
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self._transactional().transaction.is_abortable_by_closing:
                await self.abort_transaction()
            raise
