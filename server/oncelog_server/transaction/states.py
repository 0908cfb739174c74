"""The life of a transactional id as tables (KIP-98 "Transaction Coordinator", KIP-890 "Abort
semantics").

Rules of this file:

1. The tables contain states and verdicts only: no epochs, no clock, no log. The caller has already
checked that the request comes from the current producer.

2. A state and command that are not in a table give INVALID_TXN_STATE. There is no other default.

3. A transactional id with an uncommitted record or with missing markers is busy. Every command on a
busy id gets CONCURRENT_TRANSACTIONS, even a retry. The PREPARE_* rows implement this rule for
missing markers, and the commands implement it for an uncommitted record.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from oncelog_protocol.internal.transaction_log import TransactionState

State = TransactionState


class Verdict(Enum):
    """The action that a table gives for a command in a state."""

    INITIALISE = "bump the epoch and start empty"
    FENCE = "abort the older producer's open transaction; the caller retries"
    ADD = "remember the partitions"
    PREPARE = "decide the transaction"
    PREPARE_EMPTY = "abort nothing, only bump the epoch (KIP-890)"
    DONE = "a retry of the same decision"
    BUSY = "CONCURRENT_TRANSACTIONS"
    FENCED = "PRODUCER_FENCED"


INIT_PRODUCER_ID: Final[dict[State, Verdict]] = {
    State.EMPTY: Verdict.INITIALISE,
    State.ONGOING: Verdict.FENCE,
    State.PREPARE_COMMIT: Verdict.BUSY,
    State.PREPARE_ABORT: Verdict.BUSY,
    State.COMPLETE_COMMIT: Verdict.INITIALISE,
    State.COMPLETE_ABORT: Verdict.INITIALISE,
    # The id has moved to another coordinator (see `grouped/init.py`), and can come back.
    State.DEAD: Verdict.INITIALISE,
}

ADD_PARTITIONS: Final[dict[State, Verdict]] = {
    State.EMPTY: Verdict.ADD,
    State.ONGOING: Verdict.ADD,
    State.PREPARE_COMMIT: Verdict.BUSY,
    State.PREPARE_ABORT: Verdict.BUSY,
    State.COMPLETE_COMMIT: Verdict.ADD,
    State.COMPLETE_ABORT: Verdict.ADD,
}

# EndTxn v0-4. The next transaction has the same epoch, so a retry looks like a first call.
END_SAME_EPOCH: Final[dict[tuple[State, bool], Verdict]] = {
    (State.ONGOING, True): Verdict.PREPARE,
    (State.ONGOING, False): Verdict.PREPARE,
    (State.PREPARE_COMMIT, True): Verdict.BUSY,
    (State.PREPARE_COMMIT, False): Verdict.BUSY,
    (State.PREPARE_ABORT, True): Verdict.BUSY,
    (State.PREPARE_ABORT, False): Verdict.BUSY,
    (State.COMPLETE_COMMIT, True): Verdict.DONE,
    (State.COMPLETE_ABORT, False): Verdict.DONE,
}

# EndTxn v5+ with the stored epoch. This is a first call, because every decision bumps the epoch
# (KIP-890).
END_CURRENT_EPOCH: Final[dict[tuple[State, bool], Verdict]] = {
    (State.EMPTY, False): Verdict.PREPARE_EMPTY,
    (State.ONGOING, True): Verdict.PREPARE,
    (State.ONGOING, False): Verdict.PREPARE,
    (State.PREPARE_COMMIT, True): Verdict.BUSY,
    (State.PREPARE_COMMIT, False): Verdict.BUSY,
    (State.PREPARE_ABORT, True): Verdict.BUSY,
    (State.PREPARE_ABORT, False): Verdict.BUSY,
    (State.COMPLETE_COMMIT, False): Verdict.PREPARE_EMPTY,
    (State.COMPLETE_ABORT, False): Verdict.PREPARE_EMPTY,
}

# EndTxn v5+ with the epoch before the stored epoch. This is a retry after a lost response. If a
# retry of a commit finds an aborted transaction, the commit has lost a race against the timeout.
# The producer is then fenced, and does not get INVALID_TXN_STATE (KAFKA-20785). If the next
# transaction has begun, or the producer has requested another epoch, a later request of the
# producer has overtaken this retry (scenario R7).
END_PREVIOUS_EPOCH: Final[dict[tuple[State, bool], Verdict]] = {
    (State.EMPTY, True): Verdict.FENCED,
    (State.EMPTY, False): Verdict.FENCED,
    (State.ONGOING, True): Verdict.FENCED,
    (State.ONGOING, False): Verdict.FENCED,
    (State.PREPARE_COMMIT, True): Verdict.BUSY,
    (State.PREPARE_COMMIT, False): Verdict.BUSY,
    (State.PREPARE_ABORT, True): Verdict.BUSY,
    (State.PREPARE_ABORT, False): Verdict.BUSY,
    (State.COMPLETE_COMMIT, True): Verdict.DONE,
    (State.COMPLETE_ABORT, False): Verdict.DONE,
    (State.COMPLETE_ABORT, True): Verdict.FENCED,
}

PREPARED: Final[dict[bool, State]] = {True: State.PREPARE_COMMIT, False: State.PREPARE_ABORT}

COMPLETED: Final[dict[State, State]] = {
    State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
    State.PREPARE_ABORT: State.COMPLETE_ABORT,
}
