"""The broker keeps counts of readable records from one scrape to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.group.offsets import CommittedOffset
from oncelog_server.group.views import GroupViews
from oncelog_server.log.readable import Walked
from oncelog_server.metrics import group_lag
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import TURN, WORK
from oncelog_server.metrics.group_lag import GroupLag
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.readable_views import ReadableViews
from oncelog_server.partition.registry import Partitions
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.views.groups import GroupOffset
from oncelog_server.views.partitions import ReadableView
from tests.harness.scraping import scraped
from tests.server.log.cleaner.compacting import Compacting
from tests.server.log.driver import TOPIC_ID
from tests.server.transaction.world import World

NAME = TopicPartition("table", 0)


def test_lag_of_a_compacted_partition_is_counted_again_at_each_scrape() -> None:
    driver = Compacting()
    for number in range(6):
        driver.put(("key", f"value {number}"))
        driver.roll()
    partition = Partition(NAME, TOPIC_ID, driver.log, lambda partition: None, flush_on_ack=False)
    partition.become_leader(0, 0, (0,), (0,))
    partitions, world = Partitions(), World()
    partitions.add(partition)
    ((_, shard),) = world.groups.runtime.shards()
    shard.table.offsets.commit("g", *NAME, CommittedOffset(0, 0, "", 0, None, 0))
    page = GroupLag(world.groups.views, ReadableViews(partitions))

    def lag() -> float:
        found = scraped(line for line in page.lines() if line != WORK)
        return found.value(metrics.GROUP_LAG.name, consumergroup="g", topic="table", partition="0")

    assert lag() == 6
    driver.compact()
    assert len(driver.contents()) < 6
    assert lag() == len(driver.contents())


class Unstable:
    """Partitions of 100 records each, with the last stable offset at 50. One step of `walk` counts
    one record."""

    def __init__(self) -> None:
        self.steps = 0

    def view(self, name: TopicPartition) -> ReadableView:
        return ReadableView(name, TOPIC_ID, False, 0, 50, 100)

    def walk(self, view: ReadableView, first_offset: int, end_offset: int) -> Iterator[Walked]:
        for offset in range(first_offset, end_offset):
            self.steps += 1
            yield Walked(offset + 1, offset + 1 - first_offset)


class Offsets:
    """A group with offset 0 committed in each partition of a topic."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def offsets(self) -> Iterator[GroupOffset]:
        for index in range(self._partitions):
            yield GroupOffset("g", TopicPartition("t", index), 0)


@pytest.mark.parametrize("partitions", [1, 2, 20])
def test_a_scrape_takes_a_limited_number_of_steps(
    monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """A scrape counts records in at most MAX_STEPS steps. After that, each partition takes one more
    step, in the records after its last stable offset."""
    monkeypatch.setattr(group_lag, "MAX_STEPS", 60)
    readable = Unstable()
    page = GroupLag(cast(GroupViews, Offsets(partitions)), cast(ReadableViews, readable))
    lines = [line for line in page.lines() if line != WORK]
    assert readable.steps <= 60 + partitions
    found = scraped(line for line in lines if line != TURN)
    labels = {"consumergroup": "g", "topic": "t", "partition": "0"}
    assert found.value(metrics.GROUP_LAG.name, **labels) == 50
    assert found.value(metrics.GROUP_HELD_BACK.name, **labels) == 50


class Growing:
    """A partition with a record at each offset. One step of `walk` counts ten records."""

    def __init__(self) -> None:
        self.end = 0
        self.commits: dict[str, int] = {}

    def offsets(self) -> Iterator[GroupOffset]:
        for group, offset in list(self.commits.items()):
            yield GroupOffset(group, NAME, offset)

    def view(self, name: TopicPartition) -> ReadableView:
        return ReadableView(name, TOPIC_ID, False, 0, self.end, self.end)

    def walk(self, view: ReadableView, first_offset: int, end_offset: int) -> Iterator[Walked]:
        reached = first_offset
        while reached < end_offset:
            reached = min(reached + 10, end_offset)
            yield Walked(reached, reached - first_offset)


def lags(lines: Iterable[str]) -> dict[str, float]:
    page = scraped(line for line in lines if line not in (WORK, TURN))
    return {
        labels["consumergroup"]: page.value(metrics.GROUP_LAG.name, **labels)
        for labels in page.labels(metrics.GROUP_LAG.name)
    }


@given(
    old=st.integers(30, 90),
    new=st.integers(0, 25),
    ends=st.tuples(st.integers(110, 300), st.integers(0, 50)),
    head_start=st.integers(1, 12),
    turns=st.lists(st.integers(0, 1), max_size=200),
)
def test_scrapes_at_the_same_time_do_not_disturb_each_other(
    old: int, new: int, ends: tuple[int, int], head_start: int, turns: list[int]
) -> None:
    """A group with a lower offset begins while the first scrape counts. The second scrape then
    begins its counts at this offset."""
    log = Growing()
    lag = GroupLag(cast(GroupViews, log), cast(ReadableViews, log))
    log.end, log.commits = 100, {"old": old}
    assert lags(lag.lines()) == {"old": 100 - old}
    log.end = ends[0]
    first = lag.lines()
    pages = [list(islice(first, head_start)), []]
    log.commits["new"] = new
    log.end += ends[1]
    both = [first, lag.lines()]
    for turn in turns:
        pages[turn] += islice(both[turn], 1)
    pages[0] += both[0]
    pages[1] += both[1]
    second = lags(pages[1])
    assert second == {"old": log.end - old, "new": log.end - new}
    assert lags(pages[0])["old"] in (ends[0] - old, log.end - old)
    assert lags(lag.lines()) == second
