"""The fast decoder for the headers of many records at once, and the ordinary decoder
(`plain_headers`) for the headers of a single record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.records.header_column import HEADERS, headers_column, plain_headers
from oncelog_client.spark.records.record_columns import Body, Unusual, find
from oncelog_protocol.records.record import EncodedRecords, NewRecord

VALUES = st.none() | st.binary(max_size=100)
ROWS = st.lists(st.lists(st.tuples(st.text(max_size=5), VALUES), max_size=5), min_size=1)


def column_of(rows: list[list[tuple[str, bytes | None]]]) -> list[object]:
    body = bytes(EncodedRecords.of([NewRecord(0, None, None, row) for row in rows]).body)
    column = headers_column(body, find(body, [Body(0, len(body), len(rows))]))
    column.validate(full=True)
    assert column.type == HEADERS
    found: list[object] = column.to_pylist()
    return found


@given(ROWS)
def test_a_row_has_its_headers_in_order_or_null_without_headers(
    rows: list[list[tuple[str, bytes | None]]],
) -> None:
    assert column_of(rows) == [plain_headers(row) for row in rows]


def test_headers_that_the_fast_decoder_cannot_read_raise_unusual() -> None:
    with pytest.raises(Unusual, match="not UTF-8"):
        column_of([[("\udcff", b"a key of any bytes")]])
    with pytest.raises(Unusual, match="count"):
        column_of([[("h", None)] * 100])


def test_a_key_that_is_not_utf8_has_the_replacement_character() -> None:
    assert plain_headers([("a\udcffb", None)]) == [
        {"key": "a\N{REPLACEMENT CHARACTER}b", "value": None}
    ]
    assert plain_headers([]) is None
