"""The part of the admin client for transactions: transactions of other producers, and transactions
that processes share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from oncelog_client.core.needed_rights import needs
from oncelog_client.errors import IllegalStateError
from oncelog_client.io.cluster import Cluster
from oncelog_client.transaction.parent_epochs import ParentEpochs

# Each method imports its own modules, so that a command line with one or two calls starts fast.
if TYPE_CHECKING:
    from oncelog_client.admin.transaction_descriptions import (
        AbortTransactionSpec,
        ProducerState,
        TransactionDescription,
        TransactionListing,
    )
    from oncelog_client.io.state_log import StateLog
    from oncelog_client.values import (
        OffsetAndMetadata,
        TopicPartition,
        TransactionGroup,
        TransactionMember,
    )


class TransactionAdmin:
    """The methods of `Admin` for transactions and their producers."""

    _cluster: Cluster
    _timeout_ms: int
    _parents: ParentEpochs

    @needs("READ")
    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the producers of each partition as the partition's leader knows them. With
        `broker_id`, return them as this broker knows them."""
        from oncelog_client.admin import transactions

        return await transactions.describe_producers(
            self._cluster, partitions, broker_id, self._timeout_ms
        )

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        transactional_id_pattern: str | None = None,
        group_id: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of the cluster that match all given filters: states
        (`Ongoing`, `Empty` ...), producer ids, a minimum duration in ms, a regular expression of
        RE2. With `group_id`, only the coordinator of the group's transactions gets a request,
        because this coordinator has all transactional ids of the group."""
        from oncelog_client.admin import transactions
        from oncelog_client.core.arguments import texts
        from oncelog_protocol.messages.list_transactions import ListTransactionsRequest

        request = ListTransactionsRequest(
            texts("states", states), list(producer_ids), duration_ms, transactional_id_pattern
        )
        return await transactions.list_transactions(
            self._cluster, request, group_id, self._timeout_ms
        )

    async def may_write_markers(self) -> bool:
        """Return True if this client may abort transactions without their coordinators: if it has
        ALTER or CLUSTER_ACTION on the cluster."""
        from oncelog_client.admin import cluster_rights

        return await cluster_rights.may_write_markers(self._cluster, self._timeout_ms)

    @needs("DESCRIBE")
    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Return transactional ids with state and partitions. Raises KafkaError
        (TRANSACTIONAL_ID_NOT_FOUND) for an id that does not exist."""
        from oncelog_client.admin import transactions

        return await transactions.describe_transactions(
            self._cluster, transactional_ids, self._timeout_ms
        )

    @needs("ALTER")
    async def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Write an ABORT marker without the coordinator. The transaction must be unknown to the
        coordinator (KIP-664). If the coordinator knows the transaction, a broker of oncelog refuses
        the marker (INVALID_TXN_STATE). Apache Kafka aborts the transaction in one partition, and
        the other partitions may still be committed. Use `force_terminate_transaction` for such a
        transaction."""
        from oncelog_client.admin import transactions

        await transactions.abort_transaction(self._cluster, spec, self._timeout_ms)

    @needs("WRITE")
    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Abort the ids' open transactions and fence their producers. Return each id's new producer
        id and epoch. An id that does not exist is created."""
        from oncelog_client.admin import transactions

        return dict(
            await transactions.fence_producers(self._cluster, transactional_ids, self._timeout_ms)
        )

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of a transactional id. A prepared transaction is aborted too
        (KIP-939)."""
        await self.fence_producers([transactional_id])

    # -- transactions that processes share

    async def init_producer(
        self,
        transactional_id: str,
        group: TransactionGroup | None = None,
        *,
        transaction_timeout_ms: int = 60_000,
        two_phase_commit: bool = False,
    ) -> TransactionMember:
        """Initialize a transactional producer for another process, which calls
        `Producer.adopt_transactions`. This call fences older producers of the transactional id, as
        `Producer.init_transactions` does.

        With a group, the producer is initialized *with that group*, as a member of generation
        `group.generation_id`. `commit_group` can then decide the producer's transactions. The call
        also fences the producers of the group's older generations. Raises FencedInGroupError if the
        group has a newer generation, and UnsupportedVersionError if the broker lacks the feature
        `oncelog.group.transactions`.

        With `two_phase_commit` the producer's transactions have no timeout (KIP-939). Raises
        UnsupportedVersionError if the broker does not have two-phase commit, AuthorizationError if
        the broker does not allow two-phase commit, and IllegalStateError if a group is given too.
        """
        from oncelog_client.transaction import group_transactions, shared_transactions

        if group is None:
            return await shared_transactions.init_producer(
                self._cluster,
                transactional_id,
                two_phase_commit=two_phase_commit,
                transaction_timeout_ms=transaction_timeout_ms,
                timeout_ms=self._timeout_ms,
            )
        if two_phase_commit:
            raise IllegalStateError(
                "two_phase_commit is not possible with a group: commit_group decides the "
                "transactions of a group"
            )
        return await group_transactions.init_producer(
            self._cluster,
            transactional_id,
            group,
            transaction_timeout_ms=transaction_timeout_ms,
            timeout_ms=self._timeout_ms,
        )

    async def end_transaction(self, member: TransactionMember, *, committed: bool = True) -> None:
        """Commit or abort a transaction that another process has left open with
        `Producer.hand_over_transaction`. A producer with a group needs `commit_group` instead.

        Any process may repeat the call until the transactional id is used again. A repeated call
        succeeds if the transaction has ended with this outcome. Raises TransactionGoneError if the
        transaction is not open and has not ended with this outcome. Without a response, raises
        CommitOutcomeUnknown if a commit may have taken effect (repeat the call), otherwise
        TimedOutError.
        """
        from oncelog_client.transaction import shared_transactions

        await shared_transactions.end_transaction(
            self._cluster, member, committed=committed, timeout_ms=self._timeout_ms
        )

    def state_log(self, partition: TopicPartition) -> StateLog:
        """Return the StateLog of a partition. Processes with a common producer keep their state in
        this partition. The call sends no request."""
        from oncelog_client.io.state_log import StateLog

        return StateLog(self._cluster, partition, self._timeout_ms)

    async def stage_group_offsets(
        self,
        group_id: str,
        parent: TransactionMember,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Add offsets of the group to the transaction of the parent, the producer that commits for
        the group. This call is the first half of `commit_group`. `commit_group` without offsets is
        the second half. Raises FencedInGroupError, or GroupCommitError if the parent was not
        initialized with the group."""
        from oncelog_client.transaction import group_transactions

        staging = self._parents.for_offsets(parent)
        await group_transactions.stage_offsets(
            self._cluster, group_id, staging, offsets, timeout_ms=self._timeout_ms
        )

    async def commit_group(
        self,
        group_id: str,
        parent: TransactionMember,
        members: Iterable[TransactionMember],
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
    ) -> TransactionMember:
        """Commit open transactions of a group by one decision: all transactions, or none. Return
        the parent for the next commit.

        The parent and all members must have been initialized with the group in its newest
        generation, by `init_producer` or `init_transactions` with a TransactionGroup's values. The
        call first adds `offsets` of the group to the parent's transaction. This transaction must
        not be empty. Each commit gives the parent another epoch (KIP-890). This Admin object
        remembers it, so `parent` may still be the member that `init_producer` returned. Another
        Admin object needs the returned member. Afterwards the members' producers need another
        `init_transactions` or `init_producer`.

        Nothing is committed after GroupCommitError (the named member cannot commit, or the parent
        was not initialized with the group), FencedInGroupError (of the parent), RecordTooLargeError
        (too many members) and IllegalStateError (the parent has no open transaction, or its
        transaction was decided with other members). After CommitOutcomeUnknown, repeat the call
        *without offsets* to learn the outcome.
        """
        from oncelog_client.transaction import group_transactions

        parents = self._parents
        ended = parents.for_offsets(parent) if offsets else parents.for_commit(parent)
        newest = await group_transactions.commit_group(
            self._cluster,
            group_id,
            ended,
            members,
            offsets or {},
            timeout_ms=self._timeout_ms,
        )
        parents.committed(parent, ended, newest)
        return newest
