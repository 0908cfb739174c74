"""The batches of a Produce request with so many records that their check takes long.

Their records are read in steps before the request runs. The partition's state may change between
two steps, so everything but the records is checked when the batch is appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog_server.producing.produce import NONE, PartitionAppend
from oncelog_server.slices import Steps


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
    """Prepare the batches. The bytes of their records must not change meanwhile."""
    for append in slow:
        header, partition, records = append.header, append.partition, append.records
        assert header is not None
        assert partition is not None
        assert records is not None
        append.prepared = yield from partition.batch_rules.prepare(records, now_ms, header)
