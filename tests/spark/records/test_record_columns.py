"""The fast decoder finds the positions of keys and values in whole batches. If it cannot read a
batch, it raises `Unusual`, and the ordinary decoder reads the batch."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.records.record_columns import (
    Body,
    Unusual,
    as_column,
    find,
    gather,
    nulls,
    varints,
)
from oncelog_protocol.records.record import EncodedRecords, NewRecord
from oncelog_protocol.records.zigzag import encode_varint
from tests.protocol.records.drawing import NEW_RECORDS


@given(NEW_RECORDS, st.binary(max_size=5), st.binary(max_size=5))
def test_keys_and_values_are_at_the_found_positions(
    records: list[NewRecord], before: bytes, after: bytes
) -> None:
    body = bytes(EncodedRecords.of(records).body)
    data = before + body + after
    found = find(data, [Body(len(before), len(before) + len(body), len(records))])
    keys = gather(data, found.key_start, found.key_end, found.key_null, found.rows)
    values = gather(data, found.value_start, found.value_end, found.value_null, found.rows)
    assert keys.to_pylist() == [record.key for record in records]
    assert values.to_pylist() == [record.value for record in records]
    assert as_column(found.offset_delta, found.rows).to_pylist() == [*range(len(records))]


@given(st.lists(st.integers(-(1 << 27), (1 << 27) - 1), min_size=1, max_size=20))
def test_varints_of_different_lengths_are_decoded_at_once(numbers: list[int]) -> None:
    data, places = b"", []
    for number in numbers:
        places.append(len(data))
        data += encode_varint(number)
    found, after = varints(data, pa.array(places, pa.int64()))
    zigzag = [(number << 1) ^ (number >> 63) for number in numbers]
    assert as_column(found, len(numbers)).to_pylist() == zigzag
    assert after.to_pylist() == [*places[1:], len(data)]


@pytest.mark.parametrize("count", [0, 1, 3, 1 << 30])
def test_a_wrong_count_of_records_raises_unusual(count: int) -> None:
    body = EncodedRecords.of([NewRecord(0, None, b"v")] * 2).body
    with pytest.raises(Unusual):
        find(body, [Body(0, len(body), count)])


def test_only_a_length_of_minus_one_means_null() -> None:
    lengths = pa.array([encode_varint(n)[0] for n in (-1, 0, 5)], pa.int64())
    found = nulls(lengths)
    assert found is not None
    assert found.to_pylist() == [True, False, False]
    with pytest.raises(Unusual):
        nulls(pa.array([encode_varint(n)[0] for n in (-1, -2)], pa.int64()))
