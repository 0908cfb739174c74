"""The decisions about new partitions, data losses and the end of the next batch, without a
broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.source.plan import data_loss
from oncelog_client.spark.source.plan.planning import (
    Logs,
    Questions,
    SettledOffsets,
    backlogs,
    next_end,
    questions,
    readable,
    settled,
)
from oncelog_client.spark.source.plan.splits import OffsetRange
from oncelog_client.values import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NONE: frozenset[str] = frozenset()


def test_offsets_are_requested_only_for_new_partitions_and_for_ends_below_the_position() -> None:
    nothing = Questions(frozenset(), frozenset())
    assert questions({A0: 5}, Logs({A0: 5}, {}, {}, NONE)) == nothing
    asked = questions({A0: 5, A1: 5}, Logs({A0: 4, B0: 1}, {}, {}, NONE))
    assert asked == Questions(frozenset({B0}), frozenset({A0}))
    assert questions({A0: 5}, Logs({A0: 9}, {}, {}, frozenset("a"))).firsts == {A0}


def test_without_new_or_lost_partitions_the_position_stays() -> None:
    found = settled({A0: 5, B0: 0}, Logs({A0: 9, B0: 0}, {}, {}, NONE), {})
    assert found == SettledOffsets({A0: 5, B0: 0}, ())


def test_undecided_records_do_not_count_as_lost() -> None:
    found = settled({A0: 5}, Logs({A0: 3}, {}, {A0: 5}, NONE), {})
    assert found == SettledOffsets({A0: 5}, ())
    assert backlogs({A0: 5}, found.offsets, {A0: 3}) == {A0: 0}


def test_the_batch_after_the_discovery_reads_a_new_partition_from_its_first_offset() -> None:
    logs = Logs({A0: 9, A1: 4, B0: 7}, {A1: 0, B0: 3}, {}, NONE)
    found = settled({A0: 5}, logs, {})
    assert found == SettledOffsets({A0: 5, A1: 0, B0: 3}, ())
    waiting = backlogs({A0: 5}, found.offsets, logs.ends)
    assert waiting == {A0: 4, A1: 0, B0: 0}
    assert next_end(found.offsets, waiting, None) == {A0: 9, A1: 0, B0: 3}
    assert backlogs(found.offsets, found.offsets, logs.ends) == {A0: 4, A1: 4, B0: 4}


@pytest.mark.parametrize(
    ("logs", "position", "losses"),
    [
        (Logs({A0: 9}, {}, {}, NONE), {A0: 5}, (data_loss.gone(A1, 6, 8),)),
        (Logs({}, {}, {}, NONE), {}, (data_loss.gone(A0, 5, None), data_loss.gone(A1, 6, 8))),
        (Logs({A0: 3, A1: 8}, {}, {}, NONE), {A0: 3, A1: 6}, (data_loss.shrunk(A0, 5, 3),)),
        (Logs({A0: 3, A1: 8}, {}, {A0: 4}, NONE), {A0: 3, A1: 6}, (data_loss.shrunk(A0, 5, 4),)),
        (
            Logs({A0: 9, A1: 8}, {A0: 0, A1: 1}, {}, frozenset("a")),
            {A0: 0, A1: 1},
            (data_loss.recreated(A0, 5, 9), data_loss.recreated(A1, 6, 8)),
        ),
        (
            Logs({A0: 9, A1: 8, TopicPartition("a", 2): 4}, {TopicPartition("a", 2): 2}, {}, NONE),
            {A0: 5, A1: 6, TopicPartition("a", 2): 2},
            (data_loss.begun_late(TopicPartition("a", 2), 2),),
        ),
    ],
)
def test_every_loss_is_reported_with_the_position_to_continue_at(
    logs: Logs, position: dict[TopicPartition, int], losses: tuple[str, ...]
) -> None:
    assert settled({A0: 5, A1: 6}, logs, {A1: 8}) == (position, losses)


def test_partitions_share_a_limit_and_without_a_limit_all_records_are_read() -> None:
    waiting = {A0: 30, B0: 60}
    assert next_end({A0: 1, B0: 2}, waiting, None) == {A0: 31, B0: 62}
    assert next_end({A0: 1, B0: 2}, waiting, 9) == {A0: 4, B0: 8}


@pytest.mark.parametrize(
    ("firsts", "ends", "kept", "losses"),
    [
        ({A0: 0}, None, (3, 9), []),
        ({A0: 3}, {A0: 9}, (3, 9), []),
        ({A0: 5}, None, (5, 9), [data_loss.truncated(A0, 3, 5)]),
        ({A0: 12}, None, (12, 9), [data_loss.truncated(A0, 3, 12)]),
        ({A0: 0}, {A0: 7}, (3, 7), [data_loss.ends_early(A0, 9, 7)]),
        ({A0: 0}, {A0: 2}, (3, 2), [data_loss.ends_early(A0, 9, 2)]),
    ],
)
def test_the_part_of_a_range_that_the_log_still_has_is_read(
    firsts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int] | None,
    kept: tuple[int, int],
    losses: list[str],
) -> None:
    found = readable([OffsetRange(A0, 3, 9)], firsts, ends)
    assert found == ([OffsetRange(A0, *kept)], losses)


def test_a_range_of_a_deleted_partition_is_lost() -> None:
    assert readable([OffsetRange(A0, 3, 9)], {}, None) == ([], [data_loss.gone(A0, 3, 9)])


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        (data_loss.gone(A1, 5, 8), ("5", "8")),
        (data_loss.recreated(A1, 5, 8), ("5", "8")),
        (data_loss.shrunk(A1, 8, 5), ("5", "8")),
        (data_loss.truncated(A1, 5, 8), ("5", "8", "3 offsets")),
        (data_loss.begun_late(A1, 8), ("0", "8")),
        (data_loss.ends_early(A1, 8, 5), ("5", "8")),
    ],
)
def test_a_loss_names_topic_partition_and_both_offsets(
    message: str, numbers: tuple[str, ...]
) -> None:
    for part in ("topic a, partition 1", *numbers):
        assert part in message
    assert "failOnDataLoss=false" in str(data_loss.error([message]))


def test_the_error_for_a_log_that_shrank_says_that_its_records_are_skipped() -> None:
    """The query was at offset 1000 when it stopped. The topic was created again, with 500 records.
    The position is the end of the new log, so none of the 500 records is read."""
    found = settled({A0: 1000}, Logs({A0: 500}, {}, {}, NONE), {})
    assert found.offsets == {A0: 500}
    (loss,) = found.losses
    assert "With failOnDataLoss=false the query skips its existing records" in loss
    advice = str(data_loss.error([loss])).splitlines()[-1]
    assert "skips the existing records of a log that ends before the query's next offset" in advice
    assert "to read all records again, start with a new checkpoint" in advice


changes = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 9), max_size=3),
        st.none() | st.integers(1, 5),
    ),
    max_size=12,
)


@given(st.dictionaries(st.sampled_from([A0, A1]), st.integers(0, 9)), changes)
def test_batches_read_every_offset_once_while_logs_grow_and_partitions_are_added(
    ends: dict[TopicPartition, int], growth: list[tuple[dict[TopicPartition, int], int | None]]
) -> None:
    position, ends = dict.fromkeys(ends, 0), dict(ends)
    read: dict[TopicPartition, list[int]] = {}
    rest = [(dict[TopicPartition, int](), None)] * 2
    for more, limit in [*growth, *rest]:
        ends |= {place: ends.get(place, 0) + count for place, count in more.items()}
        new = dict.fromkeys(ends.keys() - position.keys(), 0)
        logs = Logs(ends, new, {}, NONE)
        assert questions(position, logs).firsts == new.keys()
        found = settled(position, logs, {})
        assert found.losses == ()
        end = next_end(found.offsets, backlogs(position, found.offsets, ends), limit)
        for place in end.keys() & position.keys():
            read.setdefault(place, []).extend(range(position[place], end[place]))
        position = end
    assert position == ends
    assert read == {place: list(range(end)) for place, end in ends.items()}
