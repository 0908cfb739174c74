"""The states of a transactional producer, as a table.

Sources: KIP-98 (TransactionManager of the Java client), KIP-939 (prepared transactions).
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """The states of a transactional producer."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    PREPARING = "preparing"
    # All records are written, and an external coordinator decides (KIP-939). Commit, abort or
    # complete ends this state. A close of the producer does not end it.
    PREPARED = "prepared"
    # The user has called commit, and EndTxn was not sent yet: records are in flight, and an abort
    # is still possible.
    PREPARING_COMMIT = "preparing to commit"
    # EndTxn(commit) may have been sent: only the coordinator knows the outcome.
    COMMITTING = "committing"
    COMMIT_UNKNOWN = "waiting for a commit to be retried"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "waiting for an abort"
    # Only for a producer in a consumer group, which calls `init_transactions` again for every
    # generation.
    FENCED_IN_GROUP = "fenced in its group"
    FATAL_ERROR = "fatally failed"


class Event(Enum):
    """The events of a transactional producer."""

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

# In these states no record can be sent, so an error belongs to an earlier transaction.
BEFORE_ANY: Final = (State.UNINITIALIZED, State.INITIALIZING)

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.UNINITIALIZED, Event.INIT): State.INITIALIZING,
    (State.INITIALIZING, Event.INITIALIZED): State.READY,
    (State.INITIALIZING, Event.INIT_FAILED): State.UNINITIALIZED,
    (State.INITIALIZING, Event.KEPT): State.PREPARED,
    # `adopt` takes the producer id and epoch that another process got. This producer has handed a
    # transaction over or ended one before, or is new.
    (State.UNINITIALIZED, Event.ADOPT): State.INITIALIZING,
    (State.READY, Event.ADOPT): State.INITIALIZING,
    (State.READY, Event.BEGIN): State.IN_TRANSACTION,
    (State.IN_TRANSACTION, Event.PREPARE): State.PREPARING,
    (State.PREPARING, Event.PREPARE): State.PREPARING,
    (State.PREPARING, Event.PREPARED): State.PREPARED,
    (State.PREPARING, Event.HAND_OVER): State.UNINITIALIZED,
    (State.PREPARING, Event.ABORT): State.ABORTING,
    (State.PREPARING, Event.ABORTABLE): State.ABORTABLE_ERROR,
    # The external coordinator has decided to commit. After any error, only the commit may be called
    # again.
    (State.PREPARED, Event.PREPARE_COMMIT): State.COMMIT_UNKNOWN,
    (State.PREPARED, Event.ABORT): State.ABORTING,
    (State.IN_TRANSACTION, Event.PREPARE_COMMIT): State.PREPARING_COMMIT,
    (State.IN_TRANSACTION, Event.ABORT): State.ABORTING,
    (State.IN_TRANSACTION, Event.ABORTABLE): State.ABORTABLE_ERROR,
    # The wait for the records timed out. The user may repeat the call, or abort.
    (State.PREPARING_COMMIT, Event.PREPARE_COMMIT): State.PREPARING_COMMIT,
    (State.PREPARING_COMMIT, Event.SEND_COMMIT): State.COMMITTING,
    (State.PREPARING_COMMIT, Event.ABORT): State.ABORTING,
    (State.PREPARING_COMMIT, Event.ABORTABLE): State.ABORTABLE_ERROR,
    # The coordinator reports that it has not committed.
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
    # At a rejoin the coordinator aborts the open transaction, unless it has done so before.
    **{(state, Event.REJOIN): State.INITIALIZING for state in _MAY_REJOIN},
    (State.FENCED_IN_GROUP, Event.ABORTABLE): State.FENCED_IN_GROUP,
    # Such an error may come from a request that was in flight when the producer restarted. It has
    # no effect.
    **{(state, Event.ABORTABLE): state for state in BEFORE_ANY},
    **{
        (state, Event.FENCED): State.FENCED_IN_GROUP
        for state in State
        if state is not State.FATAL_ERROR
    },
    **{(state, Event.FATAL): State.FATAL_ERROR for state in State},
}


# The advice for the user in each state.
WHAT_TO_DO: Final[dict[State, str]] = {
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

# States in which AddPartitionsToTxn may be sent.
ADDS_PARTITIONS: Final = (State.IN_TRANSACTION, State.PREPARING, State.PREPARING_COMMIT)
# In these states closing the producer aborts the transaction. An abort that was interrupted, or has
# timed out, may be repeated, because a coordinator accepts the same abort twice.
CLOSING_ABORTS: Final = (*ADDS_PARTITIONS, State.ABORTABLE_ERROR, State.ABORTING)
