"""Fetch sessions as traces: `traces/*.txt` (KIP-227).

A partition is fetched as `orders-0@5`, from offset 5. `session=1/2` is the session id and the epoch
of the request. A response of a session names its partitions in the order in which they were read.
The last line after a response shows the session after the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from oncelog_protocol.records.batch import split_batches
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.fetching.sessions import FetchSessions
from oncelog_server.handlers import fetch
from oncelog_server.partition.partition import Partition
from oncelog_server.topic_partition import TopicPartition
from tests.server.handlers.nodes import StillClock, broker, context
from tests.server.log.driver import NOW_MS, batch
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import mark, partition, send
from tests.server.traces import Command, Commands, Trace, partition_of, rewritten

TRACES = sorted(Path(__file__).with_name("traces").glob("*.txt"))
TOPIC, PARTITIONS = "orders", range(3)
SIZE = len(batch())
MANY = 1_000
PRODUCER_ID = 7


@pytest.fixture
async def services() -> AsyncIterator[BrokerServices]:
    """A broker with the topic `orders` of three partitions; session ids are 1, 2, 3 …"""
    ids = count(1)
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
            fetch_sessions=FetchSessions(10, lambda: next(ids)),
        )


def data_text(data: PartitionData) -> str:
    found = split_batches(data.records.read() if data.records else b"")
    offsets = [f"{header.base_offset}-{header.next_offset - 1}" for _, header in found]
    return (
        f"{TOPIC}-{data.partition_index} {ErrorCode(data.error_code).name} "
        f"high_watermark={data.high_watermark} last_stable_offset={data.last_stable_offset} "
        f"log_start_offset={data.log_start_offset} records={','.join(offsets) or 'none'}"
    )


class Scenario:
    """A broker and its readers. Every batch has one record and the same size."""

    def __init__(self, services: BrokerServices) -> None:
        self.services = services
        self.trace = Trace()
        self.commands: Commands = {
            "append": self.append,
            "append-transactional": self.append_transactional,
            "commit": self.commit,
            "lose-leadership": self.lose_leadership,
            "lead": self.lead,
            "fetch": self.fetch,
        }

    def partition(self, command: Command) -> Partition:
        return self.services.partitions.require(*partition_of(command.word()))

    def append(self, command: Command) -> None:
        """Append `count` batches."""
        found = self.partition(command)
        for _ in range(command.number("count", 1)):
            found.append(batch(), now_ms=NOW_MS)

    def append_transactional(self, command: Command) -> None:
        """Append a batch of a transaction, and leave the transaction open."""
        send(self.partition(command), PRODUCER_ID, 0)

    def commit(self, command: Command) -> None:
        """Write the commit marker of the open transaction."""
        mark(self.partition(command), PRODUCER_ID)

    def lose_leadership(self, command: Command) -> None:
        self.partition(command).become_follower(2, 3)

    def lead(self, command: Command) -> None:
        self.partition(command).become_leader(0, 4, (0,), (0,))

    def fetch(self, command: Command) -> None:
        """Fetch without waiting, at most as many bytes as `batches` batches have."""
        session_id, session_epoch = command.take("session", "0/0").split("/")
        max_bytes = command.number("batches", MANY) * SIZE
        version = command.number("version", APIS[fetch.API].latest)
        topic_id = self.services.metadata.image.topics[TOPIC].id
        rows = [
            FetchPartition(partition_of(name).partition, -1, int(offset))
            for name, _, offset in (word.partition("@") for word in command.all_words())
        ]
        for row in rows:
            row.partition_max_bytes = max_bytes
        forgotten = [partition_of(name) for name in command.take("forget", "").split(",") if name]
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=max_bytes,
            isolation_level=command.number("isolation", 0),
            session_id=int(session_id),
            session_epoch=int(session_epoch),
            topics=[FetchTopic(TOPIC, topic_id, rows)] if rows else [],
            forgotten_topics_data=[
                ForgottenTopic(topic, topic_id, [row.partition for row in found])
                for topic, found in groupby(forgotten, attrgetter("topic"))
            ],
        )
        response = fetch.handle(self.services, context(self.services, fetch.API, version), request)
        assert isinstance(response, FetchResponse)
        code = ErrorCode(response.error_code).name
        self.trace.add(f"response to fetch: {code} session={response.session_id}")
        for topic in response.responses:
            for data in topic.partitions:
                self.trace.add(data_text(data))
        self._show_sessions()

    def _show_sessions(self) -> None:
        for session in self.services.fetch_sessions._sessions.values():
            wanted = [
                f"{TOPIC}-{row.key.partition}@{row.fetch_offset}"
                for row in session.partitions.values()
            ]
            self.trace.add(f"session {session.id} epoch={session.epoch}: {' '.join(wanted)}")


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
async def test_a_scenario_has_the_results_of_its_trace(
    path: Path, services: BrokerServices
) -> None:
    scenario = Scenario(services)
    expected, found = rewritten(path, scenario.commands, scenario.trace)
    assert found == expected


def test_there_are_traces() -> None:
    assert TRACES
