"""The image follows the store over a compaction, also if the store does not respond after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import structlog

from oncelog_server.cluster.store import (
    Changes,
    Compacted,
    FinalFailure,
    LostMetadata,
    Put,
    Snapshot,
)
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from tests.server.metadata.brokers import Brokers, until
from tests.server.metadata.memory_store import MemoryStore


class Compacting(MemoryStore):
    """A store with a watch that ends by a compaction, and with reads that fail after it."""

    compacts = False
    failures: Sequence[OSError] = ()

    async def range(self, prefix: str) -> Snapshot:
        if self.failures:
            failure, *self.failures = self.failures
            raise failure
        return await super().range(prefix)

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes]:
        async for changes in super().watch(prefix, from_revision):
            if self.compacts:
                self.compacts = False
                raise Compacted("required revision has been compacted")
            yield changes


@pytest.fixture
async def compacting() -> AsyncIterator[tuple[Compacting, ClusterMetadata]]:
    """A store, and a broker of the cluster that follows it."""
    brokers = Brokers()
    brokers.store = store = Compacting(now_ms=brokers.clock)
    yield store, await brokers.start(1)
    await brokers.stop()


async def test_a_broker_that_cannot_read_the_store_after_a_compaction_tries_again(
    compacting: tuple[Compacting, ClusterMetadata],
) -> None:
    store, metadata = compacting
    store.compacts, store.failures = True, [OSError("no response from etcd")] * 2
    with structlog.testing.capture_logs() as logged:
        await store.txn((), [Put("barriers/9", b"{}")])
        await until(lambda: not store.failures)
        created = await metadata.create_topics([NewTopic("t")])
    assert isinstance(created[0], CreatedTopic)
    assert metadata.membership.is_valid
    reasons = [event.get("reason") for event in logged if "changes of the meta" in event["event"]]
    assert reasons == ["no response from etcd", None], "the first failure, and the success"


@pytest.mark.parametrize(
    "failure", [FinalFailure("permission denied"), LostMetadata("it is empty")]
)
async def test_a_broker_that_may_not_read_the_store_after_a_compaction_leaves(
    compacting: tuple[Compacting, ClusterMetadata], failure: FinalFailure
) -> None:
    store, metadata = compacting
    store.compacts, store.failures = True, [failure]
    await store.txn((), [Put("barriers/9", b"{}")])
    await until(lambda: not metadata.membership.is_valid)
    assert metadata.follower.failure is failure
