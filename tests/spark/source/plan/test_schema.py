"""A user's schema must be a projection of the source's columns, or a clear error is raised."""

from __future__ import annotations

import pytest

from oncelog_client.spark.source.plan.schema import (
    COLUMNS,
    SchemaError,
    SourceColumn,
    ddl,
    projection,
)


def test_the_columns_are_those_of_the_official_source_in_its_order() -> None:
    assert ddl(include_headers=False) == (
        "key binary, value binary, topic string, partition int, offset bigint,"
        " timestamp timestamp_ltz, timestampType int"
    )
    headers = ", headers array<struct<key:string,value:binary>>"
    assert ddl(include_headers=True) == ddl(include_headers=False) + headers


def test_the_requested_columns_are_built_in_the_requested_order() -> None:
    asked = [SourceColumn("offset", "bigint"), SourceColumn("value", "binary")]
    assert projection(asked) == ("offset", "value")
    assert projection([SourceColumn(*row) for row in COLUMNS.items()]) == tuple(COLUMNS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "has no column; the source has key binary, value binary,"),
        ([SourceColumn("payload", "binary")], "no column 'payload': there are key binary,"),
        ([SourceColumn("Timestamptype", "int")], "'Timestamptype': did you mean timestampType?"),
        (
            [SourceColumn("value", "string")],
            "column value is binary, not string: cast it after the read",
        ),
        ([SourceColumn("offset", "int")], "column offset is bigint, not int"),
        (
            [SourceColumn("timestamp", "timestamp_ntz")],
            "column timestamp is timestamp_ltz, not timestamp_ntz",
        ),
        ([SourceColumn("key", "binary", False)], "column key may be null: leave NOT NULL out"),
        ([SourceColumn("key", "binary"), SourceColumn("key", "binary")], "has key twice"),
    ],
)
def test_a_schema_that_is_no_projection_is_refused(
    columns: list[SourceColumn], message: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        projection(columns)
    assert message in str(caught.value)
