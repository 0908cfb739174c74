"""The producer's side of its current transaction: the state, partitions and groups.

Sources: KIP-98 (TransactionManager of the Java client), KIP-360 (InitProducerId bumps the epoch),
KIP-588 (PRODUCER_FENCED and INVALID_PRODUCER_EPOCH are two errors), KIP-890 part 2 (every EndTxn
bumps the epoch, brokers add partitions), KIP-939 (prepared transactions).
"""

from __future__ import annotations

from collections.abc import Iterable

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

from .prepared_txn_state import PreparedTxnState
from .producer_id import NO_IDENTITY, ProducerIdAndEpoch
from .transaction_states import (
    ADDS_PARTITIONS,
    BEFORE_ANY,
    CLOSING_ABORTS,
    TRANSITIONS,
    WHAT_TO_DO,
    Event,
    State,
)
from .verdicts import BUMP_ON_PRODUCE, FATAL_ON_PRODUCE, FENCES_IN_GROUP, Verdict, verdict


class ProducerTransaction:
    """The state of a transactional producer, with the partitions and groups of its current
    transaction.

    `version` is the cluster's finalized `transaction.version`. From 2 on, brokers add partitions
    and groups to the transaction, and every EndTxn returns a new epoch (KIP-890).
    """

    def __init__(self) -> None:
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        self.identity: ProducerIdAndEpoch = NO_IDENTITY
        self.version = 0
        self.bump_needed = False
        # A commit was sent and got no response. The commit may have succeeded, whatever later
        # responses say.
        self.maybe_committed = False
        # True if the coordinator may know this transaction, so that EndTxn is needed.
        self.started = False
        self.prepared: PreparedTxnState | None = None
        # Consumer group of InitProducerId, None without a group.
        self.group: TransactionGroup | None = None
        # The caller wanted to keep an open transaction, but the transaction had already ended.
        self.nothing_kept = False
        # An earlier transaction has used the epoch: before version 2, EndTxn does not bump the
        # epoch.
        self._epoch_is_worn = False
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._groups: set[str] = set()

    def apply(self, event: Event) -> None:
        """Take one transition. If TRANSITIONS has no row for the state and the event, raise the
        stored error, or IllegalStateError without a stored error."""
        following = TRANSITIONS.get((self.state, event))
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
        """Return the advice for the user in this state."""
        return WHAT_TO_DO[self.state]

    # -- events with data

    def initialized(self, identity: ProducerIdAndEpoch) -> None:
        """Take the response of InitProducerId, for the first call or for a new generation."""
        self.apply(Event.INITIALIZED)
        self._clear()
        self.identity = identity
        self._epoch_is_worn = False

    def rejoin(self, group: TransactionGroup) -> None:
        """Restart in this generation of the group. Raises the errors of `apply` in a state without
        a REJOIN row, for example while a prepared transaction is undecided."""
        self.apply(Event.REJOIN)
        self.group = group
        self._clear()

    def adopt(self, identity: ProducerIdAndEpoch, group: TransactionGroup | None) -> None:
        """Take the identity that another process got from InitProducerId."""
        self.apply(Event.ADOPT)
        self.group = group
        self._clear()
        self.initialized(identity)

    def handed_over(self) -> tuple[ProducerIdAndEpoch, bool]:
        """Hand the transaction over to another process, after all records are written. Return the
        identity, and True if the transaction is not empty."""
        self.apply(Event.HAND_OVER)
        started = self.started
        self._clear()
        return self.identity, started

    def kept(self, identity: ProducerIdAndEpoch, ongoing: PreparedTxnState, version: int) -> None:
        """Take the response of InitProducerId with keepPreparedTxn. `ongoing` is the transaction
        that is still open. If it is empty, the prepared transaction has already ended, and the
        external coordinator does not know this: set `nothing_kept`."""
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
        """Start a transaction under the current `transaction.version`. Set `bump_needed` if the
        version has changed to 2 and the last transaction has left its epoch unchanged. A partition
        may then still lack the marker of the last transaction, and would add new records to that
        transaction. So the caller aborts, which bumps the epoch, and begins again."""
        self.apply(Event.BEGIN)
        self.version = version
        self.nothing_kept = False
        self.bump_needed = self.implicit and self._epoch_is_worn

    def flushed(self) -> PreparedTxnState:
        """Note that the transaction is prepared, because every record is written."""
        self.apply(Event.PREPARED)
        self.prepared = PreparedTxnState(*self.identity)
        return self.prepared

    def ended(self, event: Event, identity: ProducerIdAndEpoch | None) -> None:
        """Note that the coordinator has ended the transaction. `identity` is the new identity in
        the response, if any."""
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
        """Note an error after which the transaction can only be aborted. The first such error is
        kept. Return the error to raise."""
        self.apply(Event.ABORTABLE)
        self.bump_needed = self.bump_needed or bump
        if not isinstance(error, AbortableError):
            abortable = AbortableError(error.message, error.code)
            abortable.__cause__ = error
            error = abortable
        if self.error is None and self.state not in BEFORE_ANY:
            self.error = error
        return error

    def fail_fatal(self, error: KafkaError) -> KafkaError:
        """Note an error after which the producer cannot be used any more. Return the error to
        raise."""
        self.apply(Event.FATAL)
        self.error = error
        return error

    def batch_failed(self, error: KafkaError) -> None:
        """Note that a batch of this transaction could not be written."""
        if self.state in (*BEFORE_ANY, State.FATAL_ERROR, State.FENCED_IN_GROUP):
            return
        if self.is_fence(error.code):
            self.fenced_in_group(error)
        elif error.code in FATAL_ON_PRODUCE:
            self.fail_fatal(error)
        else:
            self.fail_abortable(error, bump=error.code in BUMP_ON_PRODUCE)

    def fenced_in_group(self, error: KafkaError) -> KafkaError:
        """Note that other producers of the group have taken over. Return the error to raise."""
        self.apply(Event.FENCED)
        if not isinstance(error, FencedInGroupError):
            fence = FencedInGroupError(error.message, error.code)
            fence.__cause__ = error
            error = fence
        self.error = error
        return error

    def refused(self, api: ApiKey, code: int, message: str | None = "") -> KafkaError:
        """Apply the error code of a coordinator that ended a call. Return the error to raise."""
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
        """Return the group of the last InitProducerId."""
        return None if self.group is None else self.group.group_id

    def is_fence(self, code: int) -> bool:
        """Return True if an error code says that other producers of the group have taken over."""
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
        """Return True if brokers add partitions and groups to the transaction (KIP-890 part 2)."""
        return self.version >= 2

    def want_partition(self, partition: TopicPartition) -> None:
        """Note that a record for this partition was buffered."""
        if self.implicit:
            self.started = True
            self._added.add(partition)
        elif partition not in self._added:
            self._to_add.add(partition)

    @property
    def is_abortable_by_closing(self) -> bool:
        """Return True if closing the producer aborts the transaction. A close does not abort a
        prepared transaction, a transaction with a commit that may have succeeded, or any
        transaction after a fatal error."""
        return self.state in CLOSING_ABORTS

    @property
    def is_over(self) -> bool:
        """Return True if no more records are sent, because such records could not be committed."""
        return self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR)

    def may_send(self, partition: TopicPartition) -> bool:
        """Return True if the partition is in the transaction, so that a batch may be sent to the
        partition."""
        return partition in self._added and not self.is_over

    def partitions_to_add(self) -> list[TopicPartition]:
        """Return the partitions for the next AddPartitionsToTxn. Return no partitions during an
        abort, because the response might arrive in the next transaction."""
        return sorted(self._to_add) if self.state in ADDS_PARTITIONS else []

    def partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        """Mark the partitions as added by the coordinator."""
        added = set(partitions)
        self.started = True
        self._to_add -= added
        self._added |= added

    def needs_group(self, group_id: str) -> bool:
        """Return True if AddOffsetsToTxn must come before offsets of this group."""
        return not self.implicit and group_id not in self._groups

    def group_added(self, group_id: str) -> None:
        """Note that offsets of this group are (or will be, under KIP-890) part of the
        transaction."""
        self.started = True
        self._groups.add(group_id)
