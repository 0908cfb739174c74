"""Creates the topics of oncelog.create.topics at a start."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.topics import CreatedTopic, NewTopic
from oncelog_server.config import Settings
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.refusal import Refused, StoreFailed
from oncelog_server.settings.first_topics import parse_first_topics


async def create_first_topics(
    metadata: ClusterMetadata, settings: Settings, wait: StoreWait
) -> str:
    """Create the topics that do not exist. An existing topic stays as it is. Return the reason why
    a topic is refused, or "". Raises StoreSilent."""
    new = [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            settings={"cleanup.policy": topic.cleanup_policy} if topic.cleanup_policy else {},
        )
        for topic in parse_first_topics(settings.oncelog_create_topics)
    ]

    async def create() -> list[CreatedTopic | Refused]:
        outcomes = await metadata.create_topics(new)
        for outcome in outcomes:
            if isinstance(outcome, StoreFailed):
                raise outcome
        return outcomes

    try:
        outcomes = await wait.step("the topics of oncelog.create.topics", create)
    except StoreFailed as failed:
        return f"oncelog.create.topics: {failed}"
    for topic, outcome in zip(new, outcomes, strict=True):
        if isinstance(outcome, Refused) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            return f"oncelog.create.topics: {topic.name}: {outcome}"
    return ""
