"""The calls of a transactional producer to its coordinators, retried up to a deadline.

`verdicts` says what a response means. `transaction_requests` builds the requests. This module has
the deadlines and the order of the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from oncelog_client.core.prepared_txn_state import PreparedTxnState
from oncelog_client.core.producer_config import ProducerConfig
from oncelog_client.core.producer_id import NO_IDENTITY, ProducerIdAndEpoch
from oncelog_client.core.producer_transaction import ProducerTransaction
from oncelog_client.core.request_versions import ANY_VERSION
from oncelog_client.core.transaction_requests import TransactionRequests
from oncelog_client.core.transaction_states import Event
from oncelog_client.core.verdicts import Verdict
from oncelog_client.errors import (
    AbortableError,
    CommitOutcomeUnknown,
    FencedInGroupError,
    KafkaError,
    ProducerFencedError,
    TimedOutError,
)
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster, CoordinatorType
from oncelog_client.io.coordinator_calls import Attempts, Refused, Unanswered, ask, known_code
from oncelog_client.io.fence_reasons import fence_reason
from oncelog_client.values import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import TRANSACTION_VERSION
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from oncelog_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from oncelog_protocol.messages.end_txn import EndTxnResponse
from oncelog_protocol.messages.init_producer_id import InitProducerIdResponse
from oncelog_protocol.messages.txn_offset_commit import TxnOffsetCommitResponse

from .group_transactions import check_feature

R = TypeVar("R")

_FENCES = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.CONCURRENT_PRODUCER_COMMIT,
        ErrorCode.ILLEGAL_GENERATION,
    }
)
_WHAT_TO_DO: dict[type[KafkaError], str] = {
    AbortableError: "call abort_transaction(), then do the transaction's work again",
    FencedInGroupError: "poll, then call init_transactions() with the new assignment",
    ProducerFencedError: "close this producer: only one producer may use a transactional id",
}


class TransactionSession:
    """The calls for one transactional id, and their effects on `ProducerTransaction`."""

    def __init__(
        self, cluster: Cluster, config: ProducerConfig, transaction: ProducerTransaction
    ) -> None:
        assert config.transactional_id is not None
        self._cluster = cluster
        self._config = config
        self._id = config.transactional_id
        self._transaction = transaction
        self._requests = TransactionRequests(self._id, config, transaction)
        # The last error with a looked-up reason, if any. The same error can be raised several
        # times, and its reason is looked up once.
        self._explained: tuple[KafkaError, ...] = ()

    @property
    def cluster_version(self) -> int:
        """Return the finalized `transaction.version` of the cluster, or 0 without one."""
        return self._cluster.features.get(TRANSACTION_VERSION, 0)

    def check_group_transactions(self) -> None:
        """Raise UnsupportedVersionError if the broker has no transactions of groups."""
        check_feature(self._cluster)

    # -- the calls

    async def init(self, deadline_ms: float, *, keep_prepared: bool = False) -> None:
        """Send InitProducerId. The request fences every older producer of this id and ends the open
        transaction. With `keep_prepared` the transaction stays open.

        Raises TimedOutError at `deadline_ms` (call again), or a FatalError.
        """
        self._transaction.apply(Event.INIT)
        await self._take(deadline_ms, keep_prepared=keep_prepared)

    async def rejoin(self, deadline_ms: float, *, keep_prepared: bool = False) -> None:
        """Send InitProducerId in the group's generation. The request fences the producers that own
        an input partition of this producer, and aborts the open transactions of these producers.
        Call `ProducerTransaction.rejoin` first.

        Raises FencedInGroupError if the group has a newer generation, TimedOutError (call again),
        or a FatalError.
        """
        await self._take(deadline_ms, keep_prepared=keep_prepared)

    async def _take(self, deadline_ms: float, *, keep_prepared: bool) -> None:
        response = await self._initialize(deadline_ms, keep_prepared=keep_prepared)
        identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        if not keep_prepared:
            self._transaction.initialized(identity)
            return
        ongoing = PreparedTxnState(
            response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
        )
        self._transaction.kept(identity, ongoing, self.cluster_version)

    async def _initialize(
        self, deadline_ms: float, *, keep_prepared: bool
    ) -> InitProducerIdResponse:
        try:
            return await self._ask_for_producer_id(
                NO_IDENTITY, deadline_ms, keep_prepared=keep_prepared
            )
        except Unanswered as error:
            self._transaction.apply(Event.INIT_FAILED)
            raise TimedOutError(error.message) from None
        except Refused as refused:
            raise self._applied(refused) from None
        except BaseException:
            self._transaction.apply(Event.INIT_FAILED)
            raise

    async def add_partitions(self) -> None:
        """Send AddPartitionsToTxn for the partitions of the transaction, and apply the outcome."""
        partitions = self._transaction.partitions_to_add()
        deadline_ms = self._deadline()

        def codes(response: AddPartitionsToTxnResponse) -> Iterable[int]:
            return [
                row.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ]

        try:
            await self._ask(
                self._requests.add_partitions(partitions),
                AddPartitionsToTxnResponse,
                codes,
                deadline_ms,
            )
        except Unanswered as error:
            self._transaction.fail_abortable(TimedOutError(f"adding partitions: {error.message}"))
        except Refused as refused:
            await self._refused(refused, deadline_ms)
        else:
            self._transaction.partitions_added(partitions)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        """Send AddOffsetsToTxn (before KIP-890) and TxnOffsetCommit. Raises AbortableError
        or FatalError."""
        self._transaction.check_sendable()
        deadline_ms = self._deadline()
        identity = self._transaction.identity
        try:
            if self._transaction.needs_group(group.group_id):
                await self._ask(
                    self._requests.add_offsets(group.group_id, identity),
                    AddOffsetsToTxnResponse,
                    lambda response: [response.error_code],
                    deadline_ms,
                )
            self._transaction.group_added(group.group_id)
            request, versions = self._requests.txn_offset_commit(offsets, group, identity)
            await ask(
                self._cluster,
                CoordinatorType.GROUP,
                group.group_id,
                request,
                TxnOffsetCommitResponse,
                lambda response: [
                    row.error_code for topic in response.topics for row in topic.partitions
                ],
                deadline_ms,
                versions,
                implicit=self._transaction.implicit,
            )
        except Unanswered as error:
            timed_out = TimedOutError(f"sending offsets: {error.message}")
            raise self._transaction.fail_abortable(timed_out) from None
        except Refused as refused:
            raise await self._refused(refused, deadline_ms) from None

    async def commit(self, deadline_ms: float) -> None:
        """Send EndTxn(commit), after all records were written.

        Raises CommitOutcomeUnknown at `deadline_ms`, or if a retry is refused after an attempt
        without a response. Raises AbortableError if the coordinator has not committed, FatalError
        otherwise.
        """
        transaction = self._transaction
        transaction.apply(Event.SEND_COMMIT)
        if not transaction.started:
            transaction.ended(Event.COMMITTED, None)
            return
        attempts = Attempts()
        try:
            identity = await self._end(committed=True, deadline_ms=deadline_ms, attempts=attempts)
        except Unanswered as error:
            transaction.maybe_committed = transaction.maybe_committed or error.maybe_done
            transaction.apply(Event.OUTCOME_UNKNOWN)
            message = f"{error.message}; call commit_transaction() again"
            raise CommitOutcomeUnknown(message) from None
        except Refused as refused:
            is_unresolved = transaction.maybe_committed or refused.maybe_done
            if is_unresolved and refused.code != ErrorCode.TRANSACTION_ABORTABLE:
                unknown = CommitOutcomeUnknown(
                    "refused after an attempt without a response, which may have committed",
                    known_code(refused.code),
                    fatal=True,
                )
                if transaction.is_fence(refused.code):
                    # The next generation starts from the committed offsets, so the outcome is not
                    # needed.
                    transaction.fenced_in_group(unknown)
                    raise unknown from None
                raise transaction.fail_fatal(unknown) from None
            raise await self._refused(refused, deadline_ms) from None
        except BaseException:
            # A cancelled call that was still searching for the coordinator has committed nothing.
            transaction.maybe_committed = transaction.maybe_committed or attempts.maybe_done
            transaction.apply(Event.OUTCOME_UNKNOWN)
            raise
        transaction.ended(Event.COMMITTED, identity)

    async def abort(self, deadline_ms: float, *, bump: bool) -> None:
        """Send EndTxn(abort) when nothing is in flight, and InitProducerId if the sequences have to
        restart at 0. Raises TimedOutError at `deadline_ms` (call again) or FatalError."""
        transaction = self._transaction
        bump = bump or transaction.bump_needed
        identity: ProducerIdAndEpoch | None = None
        try:
            if transaction.started:
                try:
                    identity = await self._end(committed=False, deadline_ms=deadline_ms)
                except Refused as refused:
                    if transaction.is_fence(refused.code):
                        # The fence has aborted the transaction, or prevents its commit.
                        self._applied(refused)
                        return
                    match refused.verdict:
                        case Verdict.FENCED | Verdict.ABORTABLE_BUMP:
                            # Either the coordinator has aborted the transaction at its timeout, or
                            # a newer producer has fenced this producer. InitProducerId shows which.
                            bump = True
                        case _:
                            raise
            if bump and identity is None:
                identity = await self._init_producer_id(transaction.identity, deadline_ms)
        except Unanswered as error:
            raise TimedOutError(f"{error.message}; call abort_transaction() again") from None
        except Refused as refused:
            raise self._applied(refused) from None
        transaction.ended(Event.ABORTED, identity)

    # -- single calls

    async def _end(
        self, *, committed: bool, deadline_ms: float, attempts: Attempts | None = None
    ) -> ProducerIdAndEpoch | None:
        response = await self._ask(
            self._requests.end_txn(committed=committed),
            EndTxnResponse,
            lambda response: [response.error_code],
            deadline_ms,
            attempts=attempts,
        )
        if response.producer_id < 0:
            return None
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def _init_producer_id(
        self, identity: ProducerIdAndEpoch, deadline_ms: float
    ) -> ProducerIdAndEpoch:
        response = await self._ask_for_producer_id(identity, deadline_ms)
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def _ask_for_producer_id(
        self, identity: ProducerIdAndEpoch, deadline_ms: float, *, keep_prepared: bool = False
    ) -> InitProducerIdResponse:
        request, versions = self._requests.init_producer_id(identity, keep_prepared=keep_prepared)
        return await self._ask(
            request,
            InitProducerIdResponse,
            lambda response: [response.error_code],
            deadline_ms,
            versions,
        )

    async def _ask(
        self,
        request: object,
        response: type[R],
        codes: Callable[[R], Iterable[int]],
        deadline_ms: float,
        versions: range = ANY_VERSION,
        *,
        attempts: Attempts | None = None,
    ) -> R:
        kind, key = self._coordinator()
        return await ask(
            self._cluster, kind, key, request, response, codes, deadline_ms, versions,
            implicit=self._transaction.implicit, attempts=attempts,
        )  # fmt: skip

    def _coordinator(self) -> tuple[CoordinatorType, str]:
        """Return the type and key of the coordinator of the transactions. The key is the producer's
        group if it has one, else the transactional id."""
        if self._transaction.group is not None:
            return CoordinatorType.TRANSACTION_GROUP, self._transaction.group.group_id
        return CoordinatorType.TRANSACTION, self._id

    async def explain(self, error: KafkaError, identity: ProducerIdAndEpoch | None = None) -> None:
        """Add cause, client and time to the message of a fence, if the broker reports them."""
        if error.code not in _FENCES or error in self._explained:
            return
        self._explained = (error,)
        reason = await fence_reason(
            self._cluster, *self._coordinator(), self._id, identity or self._transaction.identity
        )
        if reason is not None:
            error.reword(f"{reason}; {_WHAT_TO_DO.get(type(error), 'close this producer')}")

    def _deadline(self) -> float:
        return monotonic_ms() + self._config.max_block_ms

    # -- refused calls

    async def _refused(self, refused: Refused, deadline_ms: float) -> KafkaError:
        """Apply an error code to the transaction, and return the error to raise.

        For a fenced epoch, send InitProducerId first. If the coordinator has aborted the
        transaction at its timeout, this producer continues with a new epoch."""
        before = self._transaction.identity
        if refused.verdict is not Verdict.FENCED or self._transaction.is_fence(refused.code):
            return await self._explained_refusal(self._applied(refused), before)
        try:
            identity = await self._init_producer_id(before, deadline_ms)
        except Unanswered as error:
            return self._transaction.fail_abortable(TimedOutError(error.message), bump=True)
        except Refused as final:
            return await self._explained_refusal(self._applied(final), before)
        self._transaction.identity = identity
        self._transaction.started = False
        timed_out = self._transaction.fail_abortable(
            TimedOutError(
                "the coordinator has aborted the transaction, which took longer than "
                f"transaction_timeout_ms ({self._config.transaction_timeout_ms}); "
                "call abort_transaction(), then do the transaction's work again",
                known_code(refused.code),
            )
        )
        return await self._explained_refusal(timed_out, before)

    async def _explained_refusal(
        self, error: KafkaError, identity: ProducerIdAndEpoch
    ) -> KafkaError:
        await self.explain(error, identity)
        return error

    def _applied(self, refused: Refused) -> KafkaError:
        """Apply an error code to the transaction, and return the error to raise."""
        return self._transaction.refused(refused.api, refused.code, refused.message)
