"""The whole page of metrics, made from the parts of a broker without a network."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import msgspec
import pytest

from oncelog_server.cluster.image import NO_LEADER
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.group.offsets import CommittedOffset
from oncelog_server.latencies import Latencies
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import slices
from oncelog_server.metrics.group_lag import GroupLag
from oncelog_server.metrics.timings import Timings
from oncelog_server.observe.page import Page, ProcessFigures
from oncelog_server.partition.readable_views import ReadableViews
from oncelog_server.slices import SMALL
from oncelog_server.topic_partition import TopicPartition
from tests.harness.scraping import scraped
from tests.server.between_steps import Calls
from tests.server.handlers.nodes import StillClock, broker
from tests.server.transaction.world import DATA, World


class Counted:
    """A network that has had three requests and five connections. Two connections are open."""

    accepted = 5
    is_stopping = False

    def counts(self) -> list[tuple[str, int, int]]:
        return [("Produce", 12, 2), ("Produce", 13, 1)]

    def error_counts(self) -> list[tuple[str, int, int]]:
        return [("Produce", 0, 2), ("Produce", 3, 1)]

    def by_listener(self) -> list[tuple[str, int]]:
        return [("PLAINTEXT", 2), ("INTERNAL", 0)]

    def refused_by_listener(self) -> list[tuple[str, int]]:
        return [("PLAINTEXT", 0), ("INTERNAL", 4)]

    def expired_by_listener(self) -> list[tuple[str, int]]:
        return [("PLAINTEXT", 0), ("INTERNAL", 3)]

    def certificates_by_listener(self) -> list[tuple[str, int]]:
        return [("INTERNAL", 1_900_000_000_999)]

    def by_software(self) -> list[tuple[str, str, str, int]]:
        return [("librdkafka", "2.11.0", "PLAINTEXT", 1), ("unknown", "unknown", "PLAINTEXT", 1)]


def timings() -> Timings:
    """Requests of 3 ms, a sync of 5 ms, and a loop without delay."""
    produce, flushes = Latencies(), Latencies()
    produce.add(3_000)
    produce.add(3_000)
    flushes.add(5_000)
    return Timings(lambda: [("Produce", produce)], flushes, Latencies())


class Compacting:
    """A log cleaner after four passes, with one log that it cannot clean."""

    passes, uncleanable_count, idle_ms = 4, 1, 20


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def page(world: World) -> AsyncIterator[Page]:
    world.produce(world.producer(), DATA[0], 0)
    async with broker() as services:
        services.clock = StillClock()
        services.transactions, services.groups = world.transactions, world.groups
        services.fetch_sessions = FetchSessions(10, lambda: 1)
        for partition in world.partitions.values():
            services.partitions.add(partition)
        lag = GroupLag(services.groups.views, ReadableViews(services.partitions))
        yield Page(
            services,
            Counted(),
            Counted(),
            Compacting,
            1_000,
            lambda: ProcessFigures(2_000, 0.5),
            lag,
            timings(),
        )


async def test_every_metric_is_on_the_page_once_with_its_help_text(page: Page) -> None:
    text = "".join(page.lines())
    assert sorted(re.findall(r"^# HELP (\S+)", text, re.MULTILINE)) == sorted(
        metric.name for metric in metrics.METRICS
    )
    for metric in metrics.METRICS:
        assert metric.head() in text


async def test_the_page_has_the_numbers_of_requests_connections_and_memory(page: Page) -> None:
    found = scraped(page.lines())
    assert found.value(metrics.REQUESTS.name, request="Produce", version="12") == 2
    unknown = {"request": "Produce", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert found.value(metrics.ERRORS.name, **unknown) == 1
    assert found.value(metrics.CONNECTIONS.name, listener="INTERNAL") == 0
    assert found.value(metrics.CONNECTIONS_MADE.name) == 5
    assert found.value(metrics.FAILED_AUTHENTICATIONS.name, listener="INTERNAL") == 4
    assert found.value(metrics.EXPIRED_SESSIONS.name, listener="INTERNAL") == 3
    expiry = found.value(metrics.CERTIFICATE_EXPIRY.name, listener="INTERNAL")
    assert expiry == 1_900_000_000
    assert found.value(metrics.RESIDENT_BYTES.name) == 2_000
    disk = page.services.views.log_dir()
    assert found.value(metrics.DISK_SIZE.name) == disk.total_bytes
    assert found.value(metrics.DISK_FREE.name) == disk.usable_bytes
    software = {"clientSoftwareName": "librdkafka", "clientSoftwareVersion": "2.11.0"}
    assert found.value(metrics.CLIENTS.name, listener="PLAINTEXT", **software) == 1
    assert found.value(metrics.START_TIME.name) == 1
    assert found.value(metrics.ACTIVE_CONTROLLER.name) == 1


async def test_before_the_log_cleaner_is_loaded_its_figures_are_0(page: Page) -> None:
    found = scraped(page.lines())
    assert found.value(metrics.COMPACTIONS.name) == 4
    assert found.value(metrics.UNCLEANABLE.name) == 1
    found = scraped(msgspec.structs.replace(page, cleaner=lambda: None).lines())
    assert found.value(metrics.COMPACTIONS.name) == 0
    assert found.value(metrics.CLEANER_IDLE.name) == 0


async def test_a_scrape_changes_nothing(page: Page) -> None:
    first = list(page.lines())
    assert list(page.lines()) == first


async def test_the_slices_are_the_page(page: Page) -> None:
    assert b"".join(slices(page.lines())).decode() == "".join(page.lines())


async def test_a_partition_this_broker_cannot_serve_counts_as_offline(page: Page) -> None:
    """A Metadata response also shows such a partition without a leader."""
    metadata = page.services.metadata
    await metadata.create_topics([NewTopic("broken", partitions=3)])
    assert scraped(page.lines()).value(metrics.OFFLINE_PARTITIONS.name) == 0
    page.services.partitions.add_offline(TopicPartition("broken", 1), "corrupt")
    assert scraped(page.lines()).value(metrics.OFFLINE_PARTITIONS.name) == 1
    shown = [
        partition_state.leader
        for partition_state in page.services.views.states(metadata.image.topics["broken"])
    ]
    assert shown == [page.services.broker_id, NO_LEADER, page.services.broker_id]


async def test_each_line_of_a_large_page_takes_little_work(page: Page, world: World) -> None:
    """The page shows a topic with many partitions. A group reads the topic. A transaction with all
    partitions of the topic waits for their leaders."""
    count = 10 * SMALL
    wide = [TopicPartition("wide", number) for number in range(count)]
    for name in wide:
        world.partitions[name] = world._open(name)
        page.services.partitions.add(world.partitions[name])
    await page.services.metadata.create_topics([NewTopic("wide", count)])
    value = CommittedOffset(0, 0, "", 0, None, 0)
    ((_, shard),) = page.services.groups.runtime.shards()
    for name in wide:
        shard.table.offsets.commit("g", *name, value)
    producer = world.producer()
    world.add(producer, *wide)
    world.scene.leaderless |= {*wide}
    world.end(producer, True)
    calls = Calls()
    found = scraped(calls.counted(page.lines()))
    assert len(found.labels(metrics.GROUP_LAG.name)) == count
    assert found.value(metrics.UNKNOWN_DESTINATION.name) == count
    assert calls.most < count / 10


async def test_offsets_that_are_committed_while_a_page_is_made_do_not_break_it(
    page: Page, world: World
) -> None:
    value = CommittedOffset(0, 0, "", 0, None, 0)
    ((_, shard),) = page.services.groups.runtime.shards()
    shard.table.offsets.commit("g", *DATA[0], value)
    lines = []
    for at, line in enumerate(page.lines()):
        lines.append(line)
        shard.table.offsets.commit(f"g{at % 7}", "a", at, value)
        if at % 5 == 0:
            shard.table.offsets.remove("g", *DATA[0])
    assert scraped(lines).value(metrics.GROUP_LAG_OMITTED.name) == 0


async def test_a_coordinator_may_move_away_while_a_page_is_made(page: Page) -> None:
    lines = []
    for line in page.lines():
        lines.append(line)
        page.services.transactions.resign(0)
        page.services.groups.resign(0)
    assert scraped(lines).value(metrics.GROUPS.name) == 0
