"""A sink keeps the source ends of its last batch, and a query with a new checkpoint begins
there."""

from __future__ import annotations

import json

import pytest

from oncelog_client.spark.offsets.source_end import (
    NoSourceEnd,
    TwoEnds,
    of_checkpoint,
    of_sink,
    starts_at_sink,
)
from oncelog_client.values import TopicPartition

FILE = 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":3,"1":4}}'
END_OF_A = {"a": {"0": 3, "1": 4}}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (FILE, {"a": {"0": 3, "1": 4}}),
        (FILE + '\n{"b":{"0":1}}', {"a": {"0": 3, "1": 4}, "b": {"0": 1}}),
        # Two sources of one topic, with equal offsets.
        (FILE + '\n{"a":{"1":4},"b":{"0":1}}', {"a": {"0": 3, "1": 4}, "b": {"0": 1}}),
        (FILE + "\n-\n7", {"a": {"0": 3, "1": 4}}),
        (FILE + '\n{":start":"latest"}', {"a": {"0": 3, "1": 4}}),
        (FILE + '\n{"file":"x"}', {"a": {"0": 3, "1": 4}}),
        (FILE + '\n{"b":{"0":1},":sinkEnd":{"s":{"b":{"0":7}}}}', {**END_OF_A, "b": {"0": 1}}),
        ('v1\n{"batchWatermarkMs":0}\n-', None),
        ('v2\n{"a":{"0":3}}\n{"a":{"0":3}}', None),
        ("", None),
    ],
)
def test_the_end_is_read_from_the_checkpoint(
    text: str, found: dict[str, dict[str, int]] | None
) -> None:
    assert of_checkpoint(text) == found


def test_two_sources_that_read_a_partition_to_different_ends_have_no_common_end() -> None:
    """With the smaller end, rows of one source would be read twice. With the larger end, rows of
    the other source would be lost."""
    with pytest.raises(TwoEnds, match="two sources of the query read a-1 to different ends"):
        of_checkpoint(FILE + '\n{"b":{"0":1}}\n{"a":{"1":5}}')


def test_the_ends_of_a_sink_at_which_sources_begin_are_read_from_the_checkpoint() -> None:
    first = '{"a":{"0":3},":sinkEnd":{"s":{"a":{"0":3}}}}'
    second = '{":start":{"b":{"0":1}},"b":{"0":9},":sinkEnd":{"s":{"a":{"0":3},"b":{"0":1}}}}'
    text = "\n".join([FILE, "-", "7", '{"file":"x"}', first, second])
    assert starts_at_sink(text, "s") == ({"a": {"0": 3}}, {"a": {"0": 3}, "b": {"0": 1}})
    assert starts_at_sink(text, "another") == ()
    assert starts_at_sink(text.replace("v1", "v2"), "s") == starts_at_sink("", "s") == ()


def test_a_stored_source_end_is_read_back() -> None:
    found = of_sink("s", json.dumps(of_checkpoint(FILE)))
    assert found == {TopicPartition("a", 0): 3, TopicPartition("a", 1): 4}


@pytest.mark.parametrize("kept", [None, "", "x", "[]", "{}", "null", '{"a":1}', "3"])
def test_the_error_for_a_missing_source_end_names_the_sink(kept: str | None) -> None:
    with pytest.raises(NoSourceEnd, match="sink s has stored no offsets at which"):
        of_sink("s", kept)
