"""Offsets have the JSON of Spark's own connector. If several options name a start, they have the
precedence of that connector."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.offsets.offsets import (
    EARLIEST,
    LATEST,
    START,
    AtEdge,
    AtOffsets,
    AtSink,
    AtTime,
    AtTimes,
    OffsetSpec,
    carried_sink_end,
    carried_start,
    check_order,
    ending_spec,
    from_json,
    start_symbol,
    starting_spec,
    to_json,
    whole_stream,
    with_sink_end,
)
from oncelog_client.spark.settings.options import OptionError, Options
from oncelog_client.values import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
TIME, TIMES, OFFSETS = "77", '{"a":{"0":88}}', '{"a":{"0":3,"1":-1}}'

topic_names = st.text("abc.-_1", min_size=1, max_size=6)
offsets = st.dictionaries(
    st.builds(TopicPartition, topic_names, st.integers(0, 20)), st.integers(0, (1 << 63) - 1)
)


@given(offsets)
def test_offsets_survive_json_and_always_have_the_same_text(given_offsets: dict[Any, int]) -> None:
    text = json.dumps(to_json(given_offsets))
    found = from_json(json.loads(text))
    assert found == given_offsets
    shuffled = dict(sorted(given_offsets.items(), reverse=True))
    assert json.dumps(to_json(shuffled)) == text == json.dumps(to_json(found or {}))


def test_the_json_is_that_of_the_official_connector() -> None:
    found = to_json({A1: 7, TopicPartition("a", 10): 1, A0: 123, TopicPartition("B", 0): 0})
    assert json.dumps(found, separators=(",", ":")) == ('{"B":{"0":0},"a":{"0":123,"1":7,"10":1}}')


@pytest.mark.parametrize("document", [{"a": 1}, {"a": [1]}, {"a": {"x": 1}}, {"a": {"0": "x"}}])
def test_json_that_is_no_offset_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not an offset of this source"):
        from_json(document)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (AtEdge(EARLIEST), "earliest"),
        (AtEdge(LATEST), "latest"),
        (AtOffsets(((A0, 3),)), '{"a":{"0":3}}'),
        (AtTimes(((A0, 3),)), 'timestamps {"a":{"0":3}}'),
        (AtTime(3), "timestamp 3"),
        (AtSink("s"), "sink:s"),
    ],
)
def test_an_unresolved_start_is_stored_as_a_text_without_offsets(
    place: OffsetSpec, shown: str
) -> None:
    symbol = start_symbol(place)
    assert symbol == {START: shown}
    assert from_json(json.loads(json.dumps(symbol))) is None


def test_the_end_of_the_only_batch_also_carries_the_start_of_the_batch() -> None:
    end = json.loads(json.dumps(whole_stream({A0: 3}, {A0: 9, A1: 4})))
    assert from_json(end) == {A0: 9, A1: 4}
    assert carried_start(end) == {A0: 3}
    assert carried_start(to_json({A0: 3})) is None
    assert carried_start(start_symbol(AtEdge(LATEST))) is None


@pytest.mark.parametrize("first", [to_json({A0: 3}), whole_stream({A0: 1}, {A0: 3})])
def test_the_first_offset_also_carries_the_end_of_the_sink_at_which_it_begins(
    first: dict[str, Any],
) -> None:
    document = json.loads(json.dumps(with_sink_end(first, "s", {A0: 3, A1: 9})))
    assert from_json(document) == {A0: 3}
    assert carried_start(document) == carried_start(first)
    assert carried_sink_end(document, "s") == {A0: 3, A1: 9}
    assert carried_sink_end(document, "another") is None
    assert carried_sink_end(first, "s") is None


@pytest.mark.parametrize(
    ("given_options", "start", "end"),
    [
        ("", AtEdge(LATEST), AtEdge(LATEST)),
        ("o", AtOffsets(((A0, 3), (A1, LATEST))), AtOffsets(((A0, 3), (A1, LATEST)))),
        ("to", AtTimes(((A0, 88),)), AtTimes(((A0, 88),))),
        ("T", AtTime(77), AtTime(77)),
        ("To", AtTime(77), AtTime(77)),
        ("Tt", AtTime(77), AtTime(77)),
        ("Tto", AtTime(77), AtTime(77)),
        ("t", AtTimes(((A0, 88),)), AtTimes(((A0, 88),))),
    ],
)
def test_one_timestamp_overrides_timestamps_by_partition_and_these_override_offsets(
    given_options: str, start: OffsetSpec, end: OffsetSpec
) -> None:
    names = {
        "T": ("Timestamp", TIME),
        "t": ("OffsetsByTimestamp", TIMES),
        "o": ("Offsets", OFFSETS),
    }
    rows = [names[given_option] for given_option in given_options]
    starting = Options({f"starting{name}": value for name, value in rows})
    ending = Options({f"ending{name}": value for name, value in rows})
    assert starting_spec(starting, streaming=True) == start
    assert ending_spec(ending) == end


def test_earliest_and_latest_may_have_any_case_and_a_sink_may_be_a_start() -> None:
    at = {text: starting_spec(Options({"startingOffsets": text}), streaming=True) for text in (
        "EARLIEST", " latest ", "sink: orders ",
    )}  # fmt: skip
    assert list(at.values()) == [AtEdge(EARLIEST), AtEdge(LATEST), AtSink("orders")]


def test_a_batch_starts_at_earliest_and_a_stream_at_latest() -> None:
    assert starting_spec(Options({}), streaming=False) == AtEdge(EARLIEST)
    assert starting_spec(Options({}), streaming=True) == AtEdge(LATEST)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("startingOffsets", "latest", "latest (-1) is no start of a batch"),
        ("startingOffsets", '{"a":{"0":-1}}', "a-0: latest (-1) is no start of a batch"),
        ("endingOffsets", "earliest", "earliest (-2) is no end"),
        ("endingOffsets", '{"a":{"0":-2}}', "a-0: earliest (-2) is no end"),
        ("endingOffsets", "sink:s", "only startingOffsets can be a sink"),
        ("startingOffsets", "newest", "is no JSON such as"),
        ("startingOffsets", '{"a":{"0":-3}}', "a-0: must be -2 or more"),
        ("startingOffsets", '{"a":{"x":3}}', "is no JSON such as"),
        ("startingOffsets", '{"a":{"0":"3"}}', "is no JSON such as"),
        ("startingOffsets", '{"a":[3]}', "is no JSON such as"),
        ("startingOffsets", "{}", "names no partition"),
        ("startingTimestamp", "yesterday", "is no whole number"),
        ("startingTimestamp", "-1", "must be 0 or more"),
        ("startingOffsetsByTimestamp", '{"a":{"0":-1}}', "a-0: must be 0 or more"),
    ],
)
def test_an_invalid_start_or_end_is_refused_with_the_name_of_its_option(
    name: str, text: str, message: str
) -> None:
    def read() -> OffsetSpec:
        options = Options({name: text})
        starts = name.startswith("starting")
        return starting_spec(options, streaming=False) if starts else ending_spec(options)

    with pytest.raises(OptionError) as caught:
        read()
    assert message in str(caught.value)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (AtOffsets(((A0, 3),)), AtOffsets(((A1, 3),)), "only one of start and end: a-0, a-1"),
        (AtOffsets(((A0, 3),)), AtOffsets(((A0, 2),)), "a-0: start 3 is after end 2"),
        (AtTimes(((A0, 3),)), AtTimes(((A0, 2),)), "a-0: start 3 is after end 2"),
    ],
)
def test_a_start_after_its_end_is_refused(start: OffsetSpec, end: OffsetSpec, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_order(start, end)


def is_refused(start: OffsetSpec, end: OffsetSpec) -> bool:
    try:
        check_order(start, end)
    except OptionError:
        return True
    return False


def test_a_start_or_end_without_a_number_is_not_compared() -> None:
    earliest, three, latest = (AtOffsets(((A0, offset),)) for offset in (EARLIEST, 3, LATEST))
    assert is_refused(three, AtOffsets(((A0, 2),)))
    assert not is_refused(earliest, latest)
    assert not is_refused(latest, earliest)
    assert not is_refused(three, latest)
    assert not is_refused(AtTime(5), AtEdge(LATEST))
