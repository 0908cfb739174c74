"""Transactions that processes share without a group: one process initializes the producer, another
writes, a third decides. Every broker with transactions supports this.

The `transaction.version` of the cluster decides how a repeated EndTxn is recognized. From 2 on
(KIP-890), every end bumps the epoch. EndTxn v5 recognizes a repeated request by the previous epoch,
until the transactional id is initialized or used again. Before 2, the epoch stays, and a repeated
EndTxn is recognized until the next transaction begins.
"""

from __future__ import annotations

from typing import Final

from oncelog_client.core.request_versions import ANY_VERSION
from oncelog_client.core.transaction_requests import INIT_PRODUCER_ID_WITH_TWO_PHASE
from oncelog_client.errors import (
    CommitOutcomeUnknown,
    TimedOutError,
    TransactionGoneError,
    error_for,
)
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster, CoordinatorType
from oncelog_client.io.coordinator_calls import Refused, Unanswered, ask, known_code
from oncelog_client.transaction.group_transactions import bumps_epoch
from oncelog_client.values import TransactionMember
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

# Error codes of EndTxn for a transaction that is not open, and was not ended with the requested
# outcome.
_GONE: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


async def init_producer(
    cluster: Cluster,
    transactional_id: str,
    *,
    two_phase_commit: bool,
    transaction_timeout_ms: int,
    timeout_ms: float,
) -> TransactionMember:
    """Send InitProducerId for a producer of another process. Wait until the producer's open
    transaction is aborted."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        enable_2pc=two_phase_commit,
    )
    try:
        response = await ask(
            cluster,
            CoordinatorType.TRANSACTION,
            transactional_id,
            request,
            InitProducerIdResponse,
            lambda response: [response.error_code],
            monotonic_ms() + timeout_ms,
            INIT_PRODUCER_ID_WITH_TWO_PHASE if two_phase_commit else ANY_VERSION,
        )
    except Unanswered as error:
        raise TimedOutError(error.message) from None
    except Refused as refused:
        raise error_for(refused.code, refused.message) from None
    return TransactionMember(transactional_id, response.producer_id, response.producer_epoch)


async def end_transaction(
    cluster: Cluster, member: TransactionMember, *, committed: bool, timeout_ms: float
) -> None:
    """Send EndTxn for a producer of another process."""
    request = EndTxnRequest(*member, committed=committed)
    try:
        await ask(
            cluster,
            CoordinatorType.TRANSACTION,
            member.transactional_id,
            request,
            EndTxnResponse,
            lambda response: [response.error_code],
            monotonic_ms() + timeout_ms,
            implicit=bumps_epoch(cluster),
        )
    except Unanswered as error:
        if committed and error.maybe_done:
            raise CommitOutcomeUnknown(f"{error.message}; repeat the call") from None
        raise TimedOutError(error.message) from None
    except Refused as refused:
        code = known_code(refused.code)
        if code in _GONE:
            raise TransactionGoneError(str(member), code) from None
        raise error_for(refused.code, refused.message) from None
