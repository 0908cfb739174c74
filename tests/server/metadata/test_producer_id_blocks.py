"""No producer id is assigned twice in a cluster."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.refusal import Refused
from oncelog_server.security.resources import Principal
from oncelog_server.settings.model import Settings
from tests.server.metadata.memory_store import MemoryStore


async def test_blocks_of_producer_ids_are_never_assigned_twice(store: MemoryStore) -> None:
    settings = [Settings(node_id=1), Settings(node_id=2)]
    brokers = [ClusterMetadata(store, setting) for setting in settings]
    blocks = await asyncio.gather(*(brokers[n % 2].producer_ids.allocate() for n in range(10)))
    assert sorted(block.first for block in blocks) == list(range(0, 10_000, 1000))


async def test_h49_the_image_has_the_owner_of_a_block_when_the_call_returns(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    await metadata.producer_ids.allocate()
    block = await metadata.producer_ids.allocate("User:alice")
    owners = {block.first // BLOCK_SIZE: Principal("User", "alice")}
    assert metadata.image.producer_id_owners == owners
    another = ClusterMetadata(store, Settings(node_id=2))
    await another.load()
    assert another.image.producer_id_owners == owners
    await another.stop()


async def test_a_failure_of_the_store_is_refused(store: MemoryStore) -> None:
    ids = ClusterMetadata(store, Settings()).producer_ids
    store.fail_next = [OSError("disk full")]
    with pytest.raises(Refused, match="disk full"):
        await ids.allocate()
    assert (await ids.allocate()).first == await ids.next_id() - BLOCK_SIZE == 0
