"""The requests of one transactional producer to its coordinators, made from its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from oncelog_client.values import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.init_producer_id import AssignedTopic, InitProducerIdRequest
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .producer_config import ProducerConfig
from .producer_id import ProducerIdAndEpoch
from .producer_transaction import ProducerTransaction
from .request_versions import ANY_VERSION, versions_with

# KIP-447
TXN_OFFSET_COMMIT_WITH_MEMBER: Final = versions_with(TxnOffsetCommitRequest, "member_id")
# KIP-939
INIT_PRODUCER_ID_WITH_TWO_PHASE: Final = versions_with(InitProducerIdRequest, "enable_2pc")


def assigned_topics(partitions: Iterable[TopicPartition]) -> list[AssignedTopic]:
    """Return input partitions in the form of InitProducerId."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [AssignedTopic(name, numbers) for name, numbers in topics.items()]


def offset_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[TxnOffsetCommitRequestTopic]:
    """Return offsets in the form of TxnOffsetCommit."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        row = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic))
        row.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.known_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return list(topics.values())


class TransactionRequests:
    """Builds the requests of one transactional id from its settings and its present state."""

    def __init__(
        self, transactional_id: str, config: ProducerConfig, transaction: ProducerTransaction
    ) -> None:
        self._id = transactional_id
        self._config = config
        self._transaction = transaction

    def init_producer_id(
        self, identity: ProducerIdAndEpoch, *, keep_prepared: bool
    ) -> tuple[InitProducerIdRequest, range]:
        """Return InitProducerId and the versions that can carry it. To bump the epoch, `identity`
        is the producer's own identity. For a new instance it is NO_IDENTITY."""
        two_phase = self._config.transaction_two_phase_commit_enable
        group = self._transaction.group
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            enable_2pc=two_phase,
            keep_prepared_txn=keep_prepared,
            consumer_group_id=None if group is None else group.group_id,
            consumer_group_generation=-1 if group is None else group.generation_id,
            assigned_partitions=None if group is None else assigned_topics(group.partitions),
        )
        wide = two_phase or keep_prepared
        return request, INIT_PRODUCER_ID_WITH_TWO_PHASE if wide else ANY_VERSION

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        """Return AddPartitionsToTxn for `partitions`."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        identity = self._transaction.identity
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
            transaction_group_id=self._transaction.group_id,
        )

    def add_offsets(self, group_id: str, identity: ProducerIdAndEpoch) -> AddOffsetsToTxnRequest:
        """Return AddOffsetsToTxn for the offsets of `group_id` (before KIP-890)."""
        return AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            group_id=group_id,
            transaction_group_id=self._transaction.group_id,
        )

    def txn_offset_commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        identity: ProducerIdAndEpoch,
    ) -> tuple[TxnOffsetCommitRequest, range]:
        """Return TxnOffsetCommit and the versions that can carry it."""
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=offset_topics(offsets),
            transaction_group_id=self._transaction.group_id,
        )
        names_member = group.generation_id >= 0 or bool(group.member_id)
        return request, TXN_OFFSET_COMMIT_WITH_MEMBER if names_member else ANY_VERSION

    def end_txn(self, *, committed: bool) -> EndTxnRequest:
        """Return EndTxn of the present producer id and epoch."""
        identity = self._transaction.identity
        return EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=committed,
            transaction_group_id=self._transaction.group_id,
        )
