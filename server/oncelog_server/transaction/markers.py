"""The end-of-transaction markers that a transaction needs, and the meaning of their error codes
(KIP-98, WriteTxnMarkers)."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.metadata import TransactionMetadata


class MarkerWork(msgspec.Struct, frozen=True):
    """The markers of one decided transaction that are not written yet. `decision`: what stood in
    the coordinator's log, which tells it from the next one of the same epoch; None in a request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
    decision: TransactionMetadata | None = None


class MarkerOutcome(Enum):
    WRITTEN = "the partition has it"
    RETRY = "try again later, at the leader of that time"
    STALE = "a newer coordinator is at work: stop"


# One leader refusing never holds back the others (scenario C-J): an epoch that is already
# higher there means that a later marker of this producer has been written, so this one is not
# needed any more.
MARKER_OUTCOMES: Final[dict[ErrorCode, MarkerOutcome]] = {
    ErrorCode.NONE: MarkerOutcome.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: MarkerOutcome.WRITTEN,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: MarkerOutcome.STALE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: MarkerOutcome.RETRY,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: MarkerOutcome.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS: MarkerOutcome.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: MarkerOutcome.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: MarkerOutcome.RETRY,
    ErrorCode.KAFKA_STORAGE_ERROR: MarkerOutcome.RETRY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: MarkerOutcome.RETRY,
    ErrorCode.NOT_COORDINATOR: MarkerOutcome.RETRY,
    ErrorCode.BROKER_NOT_AVAILABLE: MarkerOutcome.RETRY,
    ErrorCode.NETWORK_EXCEPTION: MarkerOutcome.RETRY,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: MarkerOutcome.RETRY,
    ErrorCode.UNKNOWN_SERVER_ERROR: MarkerOutcome.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: MarkerOutcome.RETRY,
}


def marker_outcome(code: ErrorCode) -> MarkerOutcome:
    """A code that is not in the table is no reason to leave a decided transaction unfinished."""
    return MARKER_OUTCOMES.get(code, MarkerOutcome.RETRY)
