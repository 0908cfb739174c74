"""The producer's side of a transaction: states as a table; answers are in `verdicts`.

Sources: KIP-98 (TransactionManager of the Java client), KIP-360 (bump by InitProducerId), KIP-588
(fenced is not invalid epoch), KIP-890 part 2 (the coordinator bumps at every end, partitions are
implicit), KIP-939 (prepared transactions). Knows no sockets and no time: the edge asks what to send
and tells what came back.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from oncelog_client.errors import (
    AbortableError,
    FatalError,
    FencedInGroupError,
    IllegalStateError,
    KafkaError,
    error_for,
)
from oncelog_client.values import TopicPartition, TransactionGroup
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode

from .batch import NO_IDENTITY, ProducerIdentity
from .prepared import PreparedTxnState
from .verdicts import FENCES_IN_GROUP, Verdict, verdict


class State(Enum):
    """Where a transactional producer is."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    PREPARING = "preparing"
    # All is written, and somebody else decides (KIP-939): it is ended by commit, abort or complete,
    # never by closing.
    PREPARED = "prepared"
    # commit was called, EndTxn has not left: records are still on their way, an abort is possible.
    PREPARING_COMMIT = "preparing to commit"
    # EndTxn(commit) may have left: only the coordinator knows the outcome.
    COMMITTING = "committing"
    COMMIT_UNKNOWN = "waiting for a commit to be retried"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "waiting for an abort"
    # Only in a consumer group, where `init_transactions` is called again and again.
    FENCED_IN_GROUP = "fenced in its group"
    FATAL_ERROR = "fatally failed"


class Event(Enum):
    """What can happen to it."""

    INIT = "init_transactions"
    REJOIN = "init_transactions in a group"
    ADOPT = "adopt_transactions"
    HAND_OVER = "hand_over_transaction"
    FENCED = "fenced in its group"
    INITIALIZED = "initialized"
    INIT_FAILED = "initialization failed"
    KEPT = "an open transaction was kept"
    BEGIN = "begin_transaction"
    PREPARE = "prepare_transaction"
    PREPARED = "prepared"
    PREPARE_COMMIT = "commit_transaction"
    SEND_COMMIT = "sending the commit"
    COMMITTED = "committed"
    OUTCOME_UNKNOWN = "commit outcome unknown"
    ABORT = "abort_transaction"
    ABORTED = "aborted"
    ABORTABLE = "an abortable error"
    FATAL = "a fatal error"


_MAY_REJOIN: Final = (
    State.UNINITIALIZED,
    State.READY,
    State.IN_TRANSACTION,
    State.PREPARING_COMMIT,
    State.ABORTING,
    State.ABORTABLE_ERROR,
    State.FENCED_IN_GROUP,
)

# Nothing can be sent: an error is one of an earlier transaction, and says nothing of the next.
_BEFORE_ANY: Final = (State.UNINITIALIZED, State.INITIALIZING)

_TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.UNINITIALIZED, Event.INIT): State.INITIALIZING,
    (State.INITIALIZING, Event.INITIALIZED): State.READY,
    (State.INITIALIZING, Event.INIT_FAILED): State.UNINITIALIZED,
    (State.INITIALIZING, Event.KEPT): State.PREPARED,
    # Handed over or ended: another process says anew who it is.
    (State.UNINITIALIZED, Event.ADOPT): State.INITIALIZING,
    (State.READY, Event.ADOPT): State.INITIALIZING,
    (State.READY, Event.BEGIN): State.IN_TRANSACTION,
    (State.IN_TRANSACTION, Event.PREPARE): State.PREPARING,
    (State.PREPARING, Event.PREPARE): State.PREPARING,
    (State.PREPARING, Event.PREPARED): State.PREPARED,
    (State.PREPARING, Event.HAND_OVER): State.UNINITIALIZED,
    (State.PREPARING, Event.ABORT): State.ABORTING,
    (State.PREPARING, Event.ABORTABLE): State.ABORTABLE_ERROR,
    # It is decided: whatever happens now, only the commit may be called again.
    (State.PREPARED, Event.PREPARE_COMMIT): State.COMMIT_UNKNOWN,
    (State.PREPARED, Event.ABORT): State.ABORTING,
    (State.IN_TRANSACTION, Event.PREPARE_COMMIT): State.PREPARING_COMMIT,
    (State.IN_TRANSACTION, Event.ABORT): State.ABORTING,
    (State.IN_TRANSACTION, Event.ABORTABLE): State.ABORTABLE_ERROR,
    # Waiting for the records timed out: the call may be repeated, or given up.
    (State.PREPARING_COMMIT, Event.PREPARE_COMMIT): State.PREPARING_COMMIT,
    (State.PREPARING_COMMIT, Event.SEND_COMMIT): State.COMMITTING,
    (State.PREPARING_COMMIT, Event.ABORT): State.ABORTING,
    (State.PREPARING_COMMIT, Event.ABORTABLE): State.ABORTABLE_ERROR,
    # The coordinator says that it did not commit.
    (State.COMMITTING, Event.ABORTABLE): State.ABORTABLE_ERROR,
    (State.COMMITTING, Event.COMMITTED): State.READY,
    (State.COMMITTING, Event.OUTCOME_UNKNOWN): State.COMMIT_UNKNOWN,
    (State.COMMIT_UNKNOWN, Event.PREPARE_COMMIT): State.COMMIT_UNKNOWN,
    (State.COMMIT_UNKNOWN, Event.SEND_COMMIT): State.COMMITTING,
    (State.ABORTABLE_ERROR, Event.ABORT): State.ABORTING,
    (State.ABORTABLE_ERROR, Event.ABORTABLE): State.ABORTABLE_ERROR,
    (State.ABORTING, Event.ABORT): State.ABORTING,
    (State.ABORTING, Event.ABORTABLE): State.ABORTING,
    (State.ABORTING, Event.ABORTED): State.READY,
    # The coordinator aborts what is open, or has done so.
    **{(state, Event.REJOIN): State.INITIALIZING for state in _MAY_REJOIN},
    (State.FENCED_IN_GROUP, Event.ABORTABLE): State.FENCED_IN_GROUP,
    # So does what was on its way when it began anew.
    **{(state, Event.ABORTABLE): state for state in _BEFORE_ANY},
    **{
        (state, Event.FENCED): State.FENCED_IN_GROUP
        for state in State
        if state is not State.FATAL_ERROR
    },
    **{(state, Event.FATAL): State.FATAL_ERROR for state in State},
}


# What a user does in each state to get on.
_WHAT_TO_DO: Final[dict[State, str]] = {
    State.UNINITIALIZED: "call init_transactions() first",
    State.INITIALIZING: "wait until init_transactions() has returned",
    State.READY: "call begin_transaction() first",
    State.IN_TRANSACTION: "call commit_transaction() or abort_transaction() first",
    State.PREPARING: "call prepare_transaction() again, or abort_transaction()",
    State.PREPARED: "call commit_transaction(), abort_transaction() or complete_transaction()",
    State.PREPARING_COMMIT: "call commit_transaction() again, or abort_transaction()",
    State.COMMITTING: "wait until commit_transaction() has returned",
    State.COMMIT_UNKNOWN: "call commit_transaction() again: it may be committed",
    State.ABORTING: "call abort_transaction() again",
    State.ABORTABLE_ERROR: "call abort_transaction()",
    State.FENCED_IN_GROUP: "call init_transactions() with the new generation of its group",
    State.FATAL_ERROR: "close this producer",
}

_ADDS_PARTITIONS: Final = (State.IN_TRANSACTION, State.PREPARING, State.PREPARING_COMMIT)

# What a producer batch may be refused with that leaves no hope for the producer itself.
_FATAL_ON_PRODUCE: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_BUMP_ON_PRODUCE: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class ProducerTransaction:
    """One transactional producer's state, and what its current transaction contains.

    `version` is the cluster's finalized `transaction.version`; from 2 on partitions and groups are
    added by the brokers, and every end brings a new epoch (KIP-890).
    """

    def __init__(self) -> None:
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        self.identity: ProducerIdentity = NO_IDENTITY
        self.version = 0
        self.bump_needed = False
        # A commit has left and was never answered: whatever is refused after it, it may have won.
        self.maybe_committed = False
        # Whether the coordinator may know of this transaction, so that it has to be ended there.
        self.started = False
        self.prepared: PreparedTxnState | None = None
        # Its consumer group, if it was initialised with one.
        self.group: TransactionGroup | None = None
        # An open transaction was asked for, and there was none: it had been ended before.
        self.nothing_kept = False
        # Its epoch has had transactions whose end brought no new one.
        self._epoch_is_worn = False
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._groups: set[str] = set()

    def apply(self, event: Event) -> None:
        """Take one transition. Raises the stored error, or IllegalStateError for a missing row."""
        following = _TRANSITIONS.get((self.state, event))
        if following is None:
            if self.error is not None:
                raise self.error
            raise IllegalStateError(
                f"{event.value} is not possible while the producer is {self.state.value}: "
                f"{self.what_to_do}"
            )
        self.state = following

    @property
    def what_to_do(self) -> str:
        """What the user calls next."""
        return _WHAT_TO_DO[self.state]

    # -- events that carry something

    def initialized(self, identity: ProducerIdentity) -> None:
        """InitProducerId answered, for the first time or in a new generation."""
        self.apply(Event.INITIALIZED)
        self._clear()
        self.identity = identity
        self._epoch_is_worn = False

    def rejoin(self, group: TransactionGroup) -> None:
        """Begin anew in this generation of the group, from wherever it is."""
        self.apply(Event.REJOIN)
        self.group = group
        self._clear()

    def adopt(self, identity: ProducerIdentity, group: TransactionGroup | None) -> None:
        """Another process has initialised it."""
        self.apply(Event.ADOPT)
        self.group = group
        self._clear()
        self.initialized(identity)

    def handed_over(self) -> tuple[ProducerIdentity, bool]:
        """All is written, and another process decides. Whether there is anything to decide."""
        self.apply(Event.HAND_OVER)
        started = self.started
        self._clear()
        return self.identity, started

    def kept(self, identity: ProducerIdentity, ongoing: PreparedTxnState, version: int) -> None:
        """InitProducerId answered, with the transaction that is still open; if none is, whoever
        decided it did not see that it was ended."""
        if ongoing.is_empty:
            self.initialized(identity)
            self.nothing_kept = True
            return
        self.apply(Event.KEPT)
        self._clear()
        self.identity = identity
        self.version = version
        self.prepared = ongoing
        self.started = True

    def begin(self, version: int) -> None:
        """Start a transaction under the `transaction.version` that holds now. Where `bump_needed`
        then, abort and begin once more: of the one before, under a lower version, a partition may
        have no marker yet, and would take the new one's records into it."""
        self.apply(Event.BEGIN)
        self.version = version
        self.nothing_kept = False
        self.bump_needed = self.implicit and self._epoch_is_worn

    def flushed(self) -> PreparedTxnState:
        """Every record is written: the transaction is prepared."""
        self.apply(Event.PREPARED)
        self.prepared = PreparedTxnState(self.identity.producer_id, self.identity.producer_epoch)
        return self.prepared

    def ended(self, event: Event, identity: ProducerIdentity | None) -> None:
        """The coordinator has ended the transaction; `identity` is the new one, if it gave one."""
        self.apply(event)
        self._clear()
        self._epoch_is_worn = identity is None and not self.implicit
        if identity is not None:
            self.identity = identity

    def _clear(self) -> None:
        self.error = None
        self.bump_needed = False
        self.maybe_committed = False
        self.started = False
        self.prepared = None
        self._added.clear()
        self._to_add.clear()
        self._groups.clear()

    def fail_abortable(self, error: KafkaError, *, bump: bool = False) -> KafkaError:
        """The transaction can only be aborted now. Keeps the first error; returns what to raise."""
        self.apply(Event.ABORTABLE)
        self.bump_needed = self.bump_needed or bump
        if not isinstance(error, AbortableError):
            abortable = AbortableError(error.message, error.code)
            abortable.__cause__ = error
            error = abortable
        if self.error is None and self.state not in _BEFORE_ANY:
            self.error = error
        return error

    def fail_fatal(self, error: KafkaError) -> KafkaError:
        """The producer is done for. Returns what to raise."""
        self.apply(Event.FATAL)
        self.error = error
        return error

    def batch_failed(self, error: KafkaError) -> None:
        """A batch of this transaction could not be written."""
        if self.state in (*_BEFORE_ANY, State.FATAL_ERROR, State.FENCED_IN_GROUP):
            return
        if self.is_fence(error.code):
            self.fenced_in_group(error)
        elif error.code in _FATAL_ON_PRODUCE:
            self.fail_fatal(error)
        else:
            self.fail_abortable(error, bump=error.code in _BUMP_ON_PRODUCE)

    def fenced_in_group(self, error: KafkaError) -> KafkaError:
        """Others of the group have taken over. Returns what to raise."""
        self.apply(Event.FENCED)
        if not isinstance(error, FencedInGroupError):
            fence = FencedInGroupError(error.message, error.code)
            fence.__cause__ = error
            error = fence
        self.error = error
        return error

    def refused(self, api: ApiKey, code: int, message: str | None = "") -> KafkaError:
        """A coordinator said no (a verdict that ends the call). Returns the exception to raise."""
        error = error_for(code, message)
        if self.is_fence(code):
            return self.fenced_in_group(error)
        match verdict(api, code):
            case Verdict.ABORTABLE:
                return self.fail_abortable(error)
            case Verdict.ABORTABLE_BUMP:
                return self.fail_abortable(error, bump=True)
            case _:
                if not isinstance(error, FatalError):
                    fatal = FatalError(error.message, error.code)
                    fatal.__cause__ = error
                    error = fatal
                return self.fail_fatal(error)

    # -- questions

    @property
    def group_id(self) -> str | None:
        """The group it was initialised with."""
        return None if self.group is None else self.group.group_id

    def is_fence(self, code: int) -> bool:
        """Whether an error code says that others of its group have taken over."""
        return self.group is not None and code in FENCES_IN_GROUP

    def check_sendable(self) -> None:
        """Raise unless records and offsets may be added to the transaction now."""
        if self.state is State.IN_TRANSACTION:
            return
        if self.error is not None:
            raise self.error
        raise IllegalStateError(
            f"nothing can be sent while the producer is {self.state.value}: {self.what_to_do}"
        )

    @property
    def implicit(self) -> bool:
        """Whether brokers add partitions and groups by themselves (KIP-890 part 2)."""
        return self.version >= 2

    def want_partition(self, partition: TopicPartition) -> None:
        """A record for this partition was buffered."""
        if self.implicit:
            self.started = True
            self._added.add(partition)
        elif partition not in self._added:
            self._to_add.add(partition)

    @property
    def is_over(self) -> bool:
        """Whether nothing will be sent any more, as it could not be committed."""
        return self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR)

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether a batch may go to this partition: it is part of the transaction."""
        return partition in self._added and not self.is_over

    def partitions_to_add(self) -> list[TopicPartition]:
        """What AddPartitionsToTxn has to carry next. Nothing during an abort: the response would
        come when the next transaction may have begun."""
        return sorted(self._to_add) if self.state in _ADDS_PARTITIONS else []

    def partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        """The coordinator has them."""
        added = set(partitions)
        self.started = True
        self._to_add -= added
        self._added |= added

    def needs_group(self, group_id: str) -> bool:
        """Whether AddOffsetsToTxn has to go before offsets of this group."""
        return not self.implicit and group_id not in self._groups

    def group_added(self, group_id: str) -> None:
        """Offsets of this group are (or will be, under KIP-890) part of the transaction."""
        self.started = True
        self._groups.add(group_id)
