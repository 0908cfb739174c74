"""Topics that requests need are created, all of a request together."""

from __future__ import annotations

import asyncio

from oncelog_protocol.errors import ErrorCode
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from tests.server.metadata.memory_store import MemoryStore


async def test_missing_topics_are_created_together(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    before = store.feed.revision
    names = [*(f"t{number}" for number in range(60)), "bad name"]
    codes = await metadata.missing_topics.create(names)
    assert codes == {"bad name": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert sorted(metadata.image.topics) == sorted(names[:-1])
    assert store.feed.revision == before + 1


async def test_concurrent_requests_for_a_missing_topic_create_one_topic(
    metadata: ClusterMetadata,
) -> None:
    names = ["__transaction_state", "__consumer_offsets", "a"] * 4
    topics = await asyncio.gather(*map(metadata.missing_topics.create_one, names))
    assert len({topic.id for topic in topics}) == 3
    assert [len(topic.partitions) for topic in topics[:3]] == [50, 50, 1]
