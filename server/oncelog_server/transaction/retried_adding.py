"""Adds partitions to a transaction again while the one before it completes.

A producer may begin its next transaction before the markers of the last one are written on every
broker. The client of Produce v12 would then wait for its own back-off, or for new metadata, so the
broker waits for a short time instead (Kafka's ReplicaManager.handleProduceAppend; Kafka does so for
Produce only).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.timers import Timer, Timers
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import TransactionResult

Answer = TransactionResult | Deferred[TransactionResult]


class RetriedAdding:
    """`add` adds partitions, or raises Refused. CONCURRENT_TRANSACTIONS is retried every
    `backoff_ms`, for at most `max_ms`. A verification is not retried, because clients that add
    partitions themselves have waited for the last transaction before."""

    def __init__(
        self,
        add: Callable[[AddPartitions], Answer],
        timers: Timers,
        monotonic_ms: Callable[[], int],
        backoff_ms: int,
        max_ms: int,
    ) -> None:
        self._add = add
        self._timers = timers
        self._monotonic_ms = monotonic_ms
        self._backoff_ms = backoff_ms
        self._max_ms = max_ms

    def __call__(self, command: AddPartitions) -> Answer:
        """Add partitions to the transaction, or only verify them. Raises Refused."""
        result = self._add(command)
        if command.verify_only or (isinstance(result, TransactionResult) and not _is_busy(result)):
            return result
        later: Deferred[TransactionResult] = Deferred()
        self._wait_for(result, command, later, self._monotonic_ms() + self._max_ms)
        return later

    def _wait_for(
        self,
        result: Answer,
        command: AddPartitions,
        later: Deferred[TransactionResult],
        until_ms: int,
    ) -> None:
        take = partial(self._take, command, later, until_ms)
        if not isinstance(result, Deferred):
            take(result)
            return
        result.on_complete(take)
        result.on_abandon(lambda: later.abandon(result.failure))
        later.on_cancel(result.cancel)

    def _take(
        self,
        command: AddPartitions,
        later: Deferred[TransactionResult],
        until_ms: int,
        result: TransactionResult,
    ) -> None:
        """Complete `later`, or retry after the back-off."""
        if not _is_busy(result) or self._monotonic_ms() >= until_ms:
            later.complete(result)
            return
        retry = partial(self._retry, command, later, until_ms)
        timer: Timer = self._timers.call_later(self._backoff_ms, retry)
        later.on_cancel(timer.cancel)

    def _retry(
        self, command: AddPartitions, later: Deferred[TransactionResult], until_ms: int
    ) -> None:
        try:
            result = self._add(command)
        except Refused as refused:
            result = TransactionResult(refused.code, message=refused.message)
        self._wait_for(result, command, later, until_ms)


def _is_busy(result: TransactionResult) -> bool:
    return result.code is ErrorCode.CONCURRENT_TRANSACTIONS
