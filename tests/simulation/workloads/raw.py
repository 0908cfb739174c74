"""A transactional producer of raw requests. It uses V1 (AddPartitionsToTxn, EndTxn up to 4) or V2
(KIP-890 part 2), with many batches in flight and its own retries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, TypeVar

from oncelog_client.config import ClientConfig
from oncelog_client.errors import KafkaError, error_for
from oncelog_client.io.connection import Connection
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord

R = TypeVar("R")

# Error codes of a request without an effect. The producer retries it after a pause.
RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
ATTEMPTS = 25


@dataclass(slots=True)
class RawBatch:
    topic: str
    partition: int
    values: list[int]
    sequence: int
    answer: asyncio.Future[Any] | None = field(default=None)


class RawProducer:
    """A producer with one connection and one transactional id. Every call may raise KafkaError."""

    def __init__(self, config: ClientConfig, transactional_id: str, *, v2: bool) -> None:
        self.transactional_id = transactional_id
        self.v2 = v2
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        self._config = config
        self._connection: Connection | None = None

    async def connection(self) -> Connection:
        if self._connection is None or self._connection.closed:
            address = self._config.bootstrap_servers[0]
            self._connection = await Connection.open(address, self._config)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _ask(self, request: object, response: type[R], newest: int, *, again: bool) -> R:
        """Send a request, and retry after a code in RETRIED. With `again`, also retry after a
        broken connection or a timeout: only for requests that are safe to repeat."""
        for attempt in range(ATTEMPTS):
            try:
                connection = await self.connection()
                answer = await connection.call(request, response, versions=range(newest + 1))
            except KafkaError:
                if not again or attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.05)
                continue
            code = _code(answer)
            if code not in RETRIED:
                return answer
            await asyncio.sleep(0.02)
        raise error_for(code)

    async def init(self, timeout_ms: int, *, bump: bool = False) -> None:
        """Get a producer id and epoch. With `bump`, get the next epoch of the current id (KIP-360),
        otherwise initialize as a new instance."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer_id if bump else -1,
            producer_epoch=self.epoch if bump else -1,
        )
        response = await self._ask(request, InitProducerIdResponse, 5, again=True)
        _check(response.error_code)
        self._adopt(response.producer_id, response.producer_epoch)

    def _adopt(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.sequences.clear()

    async def add(self, partitions: list[tuple[str, int]]) -> None:
        """Add partitions to the transaction (V1 only)."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
        )
        response = await self._ask(request, AddPartitionsToTxnResponse, 3, again=False)
        for result in response.results_by_topic_v3_and_below:
            for row in result.results_by_partition:
                _check(row.partition_error_code)

    def next_batch(self, topic: str, partition: int, values: list[int]) -> RawBatch:
        sequence = self.sequences.get((topic, partition), 0)
        self.sequences[topic, partition] = sequence + len(values)
        return RawBatch(topic, partition, values, sequence)

    async def produce(self, batch: RawBatch, now_ms: int) -> asyncio.Future[Any]:
        """Send a batch. Return the future of the response. `outcome` reads the response."""
        records = build_batch(
            [NewRecord(now_ms, None, b"%d" % value) for value in batch.values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=batch.sequence,
            is_transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=batch.topic,
                    partition_data=[PartitionProduceData(index=batch.partition, records=records)],
                )
            ],
        )
        connection = await self.connection()
        return connection.start(request, versions=range(13 if self.v2 else 12))

    async def end(self, *, commit: bool) -> int:
        """Send EndTxn, and return its error code. A V2 request is retried. In V1 a repetition is
        not safe."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = await self._ask(request, EndTxnResponse, 5 if self.v2 else 4, again=self.v2)
        if not response.error_code and self.v2:
            self._adopt(response.producer_id, response.producer_epoch)
        return response.error_code


def outcome(response: Any) -> PartitionProduceResponse:
    (topic,) = response.responses
    (row,) = topic.partition_responses
    assert isinstance(row, PartitionProduceResponse)
    return row


def _code(response: object) -> int:
    if isinstance(response, AddPartitionsToTxnResponse):
        rows = [r for t in response.results_by_topic_v3_and_below for r in t.results_by_partition]
        return max((row.partition_error_code for row in rows), default=0)
    assert isinstance(response, InitProducerIdResponse | EndTxnResponse)
    return response.error_code


def _check(code: int) -> None:
    if code:
        raise error_for(code)
