"""The broker keeps counts of readable records from one scrape to the next."""

from __future__ import annotations

from oncelog_server.group.offsets import CommittedOffset
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import WORK
from oncelog_server.metrics.group_lag import GroupLag
from oncelog_server.partition.partition import Partition
from oncelog_server.partition.readable_views import ReadableViews
from oncelog_server.partition.registry import Partitions
from oncelog_server.topic_partition import TopicPartition
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
