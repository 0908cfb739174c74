"""The missing end-of-transaction markers of a decided transaction (KIP-98)."""

from __future__ import annotations

import msgspec

from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.metadata import TransactionMetadata


class MarkerWork(msgspec.Struct, frozen=True):
    """The markers of one decided transaction that are not written yet. `decision` is the decided
    metadata. The identity of `decision` distinguishes the transaction from the next one with the
    same epoch. `decision` is None for the markers of a WriteTxnMarkers request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
    decision: TransactionMetadata | None = None
