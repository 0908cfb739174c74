"""What a broker has not decided, and readers cannot read yet (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.broker import Broker

AT_REST: Final = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)


def undecided(broker: Broker, *, lossy: bool) -> Iterator[str]:
    """Yield the offline partitions, the partitions with records that are not stable, and the open
    transactions. `lossy`: partitions may lack markers."""
    for offline, reason in broker.partitions.offline().items():
        yield f"{offline} is offline: {reason}"
    for partition in broker.partitions:
        stable, high = partition.last_stable_offset, partition.high_watermark
        end = partition.log_end_offset
        if not lossy and not stable == high == end:
            yield f"{partition.topic_partition}: LSO {stable}, HW {high}, end {end}"
    for _, shard in broker.transactions.runtime.shards():
        for name, live in shard.transactions.items():
            state = live.metadata.state
            if live.pending is not None or state not in AT_REST:
                yield f"{name} is {state.name}, pending {live.pending}"
