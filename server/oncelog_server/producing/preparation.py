"""The batches of a Produce request with so many records that their check takes long.

Their records are read in steps before the request runs. The partition's state may change between
two steps, so everything but the records is checked when the batch is appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oncelog_server.producing.produce import NONE, PartitionAppend
from oncelog_server.slices import Steps

# The most bytes of one request that wait in memory with another codec for their append. A small
# request may hold many batches that become large without their codec.
MOST_BYTES: Final = 16 << 20


def slow_of(appends: Iterable[PartitionAppend], now_ms: int) -> list[PartitionAppend]:
    """Return the appends with records that must be read in steps."""
    return [
        append
        for append in appends
        if append.header is not None
        and append.partition is not None
        and append.code is NONE
        and append.partition.batch_rules.is_slow(append.header, now_ms)
    ]


def prepare(slow: Sequence[PartitionAppend], now_ms: int) -> Steps[None]:
    """Prepare the batches, until the copies with another codec have MOST_BYTES. The records of the
    other batches are read at the append. The bytes of the records must not change meanwhile."""
    copied = 0
    for append in slow:
        if copied >= MOST_BYTES:
            return
        header, partition, records = append.header, append.partition, append.records
        assert header is not None
        assert partition is not None
        assert records is not None
        append.prepared = yield from partition.batch_rules.prepare(records, now_ms, header)
        if append.prepared.records is not records:
            copied += len(append.prepared.records)
