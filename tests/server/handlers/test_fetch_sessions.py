"""Fetch with a session (KIP-227): partitions take turns if a response has no space for all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from oncelog_protocol.records.batch import split_batches
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.deferred import Deferred
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.handlers import fetch
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import StillClock, broker, context
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import mark, partition, send

TOPIC = "orders"
BUSY, QUIET, LAST = PARTITIONS = (0, 1, 2)
SIZE = len(batch())
VERSION = APIS[fetch.API].latest


@pytest.fixture
async def services() -> AsyncIterator[BrokerServices]:
    """A broker with a topic of three partitions, and space for 10 fetch sessions."""
    async with broker() as bare:
        await bare.metadata.create_topics([NewTopic(TOPIC, len(PARTITIONS))])
        for number in PARTITIONS:
            topic_id = bare.metadata.image.topics[TOPIC].id
            name = TopicPartition(TOPIC, number)
            bare.partitions.add(partition(name=name, topic_id=topic_id))
        yield replace(
            bare,
            clock=StillClock(),
            timers=ManualTimers(),
            fetch_sessions=FetchSessions(10, lambda: 1),
        )


class Reader:
    """A client with a session: it names a partition again when its position has moved."""

    def __init__(self, services: BrokerServices) -> None:
        self.services = services
        self.positions = dict.fromkeys(PARTITIONS, 0)
        self.session = (0, 0)
        self.changed = set(PARTITIONS)

    def request(self, max_bytes: int, *, isolation: int = 0) -> FetchRequest:
        rows = [
            FetchPartition(number, -1, self.positions[number], partition_max_bytes=max_bytes)
            for number in sorted(self.changed)
        ]
        topic_id = self.services.metadata.image.topics[TOPIC].id
        return FetchRequest(
            max_wait_ms=0,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=self.session[0],
            session_epoch=self.session[1],
            topics=[FetchTopic(TOPIC, topic_id, rows)] if rows else [],
        )

    def fetch(self, max_bytes: int, *, isolation: int = 0) -> dict[int, Any]:
        """Fetch, and move the positions past the fetched records. Return the response by
        partition."""
        request = self.request(max_bytes, isolation=isolation)
        response = fetch.handle(self.services, context(self.services, fetch.API, VERSION), request)
        assert isinstance(response, FetchResponse)
        self.session = (response.session_id, self.session[1] + 1)
        self.changed = set()
        rows = {
            row.partition_index: row for topic in response.responses for row in topic.partitions
        }
        for number, row in rows.items():
            for _, header in split_batches(row.records.read() if row.records else b""):
                self.positions[number] = header.next_offset
                self.changed.add(number)
        return rows


def fill(services: BrokerServices, number: int, count: int) -> None:
    for _ in range(count):
        services.partitions.require(TOPIC, number).append(batch(), now_ms=NOW_MS)


async def test_a_busy_partition_does_not_keep_the_others_from_being_read(
    services: BrokerServices,
) -> None:
    fill(services, BUSY, 30)
    fill(services, QUIET, 2)
    fill(services, LAST, 2)
    reader = Reader(services)
    given = []
    for _ in range(6):
        # The response has space for one batch. The busy partition alone could always fill it.
        rows = reader.fetch(SIZE)
        given += [number for number, row in rows.items() if row.records]
    assert given == [BUSY, QUIET, LAST, BUSY, QUIET, LAST]
    assert reader.positions == {BUSY: 2, QUIET: 2, LAST: 2}


async def test_a_partition_without_new_records_keeps_its_turn(services: BrokerServices) -> None:
    fill(services, BUSY, 30)
    reader = Reader(services)
    for _ in range(4):
        rows = reader.fetch(SIZE)
        assert [number for number, row in rows.items() if row.records] == [BUSY]
    fill(services, LAST, 1)
    fill(services, QUIET, 1)
    given = []
    for _ in range(3):
        rows = reader.fetch(SIZE)
        given += [number for number, row in rows.items() if row.records]
    assert given == [QUIET, LAST, BUSY]


async def test_a_partition_with_a_moved_position_keeps_its_turn(
    services: BrokerServices,
) -> None:
    for number in PARTITIONS:
        fill(services, number, 3)
    reader = Reader(services)
    assert reader.fetch(SIZE)[BUSY].records
    reader.positions[QUIET] = 1
    reader.changed.add(QUIET)
    rows = reader.fetch(SIZE)
    assert [number for number, row in rows.items() if row.records] == [QUIET]
    assert reader.positions == {BUSY: 1, QUIET: 2, LAST: 0}


async def test_a_response_of_a_session_has_only_changed_partitions(
    services: BrokerServices,
) -> None:
    for number in PARTITIONS:
        send(services.partitions.require(TOPIC, number), 7, 0)
    reader = Reader(services)
    assert set(reader.fetch(10_000, isolation=1)) == set(PARTITIONS)
    assert reader.fetch(10_000, isolation=1) == {}
    quiet = services.partitions.require(TOPIC, QUIET)
    before = quiet.last_stable_offset
    mark(quiet, 7, committed=True)
    assert quiet.last_stable_offset > before
    rows = reader.fetch(10_000, isolation=1)
    assert set(rows) == {QUIET}
    assert reader.positions == {BUSY: 0, QUIET: 2, LAST: 0}
    # The record is after the open transaction, so only the high watermark moves.
    fill(services, LAST, 1)
    rows = reader.fetch(10_000, isolation=1)
    assert set(rows) == {LAST}
    assert not rows[LAST].records
    assert reader.fetch(10_000, isolation=1) == {}


# --- limits that count over all partitions of a request


def waiting(services: BrokerServices, *, min_bytes: int, max_bytes: int) -> Any:
    request = Reader(services).request(max_bytes)
    request.min_bytes, request.max_wait_ms = min_bytes, 60_000
    return fetch.handle(services, context(services, fetch.API, VERSION), request)


def read_size(response: object) -> int:
    assert isinstance(response, FetchResponse)
    return sum(len(row.records or b"") for topic in response.responses for row in topic.partitions)


async def test_a_fetch_with_min_bytes_above_max_bytes_waits_only_for_max_bytes(
    services: BrokerServices,
) -> None:
    fill(services, BUSY, 3)
    assert read_size(waiting(services, min_bytes=1_000_000, max_bytes=2 * SIZE)) == 2 * SIZE


async def test_min_bytes_above_the_brokers_fetch_max_bytes_is_lowered(
    services: BrokerServices,
) -> None:
    services = replace(services, settings=Settings(fetch_max_bytes=2 * SIZE))
    fill(services, BUSY, 3)
    assert read_size(waiting(services, min_bytes=3 * SIZE, max_bytes=10 * SIZE)) == 2 * SIZE


@pytest.mark.parametrize("count", [2, 3])
async def test_a_parked_fetch_ends_as_soon_as_min_bytes_are_there(
    services: BrokerServices, count: int
) -> None:
    fill(services, BUSY, 1)
    parked = waiting(services, min_bytes=2 * SIZE, max_bytes=100 * SIZE)
    assert isinstance(parked, Deferred)
    assert isinstance(services.timers, ManualTimers)
    assert not parked.done
    fill(services, BUSY, count - 1)
    services.timers.run_soon()
    assert read_size(parked.value) == count * SIZE


async def test_an_error_of_one_partition_is_sent_at_once(services: BrokerServices) -> None:
    services.partitions.require(TOPIC, QUIET).become_follower(2, 3)
    response = waiting(services, min_bytes=1, max_bytes=100 * SIZE)
    assert read_size(response) == 0
