"""Topics are deleted, with the records of their deletion."""

from __future__ import annotations

from oncelog_server.cluster.topics import NewTopic
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from tests.server.metadata.memory_store import MemoryStore


async def test_many_topics_are_deleted_in_few_transactions(
    metadata: ClusterMetadata, store: MemoryStore
) -> None:
    """With one transaction for each topic, the deletion of thousands of topics takes minutes."""
    names = [f"t{number}" for number in range(96)]
    await metadata.create_topics([NewTopic(name) for name in names])
    before = store.feed.revision
    assert await metadata.delete_topics(names) == [None] * len(names)
    assert not metadata.image.topics
    # A transaction changes at most 128 records. 96 topics and 96 partitions are deleted, and 96
    # records of the deletions are written and then removed.
    assert store.feed.revision - before <= 5
