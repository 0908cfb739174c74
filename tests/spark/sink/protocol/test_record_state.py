"""A sink that commits by record keeps its state as a record in a topic that all sinks share. The
sink reads its newest committed state from this topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.logged_batches import LoggedBatch
from oncelog_client.spark.sink.protocol.record_log import RecordLog, read_on
from oncelog_client.spark.sink.protocol.record_state import Entry, decode, encode
from oncelog_client.spark.sink.protocol.state import SinkState, StateUnreadable
from oncelog_client.spark.sink.protocol.steps import Unfinished
from oncelog_client.values import TransactionMember

NUMBERS = st.integers(0, 2**31 - 1)
ENDS = st.none() | st.dictionaries(st.text("ab", min_size=1), st.just({"0": 7})).map(
    lambda found: json.dumps(found, separators=(",", ":"))
)
STATES = st.builds(SinkState, st.none() | st.text(), NUMBERS, NUMBERS, NUMBERS, ENDS).flatmap(
    lambda state: st.sampled_from([state, replace(state, is_planner_known=False)])
)
MEMBERS = st.builds(TransactionMember, st.text(), NUMBERS, st.integers(0, 32767))
ENTRIES = st.builds(
    Entry,
    STATES,
    st.none() | st.builds(Unfinished, st.lists(MEMBERS, max_size=3).map(tuple), STATES),
)

SINK = "s"
OPENED = Entry(SinkState("q", 1, 0))


@given(ENTRIES)
def test_decode_reverses_encode(entry: Entry) -> None:
    assert decode(encode(entry), SINK) == entry


@pytest.mark.parametrize("value", [b"", b"[]", b"7", b"{}", b'{"format":1,"gen":"x"}', b"\xff"])
def test_the_error_for_an_invalid_state_names_the_sink(value: bytes) -> None:
    with pytest.raises(StateUnreadable, match="sink s"):
        decode(value, SINK)


def test_the_state_of_a_newer_release_is_refused_by_its_format() -> None:
    newer = encode(OPENED).replace(b'"format":1', b'"format":2')
    with pytest.raises(StateUnreadable, match="format 2, and this release knows 1"):
        decode(newer, SINK)


# -- the log


def number(entry: Entry | None) -> int:
    assert entry is not None
    return entry.state.offset


def data(producer_id: int, offset: int, key: str = SINK, epoch: int = 0) -> LoggedBatch:
    """Return a batch of one record at `offset`. The offset in its state and its sequence number
    follow from `offset`, so they differ from those of other batches."""
    value = encode(Entry(SinkState("q", 1, offset)))
    records = ((key.encode(), value),)
    return LoggedBatch(offset, offset + 1, producer_id, epoch, 10 * offset, True, None, records)


def marker(producer_id: int, offset: int, *, committed: bool) -> LoggedBatch:
    return LoggedBatch(offset, offset + 1, producer_id, 0, -1, True, committed, ())


@st.composite
def histories(draw: st.DrawFn) -> list[LoggedBatch]:
    """Draw a log that a few producers of a few sinks may write."""
    batches: list[LoggedBatch] = []
    for offset in range(draw(st.integers(0, 14))):
        producer_id = draw(st.integers(0, 2))
        match draw(st.sampled_from(["data", "commit", "abort"])):
            case "data":
                batches.append(data(producer_id, offset, SINK if producer_id < 2 else "other"))
            case outcome:
                batches.append(marker(producer_id, offset, committed=outcome == "commit"))
    return batches


def committed_last(batches: Sequence[LoggedBatch]) -> int | None:
    """Return the offset of the newest record in the last committed transaction with records of the
    sink. A `RecordLog` must find the same record."""
    for place in reversed(range(len(batches))):
        if not batches[place].committed:
            continue
        producer = batches[place].producer_id
        for batch in reversed(batches[:place]):
            if batch.producer_id == producer and batch.committed is not None:
                break
            if batch.producer_id == producer and batch.records[0][0] == SINK.encode():
                return batch.base_offset
    return None


@given(histories(), st.data())
def test_the_newest_committed_record_is_found_in_one_read_or_in_two(
    batches: list[LoggedBatch], data: st.DataObject
) -> None:
    whole = read_on(RecordLog(), SINK, batches)
    wanted = committed_last(batches)
    assert wanted == (None if whole.entry is None else number(whole.entry))
    cut = data.draw(st.integers(0, len(batches)))
    assert read_on(read_on(RecordLog(), SINK, batches[:cut]), SINK, batches[cut:]) == whole


@given(histories())
def test_compaction_does_not_change_the_state(batches: list[LoggedBatch]) -> None:
    """Of the decided records, compaction keeps the newest record of each key, and its marker."""
    log = read_on(RecordLog(), SINK, batches)
    wanted = committed_last(batches)
    open_now = {batch.producer_id for batch in log.pending}
    first_open = min(
        (batch.base_offset for batch in batches if batch.producer_id in open_now),
        default=len(batches),
    )
    kept = [
        batch
        for batch in batches
        if batch.base_offset >= first_open
        or batch.committed is not None
        or batch.base_offset == wanted
    ]
    assert read_on(RecordLog(), SINK, kept).entry == log.entry


def test_only_a_marker_of_its_producer_ends_an_open_transaction() -> None:
    log = read_on(RecordLog(), SINK, [data(1, 0), marker(1, 1, committed=True), data(2, 2)])
    assert [batch.producer_id for batch in log.pending] == [2]
    assert number(log.entry) == 0
    log = read_on(log, SINK, [marker(1, 3, committed=False)])
    assert log.pending
    log = read_on(log, SINK, [marker(2, 4, committed=False)])
    assert (log.pending, number(log.entry)) == ((), 0)


def test_sequence_numbers_continue_within_an_epoch_and_start_at_0_in_a_new_one() -> None:
    parent = TransactionMember(SINK, 1, 0)
    assert RecordLog().first_sequence(parent) == 0
    log = read_on(RecordLog(), SINK, [data(1, 3)])
    assert log.first_sequence(parent) == 31
    assert log.first_sequence(parent._replace(producer_epoch=1)) == 0
    assert log.first_sequence(parent._replace(producer_id=2)) == 0
    # The broker also counts the sequence number of an aborted record.
    log = read_on(log, SINK, [marker(1, 4, committed=False)])
    assert log.first_sequence(parent) == 31
    last = data(1, 5)._replace(last_sequence=2**31 - 1)
    assert read_on(log, SINK, [last]).first_sequence(parent) == 0


def test_an_operator_may_write_and_delete_the_state() -> None:
    by_hand = data(-1, 0)._replace(is_transactional=False)
    assert number(read_on(RecordLog(), SINK, [by_hand]).entry) == 0
    taken = by_hand._replace(base_offset=1, next_offset=2, records=((SINK.encode(), None),))
    assert read_on(RecordLog(), SINK, [by_hand, taken]).entry is None


def test_a_recreated_topic_is_read_from_its_beginning() -> None:
    log = replace(read_on(RecordLog(), SINK, [data(1, 5)]), next_offset=100)
    again = read_on(log, SINK, [data(2, 0), marker(2, 1, committed=True)])
    assert (number(again.entry), again.pending, again.next_offset) == (0, (), 2)
