"""The columns of a sink, by the rules of Spark's own."""

from __future__ import annotations

import pytest

from oncelog_client.spark.sink.columns import Column, check_columns
from oncelog_client.spark.sink.refusals import SinkError

VALUE, TOPIC = Column("value", "binary"), Column("topic", "string")


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ([VALUE], "t"),
        ([VALUE, TOPIC], None),
        ([Column("value", "string"), TOPIC, Column("key", "string")], "t"),
        ([VALUE, Column("headers", "array<struct<key:string,value:binary>>")], "t"),
        ([VALUE, Column("partition", "int"), Column("whatever", "map<int,int>")], "t"),
    ],
)
def test_taken(columns: list[Column], topic: str | None) -> None:
    check_columns(columns, topic)
    # The same without the value is refused: the columns were looked at.
    without = [column for column in columns if column.name != "value"]
    with pytest.raises(SinkError, match="a column 'value' is needed"):
        check_columns(without, topic)


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ([TOPIC], None, "a column 'value' is needed; there are 'topic'"),
        ([VALUE], None, "Set the option 'topic'"),
        ([Column("value", "int")], "t", "'value' must be binary or string, not int"),
        ([VALUE, Column("partition", "bigint")], "t", "'partition' must be int, not bigint"),
        ([VALUE, Column("topic", "int")], "t", "'topic' must be string"),
        ([VALUE, Column("headers", "array<string>")], "t", "'headers' must be array<struct<"),
    ],
)
def test_refused(columns: list[Column], topic: str | None, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        check_columns(columns, topic)
