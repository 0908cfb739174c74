"""`varints` encodes a column of numbers at once. `encode_varint` returns the same varints."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.records.varint_column import TABLE_LIMIT, counting, varints
from oncelog_protocol.records.zigzag import encode_varint

NUMBERS = st.integers(-1, 300) | st.integers(TABLE_LIMIT - 2, TABLE_LIMIT + 2)


@given(st.lists(NUMBERS | st.integers(-1, (1 << 31) - 1), max_size=30))
def test_a_column_has_the_varint_of_each_number(numbers: list[int]) -> None:
    found = varints(pa.array(numbers, pa.int32())).to_pylist()
    assert found == [encode_varint(number) for number in numbers]


def test_counting_begins_at_0() -> None:
    for count in (1, 2, 1_500, TABLE_LIMIT):
        found = counting(count)
        assert len(found) == count
        assert found[0].as_py() == b"\0"
        assert found[-1].as_py() == encode_varint(count - 1)
