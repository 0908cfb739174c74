"""A value that no record can hold is refused by `send`, with the name of the field."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client.core.new_records import new_record, partition_number, topic_name
from oncelog_protocol.records.record import EncodedRecords


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"value": "text"}, TypeError, "value is str"),
        ({"value": 7}, TypeError, "value is int"),
        ({"key": "text"}, TypeError, "key is str"),
        ({"headers": [("name", "text")]}, TypeError, "header 'name' is str"),
        ({"headers": [(b"name", b"")]}, TypeError, "a header's name is bytes"),
        ({"headers": [("\ud800", b"")]}, ValueError, "a header's name cannot be encoded"),
        ({"headers": {"name": b""}}, TypeError, "headers is dict, not a list of pairs"),
        ({"headers": 7}, TypeError, "headers is int, not a list of pairs"),
        ({"headers": [("name",)]}, TypeError, r"a header is \('name',\), not a pair"),
        ({"headers": ("name", b"")}, TypeError, "a header is 'name', not a pair"),
        ({"timestamp_ms": 1.5}, TypeError, "timestamp_ms is float"),
        ({"timestamp_ms": -1}, ValueError, "timestamp_ms is -1"),
        ({"timestamp_ms": 1 << 63}, ValueError, "timestamp_ms is 9223372036854775808"),
    ],
)
def test_the_error_names_the_field(
    fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    record: dict[str, Any] = {"timestamp_ms": 0, "key": None, "value": None, "headers": ()}
    with pytest.raises(error, match=said):
        new_record(**(record | fields))


def test_accepted_records_can_be_encoded_in_one_batch() -> None:
    headers = [("h", None), ("\udc80", b"1")]
    first = new_record(0, None, None, headers)
    last = new_record((1 << 63) - 1, b"k", b"v", ())
    assert EncodedRecords.of([last, first, last]).records_count == 3


def test_mutable_bytes_are_copied() -> None:
    buffer: Any = bytearray(b"before")
    view: Any = memoryview(buffer)
    record = new_record(0, view, buffer, [("h", view)])
    buffer[:] = b"after!"
    assert record[1:] == (b"before", b"before", (("h", b"before"),))


def test_topics_and_partitions_are_checked_too() -> None:
    name: Any = 7
    with pytest.raises(TypeError, match="topic is int"):
        topic_name(name)
    with pytest.raises(ValueError, match="topic cannot be encoded"):
        topic_name("\ud800")
    with pytest.raises(ValueError, match="topic is empty"):
        topic_name("")
    number: Any = 1.0
    with pytest.raises(TypeError, match="partition is float"):
        partition_number(number)
