"""The records of deleted topics on several brokers of one machine. Real brokers, disks and sockets.

The metadata is in the data directory of the first broker. Its start refuses the folder of an
unknown topic, unless there is a record of the topic's deletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncelog_server.broker import Broker
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.environment import OsEnvironment
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.settings.machine import member_settings
from oncelog_server.settings.model import Settings
from oncelog_server.startup.awaited_brokers import await_first_broker
from oncelog_server.storage.files import StorageError
from tests.server.metadata.brokers import until

TOPIC = "orders"


class Machine:
    """Two brokers on one machine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._settings = Settings(
            log_dirs=(str(path),), listeners=("PLAINTEXT://127.0.0.1:0",), oncelog_brokers=2
        )
        self.brokers: dict[int, Broker] = {}

    async def start(self, *members: int) -> None:
        async with asyncio.TaskGroup() as starts:
            for member in members:
                starts.create_task(self._start(member))

    async def _start(self, member: int) -> None:
        settings = member_settings(self._settings, member)
        if settings.first_broker is not None:
            await await_first_broker(settings, StoreWait(settings))
        broker = Broker(settings, OsEnvironment(settings.data_directory))
        await broker.start()
        self.brokers[member] = broker

    async def stop(self, *members: int) -> None:
        # The first broker has the store of the others.
        for member in sorted(members, reverse=True):
            await self.brokers.pop(member).stop()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path)
    await machine.start(1, 2)
    assignments = ((0, (1, 2)),)
    (created,) = await machine.brokers[1].metadata.create_topics(
        [NewTopic(TOPIC, assignments=assignments)]
    )
    assert isinstance(created, CreatedTopic)
    yield machine
    await machine.stop(*machine.brokers)


def refuse_renames(broker: Broker) -> None:
    """Let the disk of a broker refuse the renames of the topic's folders."""
    files, rename = broker._files, broker._files.rename

    def refused(source: str, target: str) -> None:
        if source.startswith(TOPIC):
            raise StorageError("rename", source, "Input/output error")
        rename(source, target)

    files.rename = refused  # type: ignore[method-assign]


async def test_the_first_broker_starts_with_a_folder_that_another_broker_has_deleted(
    machine: Machine,
) -> None:
    """Broker 2 serves DeleteTopics while the disk of broker 1 refuses the rename of the folder."""
    first, second = machine.brokers[1], machine.brokers[2]
    refuse_renames(first)
    assert await second.metadata.delete_topics([TOPIC]) == [None]
    await until(lambda: bool(first._replica_manager.undropped()))
    await machine.stop(1, 2)
    assert (machine.path / f"{TOPIC}-0").exists()
    await machine.start(1, 2)
    assert TOPIC not in machine.brokers[1].metadata.image.topics
    assert not (machine.path / f"{TOPIC}-0").exists(), "the folder is put aside"


@pytest.mark.parametrize("deleting", [1, 2])
async def test_the_first_broker_deletes_the_records_of_all_deletions(
    machine: Machine, deleting: int
) -> None:
    """Records that stay would fill the store."""
    first = machine.brokers[1]
    assert await machine.brokers[deleting].metadata.delete_topics([TOPIC]) == [None]
    await until(lambda: TOPIC not in first.metadata.image.topics)
    await until(lambda: not first.metadata.image.deletions)
    assert not (machine.path / f"{TOPIC}-0").exists()


async def test_the_start_of_another_broker_keeps_the_records(machine: Machine) -> None:
    """A start deletes the records of topics without a folder. Broker 2 does not know the folders of
    broker 1."""
    first = machine.brokers[1]
    refuse_renames(first)
    assert await first.metadata.delete_topics([TOPIC]) == [None]
    await machine.stop(2)
    await machine.start(2)
    assert len(first.metadata.image.deletions) == 1
    assert len(machine.brokers[2].metadata.image.deletions) == 1
