"""A topic of a test, and the outcome of its records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from oncelog import Admin, Consumer, ConsumerRecord, KafkaError, TopicPartition
from oncelog.testing.client_thread import CALL_TIMEOUT_S, ClientThread
from oncelog_client.config import IsolationLevel
from oncelog_client.core.arguments import number, whole_number
from oncelog_protocol.errors import ErrorCode

WAIT_S: Final = 10.0
# A call to the broker has at least this time, also at the end of a wait.
LEAST_CALL_S: Final = 1.0
_DECIDED: Final = ("PrepareCommit", "PrepareAbort")
_PAUSE_S: Final = 0.01


class Topic:
    """A topic. All calls read from the beginning, and block until they have read up to the end.

    A record is committed, aborted or undecided, as a read_committed reader sees it. Records that
    were written without a transaction count as committed. In a partition, all records behind an
    open transaction are undecided, because a reader gets none of them before the transaction ends.
    """

    def __init__(self, thread: ClientThread, name: str, partitions: int) -> None:
        self.name = name
        self.partitions = [TopicPartition(name, partition) for partition in range(partitions)]
        self._thread = thread

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, partitions={len(self.partitions)})"

    def __str__(self) -> str:
        return self.name

    def produce(
        self,
        *values: bytes,
        key: bytes | None = None,
        partition: int = 0,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        """Write records without a transaction, all to one partition. Raises KafkaError,
        TimeoutError with the last refusal, and BrokerFailed if the broker does not run."""

        async def write() -> None:
            async with self._thread.producer() as producer:
                deliveries = [
                    await producer.send(self.name, value, key=key, partition=partition)
                    for value in values
                ]
                await asyncio.gather(producer.flush(), *deliveries)

        self._thread.run(write(), timeout_s)

    def committed(self, count: int | None = None, timeout_s: float = WAIT_S) -> list[bytes | None]:
        """Return the values of the committed records, by partition and offset.

        The call waits for the markers of transactions that are decided already. With `count`, it
        waits until at least `count` records are committed. After `timeout_s`, it raises
        TimeoutError with the records so far. A broker that does not respond has LEAST_CALL_S more.
        """
        return _values(self.records(count, timeout_s))

    def aborted(self) -> list[bytes | None]:
        """Return the values of the aborted records, by partition and offset."""
        self._wait_for_markers(time.monotonic() + WAIT_S)
        return _values(self._thread.run(self._aborted()))

    def undecided(self) -> list[bytes | None]:
        """Return the values of the records that no read_committed reader gets yet."""
        self._wait_for_markers(time.monotonic() + WAIT_S)
        return _values(self._thread.run(self._undecided()))

    def records(self, count: int | None = None, timeout_s: float = WAIT_S) -> list[ConsumerRecord]:
        """Return the committed records, as `committed` does."""
        if count is not None:
            whole_number("count", count)
        deadline = time.monotonic() + number("timeout_s", timeout_s)
        while True:
            self._wait_for_markers(deadline)
            found = self._thread.run(self._committed(), _left_s(deadline))
            if count is None or len(found) >= count:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{len(found)} of {count} records of {self.name} are committed after"
                    f" {timeout_s} s: {_values(found)}"
                )
            time.sleep(_PAUSE_S)

    def _wait_for_markers(self, deadline: float) -> None:
        """Wait until all decided transactions have their markers in this topic. Apache Kafka writes
        them after the response to the commit."""
        while decided := self._thread.run(self._decided(), _left_s(deadline)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"transactions without their markers: {decided}")
            time.sleep(_PAUSE_S)

    async def _decided(self) -> list[str]:
        """Return the transactional ids with a decided transaction in this topic. The broker may
        have other users."""
        admin = await self._thread.admin()
        listings = await admin.list_transactions(states=_DECIDED)
        listed = [listing.transactional_id for listing in listings]
        within = await asyncio.gather(*(self._is_decided_here(admin, each) for each in listed))
        return [each for each, is_within in zip(listed, within, strict=True) if is_within]

    async def _is_decided_here(self, admin: Admin, transactional_id: str) -> bool:
        try:
            described = await admin.describe_transactions([transactional_id])
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return False  # the id has expired since the list
        found = described[transactional_id]
        topics = {partition.topic for partition in found.topic_partitions}
        return found.state in _DECIDED and self.name in topics

    async def _committed(self) -> list[ConsumerRecord]:
        return await self._read("read_committed")

    async def _aborted(self) -> list[ConsumerRecord]:
        ends = await self._stable_ends()
        committed = {(record.partition, record.offset) for record in await self._committed()}
        return [
            record
            for record in await self._read("read_uncommitted")
            if record.offset < ends[record.partition]
            and (record.partition, record.offset) not in committed
        ]

    async def _undecided(self) -> list[ConsumerRecord]:
        ends = await self._stable_ends()
        return [
            record
            for record in await self._read("read_uncommitted")
            if record.offset >= ends[record.partition]
        ]

    async def _stable_ends(self) -> dict[int, int]:
        """Return the last stable offset of each partition."""
        async with self._consumer("read_committed") as reader:
            ends = await reader.end_offsets(self.partitions)
        return {at.partition: end for at, end in ends.items()}

    async def _read(self, isolation_level: IsolationLevel) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        async with self._consumer(isolation_level) as consumer:
            await consumer.assign(self.partitions)
            await consumer.seek_to_beginning(*self.partitions)
            ends = await consumer.end_offsets(self.partitions)
            async with asyncio.timeout(WAIT_S):
                while [at for at, end in ends.items() if await consumer.position(at) < end]:
                    found += await consumer.poll(100)
        within = [
            record
            for record in found
            if record.offset < ends[TopicPartition(self.name, record.partition)]
        ]
        return sorted(within, key=lambda record: (record.partition, record.offset))

    def _consumer(self, isolation_level: IsolationLevel) -> Consumer:
        return Consumer(
            bootstrap_servers=self._thread.bootstrap_servers, isolation_level=isolation_level
        )


def _left_s(deadline: float) -> float:
    """Return the time of a call before the deadline, a time of `time.monotonic`."""
    return max(deadline - time.monotonic(), LEAST_CALL_S)


def _values(records: Iterable[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]
