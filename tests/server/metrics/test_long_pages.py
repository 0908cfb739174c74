"""No slice of a page is long, however many transactions, groups and offsets the broker has."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from oncelog_server.group.offsets import CommittedOffset, Offsets
from oncelog_server.group.views import GroupViews
from oncelog_server.metrics.coordinators import group_lines, transaction_lines
from oncelog_server.metrics.exposition import LINES_PER_SLICE, slices
from oncelog_server.metrics.open_transactions import ELSEWHERE
from oncelog_server.metrics.partitions import partition_lines
from oncelog_server.partition.registry import Partitions
from oncelog_server.partition.views import PartitionViews
from oncelog_server.slices import PORTION
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.states import State
from oncelog_server.transaction.views import TransactionViews
from tests.harness.scraping import scraped
from tests.server.partition.partitions import partition, send

SHARDS = 50
PER_SHARD = 500


class Reads:
    """Counts reads of the state of an element."""

    def __init__(self) -> None:
        self.count = 0

    def longest(self, lines: Iterator[str]) -> int:
        """Return the largest number of reads in a slice."""
        longest, before = 0, self.count
        for _ in slices(lines):
            longest, before = max(longest, self.count - before), self.count
        return longest


class CountedLive:
    def __init__(self, reads: Reads, metadata: Any) -> None:
        self._reads = reads
        self._metadata = metadata
        self.markers_left: set[TopicPartition] = set()

    @property
    def metadata(self) -> Any:
        self._reads.count += 1
        return self._metadata


class CountedGroup:
    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    @property
    def state_name(self) -> str:
        self._reads.count += 1
        return "Empty"


def transaction_views(reads: Reads, *, has_all_shards: bool = False) -> TransactionViews:
    """Return the views of SHARDS * PER_SHARD open transactions with producer ids from 0 on."""
    shards = []
    for index in range(SHARDS):
        ids = range(index * PER_SHARD, (index + 1) * PER_SHARD)
        lives = {
            str(producer_id): CountedLive(
                reads,
                SimpleNamespace(
                    producer_id=producer_id, state=State.ONGOING, start_ms=1, is_two_phase=False
                ),
            )
            for producer_id in ids
        }
        shards.append((index, SimpleNamespace(transactions=lives, ongoing=lives, prepared={})))
    parts: Any = SimpleNamespace(
        shards=lambda: iter(shards), load_times=SimpleNamespace(longest_ms=0, average_ms=0)
    )
    fences: Any = SimpleNamespace(aborted={}, fenced={}, refused={}, refused_unknown=0)
    nothing: Any = None
    return TransactionViews(
        parts,
        fences,
        [0, 0],
        find=nothing,
        has_leader=nothing,
        has_all_shards=lambda: has_all_shards,
        monotonic_ms=nothing,
    )


def test_transactions_that_other_brokers_coordinate_cost_one_read_of_the_states() -> None:
    """The coordinator's states used to be read again for each of them."""
    partitions = Partitions()
    for index in range(20):
        found = partition(name=TopicPartition("t", index))
        for number in range(10):
            send(found, 10**6 + index * 10 + number, 0)
        partitions.add(found)
    reads = Reads()
    lines = partition_lines(PartitionViews(partitions), transaction_views(reads), 0)
    assert reads.longest(lines) <= LINES_PER_SLICE * PORTION * 2
    assert reads.count == SHARDS * PER_SHARD * 2
    lines = partition_lines(PartitionViews(partitions), transaction_views(reads), 0)
    assert scraped(lines).value("oncelog_open_transactions", state=ELSEWHERE) == 200


def test_transactional_ids_are_counted_in_many_slices() -> None:
    reads = Reads()
    lines = transaction_lines(transaction_views(reads), 1)
    assert reads.longest(lines) <= LINES_PER_SLICE * PORTION * 2
    assert reads.count == SHARDS * PER_SHARD * 3


def test_groups_and_their_offsets_are_counted_in_many_slices() -> None:
    reads = Reads()
    shards = []
    for index in range(SHARDS):
        offsets = Offsets()
        for number in range(PER_SHARD):
            value = CommittedOffset(number, 0, "", 0, None, number)
            offsets.commit(f"g{index}", f"t{number}", 0, value)
        groups = {f"g{number}": CountedGroup(reads) for number in range(PER_SHARD)}
        table = SimpleNamespace(groups=groups, offsets=offsets)
        shards.append((index, SimpleNamespace(table=table)))
    runtime: Any = SimpleNamespace(
        shards=lambda: iter(shards), load_times=SimpleNamespace(longest_ms=0, average_ms=0)
    )
    views = GroupViews(runtime)
    assert reads.longest(group_lines(views)) <= LINES_PER_SLICE * PORTION
    assert reads.count == SHARDS * PER_SHARD
    page = scraped(group_lines(views))
    names = [name for name in page.names() if name.endswith("numoffsets")]
    assert [page.value(name) for name in names] == [SHARDS * PER_SHARD]
