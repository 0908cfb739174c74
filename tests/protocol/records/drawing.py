"""Records for tests, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from oncelog_protocol.records.record import NewRecord, Record

LIMIT = 1 << 20
"""Limit of the decompressed size, in bytes. Every drawn batch is far smaller."""

# Lengths around 64 and 8192, where a varint gets longer, are rare when drawn byte by byte.
PAYLOADS = st.binary(max_size=70) | st.builds(
    lambda byte, size: byte * size, st.binary(min_size=1, max_size=1), st.integers(0, 8200)
)
KEYS = st.none() | PAYLOADS
HEADERS = st.lists(st.tuples(st.text(max_size=10), KEYS), max_size=3).map(tuple)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
# Realistic timestamps. Another test covers timestamps with deltas near the limits of an int64.
TIMES_MS = st.integers(0, 1 << 42)

NEW_RECORDS = st.lists(st.builds(NewRecord, TIMES_MS, KEYS, KEYS, HEADERS), min_size=1, max_size=8)


def as_read(records: Sequence[NewRecord], base_offset: int = 0) -> list[Record]:
    """Return the records that a reader must get from a batch of `records`. Keys and values become
    bytes."""
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
