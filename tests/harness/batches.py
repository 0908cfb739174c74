"""The bytes of a partition, as a read_uncommitted reader gets them."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import split_batches
from tests.harness.driving import fetch


def raw(wire: Wire, topic: str, partition: int, offset: int = 0) -> Iterator[bytes]:
    """Yield the record bytes of each Fetch response, from this offset to the end of the partition.
    The last batch of a response may be cut off. The next response then has the whole batch."""
    while True:
        data = fetch(wire, topic, offset, partition=partition)
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
        found = bytes(data.records or b"")
        if not found:
            return
        yield found
        *_, (_, last) = split_batches(found, allow_partial=True)
        offset = last.next_offset
