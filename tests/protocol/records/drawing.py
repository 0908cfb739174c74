"""Records for tests, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from oncelog_protocol.records.record import NewRecord, Record

LIMIT = 1 << 20
"""Bytes a drawn batch may decompress to: far more than any of them does."""

# Lengths around 64 and 8192, where a varint gets longer, are rare when drawn byte by byte.
PAYLOADS = st.binary(max_size=70) | st.builds(
    lambda byte, size: byte * size, st.binary(min_size=1, max_size=1), st.integers(0, 8200)
)
KEYS = st.none() | PAYLOADS
HEADERS = st.lists(st.tuples(st.text(max_size=10), KEYS), max_size=3).map(tuple)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
# A producer's clock; any int64 whose deltas are int64 too has a test of its own.
TIMES_MS = st.integers(0, 1 << 42)

NEW_RECORDS = st.lists(st.builds(NewRecord, TIMES_MS, KEYS, KEYS, HEADERS), min_size=1, max_size=8)


def as_read(records: Sequence[NewRecord], base_offset: int = 0) -> list[Record]:
    """Return the records that a reader must get from a batch of these; values are bytes only."""
    return [
        Record(
            base_offset + delta,
            new.timestamp,
            None if new.key is None else bytes(new.key),
            None if new.value is None else bytes(new.value),
            tuple((key, None if value is None else bytes(value)) for key, value in new.headers),
        )
        for delta, new in enumerate(records)
    ]
