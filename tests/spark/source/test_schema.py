"""A user's schema is a projection of the source's columns, or a clear error."""

from __future__ import annotations

import pytest

from oncelog_client.spark.source.schema import COLUMNS, Column, SchemaError, ddl, projection


def test_the_columns_are_those_of_the_official_source_in_its_order() -> None:
    assert ddl(include_headers=False) == (
        "key binary, value binary, topic string, partition int, offset bigint,"
        " timestamp timestamp_ltz, timestampType int"
    )
    headers = ", headers array<struct<key:string,value:binary>>"
    assert ddl(include_headers=True) == ddl(include_headers=False) + headers


def test_what_is_asked_for_is_built_in_the_order_asked() -> None:
    asked = [Column("offset", "bigint"), Column("value", "binary")]
    assert projection(asked) == ("offset", "value")
    assert projection([Column(*row) for row in COLUMNS.items()]) == tuple(COLUMNS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "has no column; those of the source: key binary, value binary,"),
        ([Column("payload", "binary")], "no column 'payload': there are key binary,"),
        ([Column("Timestamptype", "int")], "'Timestamptype': did you mean timestampType?"),
        ([Column("value", "string")], "column value is binary, not string: read it so, then cast"),
        ([Column("offset", "int")], "column offset is bigint, not int"),
        (
            [Column("timestamp", "timestamp_ntz")],
            "column timestamp is timestamp_ltz, not timestamp_ntz",
        ),
        ([Column("key", "binary", False)], "column key may be null: leave NOT NULL out"),
        ([Column("key", "binary"), Column("key", "binary")], "has key twice"),
    ],
)
def test_a_schema_that_is_no_projection_is_refused(columns: list[Column], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        projection(columns)
    assert message in str(caught.value)
