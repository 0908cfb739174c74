"""Lines become records, and records become lines, as in Kafka's console tools."""

from __future__ import annotations

import click
import pytest

from oncelog_client.cli.record_lines import LineReader, LineWriter, json_record
from oncelog_client.values import ConsumerRecord

RECORD = ConsumerRecord(
    "t", 2, 7, 1_500, b"k", b"v", headers=(("h", b"1"), ("g", None)), leader_epoch=3
)


def test_a_line_is_a_value_unless_an_option_says_otherwise() -> None:
    assert LineReader().read(b"a\tb") == (None, b"a\tb", [])


def test_key_and_headers_are_cut_off_at_their_separators() -> None:
    reader = LineReader.from_properties(
        {"parse.key": "true", "parse.headers": "true", "key.separator": "|"}
    )
    assert reader.read(b"h:1,g:2\tk|v|w") == (b"k", b"v|w", [("h", b"1"), ("g", b"2")])


def test_the_error_for_a_missing_separator_names_its_property() -> None:
    with pytest.raises(ValueError, match=r"key\.separator"):
        LineReader(parse_key=True).read(b"no tab")


def test_the_null_marker_is_a_tombstone() -> None:
    reader = LineReader(parse_key=True, null_marker="NULL")
    assert reader.read(b"k\tNULL") == (b"k", None, [])


def test_an_unknown_property_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(click.UsageError, match=r"did you mean parse\.key"):
        LineReader.from_properties({"parse.keys": "true"})


def test_a_record_is_printed_as_its_value() -> None:
    assert LineWriter().write(RECORD) == b"v\n"


def test_all_parts_of_a_record_are_printed_in_the_order_of_kafkas_tool() -> None:
    names = ("timestamp", "partition", "offset", "epoch", "headers", "key")
    writer = LineWriter.from_properties({f"print.{name}": "true" for name in names})
    assert writer.write(RECORD) == (
        b"CreateTime:1500\tPartition:2\tOffset:7\tEpoch:3\th:1,g:null\tk\tv\n"
    )


def test_bytes_in_json_are_text_if_they_are_valid_utf8_and_base64_otherwise() -> None:
    assert json_record(RECORD._replace(value=b"\xff")) == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp_ms": 1_500,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [["h", "1"], ["g", None]],
    }
