"""Requests for the transactions of a consumer group, and for transactions that another process
decides (feature `oncelog.group.transactions`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

from oncelog_client.core.transaction_requests import (
    TXN_OFFSET_COMMIT_WITH_MEMBER,
    assigned_topics,
    offset_topics,
)
from oncelog_client.core.verdicts import FENCES_IN_GROUP
from oncelog_client.errors import (
    CommitOutcomeUnknown,
    FencedInGroupError,
    GroupCommitError,
    IllegalStateError,
    KafkaError,
    TimedOutError,
    UnsupportedVersionError,
    error_for,
)
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster, CoordinatorType
from oncelog_client.io.coordinator_calls import Refused, Unanswered, ask, known_code
from oncelog_client.values import (
    OffsetAndMetadata,
    TopicPartition,
    TransactionGroup,
    TransactionMember,
)
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.features import (
    GROUP_TRANSACTIONS,
    GROUP_TRANSACTIONS_LEVEL,
    TRANSACTION_VERSION,
)
from oncelog_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from oncelog_protocol.messages.end_txn import EndTxnMember, EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

# Error codes of TxnOffsetCommit while the group is not in the transaction yet.
_NOT_ADDED_YET: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})


# From this level of transaction.version on, EndTxn returns a new epoch (KIP-890 part 2).
_EPOCH_BUMPS: Final = 2


def bumps_epoch(cluster: Cluster) -> bool:
    """Return True if each transaction of the cluster has another epoch."""
    return cluster.features.get(TRANSACTION_VERSION, 0) >= _EPOCH_BUMPS


def check_feature(cluster: Cluster) -> None:
    """Raise UnsupportedVersionError if the broker lacks the feature. Such a broker would skip the
    unknown tagged fields, and fence no producer."""
    if cluster.features.get(GROUP_TRANSACTIONS, 0) < GROUP_TRANSACTIONS_LEVEL:
        raise UnsupportedVersionError(f"the broker does not announce {GROUP_TRANSACTIONS}")


async def init_producer(
    cluster: Cluster,
    transactional_id: str,
    group: TransactionGroup,
    *,
    transaction_timeout_ms: int,
    timeout_ms: float,
) -> TransactionMember:
    """Send InitProducerId for a producer of another process."""
    check_feature(cluster)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        consumer_group_id=group.group_id,
        consumer_group_generation=group.generation_id,
        assigned_partitions=assigned_topics(group.partitions),
    )
    response = await _ask(
        cluster, group.group_id, request, InitProducerIdResponse, _deadline(timeout_ms)
    )
    return TransactionMember(transactional_id, response.producer_id, response.producer_epoch)


async def commit_group(
    cluster: Cluster,
    group_id: str,
    parent: TransactionMember,
    members: Iterable[TransactionMember],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    timeout_ms: float,
) -> TransactionMember:
    """Commit the transactions of `parent` and `members` by one EndTxn. If there are offsets, first
    send AddOffsetsToTxn and TxnOffsetCommit for the parent. The parent is the producer that the
    EndTxn names outside the list of members. Return the parent with its next epoch.

    With the next epoch, the broker refuses a delayed TxnOffsetCommit of this commit, which would
    otherwise replace the offsets of the next commit (KIP-890 part 2)."""
    check_feature(cluster)
    deadline_ms = _deadline(timeout_ms)
    if offsets:
        await _send_offsets(cluster, group_id, parent, offsets, deadline_ms)
    request = EndTxnRequest(
        *parent,
        committed=True,
        transaction_group_id=group_id,
        members=[EndTxnMember(*member) for member in members],
    )
    implicit = bumps_epoch(cluster)
    ended = await _ask(cluster, group_id, request, EndTxnResponse, deadline_ms, implicit=implicit)
    if not implicit:
        return parent
    return TransactionMember(parent.transactional_id, ended.producer_id, ended.producer_epoch)


async def stage_offsets(
    cluster: Cluster,
    group_id: str,
    parent: TransactionMember,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    timeout_ms: float,
) -> None:
    """Send AddOffsetsToTxn and TxnOffsetCommit for the parent. The parent's EndTxn comes later."""
    check_feature(cluster)
    await _send_offsets(cluster, group_id, parent, offsets, _deadline(timeout_ms))


async def _send_offsets(
    cluster: Cluster,
    group_id: str,
    parent: TransactionMember,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    deadline_ms: float,
) -> None:
    """Send AddOffsetsToTxn and TxnOffsetCommit in this order, without a wait between them. They
    take one round trip if one broker serves both. Another broker may get TxnOffsetCommit before
    AddOffsetsToTxn has taken effect. That broker refuses TxnOffsetCommit, and the client retries
    it."""
    adding = AddOffsetsToTxnRequest(*parent, group_id=group_id, transaction_group_id=group_id)
    added, committed = await asyncio.gather(
        _ask(cluster, group_id, adding, AddOffsetsToTxnResponse, deadline_ms),
        _commit_offsets(cluster, group_id, parent, offsets, deadline_ms),
        return_exceptions=True,
    )
    if isinstance(added, BaseException):
        raise added
    if isinstance(committed, KafkaError) and committed.code in _NOT_ADDED_YET:
        await _commit_offsets(cluster, group_id, parent, offsets, deadline_ms)
    elif isinstance(committed, BaseException):
        raise committed


async def _commit_offsets(
    cluster: Cluster,
    group_id: str,
    parent: TransactionMember,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    deadline_ms: float,
) -> None:
    request = TxnOffsetCommitRequest(
        transactional_id=parent.transactional_id,
        group_id=group_id,
        producer_id=parent.producer_id,
        producer_epoch=parent.producer_epoch,
        topics=offset_topics(offsets),
        transaction_group_id=group_id,
    )
    try:
        await ask(
            cluster,
            CoordinatorType.GROUP,
            group_id,
            request,
            TxnOffsetCommitResponse,
            lambda response: [
                row.error_code for topic in response.topics for row in topic.partitions
            ],
            deadline_ms,
            TXN_OFFSET_COMMIT_WITH_MEMBER,
        )
    except Unanswered as error:
        raise TimedOutError(error.message) from None
    except Refused as refused:
        raise _error(refused, group_id, parent.transactional_id) from None


class _Request(Protocol):
    @property
    def transactional_id(self) -> str | None: ...


class _Response(Protocol):
    error_code: int


A = TypeVar("A", bound=_Response)


async def _ask(
    cluster: Cluster,
    group_id: str,
    request: _Request,
    response_type: type[A],
    deadline_ms: float,
    *,
    implicit: bool = False,
) -> A:
    kind = CoordinatorType.TRANSACTION_GROUP
    try:
        return await ask(
            cluster,
            kind,
            group_id,
            request,
            response_type,
            lambda response: [response.error_code],
            deadline_ms,
            implicit=implicit,
        )
    except Unanswered as error:
        if response_type is EndTxnResponse and error.maybe_done:
            raise CommitOutcomeUnknown(
                f"{error.message}; repeat the call without offsets"
            ) from None
        raise TimedOutError(error.message) from None
    except Refused as refused:
        if response_type is EndTxnResponse and refused.maybe_done:
            raise CommitOutcomeUnknown(
                "refused; an earlier attempt got no response and may have committed",
                known_code(refused.code),
                fatal=True,
            ) from None
        raise _error(refused, group_id, request.transactional_id or "") from None


def _error(refused: Refused, group_id: str, transactional_id: str) -> KafkaError:
    """Return the error to raise. `transactional_id` is the id in the request."""
    response = refused.response
    if isinstance(response, EndTxnResponse) and response.refused_member is not None:
        code = known_code(refused.code)
        return GroupCommitError(
            f"because of {response.refused_member}", code, member=response.refused_member
        )
    if refused.code == ErrorCode.INVALID_TXN_STATE:
        return IllegalStateError(
            "the parent has no open transaction, or its transaction was decided with other members"
        )
    if refused.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        return GroupCommitError(
            f"the parent {transactional_id} was not initialized with group {group_id}, or has got "
            "another producer id since, or its producer id belongs to another principal",
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            member=transactional_id,
        )
    if refused.code in FENCES_IN_GROUP:
        return FencedInGroupError(refused.message, known_code(refused.code))
    return error_for(refused.code, refused.message)


def _deadline(timeout_ms: float) -> float:
    return monotonic_ms() + timeout_ms
