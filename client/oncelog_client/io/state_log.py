"""A partition that stores the state of several processes durably. A read returns all batches below
the high watermark, with markers and batches of open transactions. Each write is a whole transaction
of a producer that the processes share.

The producer uses transaction version 1, in which a commit keeps the epoch, so that all processes
can use the same epoch. The caller derives the sequence number of an append from the log, and passes
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

from oncelog_client.core.logged_batches import LoggedBatch, read_log
from oncelog_client.core.request_versions import ANY_VERSION, explicit_versions
from oncelog_client.core.verdicts import Verdict
from oncelog_client.errors import (
    CommitOutcomeUnknown,
    KafkaError,
    ProducerFencedError,
    StaleLeaderError,
    TimedOutError,
    error_for,
)
from oncelog_client.values import OffsetAndMetadata, TopicPartition, TransactionMember
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_protocol.records.record import NewRecord

from .clock import monotonic_ms, wall_ms
from .cluster import Cluster, CoordinatorType
from .coordinator_calls import Refused, Unanswered, ask, known_code
from .log_offsets import EARLIEST, list_offsets

R = TypeVar("R")

_FETCH_BYTES: Final = 1 << 22
# These versions of Produce exclude transaction version 2, in which brokers add the partition by
# themselves, and each commit changes the epoch.
_EXPLICIT: Final = explicit_versions(ApiKey.PRODUCE)
_WRITTEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class StateLog:
    """One partition. Use `Admin.state_log` to get one."""

    def __init__(self, cluster: Cluster, partition: TopicPartition, timeout_ms: float) -> None:
        self._cluster = cluster
        self._partition = partition
        self._timeout_ms = timeout_ms
        cluster.watch([partition.topic])

    # -- reading

    async def read(self, offset: int = 0) -> list[LoggedBatch]:
        """Return all batches from `offset` to the current high watermark. If `offset` is out of
        range, begin at the start of the log. Raises KafkaError, or RetriableError when time is
        up."""
        found: list[LoggedBatch] = []
        end_offset = -1
        begun_anew = False
        while True:
            data = await self._fetch(offset)
            end_offset = max(end_offset, data.high_watermark)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and not begun_anew:
                offset, begun_anew = await self._first_offset(), True
                continue
            if data.error_code:
                raise error_for(data.error_code, f"{self._partition} at {offset}")
            try:
                batches = read_log(data.records or b"", offset)
            except CorruptRecords as error:
                message = f"{self._partition} at {offset}: {error}"
                raise KafkaError(message, ErrorCode.CORRUPT_MESSAGE) from error
            found += batches
            # If the response has no batches, compaction has removed all batches up to the end.
            offset = batches[-1].next_offset if batches else end_offset
            if offset >= end_offset:
                return found

    async def _first_offset(self) -> int:
        asked = {self._partition: EARLIEST}
        found = await list_offsets(self._cluster, asked, self._timeout_ms, read_committed=False)
        return found[self._partition].offset

    async def _fetch(self, offset: int) -> PartitionData:
        topic, number = self._partition
        asked = FetchPartition(
            partition=number, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        request = FetchRequest(
            max_bytes=_FETCH_BYTES, topics=[FetchTopic(topic=topic, partitions=[asked])]
        )

        async def attempt() -> PartitionData:
            response = await self._call(request, FetchResponse)
            if response.error_code:
                raise error_for(response.error_code)
            data = next(
                row
                for found in response.responses
                for row in found.partitions
                if (found.topic, row.partition_index) == self._partition
            )
            self._check_leader(data.error_code)
            return data

        return await self._cluster.retry(attempt, self._timeout_ms)

    # -- appending

    async def commit(
        self,
        parent: TransactionMember,
        first_sequence: int,
        records: Sequence[tuple[bytes, bytes]],
        *,
        group_id: str | None = None,
        offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]] = (),
    ) -> None:
        """Write one transaction of `parent`, the producer that the processes share. The transaction
        has the records (keys and values) as one batch that begins with `first_sequence`, and
        offsets of a group. An earlier transaction that was left open becomes part of the new
        transaction.

        Raises ProducerFencedError if the transactional id has another producer id or epoch by now:
        nothing is committed. Raises CommitOutcomeUnknown if an attempt to commit got no response.
        In all other cases raises KafkaError or RetriableError, with nothing committed.
        """
        deadline_ms = monotonic_ms() + self._timeout_ms
        rows = list(offsets)
        calls = [self._add_partition(parent, deadline_ms)]
        if group_id is not None and rows:
            calls.append(self._add_offsets(parent, group_id, deadline_ms))
        await _all(calls)
        calls = [self._append(parent, first_sequence, records, deadline_ms)]
        if group_id is not None and rows:
            calls.append(self._send_offsets(parent, group_id, rows, deadline_ms))
        await _all(calls)
        await self._end(parent, deadline_ms)

    async def _add_partition(self, parent: TransactionMember, deadline_ms: float) -> None:
        topic, number = self._partition
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=parent.transactional_id,
            v3_and_below_producer_id=parent.producer_id,
            v3_and_below_producer_epoch=parent.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[number])],
        )
        await self._ask(
            CoordinatorType.TRANSACTION,
            parent.transactional_id,
            request,
            AddPartitionsToTxnResponse,
            lambda response: [
                row.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ],
            deadline_ms,
        )

    async def _add_offsets(
        self, parent: TransactionMember, group_id: str, deadline_ms: float
    ) -> None:
        await self._ask(
            CoordinatorType.TRANSACTION,
            parent.transactional_id,
            AddOffsetsToTxnRequest(*parent, group_id=group_id),
            AddOffsetsToTxnResponse,
            lambda response: [response.error_code],
            deadline_ms,
        )

    async def _send_offsets(
        self,
        parent: TransactionMember,
        group_id: str,
        offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]],
        deadline_ms: float,
    ) -> None:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, number), offset in offsets:
            row = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic))
            row.partitions.append(
                TxnOffsetCommitRequestPartition(
                    number, offset.offset, offset.known_epoch, offset.metadata
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=parent.transactional_id,
            group_id=group_id,
            producer_id=parent.producer_id,
            producer_epoch=parent.producer_epoch,
            topics=list(topics.values()),
        )
        await self._ask(
            CoordinatorType.GROUP,
            group_id,
            request,
            TxnOffsetCommitResponse,
            lambda response: [
                row.error_code for topic in response.topics for row in topic.partitions
            ],
            deadline_ms,
        )

    async def _append(
        self,
        parent: TransactionMember,
        first_sequence: int,
        records: Sequence[tuple[bytes, bytes]],
        deadline_ms: float,
    ) -> None:
        topic, number = self._partition
        now_ms = wall_ms()
        batch = build_batch(
            [NewRecord(now_ms, key, value) for key, value in records],
            producer_id=parent.producer_id,
            producer_epoch=parent.producer_epoch,
            base_sequence=first_sequence,
            is_transactional=True,
        )
        request = ProduceRequest(
            transactional_id=parent.transactional_id,
            acks=-1,
            timeout_ms=self._cluster.config.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(number, batch)])
            ],
        )

        async def attempt() -> None:
            response = await self._call(request, ProduceResponse, _EXPLICIT)
            row = next(
                row
                for found in response.responses
                for row in found.partition_responses
                if (found.name, row.index) == self._partition
            )
            self._check_leader(row.error_code)
            if row.error_code not in _WRITTEN:
                raise error_for(row.error_code, f"{self._partition}: {row.error_message or ''}")

        await self._cluster.retry(attempt, max(deadline_ms - monotonic_ms(), 0))

    async def _end(self, parent: TransactionMember, deadline_ms: float) -> None:
        await self._ask(
            CoordinatorType.TRANSACTION,
            parent.transactional_id,
            EndTxnRequest(*parent, committed=True),
            EndTxnResponse,
            lambda response: [response.error_code],
            deadline_ms,
            may_commit=True,
        )

    # -- calls

    async def _call(self, request: object, response: type[R], versions: range = ANY_VERSION) -> R:
        """Send a request once to the partition's leader, and return the response. Raises
        RetriableError if the leader is unknown or does not respond."""
        cluster = self._cluster
        leader = cluster.metadata.leader(self._partition)
        if leader is None:
            await cluster.refresh()
            leader = cluster.metadata.leader(self._partition)
        if leader is None:
            raise cluster.metadata.no_leader(self._partition)
        return await cluster.call(leader, request, response, versions=versions)

    def _check_leader(self, code: int) -> None:
        """Raise StaleLeaderError if `code` says that another broker leads the partition. The leader
        is then looked up again."""
        error = error_for(code, str(self._partition)) if code else None
        if isinstance(error, StaleLeaderError):
            self._cluster.refresh_soon()
            raise error

    async def _ask(
        self,
        kind: CoordinatorType,
        key: str,
        request: object,
        response: type[R],
        codes: Callable[[R], Iterable[int]],
        deadline_ms: float,
        *,
        may_commit: bool = False,
    ) -> None:
        try:
            await ask(self._cluster, kind, key, request, response, codes, deadline_ms)
        except Unanswered as error:
            if may_commit and error.maybe_done:
                raise CommitOutcomeUnknown(error.message) from None
            raise TimedOutError(error.message) from None
        except Refused as refused:
            if may_commit and refused.maybe_done:
                raise CommitOutcomeUnknown(
                    "refused; an earlier attempt got no response and may have committed",
                    known_code(refused.code),
                    fatal=True,
                ) from None
            if refused.verdict is Verdict.FENCED:
                code = known_code(refused.code)
                raise ProducerFencedError(refused.message, code) from None
            raise error_for(refused.code, refused.message) from None


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all calls at once. Raises the first error, in the order of `calls`, after all have
    ended."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
