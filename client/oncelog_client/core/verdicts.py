"""The meaning of a coordinator's response for a transactional producer, as tables by API and code.

Sources: the Java client's TransactionManager, KIP-360, KIP-447, KIP-588, KIP-890.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import RETRIABLE, ErrorCode


class Verdict(Enum):
    """The meaning of a coordinator's response for the client."""

    DONE = "done"
    RETRY = "ask again"
    FIND_COORDINATOR = "find the new coordinator"
    ABORTABLE = "abort"
    # Abort, then get a new epoch from InitProducerId, because the sequences must restart.
    ABORTABLE_BUMP = "abort and bump"
    # The epoch is stale. Either a newer producer has bumped the epoch, which is fatal. Or the
    # coordinator has bumped it at the transaction's timeout. InitProducerId(producer id, epoch)
    # shows which.
    FENCED = "fenced"
    FATAL = "fatal"


_EVERYWHERE: Final[dict[ErrorCode, Verdict]] = {
    ErrorCode.NONE: Verdict.DONE,
    ErrorCode.NOT_COORDINATOR: Verdict.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.FIND_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: Verdict.FIND_COORDINATOR,
    **dict.fromkeys(
        RETRIABLE
        - {
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.REQUEST_TIMED_OUT,
        },
        Verdict.RETRY,
    ),
    ErrorCode.TRANSACTION_ABORTABLE: Verdict.ABORTABLE,
    ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
}

_VERDICTS: Final[dict[ApiKey, dict[ErrorCode, Verdict]]] = {
    ApiKey.FIND_COORDINATOR: {ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORTABLE},
    # These codes are fatal only in a response to InitProducerId.
    ApiKey.INIT_PRODUCER_ID: {
        ErrorCode.PRODUCER_FENCED: Verdict.FATAL,
        ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FATAL,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Verdict.ABORTABLE,
        ErrorCode.OPERATION_NOT_ATTEMPTED: Verdict.ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.ABORTABLE_BUMP,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.ABORTABLE_BUMP,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.ABORTABLE_BUMP,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.ABORTABLE_BUMP,
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORTABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Verdict.ABORTABLE,
        # KIP-447: the consumer of this generation is a zombie. The producer is not.
        ErrorCode.ILLEGAL_GENERATION: Verdict.ABORTABLE,
        ErrorCode.UNKNOWN_MEMBER_ID: Verdict.ABORTABLE,
        ErrorCode.FENCED_INSTANCE_ID: Verdict.ABORTABLE,
        ErrorCode.STALE_MEMBER_EPOCH: Verdict.ABORTABLE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE: Verdict.ABORTABLE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Verdict.ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.ABORTABLE_BUMP,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.ABORTABLE_BUMP,
    },
    ApiKey.END_TXN: {
        # From transaction version 2 on a broker may use this code for a transaction that timed out.
        ErrorCode.INVALID_TXN_STATE: Verdict.FENCED,
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.ABORTABLE_BUMP,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.ABORTABLE_BUMP,
    },
}


def verdict(api: ApiKey, code: int) -> Verdict:
    """Return the meaning of `code` in a response of `api`. A code in no table is fatal."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return Verdict.FATAL
    return _VERDICTS[api].get(known) or _EVERYWHERE.get(known, Verdict.FATAL)


# For a producer in a consumer group, these error codes mean that another producer has taken over
# its transactional id or its input partitions. The codes are not fatal then, and the producer calls
# `init_transactions` without an abort.
FENCES_IN_GROUP: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.CONCURRENT_PRODUCER_COMMIT,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_TXN_STATE,
    }
)

# Error codes of Produce that are raised before the append. Other codes may follow an append: a
# leader returns NOT_LEADER_OR_FOLLOWER if it loses its partition while it waits for the followers.
NOT_WRITTEN: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        # The connection was refused, so the batch was not sent.
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

# Error codes of Produce after which the producer cannot be used any more.
FATAL_ON_PRODUCE: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
# Error codes of Produce after which the sequences restart under a new epoch.
BUMP_ON_PRODUCE: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
