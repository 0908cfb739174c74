"""Return the contents of a partition, byte by byte, as a reader of everything gets them."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import split_batches
from tests.harness.driving import fetch
from tests.harness.wire import Wire


def raw(wire: Wire, topic: str, partition: int, offset: int = 0) -> Iterator[bytes]:
    """The batches from this offset to the end, with others as they were fetched together; the last
    of a response may be cut off, and is whole in the next one."""
    while True:
        data = fetch(wire, topic, offset, partition=partition)
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
        found = bytes(data.records or b"")
        if not found:
            return
        yield found
        *_, (_, last) = split_batches(found, allow_partial=True)
        offset = last.next_offset
