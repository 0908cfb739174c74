"""A new topic without space on the disk is deleted again, and leaves no record in the metadata
store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.refusal import Refused
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings
from tests.server.metadata.memory_store import MemoryStore


class Disk:
    """The part of the broker that stores topics. Its disk has no space for some topics."""

    def __init__(self, store: MemoryStore) -> None:
        self.no_room = {"b"}
        self.holds_data = False
        self.store_is_full_after_creation = False
        self._store = store

    async def created(self, names: Collection[str]) -> None:
        if self.no_room.intersection(names):
            self._store.is_full = self.store_is_full_after_creation
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, "full")

    def give_up(self, name: str) -> bool:
        return not self.holds_data


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def disk(store: MemoryStore) -> Disk:
    return Disk(store)


@pytest.fixture
async def metadata(store: MemoryStore, disk: Disk) -> AsyncIterator[ClusterMetadata]:
    metadata = ClusterMetadata(store, Settings())
    await metadata.start([Endpoint("PLAINTEXT", "localhost", 9092)])
    metadata.subscribe(lambda *_: None, created=disk.created, give_up=disk.give_up)
    yield metadata
    await metadata.stop()


async def create(metadata: ClusterMetadata, *names: str) -> list[ErrorCode]:
    results = await metadata.create_topics([NewTopic(name) for name in names])
    return [
        ErrorCode.NONE if isinstance(result, CreatedTopic) else result.code for result in results
    ]


def undoing() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "undo of creations"]


async def test_topics_without_space_are_deleted_and_the_others_stay(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    codes = await create(metadata, "a", "b", "c")
    assert codes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert sorted(metadata.image.topics) == ["a", "c"]
    assert not metadata.image.orphans()
    left = [key for key in store.entries if key.startswith(records.DELETIONS)]
    assert not left, "a record of the deletion, although the topic has no folder"


async def test_a_new_topic_without_space_that_holds_data_is_not_deleted(
    metadata: ClusterMetadata, disk: Disk
) -> None:
    disk.holds_data = True
    assert await create(metadata, "b") == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert "b" in metadata.image.topics


async def test_if_the_store_is_full_too_the_next_creation_deletes_the_topic_first(
    metadata: ClusterMetadata, store: MemoryStore, disk: Disk
) -> None:
    disk.store_is_full_after_creation = True
    assert await create(metadata, "b") == [ErrorCode.KAFKA_STORAGE_ERROR]
    first = metadata.image.topics["b"].id
    assert await create(metadata, "b") == [ErrorCode.KAFKA_STORAGE_ERROR], (
        "the store has not deleted the topic yet"
    )
    assert metadata.image.topics["b"].id == first
    store.is_full = False
    disk.no_room.clear()
    assert await create(metadata, "b") == [ErrorCode.NONE]
    assert metadata.image.topics["b"].id != first


async def test_a_stop_ends_the_attempts_to_delete_a_topic(store: MemoryStore, disk: Disk) -> None:
    metadata = ClusterMetadata(store, Settings())
    await metadata.start([Endpoint("PLAINTEXT", "localhost", 9092)])
    metadata.subscribe(lambda *_: None, created=disk.created, give_up=disk.give_up)
    disk.store_is_full_after_creation = True
    await create(metadata, "b")
    assert undoing()
    store.is_full = False
    await metadata.stop()
    assert not undoing()
