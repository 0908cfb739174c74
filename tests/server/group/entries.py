"""The entries of a log of `__consumer_offsets`, and their replay in a shard."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_protocol.internal.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from oncelog_server.coordinator.shard import CoordinatorRecord, TransactionOfRecords
from oncelog_server.group.shard import GroupShard


@dataclass(frozen=True)
class Appended:
    """A record in the log."""

    record: CoordinatorRecord
    transaction: TransactionOfRecords | None


@dataclass(frozen=True)
class Marker:
    """A transaction marker in the log."""

    producer_id: int
    committed: bool


def replay(shard: GroupShard, entry: Appended | Marker, offset: int) -> None:
    """Replay one entry of the log, as the broker does after an append and while it loads the
    log."""
    if isinstance(entry, Marker):
        shard.replay_marker(entry.producer_id, 0, committed=entry.committed)
    else:
        shard.replay(entry.record, offset=offset, transaction=entry.transaction)


def subscription(*topics: str) -> bytes:
    """Return a consumer's metadata, version 0."""
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 0)
