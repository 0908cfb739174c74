"""The synchronous producer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, Self, Unpack

from oncelog_client import producer
from oncelog_client.connect_failures import ConnectFailure
from oncelog_client.core.producer_config import ProducerSettings
from oncelog_client.errors import KafkaError
from oncelog_client.payloads import ToBytes
from oncelog_client.values import Header, K, RecordMetadata, TopicPartition, V
from oncelog_protocol.records.record import EncodedRecords

from .consumer import Consumer
from .loop import Facade, blocking

log = logging.getLogger(__name__)


class Producer(Facade, Generic[K, V]):
    """The methods of `oncelog_client.Producer`. Use as `with Producer(servers) as producer`."""

    client: producer.Producer[K, V]

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        key_serializer: ToBytes[K] | None = None,
        value_serializer: ToBytes[V] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        super().__init__(
            producer.Producer(
                bootstrap_servers,
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                **settings,
            )
        )

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Future[RecordMetadata]:
        """Buffer a record. The future gets the record's place in the log, or the error. If no code
        asks the future for its outcome, an error is logged. Raises the errors of the async
        `send`."""
        send = partial(
            self.client.send,
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        return self._run(_concurrent(send))

    def send_encoded(
        self, partition: TopicPartition, records: EncodedRecords
    ) -> Future[RecordMetadata]:
        """Buffer a batch, as the async `send_encoded`. The future gets the place of its last
        record."""
        return self._run(_concurrent(partial(self.client.send_encoded, partition, records)))

    def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record, and return its place in the log."""
        return self._run(
            self.client.send_and_wait(
                topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
        )

    def init_transactions(
        self,
        partitions: Iterable[TopicPartition] | Consumer[Any, Any] | None = None,
        *group: Any,
        keep_prepared_txn: bool = False,
    ) -> None:
        """Initialize the transactional id, as the async `init_transactions`: with nothing, with a
        synchronous consumer, or with partitions, a group id and a generation."""
        initialize: Any = self.client.init_transactions
        if isinstance(partitions, Consumer):
            self._run(initialize(partitions.client, *group))
        elif partitions is None:
            self._run(initialize(keep_prepared_txn=keep_prepared_txn))
        else:
            self._run(initialize(partitions, *group, keep_prepared_txn=keep_prepared_txn))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """`with producer.transaction():` commits at the end, aborts on an exception, as the async
        `transaction`."""
        running = self.client.transaction()
        self._run(running.__aenter__())
        try:
            yield self
        except BaseException as error:
            if not self._run(running.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._run(running.__aexit__(None, None, None))

    @property
    def outage(self) -> tuple[ConnectFailure, ...]:
        """Return the reason why each broker cannot be reached. The result is empty while a broker
        is connected."""
        return self.client.outage

    @property
    def refusals(self) -> tuple[KafkaError, ...]:
        """Return the error of each partition with batches that are retried."""
        return self.client.refusals

    def topic_failure(self, topic: str) -> KafkaError | None:
        """Return the brokers' last error for a topic that cannot be used, or None."""
        return self.client.topic_failure(topic)

    close = blocking(producer.Producer.close)
    flush = blocking(producer.Producer.flush)
    partitions_for = blocking(producer.Producer.partitions_for)
    adopt_transactions = blocking(producer.Producer.adopt_transactions)
    hand_over_transaction = blocking(producer.Producer.hand_over_transaction)
    begin_transaction = blocking(producer.Producer.begin_transaction)
    send_offsets_to_transaction = blocking(producer.Producer.send_offsets_to_transaction)
    prepare_transaction = blocking(producer.Producer.prepare_transaction)
    complete_transaction = blocking(producer.Producer.complete_transaction)
    commit_transaction = blocking(producer.Producer.commit_transaction)
    abort_transaction = blocking(producer.Producer.abort_transaction)


class _Placed(Future[RecordMetadata]):
    """The outcome of a record. An error that no code has retrieved is logged when the future is
    deleted, as asyncio does for its futures."""

    _retrieved = False

    def result(self, timeout: float | None = None) -> RecordMetadata:
        self._retrieved = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._retrieved = True
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        self._retrieved = True
        super().add_done_callback(fn)

    def __del__(self) -> None:
        if not self._retrieved and self.done() and (error := super().exception()) is not None:
            log.error("a record was not written: %s", error)


async def _concurrent(
    send: Callable[[], Awaitable[asyncio.Future[RecordMetadata]]],
) -> Future[RecordMetadata]:
    """Return a future for other threads, after `send` has buffered the record."""
    delivery = await send()
    found = _Placed()
    found.set_running_or_notify_cancel()  # a record that is buffered cannot be taken back

    def deliver(done: asyncio.Future[RecordMetadata]) -> None:
        error = done.exception()
        if error is None:
            found.set_result(done.result())
        else:
            found.set_exception(error)

    delivery.add_done_callback(deliver)
    return found
