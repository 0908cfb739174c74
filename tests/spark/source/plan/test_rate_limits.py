"""Partitions share a limit in proportion to their backlogs. The sum never exceeds the limit, and
each partition advances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.source.plan.rate_limits import must_wait, shares
from oncelog_client.values import TopicPartition

LARGEST = (1 << 63) - 1

partitions = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 9))
backlogs_of_any_size = st.dictionaries(partitions, st.integers(0, LARGEST), max_size=12)


def by_number(*backlogs: int) -> dict[TopicPartition, int]:
    return {TopicPartition("t", number): backlog for number, backlog in enumerate(backlogs)}


@pytest.mark.parametrize(
    ("backlogs", "limit", "taken"),
    [
        ((), 10, ()),
        ((0, 0), 10, (0, 0)),
        ((3, 4), 10, (3, 4)),
        ((3, 4), 7, (3, 4)),
        ((30, 60), 9, (3, 6)),
        ((1_000_000, 1), 10, (9, 1)),
        ((1_000_000, 1, 1), 4, (2, 1, 1)),
        ((5, 5, 5), 10, (4, 3, 3)),
        ((LARGEST, LARGEST), LARGEST, (LARGEST // 2 + 1, LARGEST // 2)),
    ],
)
def test_shares_are_in_proportion_and_nothing_is_left_over(
    backlogs: tuple[int, ...], limit: int, taken: tuple[int, ...]
) -> None:
    assert shares(by_number(*backlogs), limit, 0) == by_number(*taken)


@given(backlogs_of_any_size, st.integers(1, LARGEST), st.integers(0, LARGEST))
def test_the_sum_is_the_limit_and_no_share_exceeds_its_backlog(
    backlogs: dict[TopicPartition, int], limit: int, turn: int
) -> None:
    taken = shares(backlogs, limit, turn)
    assert taken.keys() == backlogs.keys()
    assert sum(taken.values()) == min(limit, sum(backlogs.values()))
    assert all(0 <= taken[place] <= backlog for place, backlog in backlogs.items())


@given(backlogs_of_any_size, st.integers(1, LARGEST), st.integers(0, LARGEST))
def test_shares_are_close_to_the_proportion_and_never_0(
    backlogs: dict[TopicPartition, int], limit: int, turn: int
) -> None:
    waiting = {place: backlog for place, backlog in backlogs.items() if backlog}
    total = sum(waiting.values())
    if len(waiting) > limit or total <= limit:
        return
    taken = shares(backlogs, limit, turn)
    for place, backlog in waiting.items():
        assert taken[place] >= 1
        # Each partition gets its first offset at the cost of the other partitions' shares.
        assert abs(taken[place] * total - limit * backlog) <= total * (1 + len(waiting))


@given(
    st.dictionaries(partitions, st.integers(0, 60), min_size=1, max_size=12),
    st.integers(1, 15),
    st.dictionaries(partitions, st.integers(0, 1_000)),
)
def test_every_partition_with_a_backlog_progresses_while_others_are_refilled(
    backlogs: dict[TopicPartition, int], limit: int, starts: dict[TopicPartition, int]
) -> None:
    positions = {backlog: starts.get(backlog, 0) for backlog in backlogs}
    waiting = {place for place, backlog in backlogs.items() if backlog}
    progressed: set[TopicPartition] = set()
    for _ in range(len(waiting)):
        taken = shares(backlogs, limit, sum(positions.values()))
        progressed |= {place for place, count in taken.items() if count}
        positions = {place: offset + taken[place] for place, offset in positions.items()}
    assert progressed == waiting


@pytest.mark.parametrize(
    ("backlog", "least", "waited_ms", "waits"),
    [
        (5, None, 0.0, False),
        (5, 10, None, False),
        (5, 10, 0.0, True),
        (5, 10, 99.9, True),
        (5, 10, 100.0, False),
        (10, 10, 0.0, False),
        (0, 10, 100.0, False),
    ],
)
def test_too_few_offsets_wait_no_longer_than_the_maximum_delay(
    backlog: int, least: int | None, waited_ms: float | None, waits: bool
) -> None:
    assert must_wait(backlog, least, waited_ms, 100) is waits
