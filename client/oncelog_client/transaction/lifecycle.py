"""The transaction calls of a producer as sequences of steps.

`ProducerTransaction` holds the state, `TransactionSession` makes the calls to the coordinators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from oncelog_client.core.arguments import text
from oncelog_client.core.batching import Accumulator
from oncelog_client.core.prepared_txn_state import PreparedTxnState
from oncelog_client.core.producer_config import ProducerConfig
from oncelog_client.core.producer_id import ProducerIdAndEpoch
from oncelog_client.core.producer_transaction import ProducerTransaction
from oncelog_client.core.transaction_states import Event, State
from oncelog_client.errors import (
    CommitFailedError,
    IllegalStateError,
    TimedOutError,
    TransactionAbortedError,
)
from oncelog_client.io.batch_outcomes import Delivery
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.sender import Sender
from oncelog_client.values import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    TransactionGroup,
    TransactionMember,
)

from .session import TransactionSession


@runtime_checkable
class GroupConsumer(Protocol):
    """The part of a consumer that a producer needs."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's group, generation and member id."""
        ...


class TransactionLifecycle:
    """The transactions of one transactional id. Each call takes at most `max_block_ms` in all."""

    def __init__(
        self, cluster: Cluster, config: ProducerConfig, accumulator: Accumulator[Delivery]
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self.transaction = ProducerTransaction()
        self._session = TransactionSession(cluster, config, self.transaction)
        self._adding: asyncio.Task[None] | None = None
        self._aborting = asyncio.Lock()
        self._consumer: GroupConsumer | None = None

    def _deadline(self) -> float:
        return monotonic_ms() + self._config.max_block_ms

    # -- the transactional id

    async def init(self, consumer: GroupConsumer | None, *, keep_prepared: bool) -> None:
        """Send InitProducerId without a group. Offsets that are sent later are committed for
        `consumer`, as a member of its group."""
        await self._session.init(self._deadline(), keep_prepared=keep_prepared)
        self._consumer = consumer
        self._accumulator.adopt(self.transaction.identity)

    async def rejoin(self, sender: Sender, group: TransactionGroup, *, keep_prepared: bool) -> None:
        """Drop the buffered records, then send InitProducerId in a generation of the group. The
        call is allowed in any state."""
        self._session.check_group_transactions()
        deadline_ms = self._deadline()
        self.transaction.rejoin(group)
        try:
            await self._drop_all(sender, deadline_ms)
        except BaseException:
            self.transaction.apply(Event.INIT_FAILED)
            raise
        await self._session.rejoin(deadline_ms, keep_prepared=keep_prepared)
        self._accumulator.adopt(self.transaction.identity)

    def adopt(self, member: TransactionMember, group: TransactionGroup | None) -> None:
        """Continue as a producer that another process has initialized."""
        if group is not None:
            self._session.check_group_transactions()
        if member.transactional_id != self._config.transactional_id:
            raise IllegalStateError(
                f"{member.transactional_id} is another producer's: transactional_id is "
                f"{self._config.transactional_id} here"
            )
        self.transaction.adopt(ProducerIdAndEpoch(member.producer_id, member.producer_epoch), group)
        self._accumulator.adopt(self.transaction.identity)

    async def hand_over(self, sender: Sender) -> TransactionMember | None:
        """Write the buffered records, and leave the transaction to another process. Return the
        transaction, or None if it is empty."""
        self.transaction.apply(Event.PREPARE)
        await self._write_all(sender, self._deadline())
        identity, started = self.transaction.handed_over()
        assert self._config.transactional_id is not None
        return TransactionMember(self._config.transactional_id, *identity) if started else None

    # -- a transaction

    async def begin(self, sender: Sender) -> None:
        """Start a transaction, under a new epoch if `transaction.version` has changed to 2."""
        version = self._session.cluster_version
        self.transaction.begin(version)
        if self.transaction.bump_needed:
            await self.abort(sender)
            self.transaction.begin(version)

    async def send_offsets(
        self,
        sender: Sender,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata | str | None,
    ) -> None:
        """Add offsets of `group`. Without `group`, the group of `init` or `rejoin` is used."""
        try:
            if group is None:
                group = self._group()
            if isinstance(group, str):
                group = ConsumerGroupMetadata(group)
            if not isinstance(group, ConsumerGroupMetadata):
                raise TypeError(f"group is {type(group).__name__}, not a group's id or metadata")
            if not text("group", group.group_id):
                raise ValueError("the id of the group is empty")
            if offsets:
                await self._session.send_offsets(offsets, group)
        except asyncio.CancelledError:
            # It is unknown whether the transaction has the offsets. A commit without them would
            # let the records be read and written again.
            cause = TimedOutError("send_offsets_to_transaction was cancelled")
            self.transaction.fail_abortable(cause)
            raise
        finally:
            # If this call has made the transaction fail, the lingering records fail now.
            sender.wake()

    def _group(self) -> ConsumerGroupMetadata | str:
        if self.transaction.group is not None:
            return self.transaction.group.group_id
        if self._consumer is None:
            raise IllegalStateError(
                "send_offsets_to_transaction needs a group: pass consumer.group_metadata(), or "
                "give the consumer to init_transactions"
            )
        group = self._consumer.group_metadata()
        if group.generation_id < 0:
            # The group coordinator does not fence a member without a generation.
            error = CommitFailedError(
                "the consumer is not in a generation of its group: poll until it has partitions"
            )
            raise self.transaction.fail_abortable(error)
        return group

    async def prepare(self, sender: Sender) -> PreparedTxnState:
        """Write the buffered records, and keep the transaction open until it is decided
        (KIP-939)."""
        if not self._config.transaction_two_phase_commit_enable:
            raise IllegalStateError(
                "prepare_transaction needs transaction_two_phase_commit_enable=True"
            )
        self.transaction.apply(Event.PREPARE)
        await self._write_all(sender, self._deadline())
        return self.transaction.flushed()

    async def complete(self, sender: Sender, state: PreparedTxnState) -> None:
        """Commit the prepared transaction if `state` names it, else abort it (KIP-939)."""
        prepared = self.transaction.prepared
        if prepared is None:
            if self.transaction.nothing_kept:
                return
            raise IllegalStateError(f"nothing is prepared: {self.transaction.what_to_do}")
        if state == prepared:
            await self.commit(sender)
        else:
            await self.abort(sender)

    async def commit(self, sender: Sender) -> None:
        """Write the buffered records, then commit."""
        deadline_ms = self._deadline()
        self.transaction.apply(Event.PREPARE_COMMIT)
        if self.transaction.state is State.PREPARING_COMMIT:
            await self._write_all(sender, deadline_ms)
        await self._session.commit(deadline_ms)
        self._accumulator.adopt(self.transaction.identity)

    async def abort(self, sender: Sender) -> None:
        """Drop the buffered records, then abort. A second call waits for the end of the first."""
        async with self._aborting:
            await self._abort(sender)

    async def finish(self, sender: Sender) -> None:
        """Abort an open transaction before a close, or complete an abort that was interrupted. If
        there is nothing to abort, send all buffered records."""
        async with self._aborting:
            if self.transaction.is_abortable_by_closing:
                await self._abort(sender)
            else:
                await sender.flush()

    async def _abort(self, sender: Sender) -> None:
        deadline_ms = self._deadline()
        if self.transaction.state is State.FENCED_IN_GROUP:
            # The coordinator has aborted the transaction. The next call is init_transactions.
            await self._drop_all(sender, deadline_ms)
            return
        self.transaction.apply(Event.ABORT)
        await self._drop_all(sender, deadline_ms)
        await self._session.abort(deadline_ms, bump=self._accumulator.is_unresolved)
        self._accumulator.adopt(self.transaction.identity)

    # -- records and partitions of the transaction

    async def _write_all(self, sender: Sender, deadline_ms: float) -> None:
        """Wait until all records are written. Raises TimedOutError (the caller may repeat the
        call), or the error that ends the transaction."""
        try:
            async with asyncio.timeout(max(deadline_ms - monotonic_ms(), 0) / 1000):
                await sender.flush()
        except TimeoutError:
            obstacle = sender.obstacle()
            raise TimedOutError(
                f"the records were not written within max_block_ms ({self._config.max_block_ms:g})"
                f"{obstacle and ': '}{obstacle}; call this again, or abort_transaction()"
            ) from None
        if self.transaction.error is not None:
            await self._session.explain(self.transaction.error)
            raise self.transaction.error

    async def _drop_all(self, sender: Sender, deadline_ms: float) -> None:
        """Drop unsent batches, and wait for batches in flight. Raises TimedOutError (the
        caller may repeat the call)."""
        self._accumulator.aborting = True
        try:
            for batch in self._accumulator.drop_unsent():
                sender.outcomes.fail_deliveries(
                    batch, TransactionAbortedError("the transaction is aborted")
                )
            try:
                async with asyncio.timeout(max(deadline_ms - monotonic_ms(), 0) / 1000):
                    if self._adding is not None:
                        await asyncio.wait({self._adding})
                    await sender.flush()
            except TimeoutError:
                raise TimedOutError(
                    "records are still in flight: call abort_transaction() again"
                ) from None
        finally:
            self._accumulator.aborting = False

    def add_partitions(self, sender: Sender) -> None:
        """Start AddPartitionsToTxn, unless it is in flight."""
        if self._adding is None:
            self._adding = self._cluster.spawn(self._session.add_partitions())
            self._adding.add_done_callback(lambda _: self._partitions_added(sender))

    def _partitions_added(self, sender: Sender) -> None:
        self._adding = None
        if self.transaction.error is not None:
            sender.outcomes.fail_all(self.transaction.error)
        sender.wake()
