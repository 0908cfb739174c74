"""Rare states, each with a name. The swarm must meet each of them, otherwise it no longer tests
that state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

# After this many seeds, each state in STATES must have been met.
ENOUGH_SEEDS: Final = 2_000

STATES: Final = (
    # In the broker's memory at its kill. The C-points of the crash matrix are among these.
    "killed with a transaction open",
    "killed with some markers written",
    "killed before EMPTY was committed",
    "killed before ONGOING was committed",
    "killed before PREPARE_COMMIT was committed",
    "killed before PREPARE_ABORT was committed",
    "killed before COMPLETE_COMMIT was committed",
    "killed before COMPLETE_ABORT was committed",
    "killed in PREPARE_COMMIT",
    "killed in PREPARE_ABORT",
    "killed between the last marker and COMPLETE",
    "killed while EndTxn waits",
    "killed while a producer waits for the disk",
    "killed during a verification",
    "killed inside a change of the disk",
    "power lost inside a change of the disk",
    "killed with the last stable offset held back",
    "killed with records that are not committed",
    "killed with deleted segments still on disk",
    "killed with group offsets committed",
    "killed with group offsets in a transaction",
    "killed with a group PREPARING_REBALANCE",
    "killed with a group COMPLETING_REBALANCE",
    "killed with a group STABLE",
    "client killed",
    # Starts and stops.
    "clean start",
    "start after a crash",
    "start refused",
    "clean stop",
    "stop that is not clean",
    "log not closed",
    "partition offline",
    "cannot lead partition",
    "torn end cut off",
    "rebuilt metadata",
    "rebuilt leader-epoch-checkpoint",
    # Undecided states when the simulation compares the broker's memory with its files. It compares
    # them after a start, and also while the broker runs ("on the way").
    "a shard has loaded after the start",
    "after a start: a transaction is Ongoing",
    "after a start: a transaction is PrepareAbort",
    "after a start: a transaction is PrepareCommit",
    "after a start: group offsets are in a transaction",
    "after a start: records are not committed",
    "after a start: the last stable offset is held back",
    "on the way: a transaction is Ongoing",
    "on the way: a transaction is PrepareAbort",
    "on the way: a transaction is PrepareCommit",
    "on the way: group offsets are in a transaction",
    "on the way: records are not committed",
    "on the way: the last stable offset is held back",
    # The disk.
    "disk refused append",
    "disk refused create",
    "disk refused read",
    "disk refused sync",
    "checkpoints refused",
    "disk full at: log",
    "disk full at: index",
    "disk full at: timeindex",
    "disk full at: txnindex",
    "disk full at: snapshot",
    "disk full at: leader epochs",
    "disk full at: sizes of segments",
    "disk full at: checkpoints",
    "disk full at: partition.metadata",
    "disk full at: compaction",
    "disk full at: deleted",
    "disk full at: directories",
    "disk full at: coordinators",
    "disk full at: everything",
    "disk full at: metadata store",
    "healed of a full disk without a restart",
    "partition offline until the disk takes it",
    "log compacted",
    "log not compacted",
    "log compaction refused by the disk",
    "log of many segments",
    # Transactions in the broker's log events.
    "transaction aborted: newer instance",
    "transaction aborted: timed out",
    "producer refused: newer instance",
    "producer refused: timed out",
    "connection closed: idle",
    "connection closed: the broker stops",
    # Transactions in the clients' operations.
    "transactional id taken over",
    "commit outcome unknown",
    "commit refused, abortable",
    "abort timed out",
    "transaction lost: PRODUCER_FENCED",
    "transaction to be aborted: INVALID_PRODUCER_EPOCH",
    "transaction to be aborted: PRODUCER_FENCED",
    "transaction to be aborted: REQUEST_TIMED_OUT",
    "topic deleted under a transaction",
    "group committed",
    "group commit outcome unknown",
    "group commit refused: FencedInGroupError",
    "group commit refused: GroupCommitError",
    "group commit found done after a crash",
    "group commit found not done after a crash",
    "transaction aborted: newer generation",
    "left a prepared transaction to the next producer",
    "prepared transaction found after a crash",
    "end refused PRODUCER_FENCED",
    "raw producer lost an answer",
    "duplicate answered with its first offset",
    "batch refused CONCURRENT_TRANSACTIONS",
    "batch refused INVALID_PRODUCER_EPOCH",
    "batch refused KAFKA_STORAGE_ERROR",
    "batch refused NOT_ENOUGH_REPLICAS",
    "batch refused OUT_OF_ORDER_SEQUENCE_NUMBER",
    "batch refused INVALID_TIMESTAMP",
    "client met CONCURRENT_TRANSACTIONS",
    "client met COORDINATOR_NOT_AVAILABLE",
    "client met NETWORK_EXCEPTION",
    "client met REQUEST_TIMED_OUT",
    # A client with few rights.
    "right taken away",
    "right given back",
    "request denied",
    "request allowed by rules",
    "denied DELETE TOPIC",
    "denied READ GROUP",
    "denied READ TOPIC",
    "denied WRITE TOPIC",
    "denied WRITE TRANSACTIONAL_ID",
    "denied a producer id of its user",
    "transactional id taken over by another user",
    # In the logs at the end.
    "two transactions open in one partition",
    "committed and aborted transaction interleaved",
    "committed transaction over several segments",
    "aborted transaction over several segments",
    "committed group offsets",
    "aborted group offsets",
    "marker of a later coordinator",
    "marker without data",
    "producer epoch above ten",
    # Allowed anomalies, because transactions do not exclude them.
    "allowed G0",
    "allowed int-send-skip",
)


class Sometimes:
    """Counts states. `met(name)` also counts names outside STATES, which are optional."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def met(self, name: str, times: int = 1) -> None:
        if times > 0:
            self.counts[name] += times


def never_met(met: Collection[str], states: Collection[str] = STATES) -> list[str]:
    return [name for name in states if name not in met]
