"""Metrics of partitions: offsets, producers and open transactions at the moment of the scrape."""

from __future__ import annotations

import pytest

from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.partitions import partition_lines
from oncelog_server.partition.registry import Partitions
from oncelog_server.partition.views import PartitionViews
from oncelog_server.topic_partition import TopicPartition
from tests.harness.scraping import Scraped, scraped
from tests.server.log.driver import delete_records_before
from tests.server.partition import partitions as made
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.world import DATA, World, transactional_batch

HOUR_MS = 3_600_000
LATE = metrics.LATE_TRANSACTIONS.name
OPEN = metrics.OPEN_TRANSACTIONS.name


def page_of(world: World, *, late_before_ms: int | None = None) -> Scraped:
    partitions = Partitions()
    for partition in world.partitions.values():
        partitions.add(partition)
    before_ms = world.wall() - HOUR_MS if late_before_ms is None else late_before_ms
    return scraped(partition_lines(PartitionViews(partitions), world.transactions.views, before_ms))


def labels(partition: TopicPartition) -> dict[str, str]:
    return {"topic": partition.topic, "partition": str(partition.partition)}


@pytest.fixture
def world() -> World:
    return World()


def test_the_last_stable_offset_stays_at_an_open_transaction_and_its_lag_grows(
    world: World,
) -> None:
    producer = world.producer()
    where = labels(DATA[0])
    for count in (1, 2, 3):
        world.produce(producer, DATA[0], count - 1)
        page = page_of(world)
        assert page.value(metrics.LAST_STABLE_OFFSET.name, **where) == 0
        assert page.value(metrics.LAST_STABLE_OFFSET_LAG.name, **where) == count
        assert page.value(metrics.LOG_END_OFFSET.name, **where) == count
    world.end(producer, True)
    page = page_of(world)
    assert page.value(metrics.LAST_STABLE_OFFSET.name, **where) == 4, (
        "the last stable offset is after the marker"
    )
    assert page.value(metrics.LAST_STABLE_OFFSET_LAG.name, **where) == 0


def test_every_partition_has_every_line(world: World) -> None:
    page = page_of(world)
    for metric in (row for row in metrics.METRICS if row.labels == ("topic", "partition")):
        found = page.labels(metric.name)
        assert len(found) == len(world.partitions), metric.name
    assert page.value(metrics.PARTITION_COUNT.name) == len(world.partitions)
    assert page.value(metrics.LEADER_COUNT.name) == len(world.partitions)
    assert page.value(metrics.OFFLINE_COUNT.name) == 0


def test_a_partition_with_a_refused_file_and_a_failed_log_counts_once_as_offline(
    world: World,
) -> None:
    """The disk refused the leader epoch checkpoint of both partitions. The log of the second
    partition has failed too."""
    files, partitions = MemoryFiles(), Partitions()
    refusing, failed = (made.partition(files, TopicPartition("t", number)) for number in range(2))
    for found in (refusing, failed):
        partitions.add(found)
        files.fail_append(match="leader-epoch-checkpoint")
        found.write_leader_epochs()
    failed.fail("disk")
    lines = partition_lines(PartitionViews(partitions), world.transactions.views, 0)
    assert scraped(lines).value(metrics.OFFLINE_COUNT.name) == 2


def test_a_producer_id_counts_in_each_partition_that_remembers_it(world: World) -> None:
    """As in Kafka's ProducerIdCount, a producer in two partitions counts twice."""
    for name in ("a", "b"):
        producer = world.producer(name)
        for partition in DATA[:2]:
            world.produce(producer, partition, 0, transactional_id=name)
    assert page_of(world).value(metrics.PRODUCER_ID_COUNT.name) == 4


def test_open_transactions_count_by_the_state_that_their_coordinator_reports(world: World) -> None:
    producer = world.producer()
    world.produce(producer, DATA[0], 0)
    world.produce(producer, DATA[1], 0)
    assert page_of(world).value(OPEN, state="Ongoing") == 2
    world.scene.leaderless.add(DATA[1])
    world.end(producer, False)
    page = page_of(world)
    assert page.value(OPEN, state="Ongoing") == 0
    assert page.value(OPEN, state="PrepareAbort") == 1


def test_a_transaction_that_no_coordinator_knows_is_hanging(world: World) -> None:
    producer = world.producer()
    world.produce(producer, DATA[0], 0)
    (shard,) = (shard for _, shard in world.transactions.runtime.shards())
    shard.ongoing.clear()
    page = page_of(world)
    assert page.value(OPEN, state="Hanging") == 1
    assert page.value(OPEN, state="Elsewhere") == 0


def test_a_transaction_with_a_coordinator_elsewhere_does_not_count_as_hanging() -> None:
    world = World(leads=False)
    batch = transactional_batch((7, 0), 0, b"v", world.wall())
    world.partitions[DATA[0]].append(batch, now_ms=world.wall())
    page = page_of(world)
    assert page.value(OPEN, state="Hanging") == 0
    assert page.value(OPEN, state="Elsewhere") == 1


def test_a_transaction_that_is_decided_during_the_scrape_is_not_hanging(world: World) -> None:
    """Its partition is read before the decision, its coordinator after the decision. A hanging
    transaction is still open in its partition."""
    producer, hangs = world.producer(), world.producer("hangs")
    world.produce(producer, DATA[0], 0)
    world.produce(hangs, DATA[0], 0, transactional_id="hangs")
    (shard,) = (shard for _, shard in world.transactions.runtime.shards())
    del shard.ongoing["hangs"]
    partitions = Partitions()
    for partition in world.partitions.values():
        partitions.add(partition)
    lines = partition_lines(PartitionViews(partitions), world.transactions.views, 0)
    page = [next(lines)]
    world.end(producer, True)
    page += lines
    found = scraped(page)
    assert found.value(metrics.LAST_STABLE_OFFSET.name, **labels(DATA[0])) == 0
    assert (found.value(OPEN, state="Ongoing"), found.value(OPEN, state="Hanging")) == (0, 1)


def test_a_transaction_that_begins_during_the_scrape_is_not_hanging(world: World) -> None:
    partitions = Partitions()
    for partition in world.partitions.values():
        partitions.add(partition)
    lines = partition_lines(PartitionViews(partitions), world.transactions.views, 0)
    page = [next(lines)]
    world.produce(world.producer(), DATA[1], 0)
    page += lines
    found = scraped(page)
    assert found.value(metrics.LAST_STABLE_OFFSET_LAG.name, **labels(DATA[1])) == 1
    assert (found.value(OPEN, state="Ongoing"), found.value(OPEN, state="Hanging")) == (1, 0)


def test_a_transaction_is_late_if_its_last_write_was_before_the_limit(world: World) -> None:
    producer = world.producer()
    world.produce(producer, DATA[0], 0)
    assert page_of(world, late_before_ms=world.wall()).value(LATE) == 0
    assert page_of(world, late_before_ms=world.wall() + 1).value(LATE) == 1
    world.end(producer, False)
    assert page_of(world, late_before_ms=world.wall() + 1).value(LATE) == 0


def test_traffic_is_counted_since_the_start_and_by_topic(world: World) -> None:
    producer = world.producer()
    world.produce(producer, DATA[0], 0, b"x" * 100)
    topic = DATA[0].topic
    page = page_of(world)
    assert page.value(metrics.MESSAGES_IN.name, topic=topic) == 1
    assert page.value(metrics.BYTES_IN.name, topic=topic) > 100
    again = page_of(world.crash())
    assert again.value(metrics.MESSAGES_IN.name, topic=topic) == 0
    assert again.value(metrics.BYTES_IN.name, topic=topic) == 0


def test_bytes_in_never_decrease_when_segments_are_rolled_and_deleted(world: World) -> None:
    producer = world.producer()
    log = world.partitions[DATA[0]]._log
    topic = DATA[0].topic
    seen = 0.0
    for sequence in range(5):
        world.produce(producer, DATA[0], sequence)
        log.roll(world.wall())
        if sequence == 3:
            delete_records_before(log, 2, world.wall())
            assert log.log_start_offset == 2
        now = page_of(world).value(metrics.BYTES_IN.name, topic=topic)
        assert now > seen
        seen = now


def test_a_partition_may_be_removed_during_the_scrape(world: World) -> None:
    partitions = Partitions()
    for partition in world.partitions.values():
        partitions.add(partition)
    lines = partition_lines(PartitionViews(partitions), world.transactions.views, 0)
    page = [next(lines)]
    partitions.remove(DATA[0])
    page += lines
    assert scraped(page).value(metrics.LOG_END_OFFSET.name, **labels(DATA[0])) == 0


def test_the_traffic_of_a_topic_never_decreases_when_a_partition_leaves(world: World) -> None:
    """`rate()` takes a decrease of a counter for a restart of the broker. The partition may leave
    before, during and after a scrape."""
    topic, stays = "moves", Partitions()
    for index in range(3):
        found = made.partition(name=TopicPartition(topic, index))
        made.send(found, 7, 0, count=5)
        stays.add(found)
    views = PartitionViews(stays)

    def page(leaving: int) -> Scraped:
        lines = partition_lines(views, world.transactions.views, 0)
        begun = [next(lines)]
        stays.remove(TopicPartition(topic, leaving))
        return scraped([*begun, *lines])

    pages = page(2), page(0), scraped(partition_lines(views, world.transactions.views, 0))
    assert [found.value(metrics.MESSAGES_IN.name, topic=topic) for found in pages] == [15] * 3
    bytes_in = {found.value(metrics.BYTES_IN.name, topic=topic) for found in pages}
    assert len(bytes_in) == 1
