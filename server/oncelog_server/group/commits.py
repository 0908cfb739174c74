"""Decides OffsetCommit, TxnOffsetCommit and OffsetDelete. The requests are checked, then turned
into records of offsets.

Source: Kafka's OffsetMetadataManager; KIP-447.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from oncelog_protocol.types import INT64_MAX
from oncelog_server.coordinator.shard import CoordinatorRecord, Decision, TransactionOfRecords
from oncelog_server.group.append_errors import append_error
from oncelog_server.group.effects import MemberSeen
from oncelog_server.group.group import Group
from oncelog_server.group.history import Dismissal, Why
from oncelog_server.group.moment import Caller
from oncelog_server.group.offsets import CommittedOffset
from oncelog_server.group.records import fits_record, offset_record, offset_tombstone
from oncelog_server.group.table import GroupTable
from oncelog_server.refusal import Refused

_GROUP_NOT_FOUND_SINCE: Final = 9
# A commit that is refused with one of these codes comes from a client that is not in the newest
# generation of the group.
GONE_ON: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)

_Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition


class Commits:
    """Decides commits and deletions of offsets."""

    __slots__ = ("_table",)

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    # --- plain commits

    def offset_commit(
        self, request: OffsetCommitRequest, caller: Caller
    ) -> Decision[OffsetCommitResponse]:
        """Return a record for each partition with metadata that is not too large."""
        try:
            member_id = self._check_commit(request, caller)
        except Refused as refused:
            code = refused.code
            return Decision(_commit_answer(request, lambda _: code))
        retention_ms = request.retention_time_ms
        # A client may request an expiry beyond the largest timestamp.
        expires_ms = None if retention_ms == -1 else min(caller.wall_ms + retention_ms, INT64_MAX)
        records = [
            self._record(request.group_id, topic.name, partition, caller, expires_ms)
            for topic in request.topics
            for partition in topic.partitions
            if self._metadata_code(partition) is ErrorCode.NONE
        ]
        # A commit counts as a heartbeat.
        seen = () if member_id is None else (MemberSeen(request.group_id, member_id),)
        return Decision(
            _commit_answer(request, self._metadata_code),
            tuple(records),
            effects=seen,
            failed=lambda code: _commit_answer(request, lambda _: append_error(code)),
        )

    def _check_commit(self, request: OffsetCommitRequest, caller: Caller) -> str | None:
        """Return the id of the member that commits. Return None if the client is no member. Raises
        Refused if the client may not commit."""
        if not fits_record(request.group_id):
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        generation_id = request.generation_id_or_member_epoch
        group = self._table.groups.get(request.group_id)
        if group is None:
            if generation_id < 0:
                return None  # The first offset creates a simple group.
            if caller.api_version >= _GROUP_NOT_FOUND_SINCE:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
            raise Refused(ErrorCode.ILLEGAL_GENERATION)
        group.check_commit(
            request.member_id,
            request.group_instance_id,
            generation_id,
            is_transactional=False,
        )
        return request.member_id if group.has_member(request.member_id) else None

    # --- commits in a transaction

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, caller: Caller
    ) -> Decision[TxnOffsetCommitResponse]:
        """Return a record for each partition, as OffsetCommit does. The offsets stay invisible
        until the transaction's marker."""
        try:
            self._check_txn_commit(request)
        except Refused as refused:
            code = refused.code
            return Decision(_txn_answer(request, lambda _: code))
        records = [
            self._record(request.group_id, topic.name, partition, caller, None)
            for topic in request.topics
            for partition in topic.partitions
            if self._metadata_code(partition) is ErrorCode.NONE
        ]
        return Decision(
            _txn_answer(request, self._metadata_code),
            tuple(records),
            transaction=TransactionOfRecords(request.producer_id, request.producer_epoch),
            failed=lambda code: _txn_answer(request, lambda _: append_error(code)),
        )

    def concurrent_producers(self, request: TxnOffsetCommitRequest) -> frozenset[int]:
        """Return the other producers that have an offset for one of these partitions in an open
        transaction. Return no producers if the commit would be refused."""
        offsets = self._table.offsets
        if not offsets.is_group_in_transaction(request.group_id):
            return frozenset()
        try:
            self._check_txn_commit(request)
        except Refused:
            return frozenset()
        found = {
            producer_id
            for topic in request.topics
            for partition in topic.partitions
            for producer_id in offsets.pending_producers(
                request.group_id, topic.name, partition.partition_index
            )
        }
        return frozenset(found - {request.producer_id})

    def dismissal(self, request: TxnOffsetCommitRequest) -> Dismissal | None:
        """Return the reason why the newest generation of the group does not contain the caller.
        Return None if the group accepts the caller, or refuses the request for another reason."""
        try:
            self._check_txn_commit(request)
        except Refused as refused:
            if refused.code not in GONE_ON:
                return None
            group = self._table.groups.get(request.group_id)
            if group is None:
                return Dismissal(Why.UNKNOWN)
            return group.history.dismissal(
                request.member_id, request.generation_id_or_member_epoch, refused.code
            )
        return None

    def _check_txn_commit(self, request: TxnOffsetCommitRequest) -> None:
        if not request.group_id or not fits_record(request.group_id):
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        generation_id = request.generation_id_or_member_epoch
        group = self._table.groups.get(request.group_id)
        if group is None:
            if generation_id < 0:
                return
            raise Refused(ErrorCode.ILLEGAL_GENERATION)
        group.check_commit(
            request.member_id,
            request.group_instance_id,
            generation_id,
            is_transactional=True,
        )

    def _metadata_code(self, partition: _Partition) -> ErrorCode:
        metadata = partition.committed_metadata
        if metadata is not None and len(metadata) > self._table.config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def _record(
        self,
        group_id: str,
        topic: str,
        partition: _Partition,
        caller: Caller,
        expire_timestamp_ms: int | None,
    ) -> CoordinatorRecord:
        committed = CommittedOffset(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp_ms=caller.wall_ms,
            expire_timestamp_ms=expire_timestamp_ms,
            record_offset=-1,
        )
        return offset_record(group_id, topic, partition.partition_index, committed)

    # --- deletion

    def offset_delete(
        self, request: OffsetDeleteRequest, caller: Caller
    ) -> Decision[OffsetDeleteResponse]:
        """Delete offsets of topics that the group does not subscribe to (KIP-496)."""
        if not request.group_id:
            return Decision(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self._table.groups.get(request.group_id)
        if group is None:
            return Decision(OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        if group.offset_delete_code is not ErrorCode.NONE:
            return Decision(OffsetDeleteResponse(error_code=group.offset_delete_code))
        records = [
            offset_tombstone(group.group_id, topic.name, partition.partition_index)
            for topic in request.topics
            if not group.is_subscribed_to(topic.name)
            for partition in topic.partitions
            if self._has_offset(group.group_id, topic.name, partition.partition_index)
        ]
        return Decision(
            OffsetDeleteResponse(topics=[_deleted(group, topic) for topic in request.topics]),
            tuple(dict.fromkeys(records)),
            failed=lambda code: OffsetDeleteResponse(error_code=append_error(code)),
        )

    def _has_offset(self, group_id: str, topic: str, partition: int) -> bool:
        offsets = self._table.offsets
        return offsets.committed(group_id, topic, partition) is not None or offsets.has_pending(
            group_id, topic, partition
        )


def _commit_answer(
    request: OffsetCommitRequest, code_of: Callable[[_Partition], int]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code_of(partition)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _txn_answer(
    request: TxnOffsetCommitRequest, code_of: Callable[[_Partition], int]
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code_of(partition)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _deleted(group: Group, topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    code = ErrorCode.NONE
    if group.is_subscribed_to(topic.name):
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
            for partition in topic.partitions
        ],
    )
