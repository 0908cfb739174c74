"""The transactions of a producer: what its user calls, in which order things happen.

States are in `transactions`, the calls to coordinators in `transaction_session`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, Self, overload, runtime_checkable

from oncelog_client.core.batch import ProducerIdentity
from oncelog_client.core.batching import Accumulator
from oncelog_client.core.prepared import PreparedTxnState
from oncelog_client.core.producer_config import ProducerConfig
from oncelog_client.core.transaction_states import Event, ProducerTransaction, State
from oncelog_client.errors import (
    CommitFailedError,
    IllegalStateError,
    TimedOutError,
    TransactionAbortedError,
)
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.sender import Delivery, Sender
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
    """A consumer, as far as a producer needs to know it."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Its place in its group."""
        ...


class Transactional(ABC):
    """The part of a producer with a `transactional_id`."""

    config: ProducerConfig
    _accumulator: Accumulator[Delivery]
    _core: ProducerTransaction | None
    _session: TransactionSession | None
    _adding: asyncio.Task[None] | None
    _consumer: GroupConsumer | None = None

    @abstractmethod
    def _open(self) -> Sender: ...

    @abstractmethod
    async def _flush(self, sender: Sender) -> None: ...

    def _deadline(self) -> float:
        """Return when a call that begins now has to end: it takes `max_block_ms` as a whole."""
        return monotonic_ms() + self.config.max_block_ms

    def _transactional(self) -> tuple[ProducerTransaction, TransactionSession]:
        self._open()
        if self._core is None or self._session is None:
            raise IllegalStateError(
                "transactions need a transactional id: pass transactional_id=… to Producer"
            )
        return self._core, self._session

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
        """Take the transactional id: fence its older producers, wait until what they left open has
        been committed or aborted. Once, before the first transaction.

        With `keep_prepared_txn` what they left open stays open, to be ended by
        `complete_transaction`, `commit_transaction` or `abort_transaction` (KIP-939). What was
        begun with a group is only kept with that group: otherwise INVALID_TXN_STATE, a FatalError.

        With a consumer, offsets are sent in its name: `send_offsets_to_transaction(offsets)`
        (KIP-447, revised).

        With all input partitions, group and generation (KIP-447, early draft): after every
        rebalance, and after a FencedInGroupError. Producers of the group that have one of the
        partitions are fenced and what they left open is aborted before this returns; requests of
        older generations are refused. Raises FencedInGroupError in an older generation, and
        UnsupportedVersionError where the broker does not announce `oncelog.group.transactions`.

        Raises TimedOutError after `max_block_ms` (call again), or a FatalError.
        """
        core, session = self._transactional()
        deadline_ms = self._deadline()
        if partitions is None or isinstance(partitions, GroupConsumer):
            await session.init(deadline_ms, keep_prepared=keep_prepared_txn)
            self._consumer = partitions
        elif group_id is None or generation_id is None:
            raise IllegalStateError(
                "init_transactions with partitions needs group_id and generation_id as well"
            )
        else:
            session.check_group_transactions()
            group = TransactionGroup(group_id, generation_id, frozenset(partitions))
            await self._rejoin(group, deadline_ms, keep_prepared=keep_prepared_txn)
        self._accumulator.adopt(core.identity)

    async def _rejoin(
        self, group: TransactionGroup, deadline_ms: float, *, keep_prepared: bool
    ) -> None:
        core, session = self._transactional()
        core.rejoin(group)
        try:
            await self._drop_all(self._open(), deadline_ms)
        except BaseException:
            core.apply(Event.INIT_FAILED)
            raise
        await session.rejoin(deadline_ms, keep_prepared=keep_prepared)

    async def adopt_transactions(
        self, member: TransactionMember, group: TransactionGroup | None = None
    ) -> None:
        """Go on as a producer that another process has initialised, with `Admin.init_producer` or
        `init_transactions`, and that has sent nothing yet; nobody else may send in its name. With
        the group that it was initialised with, if any. Raises IllegalStateError if the
        transactional id is not this producer's."""
        core, session = self._transactional()
        if group is not None:
            session.check_group_transactions()
        if member.transactional_id != self.config.transactional_id:
            raise IllegalStateError(
                f"{member.transactional_id} is another producer's: transactional_id is "
                f"{self.config.transactional_id} here"
            )
        core.adopt(ProducerIdentity(member.producer_id, member.producer_epoch), group)
        self._accumulator.adopt(core.identity)

    async def hand_over_transaction(self) -> TransactionMember | None:
        """Write what is buffered and leave the transaction open, for another process to commit it
        (`Admin.end_transaction`; together with others `Admin.commit_group`). None if it is empty.
        This producer needs another `init_transactions` or `adopt_transactions` then.

        Raises AbortableError, FatalError, or TimedOutError (call again).
        """
        core, _ = self._transactional()
        sender = self._open()
        core.apply(Event.PREPARE)
        await self._write_all(core, sender, self._deadline())
        identity, started = core.handed_over()
        assert self.config.transactional_id is not None
        return TransactionMember(self.config.transactional_id, *identity) if started else None

    async def begin_transaction(self) -> None:
        """Start a transaction. Raises IllegalStateError inside another one.

        The first one after the cluster's `transaction.version` has come to 2 gets a new epoch: may
        raise a FatalError, or TimedOutError (call `abort_transaction`, and begin again).
        """
        core, session = self._transactional()
        version = session.cluster_version
        core.begin(version)
        if core.bump_needed:
            await self.abort_transaction()
            core.begin(version)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata | str | None = None,
    ) -> None:
        """Make consumed offsets part of the transaction: the offsets of the *next* records to read.

        With `consumer.group_metadata()` a consumer that has lost its partitions is refused
        (KIP-447); a plain group id is only protected by the transactional id, and by the generation
        of `init_transactions`. Without a group it is that of `init_transactions`. Raises
        AbortableError or FatalError.
        """
        core, session = self._transactional()
        sender = self._open()
        try:
            if group is None:
                group = self._group(core)
            if isinstance(group, str):
                group = ConsumerGroupMetadata(group)
            if offsets:
                await session.send_offsets(offsets, group)
        finally:
            # Where this has failed the transaction, records that linger fail with it, now.
            sender.wake()

    def _group(self, core: ProducerTransaction) -> ConsumerGroupMetadata | str:
        if core.group is not None:
            return core.group.group_id
        if self._consumer is None:
            raise IllegalStateError(
                "send_offsets_to_transaction needs a group: pass consumer.group_metadata(), or "
                "give the consumer to init_transactions"
            )
        group = self._consumer.group_metadata()
        if group.generation_id < 0:
            # Without one the group's coordinator would fence nobody.
            error = CommitFailedError(
                "the consumer is not in a generation of its group: poll until it has partitions"
            )
            raise core.fail_abortable(error)
        return group

    async def prepare_transaction(self) -> PreparedTxnState:
        """Write what is buffered. From now on the transaction stays open, over crashes too, until
        it is committed, aborted or completed: store the state with the decision (KIP-939).

        Raises AbortableError, FatalError, or TimedOutError (call again).
        """
        core, _ = self._transactional()
        sender = self._open()
        if not self.config.transaction_two_phase_commit_enable:
            raise IllegalStateError(
                "prepare_transaction needs transaction_two_phase_commit_enable=True"
            )
        core.apply(Event.PREPARE)
        await self._write_all(core, sender, self._deadline())
        return core.flushed()

    async def complete_transaction(self, state: PreparedTxnState) -> None:
        """Commit the prepared transaction if it is the one of `state`, which was stored when it was
        decided to commit; abort it otherwise. Does nothing after `init_transactions` that found no
        open transaction: then it has been ended already.

        Raises as `commit_transaction` and `abort_transaction` do; may then be called again.
        """
        core, _ = self._transactional()
        if core.prepared is None:
            if core.nothing_kept:
                return
            raise IllegalStateError(f"nothing is prepared: {core.what_to_do}")
        if state == core.prepared:
            await self.commit_transaction()
        else:
            await self.abort_transaction()

    async def commit_transaction(self) -> None:
        """Write what is buffered, then commit: both within `max_block_ms`.

        Raises AbortableError (abort, and do the work again), FatalError (close), or
        CommitOutcomeUnknown: then only calling this again is allowed, it asks on.
        """
        core, session = self._transactional()
        sender = self._open()
        deadline_ms = self._deadline()
        core.apply(Event.PREPARE_COMMIT)
        if core.state is State.PREPARING_COMMIT:
            await self._write_all(core, sender, deadline_ms)
        await session.commit(deadline_ms)
        self._accumulator.adopt(core.identity)

    async def _write_all(
        self, core: ProducerTransaction, sender: Sender, deadline_ms: float
    ) -> None:
        try:
            async with asyncio.timeout(max(deadline_ms - monotonic_ms(), 0) / 1000):
                await self._flush(sender)
        except TimeoutError:
            obstacle = sender.obstacle()
            raise TimedOutError(
                f"the records were not written within max_block_ms ({self.config.max_block_ms:g})"
                f"{obstacle and ': '}{obstacle}; call this again, or abort_transaction()"
            ) from None
        if core.error is not None:
            assert self._session is not None
            await self._session.explain(core.error)
            raise core.error

    async def abort_transaction(self) -> None:
        """Drop what is buffered and abort. Raises TimedOutError (call again) or FatalError."""
        core, _ = self._transactional()
        if core.state is State.FENCED_IN_GROUP:
            # It is aborted at the coordinator: what follows is init_transactions.
            await self._drop_all(self._open(), self._deadline())
        else:
            await self._abort(self._open())

    async def _abort(self, sender: Sender) -> None:
        assert self._core is not None
        assert self._session is not None
        deadline_ms = self._deadline()
        self._core.apply(Event.ABORT)
        await self._drop_all(sender, deadline_ms)
        await self._session.abort(deadline_ms, bump=self._accumulator.is_unresolved)
        self._accumulator.adopt(self._core.identity)

    async def _drop_all(self, sender: Sender, deadline_ms: float) -> None:
        """Forget what has not left, and wait for what has. Raises TimedOutError (call again)."""
        self._accumulator.aborting = True
        try:
            for batch in self._accumulator.drop_unsent():
                sender.fail_tickets(batch, TransactionAbortedError("the transaction is aborted"))
            try:
                async with asyncio.timeout(max(deadline_ms - monotonic_ms(), 0) / 1000):
                    if self._adding is not None:
                        await asyncio.wait({self._adding})
                    await self._flush(sender)
            except TimeoutError:
                raise TimedOutError(
                    "records are still in flight: call abort_transaction() again"
                ) from None
        finally:
            self._accumulator.aborting = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """`async with producer.transaction():` commits at the end, aborts on an exception.

        Never aborts after a commit without a known outcome: CommitOutcomeUnknown goes to the
        caller, who may call `commit_transaction()` again.
        """
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            core, _ = self._transactional()
            # Not while a commit may have been decided, nor after a fatal error.
            if core.state in (
                State.IN_TRANSACTION,
                State.PREPARING,
                State.PREPARING_COMMIT,
                State.ABORTABLE_ERROR,
            ):
                await self.abort_transaction()
            raise
