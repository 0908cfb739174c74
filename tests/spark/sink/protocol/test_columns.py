"""The columns of a sink follow the rules of Spark's own connector."""

from __future__ import annotations

import pytest

from oncelog_client.spark.sink.protocol.columns import SinkColumn, check_columns
from oncelog_client.spark.sink.protocol.refusals import SinkError

VALUE, TOPIC = SinkColumn("value", "binary"), SinkColumn("topic", "string")


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ([VALUE], "t"),
        ([VALUE, TOPIC], None),
        ([SinkColumn("value", "string"), TOPIC, SinkColumn("key", "string")], "t"),
        ([VALUE, SinkColumn("headers", "array<struct<key:string,value:binary>>")], "t"),
        ([VALUE, SinkColumn("partition", "int"), SinkColumn("whatever", "map<int,int>")], "t"),
    ],
)
def test_valid_columns_are_accepted(columns: list[SinkColumn], topic: str | None) -> None:
    check_columns(columns, topic)
    # Without `value` the columns are refused, which shows that they were checked.
    without = [column for column in columns if column.name != "value"]
    with pytest.raises(SinkError, match="a column 'value' is needed"):
        check_columns(without, topic)


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ([TOPIC], None, "a column 'value' is needed; the columns are 'topic'"),
        ([VALUE], None, "Set the option 'topic'"),
        ([SinkColumn("value", "int")], "t", "'value' must be binary or string, not int"),
        ([VALUE, SinkColumn("partition", "bigint")], "t", "'partition' must be int, not bigint"),
        ([VALUE, SinkColumn("topic", "int")], "t", "'topic' must be string"),
        ([VALUE, SinkColumn("headers", "array<string>")], "t", "'headers' must be array<struct<"),
    ],
)
def test_invalid_columns_are_refused(
    columns: list[SinkColumn], topic: str | None, message: str
) -> None:
    with pytest.raises(SinkError, match=message):
        check_columns(columns, topic)
